"""``pagedsim map``: a page on which pools play, step by step."""

from __future__ import annotations

import dataclasses
import math
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from pagedsim.cli.options import Options, number, with_options
from pagedsim.cli.values import Allocators
from pagedsim.errors import SpecError

if TYPE_CHECKING:
    from pagedsim.analysis.scene.values import Scene

_TRACE = "a trace file, - for standard input, or a bundled name  [a scene for a first look]"
_NOT = ("figure", "report", "perfetto", "window", "seeds")
_ALWAYS = ("json", "quiet", "no_color", "check", "engine")  # of use without a trace too
_FIRST = ("contiguous:place=buddy,reserve=pow2", "paged")


def _from(text: str | float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 9e9:
        raise SpecError(f"--from is {text}, must be a number of seconds >= 0")
    return value


def _map(
    options: Options,
    trace: Annotated[str | None, typer.Argument(metavar="TRACE", help=_TRACE)] = None,
    allocator: Allocators = None,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="the page: .html", rich_help_panel="Output"),
    ] = None,
    from_: Annotated[
        float,
        typer.Option(
            "--from",
            parser=_from,
            metavar="S",
            help="begin so many seconds after the first arrival",
            rich_help_panel="Output",
        ),
    ] = 0.0,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            parser=lambda text: number("--seconds", text, most=9e9),
            metavar="S",
            help="and go on for so many  [as many as a page holds]",
            rich_help_panel="Output",
        ),
    ] = None,
) -> None:
    """A page on which pools play, slot by slot: who holds what, and what is wasted where.

    Without a trace: a small scene for a first look, contiguous beside paged.
    """
    from pagedsim.cli.outputs import target, writable
    from pagedsim.cli.runs import inputs
    from pagedsim.files import write_json
    from pagedsim.present.formats import PAGES, suffix
    from pagedsim.present.progress import busy

    if out is None and options.json is None:
        raise SpecError("there is nothing to write: give --out FILE.html (or --json FILE)")
    if out is not None:
        suffix(out, PAGES)
    play, command = _ready(trace, allocator or [], options, from_, seconds)
    taken = {} if trace is None else inputs(trace, options)
    writable({"out": out, "json": options.json}, taken, 1)
    scene = play()
    written = None
    if out is not None:
        from pagedsim.present import memory_map

        with busy("writing the page", no_color=options.no_color):
            written = memory_map.save(scene, target(out), teaching=trace is None, command=command)
    write_json(options.json, scene, indent=1)
    if not options.quiet and options.json != "-":
        from pagedsim.present.memory_map_table import summary
        from pagedsim.present.tables import console

        console(no_color=options.no_color).print(summary(scene, out, written))


def _ready(
    trace: str | None, given: list[str], options: Options, from_s: float, seconds: float | None
) -> tuple[Callable[[], Scene], str]:
    """What reads the trace and plays the scene, and the command that makes it again.

    What is wrong with the words is said before. SpecError.
    """
    from pagedsim.analysis.scene.make import make_scene
    from pagedsim.analysis.scene.teaching import ALLOCATORS, teaching
    from pagedsim.analysis.simulate import allocator_of
    from pagedsim.cli.like import masked
    from pagedsim.cli.runs import loaded, prepared
    from pagedsim.present.progress import Progress
    from pagedsim.trace import load

    if trace is None:
        _only_for_traces(options)
        requests, setup = teaching()
        setup = dataclasses.replace(setup, engine=options.engine, check=options.check)
        for spec in given:
            allocator_of(spec, setup)

        def first_look() -> Scene:
            return make_scene(requests, given or ALLOCATORS, setup, from_s=from_s, seconds=seconds)

        return first_look, ""
    command = masked(shlex.join(["pagedsim", *sys.argv[1:]]))
    allocators, options, setup = prepared(given or _FIRST, (), options, command)

    def play() -> Scene:
        base = load(trace, zero_output=options.zero_output, limit=options.limit)  # type: ignore[arg-type]
        requests = loaded(base, options, options.seed)
        total = len(base) * len(allocators)
        with Progress(total, "replaying", no_color=options.no_color) as progress:
            own = dataclasses.replace(setup, progress=progress)
            return make_scene(requests, allocators, own, from_s=from_s, seconds=seconds)

    return play, command


def _only_for_traces(options: Options) -> None:
    """SpecError where an option says how a trace runs, but there is none."""
    for field in dataclasses.fields(Options):
        if field.name not in _ALWAYS and getattr(options, field.name) != field.default:
            name = field.name.replace("_", "-")
            raise SpecError(f"--{name} needs a TRACE: the built-in scene is as it is")


map_ = with_options(_map, without=_NOT)


__all__ = ["map_"]
