"""``pagedsim check``: hold a part of one's own to its contract."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagedsim.cli.values import Json, NoColor, one_of, option
from pagedsim.errors import PagedsimError, SpecError

if TYPE_CHECKING:
    from rich.console import Console

    from pagedsim.testing import Findings

_KINDS = ("allocator", "eviction", "scheduler", "steptime")
_METHODS = {"allocator": "admit", "scheduler": "plan", "steptime": "ns", "eviction": "rank"}


def check(
    part: Annotated[
        str,
        typer.Argument(
            metavar="PART", help="package.module:Class[?key=value&…], or a built-in name"
        ),
    ],
    kind: Annotated[
        str | None, one_of("--kind", *_KINDS, help="what it is; by default by its methods")
    ] = None,
    profile: Annotated[
        str, one_of("--profile", "dev", "ci", "deep", help="60, 200 or 3,000 examples")
    ] = "ci",
    json: Json = None,
    quiet: Annotated[
        bool, option("--quiet", "-q", help="no table: the exit code says whether all laws hold")
    ] = False,
    no_color: NoColor = False,
) -> None:
    """Try a part on random histories, and show the shortest that breaks a law; exit 1 if one does.

    Sizes that its constructor takes (capacity, blocks, max_len, block, chunk, page) are drawn small
    where they are not given.
    """
    from pagedsim.cli.outputs import writable

    testing = _testing()
    make, found = _maker(part, kind)
    writable({"json": json}, {}, 1)
    suite = testing.SUITES[found](make)
    from pagedsim.present.progress import busy

    with busy(f"trying {part}", no_color=no_color):
        findings: Findings = testing.explore(suite, testing.profile(profile))
    if json is not None:
        _write(json, part, findings)
    if json != "-" and not quiet:
        from pagedsim.present.tables import console

        _print(console(no_color=no_color), part, findings)
    if findings.broken:
        raise typer.Exit(1)


def _testing() -> Any:
    """The suite, which needs hypothesis."""
    try:
        return importlib.import_module("pagedsim.testing")
    except ModuleNotFoundError as error:
        raise SpecError(f"check needs what is not installed: {error}") from error


def _maker(part: str, asked: str | None) -> tuple[Callable[..., Any], str]:
    """What builds the part, with what its spec gives, and which kind it is, `asked` or not."""
    from pagedsim import specs
    from pagedsim.alloc.evict import POLICIES

    if part in POLICIES and asked in (None, "eviction"):
        return POLICIES[part], "eviction"
    make, values = specs.part_of(part)
    given: dict[str, Any] = dict(values)
    if make is specs.STEPTIMES["roofline"]:
        from pagedsim.analysis.simulate import GPU, MODEL
        from pagedsim.device.device import make_device

        given["device"] = make_device(MODEL, GPU)
    bound = functools.partial(make, **given) if given else make
    _wants(part, make, given)
    kind = _kind(make)
    if kind is None and asked is None:
        raise SpecError(
            f"{part}: is no part: it has neither admit, plan, ns nor rank; give --kind if it is"
        )
    if kind is not None and asked not in (None, kind) and not hasattr(make, _METHODS[str(asked)]):
        raise SpecError(
            f"--kind is {asked}, but {part} has no {_METHODS[str(asked)]}: by its methods, {kind}"
        )
    return bound, str(asked or kind)


def _wants(part: str, make: Callable[..., Any], given: Any) -> None:
    """SpecError where the constructor needs what is neither a size nor given."""
    from pagedsim.testing.sizes import taken

    missing = [
        name
        for name, parameter in inspect.signature(make).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and name not in given
        and name not in taken(make)
    ]
    if missing:
        raise SpecError(f"{part}: needs {', '.join(missing)}")


def _kind(make: Any) -> str | None:
    """By the method that only that kind has."""
    for kind, name in _METHODS.items():
        if hasattr(make, name):
            return kind
    try:
        made = make()
    except (PagedsimError, TypeError):
        return None
    return next((kind for kind, name in _METHODS.items() if hasattr(made, name)), None)


def _print(out: Console, part: str, found: Findings) -> None:
    lines = [f"{found.kind} {part}: {found.examples:,} examples, {found.calls:,} calls", ""]
    for law in found.laws:
        count = found.checked.get(law, 0)
        verdict = "BROKEN" if law in found.broken else "holds" if count else "-"
        lines.append(f"{law:<18}{count:>10,}  {verdict}")
    lines.append("")
    if found.absent:
        lines.append(f"not offered, so not checked: {', '.join(found.absent)}")
    for law, broken in found.broken.items():
        lines += ["", f"{law}: {found.laws[law]}", f"  {broken.said}"]
        if broken.history:
            lines += ["  the shortest calls that show it:"]
            lines += [f"    {line}" for line in broken.history]
    tried = sum(found.checked.get(law, 0) > 0 for law in found.laws)
    lines.append(f"{len(found.broken)} of {tried} laws broken" if found.broken
                 else f"{tried} laws hold")  # fmt: skip
    for line in lines:
        out.print(line, soft_wrap=True, markup=False, highlight=False)


def _write(path: str, part: str, found: Findings) -> None:
    from pagedsim.files import write_json

    rows = [
        {
            "law": law,
            "says": said,
            "checked": found.checked.get(law, 0),
            "broken": None
            if law not in found.broken
            else {"said": found.broken[law].said, "history": found.broken[law].history},
        }
        for law, said in found.laws.items()
    ]
    data = {
        "schema": "pagedsim.check/1",
        "part": part,
        "kind": found.kind,
        "examples": found.examples,
        "calls": found.calls,
        "present": found.present,
        "absent": found.absent,
        "laws": rows,
    }
    write_json(path, data)


__all__ = ["check"]
