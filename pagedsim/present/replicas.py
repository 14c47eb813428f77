"""Several engines in a terminal: a line each."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pagedsim.analysis.results import Run
from pagedsim.present.numbers import NONE, count, per_cent, significant

_HEADINGS = (
    *("requests", "live\n%", "waste\n%", "blocked\n%", "batch\nmean", "\npeak", "preempt-\nions"),
    *("TTFT s\np50", "\np99", "TPOT\np50 ms", "\nreq/s"),
)
_SHOWN = 16  # engines that are shown one by one


def replicas(run: Run) -> RenderableType:
    """A table of the engines of `run`."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for number, one in enumerate(run.replicas[:_SHOWN], 1):
        tpot = NONE if one.tpot_p50_s is None else significant(one.tpot_p50_s * 1000)
        cells = (
            *(f"#{number}", count(one.requests), per_cent(one.live), per_cent(one.waste)),
            *(per_cent(one.blocked), significant(one.batch_mean), count(one.batch_peak)),
            *(count(one.preemptions), significant(one.ttft_p50_s), significant(one.ttft_p99_s)),
            *(tpot, significant(one.requests_per_s)),
        )
        table.add_row(*(Text(cell) for cell in cells))
    parts: list[RenderableType] = [Text("Each replica", style="bold"), table]
    if more := len(run.replicas) - _SHOWN:
        parts += [Text(f"… and {more:,} more, in the JSON")] if more > 0 else []
    return Group(*parts)


__all__ = ["replicas"]
