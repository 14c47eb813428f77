"""``NAME[:key=value,…]`` for what pagedsim ships, ``package.module:Class[?key=…]`` for others.

Values are int, float, true/false, else text; an option that wants one of these takes no other. A
wrong name, key or value says what there is. What a part needs besides (slots of the pool, the
maximum length, the device) it gets if its constructor has a parameter of that name: `capacity`,
`blocks` (given `block`), `max_len`, `device`; those are no options.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast, get_args, get_type_hints

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.evict import BLOCK_POLICIES
from pagedsim.alloc.grouped import Grouped
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.radix import Radix
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.alloc.slots import Slots
from pagedsim.device.device import Device
from pagedsim.device.fitted import fitted_steptime
from pagedsim.device.replaygroups import GroupedPool, pool_for
from pagedsim.device.roofline import Roofline
from pagedsim.device.steptable import read_table
from pagedsim.device.steptime import Affine, Constant
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import PagedsimError, SpecError
from pagedsim.protocols import Allocator, Scheduler, StepTime
from pagedsim.specs.text import Spec, Value, values_of, without

ALLOCATORS: dict[str, Callable[..., Any]] = {
    "contiguous": Contiguous,
    "paged": Paged,
    "radix": Radix,
    "slots": Slots,
}
SCHEDULERS: dict[str, Callable[..., Any]] = {"vllm": Vllm, "orca": Orca, "static": Static}
STEPTIMES: dict[str, Callable[..., Any]] = {
    "roofline": Roofline,
    "affine": Affine,
    "constant": Constant,
    "table": read_table,
    "fitted": fitted_steptime,
}
SHIPPED = frozenset((*ALLOCATORS, *SCHEDULERS, *STEPTIMES))
_MORE = {"paged": ("block", "prefix", "evict", "groups")}  # which of the paged ones it is
MOST_PLACES = 1 << 26  # blocks of a pool, or places: each takes some 40 bytes of our own memory

_PLACES = {"paged": ("block", "blocks"), "radix": ("page", "pages"), "slots": ("n", "places")}
_GIVEN = frozenset(("capacity", "blocks", "max_len", "device", "in_flight", *GroupedPool._fields))
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_REQUIRED = {"ms": float}  # what a compiled constructor takes that has no default to tell by
_NEEDS = {
    "allocator": ("capacity", "longest", "cached", "admit", "grow", "release", "room", "usage"),
    "scheduler": ("check", "plan"),
    "step time": ("ns",),
}


def parse(text: str) -> Spec:
    """Take a spec apart. Raises SpecError with what is wrong in it."""
    text = text.strip()
    head, mark, tail = text.partition("?")
    name, colon, rest = head.partition(":")
    if mark or "." in name or (name not in SHIPPED and rest.isidentifier()):
        if not colon or not name or not rest.isidentifier():
            raise SpecError(f"{text}: an import path looks like package.module:Class?key=value")
        return Spec(text, rest, name, *values_of(text, tail.split("&") if tail else []))
    return Spec(text, name, None, *values_of(text, rest.split(",") if rest else []))


def make_allocator(
    spec: str, *, tokens: int, max_len: int, device: Device | None = None, in_flight: int = 0
) -> Allocator:
    """An allocator over a pool of `tokens` slots. A paged pool has ``tokens // block`` blocks.

    Groups of layers are over the `device`'s bytes; `in_flight` tokens are a step's most, 0 for any.
    """
    parsed, shipped = parse(spec), ALLOCATORS
    if parsed.path is None and parsed.name == "paged":
        made, parsed = _paged(parsed)
        shipped = {**shipped, "paged": made}
    block = parsed.values.get("block", 16)
    if isinstance(block, bool) or not isinstance(block, int) or block < 1:
        block = 16  # and whoever has an option of that name says what is wrong with it
    if parsed.path is None and parsed.name in _PLACES:
        option, what = _PLACES[parsed.name]
        given = parsed.values.get(option, 1)
        given = given if isinstance(given, int) and given > 0 else 1
        places = given if option == "n" else tokens // (block if option == "block" else given)
        if MOST_PLACES < places <= tokens:
            raise SpecError(f"{spec}: {places:,} {what}, must be <= {MOST_PLACES:,}")
    parts: dict[str, Any] = {"capacity": tokens, "blocks": tokens // block, "max_len": max_len}
    if parsed.path is None and parsed.name == "paged" and "groups" in parsed.words:
        mode, parsed = parsed.words["groups"], without(parsed, "groups")
        if parsed.values.get("block", 16) != block:
            raise SpecError(f"{spec}: block is {parsed.words['block']}, must be >= 1")
        prefix = shipped["paged"] is not Paged
        if pool := pool_for(spec, mode, device, block, max_len, prefix):
            parsed = without(parsed, "block")
            parts |= {**pool._asdict(), "prefix": prefix, "in_flight": in_flight}
            shipped = {**shipped, "paged": Grouped}
    if parsed.path is None and parsed.name in ("paged", "radix"):
        policy, parsed = _policy(parsed)
        parts |= policy
    return cast(Allocator, _make("allocator", parsed, shipped, parts))


def _paged(spec: Spec) -> tuple[Callable[..., Any], Spec]:
    """Which of the paged allocators ``paged:prefix=off|on,evict=…`` is, and the rest of its spec.

    Least recently used is the order of the free list itself.
    """
    words = dict(spec.words)
    prefix, evict = words.pop("prefix", "off"), words.get("evict", "lru")
    if prefix not in ("on", "off"):
        raise SpecError(f"{spec.text}: prefix is {prefix}, must be on or off")
    made: Callable[..., Any] = PrefixPaged if prefix == "on" else Paged
    if evict == "lru":
        words.pop("evict", None)
    elif prefix == "off":
        raise SpecError(f"{spec.text}: evict is {evict!r}, which needs prefix=on")
    else:
        made = RankedPaged
    return made, spec._replace(words=words, values={key: spec.values[key] for key in words})


def _policy(spec: Spec) -> tuple[dict[str, Any], Spec]:
    """The eviction policy that ``evict=package.module:Class`` names, and the rest of the spec."""
    word = spec.words.get("evict", "")
    if ":" not in word:
        return {}, spec
    path, _, name = word.partition(":")
    policy = _imported("eviction policy", spec._replace(name=name, path=path), BLOCK_POLICIES)
    try:
        made = policy()
    except Exception as error:
        raise SpecError(f"{spec.text}: {name} cannot be made: {_said(error)}") from error
    if not callable(getattr(made, "rank", None)):
        raise SpecError(f"{spec.text}: {word} is no eviction policy, it has no rank")
    return {"evict": made}, without(spec, "evict")


def make_scheduler(
    spec: str, *, max_seqs: int | None = None, max_batched_tokens: int | None = None
) -> Scheduler:
    """A scheduler; the limits are used where the spec does not give them and it takes them."""
    parts = {"max_seqs": max_seqs, "max_batched_tokens": max_batched_tokens}
    known = {key: value for key, value in parts.items() if value is not None}
    return cast(Scheduler, _make("scheduler", parse(spec), SCHEDULERS, known))


def make_steptime(spec: str, *, device: Device | None = None) -> StepTime:
    """A step-time model. ``table:FILE``, ``fitted:FILE`` are files; a roofline needs a device."""
    name, _, path = spec.strip().partition(":")
    if name == "table":
        if not path:
            raise SpecError("table: give the file, as in table:steps.csv")
        return read_table(path)
    if name == "fitted":
        if not path:
            raise SpecError("fitted: give the file, as in fitted:steps.json (see pagedsim fit)")
        return fitted_steptime(path, device)
    parts = {} if device is None else {"device": device}
    return cast(StepTime, _make("step time", parse(spec), STEPTIMES, parts))


def part_of(text: str) -> tuple[Callable[..., Any], dict[str, Value]]:
    """What a spec of any kind names, not made yet, and the values that it gives."""
    spec, shipped = parse(text), {**ALLOCATORS, **SCHEDULERS, **STEPTIMES}
    if spec.path is None and spec.name == "paged":
        if spec.words.get("groups", "off") != "off":
            raise SpecError(f"{text}: groups are those of a model, and there is none here")
        shipped["paged"], spec = _paged(without(spec, "groups"))
    make = shipped.get(spec.name) if spec.path is None else _imported("part", spec, shipped)
    if make is None:
        raise SpecError(f"{text}: there is no part {spec.name!r}{_there(spec, shipped)}")
    parameters = _parameters(spec, make)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for key in spec.values:
        if key not in parameters and not open_ended:
            known = ", ".join(dict.fromkeys([*parameters, *_MORE.get(spec.name, ())])) or "none"
            raise SpecError(f"{text}: {spec.name} has no option '{key}'; it has {known}")
    return make, _typed(spec, make)


def _parameters(spec: Spec, make: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """What a constructor takes; SpecError where it does not say."""
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):
        raise SpecError(f"{spec.text}: {spec.name} does not say what it takes: no part") from None
    if _compiled(make):  # it takes names for what its signature calls positional
        return {name: p.replace(kind=p.KEYWORD_ONLY) for name, p in parameters.items()}
    return parameters


def _compiled(make: Callable[..., Any]) -> bool:
    """Whether its constructor is no Python function, and has no annotations."""
    return isinstance(make, type) and not hasattr(make.__init__, "__annotations__")  # type: ignore[misc]


def _hints(make: Callable[..., Any]) -> dict[str, Any]:
    """The types that the constructor names; a compiled one those of its defaults."""
    if _compiled(make):
        parameters = inspect.signature(make).parameters.items()
        given = {name: type(p.default) for name, p in parameters if p.default is not p.empty}
        return {**_REQUIRED, **given}
    try:
        return get_type_hints(make.__init__ if isinstance(make, type) else make)  # type: ignore[misc]
    except Exception:
        return {}


def _make(kind: str, spec: Spec, shipped: dict[str, Callable[..., Any]], parts: Any) -> Any:
    make = shipped.get(spec.name) if spec.path is None else _imported(kind, spec, shipped)
    if make is None:
        raise SpecError(f"{spec.text}: there is no {kind} {spec.name!r}{_there(spec, shipped)}")
    parameters = _parameters(spec, make)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    hidden = _GIVEN & {*parts, "device"}
    options = [name for name in parameters if name not in hidden]
    for key in spec.values:
        if key not in options and (key in hidden or not open_ended):
            known = ", ".join(dict.fromkeys([*options, *_MORE.get(spec.name, ())])) or "none"
            raise SpecError(f"{spec.text}: {spec.name} has no option '{key}'; it has {known}")
    wanted = {key: value for key, value in parts.items() if key in parameters}
    given = {**wanted, **_typed(spec, make)}
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
        made = make(**given)
    except SpecError as error:
        text = str(error)
        placed = text.startswith(f"{spec.name}:")
        raise SpecError(text if placed else f"{spec.text}: {text}") from error
    except PagedsimError:
        raise
    except (Exception, SystemExit) as error:
        raise SpecError(f"{spec.text}: {spec.name} cannot be made: {_said(error)}") from error
    lacking = [name for name in _NEEDS[kind] if not hasattr(made, name)]
    if lacking:
        raise SpecError(f"{spec.text}: is no {kind}, it has no {', '.join(lacking)}")
    return made


def _typed(spec: Spec, make: Callable[..., Any]) -> dict[str, Value]:
    """The values as the types that the constructor names; SpecError for one that is none of them.

    Options without a type, or with one that has no spelling, take what was understood.
    """
    hints = _hints(make)
    typed: dict[str, Value] = {}
    for key, value in spec.values.items():
        hint = hints.get(key)
        kinds = {kind for kind in get_args(hint) or (hint,) if kind in _WORDS}
        if str in kinds:
            typed[key] = spec.words[key]
        elif bool in kinds and value in (0, 1):
            typed[key] = bool(value)
        elif not kinds or type(value) in kinds or (float in kinds and type(value) is int):
            typed[key] = value
        else:
            wanted = " or ".join(text for kind, text in _WORDS.items() if kind in kinds)
            raise SpecError(f"{spec.text}: {key} is {spec.words[key]!r}, must be {wanted}")
    return typed


def _imported(kind: str, spec: Spec, shipped: Iterable[str]) -> Callable[..., Any]:
    try:
        module = importlib.import_module(str(spec.path))
    except (Exception, SystemExit) as error:
        unknown = isinstance(error, ModuleNotFoundError) and "." not in str(spec.path)
        there = _there(spec._replace(name=str(spec.path)), shipped) if unknown else ""
        raise SpecError(
            f"{spec.text}: {spec.path} cannot be imported: {_said(error)}{there}"
        ) from error
    found = getattr(module, spec.name, None)
    if not callable(found):
        raise SpecError(f"{spec.text}: {spec.path} has no class {spec.name}")
    return cast("Callable[..., Any]", found)


def _there(spec: Spec, shipped: Iterable[str]) -> str:
    """What there is instead."""
    close = difflib.get_close_matches(spec.name.lower(), shipped, 1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"{hint}; there are {', '.join(sorted(shipped))}, and package.module:Class"


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


__all__ = [
    "SHIPPED",
    "Spec",
    "make_allocator",
    "make_scheduler",
    "make_steptime",
    "parse",
    "part_of",
]
