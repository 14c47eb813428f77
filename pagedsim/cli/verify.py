"""``pagedsim verify``: a replay beside a recorded run of a real engine, or beside its log."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagedsim.cli.values import Json, NoColor, one_of, option
from pagedsim.errors import SpecError

if TYPE_CHECKING:
    from rich.console import Console

    from pagedsim.analysis.verify import Outcome

_COUNTS = ("steps", "requests", "fields")  # columns after the verdict and the recording's name
_WIDTHS = (7, 9, 7)
_VERDICT = 9


def verify(
    recordings: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", help="recorded runs (docs/recordings.md), .jsonl or .jsonl.gz"
        ),
    ],
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="the trace that was run; by default found beside a recording",
        ),
    ] = None,
    log: Annotated[
        str | None,
        option("--log", metavar="FILE", help="an engine's log, to hold a trace's replay against"),
    ] = None,
    events: Annotated[
        str | None,
        option("--events", metavar="FILE", help="with --log: vLLM's KV-cache events (MessagePack)"),
    ] = None,
    model: Annotated[
        str | None, option("--model", metavar="NAME", help="with --log: where the log has none")
    ] = None,
    gpu: Annotated[
        str | None, option("--gpu", metavar="NAME", help="with --log  [a100-80gb]")
    ] = None,
    steptime: Annotated[
        str, option("--steptime", metavar="SPEC", help="with --log: of the replay")
    ] = "roofline",
    offset: Annotated[
        str | None,
        option("--offset", metavar="S", help="with --log: when the replay begins  [fits best]"),
    ] = None,
    figure: Annotated[
        str | None, option("--figure", metavar="FILE", help="with --log: .png, .svg or .pdf")
    ] = None,
    engine: Annotated[
        str, one_of("--engine", "fast", "reference", help="which engine replays")
    ] = "fast",
    json: Json = None,
    quiet: Annotated[
        bool, option("--quiet", "-q", help="no table: the exit code says whether all agree")
    ] = False,
    no_color: NoColor = False,
) -> None:
    """Replay recorded runs of real engines and compare step by step; exit 1 on any difference.

    With --log, a trace is given instead: its replay and the engine's log, side by side over time.
    """
    from pagedsim.cli.outputs import target, writable

    if log is not None:
        from pagedsim.cli.verify_log import LogOptions, verify_log

        if len(recordings) != 1 or trace is not None:
            raise SpecError("--log takes one trace, and no recording: verify --log FILE TRACE")
        verify_log(
            LogOptions(
                log=log,
                trace=recordings[0],
                events=events,
                model=model,
                gpu=gpu,
                steptime=steptime,
                offset=_offset(offset),
                json=json,
                figure=figure,
                quiet=quiet,
                no_color=no_color,
            )
        )
        return
    given = (("events", events), ("model", model), ("gpu", gpu))
    for name, value in (*given, ("offset", offset), ("figure", figure)):
        if value is not None:
            raise SpecError(f"--{name} needs --log")
    read = filter(None, (*recordings, trace))
    writable({"json": json}, {target(path): "compared" for path in read}, 1)
    outcomes = _shown(recordings, trace, engine, quiet=quiet or json == "-", no_color=no_color)
    if json is not None:
        _write(json, outcomes)
    if any(outcome.difference for outcome in outcomes):
        raise typer.Exit(1)


def _offset(text: str | None) -> float | None:
    """Seconds, which may be negative."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not abs(seconds) <= 1e9:
        raise SpecError(f"--offset is {text}, must be a number of seconds from -1e9 to 1e9")
    return seconds


def _shown(
    recordings: list[str], trace: str | None, engine: str, *, quiet: bool, no_color: bool
) -> list[Outcome]:
    """Compare one recording after another and print each as it is done."""
    from pagedsim.analysis.verify import verify as compare
    from pagedsim.present.progress import Progress
    from pagedsim.present.tables import console

    out = console(no_color=no_color)
    out.quiet = quiet
    room = out.width - _VERDICT - sum(_WIDTHS) - len(_WIDTHS)
    width = max(min(room, max(len(_name(path)) for path in recordings)), 9)
    outcomes: list[Outcome] = []
    for path in recordings:
        with Progress(0, f"verifying {_name(path)}", no_color=no_color) as bar:
            outcome = compare(path, trace=trace, engine=engine, progress=bar.reach)
        if not outcomes:
            _line(out, "", "recording".ljust(width), _COUNTS)
        outcomes.append(outcome)
        _report(out, outcome, width)
    _summary(out, outcomes)
    return outcomes


def _write(path: str, outcomes: list[Outcome]) -> None:
    """The same as JSON: a first difference as `where`, `field`, `ours` and `recorded`."""
    import msgspec

    from pagedsim.files import write_json

    rows = [
        {
            **outcome._asdict(),
            "agrees": outcome.difference is None,
            "difference": outcome.difference and outcome.difference._asdict(),
        }
        for outcome in outcomes
    ]
    found = {"schema": "pagedsim.verify/1", "recordings": rows}
    write_json(path, msgspec.to_builtins(found, enc_hook=str))


def _report(out: Console, outcome: Outcome, width: int) -> None:
    from pagedsim.present.numbers import plain

    name = plain(_name(outcome.path), width).ljust(width)
    counts = (outcome.steps, outcome.requests, len(outcome.fields))
    differs = outcome.difference is not None
    _line(out, "DIFFERS" if differs else "agrees", name, [f"{value:,}" for value in counts])
    if outcome.difference is None:
        return
    where, field, ours, recorded = outcome.difference
    ours, recorded = _apart(ours, recorded)
    indent = " " * _VERDICT
    room = out.width - len(indent) - len(f"{outcome.engine}  ")
    out.print(f"{indent}first in {plain(where, 30)}: {plain(field, 30)}", soft_wrap=True)
    for side, value in (("pagedsim", ours), (outcome.engine, recorded)):
        text = plain(str(value), max(room, 20))
        out.print(f"{indent}{side.ljust(len(outcome.engine))}  {text}", soft_wrap=True)


def _summary(out: Console, outcomes: list[Outcome]) -> None:
    """What was run, and how many differ."""
    engines = ", ".join(sorted({outcome.engine for outcome in outcomes}))
    total = f"{len(outcomes)} recording{'s' if len(outcomes) != 1 else ''}"
    differing = sum(outcome.difference is not None for outcome in outcomes)
    out.print()
    if differing:
        out.print(f"{differing} of {total} of {engines} differ")
    else:
        out.print(f"{total} of {engines}: every recorded field agrees at every step")


def _apart(ours: Any, recorded: Any) -> tuple[Any, Any]:
    """Of two mappings what is not the same in both, else the two themselves."""
    if not (isinstance(ours, dict) and isinstance(recorded, dict)):
        return ours, recorded
    same = {key for key, value in ours.items() if key in recorded and recorded[key] == value}
    left, right = ({k: v for k, v in side.items() if k not in same} for side in (ours, recorded))
    return (left, right) if left or right else (ours, recorded)


def _line(out: Console, verdict: str, name: str, cells: Any) -> None:
    numbers = " ".join(str(cell).rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True))
    out.print(f"{verdict.ljust(_VERDICT)}{name} {numbers}", soft_wrap=True)


def _name(path: str) -> str:
    """The file's name without what all recordings end in."""
    name = Path(path).name
    return name.removesuffix(".gz").removesuffix(".jsonl") or path


__all__ = ["verify"]
