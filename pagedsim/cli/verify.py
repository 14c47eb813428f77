"""``pagedsim verify``: a replay beside a recorded run of a real engine."""

from __future__ import annotations

from typing import Annotated

import typer


def verify(
    recordings: Annotated[
        list[str], typer.Argument(help="recorded runs (docs/recordings.md), .jsonl or .jsonl.gz")
    ],
    trace: Annotated[
        str | None,
        typer.Option("--trace", help="the trace that was run; by default found beside a recording"),
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="fast or reference")] = "fast",
) -> None:
    """Replay recorded runs of real engines and compare step by step; exit 1 on any difference."""
    from pagedsim.analysis.verify import verify as compare
    from pagedsim.present.tables import console

    out = console()
    differing = 0
    for path in recordings:
        outcome = compare(path, trace=trace, engine=engine)
        counts = f"{outcome.steps} steps, {outcome.requests} requests"
        if outcome.difference is None:
            out.print(f"agrees   {path}: {outcome.engine}, {counts}, {len(outcome.fields)} fields")
        else:
            differing += 1
            where, field, ours, recorded = outcome.difference
            out.print(f"DIFFERS  {path}: {outcome.engine}, {where}, {field}")
            out.print(f"         pagedsim  {ours}")
            out.print(f"         recorded  {recorded}")
        if outcome.left_out:
            out.print(
                f"         not compared, for prefix caching is not simulated: "
                f"{', '.join(outcome.left_out)}"
            )
    if differing:
        out.print(f"{differing} of {len(recordings)} recordings differ")
        raise typer.Exit(1)


__all__ = ["verify"]
