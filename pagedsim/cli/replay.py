"""``pagedsim replay`` and ``pagedsim compare``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pagedsim.cli.options import Options, with_options
from pagedsim.cli.values import Allocator, Allocators

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pagedsim.analysis.results import Result

_SERIES = Annotated[
    str | None,
    typer.Option(
        "--series",
        metavar="FILE",
        help="Parquet: a row a recorded window",
        rich_help_panel="Output",
    ),
]
_STEPS = Annotated[
    str | None,
    typer.Option(
        "--series-steps", metavar="FILE", help="Parquet: a row a step", rich_help_panel="Output"
    ),
]
_REQUESTS = Annotated[
    str | None,
    typer.Option(
        "--requests", metavar="FILE", help="Parquet: a row a request", rich_help_panel="Output"
    ),
]
_TRACE = "a trace file, - for standard input, or a bundled name (pagedsim trace list)"


@with_options
def replay(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help=_TRACE)],
    options: Options,
    allocator: Allocator = None,
    series: _SERIES = None,
    series_steps: _STEPS = None,
    requests: _REQUESTS = None,
) -> None:
    """Replay a trace against one allocator and show where its memory went."""
    from pagedsim.analysis.simulate import ALLOCATORS
    from pagedsim.present.detail import single

    files = {"series": series, "series_steps": series_steps, "requests": requests}
    given = [] if allocator is None else [allocator]
    _show(trace, given, ALLOCATORS[-1:], options, files, single)


@with_options
def compare(
    options: Options,
    trace: Annotated[str, typer.Argument(metavar="TRACE", help=_TRACE)] = "chat",
    allocator: Allocators = None,
    series: _SERIES = None,
    series_steps: _STEPS = None,
    requests: _REQUESTS = None,
) -> None:
    """Replay a trace against several allocators under the same scheduler, side by side.

    Without arguments: the bundled chat trace, Llama-3.1-8B on an A100-80GB, a maximum length of
    16,384; contiguous with a buddy system reserving max, pow2 and exact, and paged.
    """
    from pagedsim.analysis.simulate import ALLOCATORS
    from pagedsim.present.tables import comparison

    files = {"series": series, "series_steps": series_steps, "requests": requests}
    _show(trace, allocator or [], ALLOCATORS, options, files, comparison)


def _show(
    trace: str,
    given: Sequence[str],
    default: Sequence[str],
    options: Options,
    files: dict[str, str | None],
    view: Callable[[Result], RenderableType],
) -> None:
    from pagedsim.cli.runs import execute
    from pagedsim.present.tables import console, nothing_ran

    found, said = execute(trace, given, default, options, files)
    if not options.quiet and options.json != "-":
        console(no_color=options.no_color).print(view(found))
    else:
        said = [*said, *nothing_ran(found)]
    for line in said:
        console(no_color=options.no_color, stderr=True).print(line, soft_wrap=True)


__all__ = ["compare", "replay"]
