"""``NAME[:key=value,…]`` for what pagedsim ships, ``package.module:Class[?key=…]`` for others.

Values are int, float, true/false, else text. A wrong name or key lists what exists. What a part
needs besides (slots of the pool, the maximum length, the device) it gets if its constructor has a
parameter of that name: `capacity`, `blocks` (given `block`), `max_len`, `device`.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.slots import Slots
from pagedsim.device.device import Device
from pagedsim.device.roofline import Roofline
from pagedsim.device.steptable import read_table
from pagedsim.device.steptime import Affine, Constant
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import SpecError
from pagedsim.protocols import Allocator, Scheduler, StepTime

Value = int | float | bool | str


class Spec(NamedTuple):
    """A spec taken apart: `path` is None for a built-in name."""

    text: str
    name: str
    path: str | None
    values: dict[str, Value]


ALLOCATORS: dict[str, Callable[..., Any]] = {
    "contiguous": Contiguous,
    "paged": Paged,
    "slots": Slots,
}
SCHEDULERS: dict[str, Callable[..., Any]] = {"vllm": Vllm, "orca": Orca, "static": Static}
STEPTIMES: dict[str, Callable[..., Any]] = {
    "roofline": Roofline,
    "affine": Affine,
    "constant": Constant,
}


def parse(text: str) -> Spec:
    """Take a spec apart. Raises SpecError with what is wrong in it."""
    head, mark, tail = text.partition("?")
    name, colon, rest = head.partition(":")
    if mark or "." in name:
        if not colon or not rest.isidentifier():
            raise SpecError(f"{text}: an import path looks like package.module:Class?key=value")
        pairs = tail.split("&") if tail else []
        return Spec(text, rest, name, _values(text, pairs))
    return Spec(text, name, None, _values(text, rest.split(",") if rest else []))


def _values(text: str, pairs: Iterable[str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for pair in pairs:
        key, equals, value = pair.strip().partition("=")
        if not equals or not key.isidentifier():
            raise SpecError(f"{text}: '{pair}' is not key=value")
        if key in values:
            raise SpecError(f"{text}: {key} is given twice")
        values[key] = _value(value)
    return values


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def make_allocator(spec: str, *, tokens: int, max_len: int) -> Allocator:
    """An allocator over a pool of `tokens` slots. A paged pool has ``tokens // block`` blocks."""
    parsed = parse(spec)
    if parsed.path is None and parsed.name == "paged":
        _unshared(parsed)
    block = parsed.values.get("block", 16)
    if isinstance(block, bool) or not isinstance(block, int) or block < 1:
        raise SpecError(f"{spec}: block is {block}, must be a whole number >= 1")
    parts = {"capacity": tokens, "blocks": tokens // block, "max_len": max_len}
    return cast(Allocator, _make("allocator", parsed, ALLOCATORS, parts))


def _unshared(spec: Spec) -> None:
    """`prefix` and `evict` belong to a prefix cache, which is not there yet; say so."""
    if (prefix := spec.values.pop("prefix", "off")) != "off":
        raise SpecError(
            f"{spec.text}: prefix={prefix} is not available yet, only prefix=off (no sharing)"
        )
    spec.values.pop("evict", None)
    for key in ("free_order",):
        if key in spec.values:
            spec.values[key] = str(spec.values[key])


def make_scheduler(
    spec: str, *, max_seqs: int | None = None, max_batched_tokens: int | None = None
) -> Scheduler:
    """A scheduler; the limits are used where the spec does not give them and it takes them."""
    parts = {"max_seqs": max_seqs, "max_batched_tokens": max_batched_tokens}
    known = {key: value for key, value in parts.items() if value is not None}
    return cast(Scheduler, _make("scheduler", parse(spec), SCHEDULERS, known))


def make_steptime(spec: str, *, device: Device | None = None) -> StepTime:
    """A step-time model. ``table:FILE`` reads a file; the roofline needs a device."""
    if spec.partition(":")[0] == "table":
        path = spec.partition(":")[2]
        if not path:
            raise SpecError("table: give the file, as in table:steps.csv")
        return read_table(path)
    parts = {} if device is None else {"device": device}
    return cast(
        StepTime, _make("step time", parse(spec), {**STEPTIMES, "table": read_table}, parts)
    )


def _make(kind: str, spec: Spec, shipped: dict[str, Callable[..., Any]], parts: Any) -> Any:
    make = _imported(spec) if spec.path is not None else shipped.get(spec.name)
    if make is None:
        close = difflib.get_close_matches(spec.name, shipped, 1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise SpecError(
            f"{spec.text}: there is no {kind} '{spec.name}'{hint}; there are "
            f"{', '.join(sorted(shipped))}, and package.module:Class"
        )
    parameters = inspect.signature(make).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    options = [name for name in parameters if name not in ("capacity", "blocks", "device")]
    for key in spec.values:
        if key not in options and not open_ended:
            known = ", ".join(options) or "none"
            raise SpecError(f"{spec.text}: {spec.name} has no option '{key}'; it has {known}")
    wanted = {key: value for key, value in parts.items() if key in parameters}
    given = {**wanted, **spec.values}
    missing = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and name not in given
    ]
    if missing:
        raise SpecError(f"{spec.text}: {spec.name} needs {', '.join(missing)}")
    try:
        return make(**given)
    except (TypeError, ValueError) as error:
        raise SpecError(f"{spec.text}: {error}") from error


def _imported(spec: Spec) -> Callable[..., Any]:
    try:
        module = importlib.import_module(str(spec.path))
    except Exception as error:
        raise SpecError(f"{spec.text}: {spec.path} cannot be imported: {error}") from error
    found = getattr(module, spec.name, None)
    if not callable(found):
        raise SpecError(f"{spec.text}: {spec.path} has no class {spec.name}")
    return cast("Callable[..., Any]", found)


__all__ = ["Spec", "make_allocator", "make_scheduler", "make_steptime", "parse"]
