"""The tables of a page: cells with the number as it is shown and as the result file has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pagedsim.analysis.results import Run
from pagedsim.present.numbers import count, per_cent, significant


class Column(NamedTuple):
    """`better` is -1 where less is better, 1 where more is, 0 where neither."""

    title: str
    unit: str
    word: str  # of the definitions
    field: str  # path in the result file
    shown: Callable[[Any], str]
    better: int = 0


class Cell(NamedTuple):
    """`exact` is the value with all its digits; `best` where it is better than another run's."""

    shown: str
    exact: str
    best: bool


class Row(NamedTuple):
    """A run."""

    name: str
    cells: list[Cell]


class Table(NamedTuple):
    """A column a number, a row a run."""

    columns: list[Column]
    rows: list[Row]


def _ms(seconds: float | None) -> str:
    return significant(None if seconds is None else 1000 * seconds)


COLUMNS = (
    Column("live", "%", "live", "memory.live", per_cent),
    Column("waste", "%", "waste", "memory.waste", per_cent, -1),
    Column("of held", "%", "waste of held", "memory.waste_of_held", per_cent, -1),
    Column("batch", "mean", "batch", "batch.mean", significant, 1),
    Column("batch", "peak", "batch", "batch.peak", count, 1),
    Column("preempted", "times", "preemptions", "preemptions", count, -1),
    Column("hits", "%", "hit rate", "prefix.hit_rate", per_cent, 1),
    Column("TTFT", "p50 s", "TTFT", "latency.ttft_s.p50", significant, -1),
    Column("TTFT", "p99 s", "TTFT", "latency.ttft_s.p99", significant, -1),
    Column("TPOT", "p50 ms", "TPOT", "latency.tpot_s.p50", _ms, -1),
    Column("E2E", "p50 s", "E2E", "latency.e2e_s.p50", significant, -1),
    Column("requests", "/s", "throughput", "throughput.requests_per_s", significant, 1),
)


def value(run: Run, field: str) -> Any:
    """A field of the result file by its path."""
    found: Any = run
    for name in field.split("."):
        found = getattr(found, name)
    return found


def table(runs: Sequence[Run]) -> Table:
    """All runs; without the hit rate where none had a hit."""
    hits = any(run.prefix.hit_tokens for run in runs)
    columns = [column for column in COLUMNS if hits or column.field != "prefix.hit_rate"]
    best = {column: _best(runs, column) for column in columns}
    rows = []
    for run in runs:
        cells = []
        for column in columns:
            exact = value(run, column.field)
            shown = column.shown(exact)
            cells.append(Cell(shown, _digits(exact), best[column] == shown))
        rows.append(Row(run.name, cells))
    return Table(columns, rows)


def facts(run: Run) -> list[tuple[str, str]]:
    """What the table has no room for, in words."""
    if not run.steps:
        return []
    binds = run.binds
    limits = (
        *(("memory", binds.memory), ("max_seqs", binds.max_seqs)),
        *(("budget", binds.budget), ("arrivals", binds.arrivals)),
    )
    limited = ", ".join(f"{name} {per_cent(share)} %" for name, share in limits)
    found = [
        ("finished", f"{run.finished:,} in {significant(run.makespan_s)} s, {run.steps:,} steps"),
        ("batch limited by", limited),
        ("head of the queue blocked", f"{per_cent(run.blocked)} % of the time"),
        ("preempted", f"{run.preemptions:,} times, {run.preempted_requests:,} requests"),
        ("computed again", f"{count(run.recomputed_tokens)} tokens"),
        ("output", f"{significant(run.throughput.output_tokens_per_s)} tokens/s"),
    ]
    if run.compute is not None:
        bound = f"compute {per_cent(run.compute.compute_bound)} %"
        bound += f", bandwidth {per_cent(run.compute.bandwidth_bound)} % of the time"
        found.append(("steps bound by", bound))
    if run.memory.shared:
        found.append(("saved by sharing", f"{per_cent(run.memory.shared)} % of the pool"))
    return found


def _best(runs: Sequence[Run], column: Column) -> str | None:
    """The best value as it is shown; None where no two differ."""
    known = [found for run in runs if (found := value(run, column.field)) is not None]
    shown = {column.shown(each) for each in known}
    if not column.better or len(shown) < 2:
        return None
    return column.shown(max(known) if column.better > 0 else min(known))


def _digits(exact: Any) -> str:
    """As JSON has it."""
    return "null" if exact is None else repr(exact)


__all__ = ["COLUMNS", "Cell", "Column", "Row", "Table", "facts", "table", "value"]
