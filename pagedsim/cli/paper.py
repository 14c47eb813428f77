"""``pagedsim paper`` and ``pagedsim field``: published numbers, run again.

Exit code 1 says that a hard target does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pagedsim.cli.values import Json, NoColor, Quiet, counted, option
from pagedsim.errors import SpecError

if TYPE_CHECKING:
    from pagedsim.analysis.experiments.experiment import Experiment, Outcome

_Jobs = Annotated[int, counted("--jobs", most=256, help="processes; the numbers stay the same")]
_Quick = Annotated[bool, option("--quick", help="short runs, to look at: no tolerance applies")]
_Figure = Annotated[
    str | None, option("--figure", metavar="FILE", help="draw the numbers: .png, .svg or .pdf")
]


def paper(
    name: Annotated[str, typer.Argument(metavar="list|NAME", help="an experiment, or list")],
    trace: Annotated[
        str | None,
        option("--trace", metavar="FILE", help="the public trace that the experiment needs"),
    ] = None,
    jobs: _Jobs = 1,
    quick: _Quick = False,
    json: Json = None,
    figure: _Figure = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Run a published experiment again: published, ours, difference, tolerance."""
    from pagedsim.analysis.experiments.catalogue import PAPERS

    files = {"json": json, "figure": figure}
    _do(PAPERS, name, trace, jobs=jobs, quick=quick, files=files, look=(quiet, no_color))


def field(
    name: Annotated[str, typer.Argument(metavar="list|NAME", help="a report, or list")],
    jobs: _Jobs = 1,
    quick: _Quick = False,
    json: Json = None,
    figure: _Figure = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Run again what users of real engines measured: measured, ours, difference, tolerance."""
    from pagedsim.analysis.experiments.catalogue import FIELD

    _do(
        FIELD,
        name,
        None,
        jobs=jobs,
        quick=quick,
        files={"json": json, "figure": figure},
        look=(quiet, no_color),
        heading="measured",
    )


def _do(
    among: Sequence[Experiment],
    name: str,
    trace: str | None,
    *,
    jobs: int,
    quick: bool,
    files: dict[str, str | None],
    look: tuple[bool, bool],
    heading: str = "published",
) -> None:
    """List, or run, print and write; `look`: whether to be quiet, and without colours."""
    from pagedsim.analysis.experiments.catalogue import find
    from pagedsim.analysis.experiments.experiment import Bench
    from pagedsim.cli.outputs import target, writable
    from pagedsim.files import write_json
    from pagedsim.present.experiments import listing, outcome
    from pagedsim.present.progress import Progress, busy
    from pagedsim.present.tables import console

    quiet, no_color = look
    out = console(no_color=no_color)
    out.quiet = quiet
    json, figure = files["json"], files["figure"]
    if name == "list":
        if trace is not None or quick or jobs > 1 or figure is not None:
            raise SpecError("list takes none of --trace, --quick, --jobs and --figure")
        writable(files, {}, 1)
        write_json(json, [_row(one) for one in among])
        if json != "-":
            out.print(listing(among))
        return
    experiment = find(name, among)
    if trace is not None and not experiment.needs:
        raise SpecError(f"--trace: {experiment.name} needs no trace")
    writable(files, {} if trace is None else {target(trace): "the trace"}, 1)
    traces = {} if trace is None else {experiment.needs: trace}
    with Progress(0, experiment.name, no_color=no_color) as bar:
        found = experiment.run(Bench(jobs=jobs, quick=quick, traces=traces, progress=bar.reach))
    write_json(json, _built(found))
    if figure is not None:
        with busy("drawing the figure", no_color=no_color):
            from pagedsim.present import figures

            figures.save(figures.experiment(found), target(figure))
    if json != "-":
        out.print(outcome(found, heading))
    if found.missed:
        raise typer.Exit(1)


def _row(one: Experiment) -> dict[str, object]:
    return {
        "name": one.name,
        "title": one.title,
        "source": one.source,
        "needs": one.needs,
        "minutes": one.minutes,
    }


def _built(found: Outcome) -> dict[str, object]:
    """As JSON has it: each row with its difference and its verdict too."""
    import msgspec

    built: dict[str, object] = msgspec.to_builtins(found)
    built["rows"] = [
        {**msgspec.to_builtins(row), "difference": row.difference, "hard": row.hard}
        | ({} if found.quick or not row.hard else {"holds": row.holds})
        for row in found.rows
    ]
    return built


__all__ = ["field", "paper"]
