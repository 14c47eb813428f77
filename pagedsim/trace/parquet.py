"""pagedsim's own Parquet: a row a request, the columns of `Trace`, content as lists.

Columns are those of the JSONL (`pagedsim.trace.own`), with ``run_token`` and ``run_length`` as
lists of int64. The header stands as JSON text in the first row of a column ``pagedsim``, so that
any Parquet library carries it along.
"""

from __future__ import annotations

import io
import itertools
from typing import Any

import msgspec
import numpy as np

from pagedsim.trace import own
from pagedsim.trace.source import Source
from pagedsim.trace.trace import Trace

LISTS = {
    "runs": ("run_token", "run_length"),
    "sample_output": ("sample_output",),
    "forks": ("fork_after", "fork_slot", "fork_parent"),
}


def dump(trace: Trace) -> bytes:
    """The file's bytes."""
    import polars as pl

    names = own.columns(trace)
    header = {own.MARK: own.VERSION, "requests": len(trace), "columns": names, **own.about(trace)}
    text = [msgspec.json.encode(header).decode(), *[None] * (len(trace) - 1)][: len(trace)]
    columns: dict[str, Any] = {own.MARK: pl.Series(text, dtype=pl.String)}
    for name in names:
        if name in LISTS:
            rows, *parts = own.lists(trace, name)
            cuts = rows.tolist()
            for key, part in zip(LISTS[name], parts, strict=True):
                flat = part.tolist()
                lists = [flat[a:b] for a, b in itertools.pairwise(cuts)]
                columns[key] = pl.Series(lists, dtype=pl.List(pl.Int64))
        else:
            columns[name] = pl.Series(getattr(trace, name), dtype=pl.Int64)
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def read(source: Source) -> Trace:
    """The trace. Raises InputError for anything that `dump` did not write."""
    import polars as pl

    try:
        frame = pl.read_parquet(io.BytesIO(source.data))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as bad:
        reason = str(bad).splitlines()[0][:100] if str(bad) else type(bad).__name__
        raise source.error(f"broken Parquet data: {reason}") from None
    if own.MARK not in frame.columns or not frame.height:
        found = ", ".join(frame.columns)
        raise source.error(f"not pagedsim's own Parquet: no column {own.MARK}; found: {found}")
    try:
        header = msgspec.json.decode(frame[own.MARK][0] or "")
    except (msgspec.DecodeError, TypeError, RecursionError):
        raise source.error(f"column {own.MARK} holds no header in its first row") from None
    if not isinstance(header, dict):
        raise source.error(f"column {own.MARK} holds no header in its first row")
    names = own.check_header(source, header)
    table: dict[str, Any] = {}
    for name in names:
        if name in LISTS:
            table[name] = _lists(source, frame, name)
        else:
            table[name] = _column(source, frame, name)
    if frame.height != header["requests"]:
        raise source.error(f"requests is {header['requests']}, but there are {frame.height} rows")
    return own.assemble(source, header, table, lambda row: None)


def _column(source: Source, frame: Any, name: str) -> Any:
    import polars as pl

    if name not in frame.columns:
        raise source.error(f"column {name} is missing; found: {', '.join(frame.columns)}")
    series = frame[name]
    if series.dtype != pl.Int64 or series.null_count():
        raise source.error(f"column {name} is {series.dtype}, must be Int64 without nulls")
    return series.to_numpy().copy()


def _lists(source: Source, frame: Any, column: str) -> Any:
    import polars as pl

    flat = []
    counts = []
    for name in LISTS[column]:
        if name not in frame.columns:
            raise source.error(f"column {name} is missing; found: {', '.join(frame.columns)}")
        series = frame[name]
        if series.dtype != pl.List(pl.Int64) or series.null_count():
            raise source.error(f"column {name} is {series.dtype}, must be List(Int64)")
        counts.append(series.list.len().to_numpy().astype(np.int64))
        values = series.filter(series.list.len() > 0).explode()
        if values.null_count() or (column != "forks" and not counts[-1].all()):
            raise source.error(f"column {name} has an empty list or a null in one")
        flat.append(values.to_numpy().astype(np.int64))
    if any(not np.array_equal(counts[0], other) for other in counts[1:]):
        raise source.error(f"{' and '.join(LISTS[column])} differ in length")
    rows = np.concatenate(([0], np.cumsum(counts[0]))).astype(np.int64)
    return rows, *flat


__all__ = ["dump", "read"]
