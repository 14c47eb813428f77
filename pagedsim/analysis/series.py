"""The series behind the averages: tables of steps, frames, and Parquet files.

Files are written a chunk at a time, whole or not at all; columns are described in docs/model.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pagedsim.analysis import inside
from pagedsim.analysis.steps import chunks
from pagedsim.engine.recording import BLOCKED, Recording, Refusal, Status, Window
from pagedsim.files import write_whole
from pagedsim.protocols import Int64, Limit, StepTime
from pagedsim.trace.trace import Trace

if TYPE_CHECKING:
    import polars as pl

    Columns: TypeAlias = dict[str, Int64 | pl.Series]

_AT = {name: at for at, name in enumerate(inside.COLUMNS)}
CHUNK = 1 << 16  # rows that are in memory at once as a frame

_TIMES = ("admitted_ns", "first_token_ns", "finish_ns")
_COUNTS = ("generated", "hit", "resumed_hit", "preemptions", "recomputed")


def rows_of(recording: Recording, first: int = 0, last: int | None = None) -> Int64:
    """The windows [first, last) as recorded; with groups of layers their other two terms too."""
    windows = recording.rows.table(first, last)
    if not len(recording.grouped):
        return windows
    terms = recording.grouped[first:last, : len(inside.APART)]
    return np.concatenate((windows, terms), axis=1)


def steps(
    recording: Recording, steptime: StepTime | None = None, rows: int = CHUNK
) -> Iterator[Int64]:
    """Chunks of int64[about `rows`, columns of `Window`], a row a step, in order; at least one.

    What needs `steptime`, the model of the run, is said in `analysis.steps`.
    """
    return (chunk.table() for chunk in chunks(recording, steptime, rows))


def refusals_of(recording: Recording) -> list[Refusal]:
    """What was refused, its numbers in tokens.

    With groups of layers, what samples take together is bytes: as tokens of all groups, rounded up.
    """
    token, found = recording.token_bytes, []
    for refusal in recording.refused:
        if token and refusal.bound == recording.capacity:
            refusal = refusal._replace(
                value=-(-refusal.value // token), bound=refusal.bound // token
            )
        found.append(refusal)
    return found


def idle(rows: Int64, capacity: int) -> Int64:
    """int64[rows]: the last term, what the others of each row leave of the capacity."""
    used: Int64 = rows[:, _AT["live"] : _AT["cached"] + 1].sum(axis=1)
    apart: Int64 = rows[:, len(Window._fields) :].sum(axis=1)
    return capacity - used - apart


def column(rows: Int64, name: str, capacity: int) -> Int64:
    """A column of `inside.COLUMNS` by its name, or ``"idle"``."""
    return idle(rows, capacity) if name == "idle" else rows[:, _AT[name]]


def windows_frame(recording: Recording) -> pl.DataFrame:
    """A row a window: the columns of `Window`, and idle, blocked and the limit's name."""
    return _steps_frame(rows_of(recording), recording.capacity)


def requests_frame(recording: Recording, trace: Trace) -> pl.DataFrame:
    """A row a request of the trace; null where it never came to that."""
    return _requests_frame(recording, trace, 0, len(trace))


def write_windows(path: str | os.PathLike[str], recording: Recording) -> None:
    """Write a row a recorded window to a Parquet file."""
    count = max(len(recording.rows), 1)
    parts = (rows_of(recording, i, i + CHUNK) for i in range(0, count, CHUNK))
    _write(path, (_steps_frame(part, recording.capacity) for part in parts))


def write_steps(
    path: str | os.PathLike[str], recording: Recording, steptime: StepTime | None = None
) -> None:
    """Write a row a step to a Parquet file, of which a chunk at a time is in memory."""
    _write(path, (_steps_frame(part, recording.capacity) for part in steps(recording, steptime)))


def write_requests(path: str | os.PathLike[str], recording: Recording, trace: Trace) -> None:
    """Write a row a request of the trace to a Parquet file."""
    starts = range(0, max(len(trace), 1), CHUNK)
    _write(path, (_requests_frame(recording, trace, i, i + CHUNK) for i in starts))


def _write(path: str | os.PathLike[str], frames: Iterator[pl.DataFrame]) -> None:
    from polars.io.plugins import register_io_source

    first = next(frames)

    def source(columns: Any, predicate: Any, rows: Any, size: Any) -> Iterator[pl.DataFrame]:
        yield first
        yield from frames

    with write_whole(path) as file:
        register_io_source(source, schema=first.schema).sink_parquet(file)


def _steps_frame(rows: Int64, capacity: int) -> pl.DataFrame:
    import polars as pl

    names = inside.COLUMNS[: rows.shape[1]]
    columns: Columns = {name: rows[:, i] for i, name in enumerate(names)}
    limit = rows[:, _AT["limit"]]
    frame = pl.DataFrame(columns)
    return frame.with_columns(
        pl.Series("idle", idle(rows, capacity), pl.Int64),
        pl.Series("blocked", limit >= BLOCKED, pl.Boolean),
        _named("limit", limit % BLOCKED, Limit),
    )


def _requests_frame(recording: Recording, trace: Trace, start: int, end: int) -> pl.DataFrame:
    import polars as pl

    requests, part = recording.requests, slice(start, end)
    arrival, status = requests.arrival_ns[part], requests.status[part]
    admitted, first, finish = (getattr(requests, name)[part] for name in _TIMES)
    rows = np.arange(start, start + len(arrival))
    decodes = requests.longest[part] - 1
    tpot = np.full(len(rows), np.nan)
    several = (finish >= 0) & (decodes > 0)
    tpot[several] = (finish - first)[several] / decodes[several]
    refused = {refusal.row: refusal for refusal in refusals_of(recording)}
    refusals = [refused.get(row) for row in rows.tolist()]
    return pl.DataFrame(
        [
            pl.Series("row", rows, pl.Int64),
            pl.Series("prompt", trace.prompt[part]),
            pl.Series("output", trace.output[part]),
            pl.Series("samples", trace.samples[part]),
            _named("status", status, Status),
            _times("arrival_ns", arrival, arrival),
            _times("admitted_ns", admitted, admitted),
            _times("first_token_ns", first, first),
            _times("finish_ns", finish, finish),
            _times("queue_ns", admitted - arrival, admitted),
            _times("ttft_ns", first - arrival, first),
            pl.Series("tpot_ns", tpot, pl.Float64).fill_nan(None),
            _times("e2e_ns", finish - arrival, finish),
            *(pl.Series(name, getattr(requests, name)[part]) for name in _COUNTS),
            pl.Series("session", trace.session[part]),
            pl.Series("priority", trace.priority[part]),
            pl.Series("refused_for", [r and r.reason for r in refusals], pl.String),
            pl.Series("refused_value", [r and r.value for r in refusals], pl.Int64),
            pl.Series("refused_bound", [r and r.bound for r in refusals], pl.Int64),
        ]
    )


def _times(name: str, values: Int64, known: Int64) -> pl.Series:
    """`values`, null where `known` is -1."""
    import polars as pl

    column = pl.Series(name, values, pl.Int64)
    return column.set(pl.Series(known < 0, dtype=pl.Boolean), None)


def _named(name: str, values: Int64, names: type[Limit] | type[Status]) -> pl.Series:
    """A column of lower-case names."""
    import polars as pl

    return pl.Series(name, [member.name.lower() for member in names]).gather(values)


__all__ = [
    "CHUNK",
    "column",
    "idle",
    "requests_frame",
    "rows_of",
    "steps",
    "windows_frame",
    "write_requests",
    "write_steps",
    "write_windows",
]
