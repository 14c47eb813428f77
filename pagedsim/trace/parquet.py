"""pagedsim's own Parquet: a row a request, the columns of `Trace`, content as lists.

Columns are those of the JSONL (`pagedsim.trace.own`), with ``run_token`` and ``run_length`` as
lists of int64. The header stands as JSON text in the first row of a column ``pagedsim``, so that
any Parquet library carries it along.

A reader of Parquet can be killed by damaged data (it asks for as much memory as they say), so these
files carry a checksum: the sha256 of all their bytes, with zeros in its own place. A file without
one, written by another library from such a file, is first read in a process that may die of it.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import re
import subprocess
import sys
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
_SUM = "pagedsim-sha256"
_MAGIC = b"PAR1"
_ZEROS = "0" * 64
_SUMMED = re.compile(rb"pagedsim-sha256.{1,4}?([0-9a-f]{64})", re.DOTALL)
_TRIAL = """
import io, sys, polars
data = sys.stdin.buffer.read()
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2 * [4 * 2**30 + 64 * len(data)]))
except (ImportError, OSError, ValueError):
    pass
rows = polars.scan_parquet(io.BytesIO(data)).select(polars.len()).collect().item()
if rows > max(10**7, len(data)):
    sys.exit(f"Error: {rows} rows in {len(data)} bytes are no requests")
polars.read_parquet(io.BytesIO(data))
"""


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
    return sealed(pl.DataFrame(columns))


def sealed(frame: Any) -> bytes:
    """A polars frame as Parquet with its checksum."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", metadata={_SUM: _ZEROS})
    data = buffer.getvalue()
    found = _SUMMED.search(data)
    assert found is not None
    digest = hashlib.sha256(data).hexdigest().encode()
    return data[: found.start(1)] + digest + data[found.end(1) :]


def read(source: Source) -> Trace:
    """The trace. Raises InputError for anything that `dump` did not write."""
    import polars as pl

    _check_whole(source)
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


def _check_whole(source: Source) -> None:
    """InputError if the bytes are not those that were written, or not to be read at all."""
    found = list(_SUMMED.finditer(source.data))
    for one in found:
        plain = source.data[: one.start(1)] + _ZEROS.encode() + source.data[one.end(1) :]
        if hashlib.sha256(plain).hexdigest().encode() == one[1]:
            return
    if found:
        raise source.error("broken Parquet data: the bytes do not have the checksum they carry")
    if not source.data.endswith(_MAGIC):
        raise source.error("broken Parquet data: the last bytes are not PAR1; is the file cut?")
    command = [sys.executable, "-c", _TRIAL]
    trial = subprocess.run(command, input=source.data, capture_output=True, check=False)
    if trial.returncode:
        said = trial.stderr.decode(errors="replace").rstrip().rpartition("\n")[2]
        ends = "reading them ends the process that does it, perhaps for want of memory"
        reason = ends if trial.returncode < 0 else said.rpartition("Error: ")[2]
        raise source.error(f"broken Parquet data: {reason[:100]}")


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


__all__ = ["dump", "read", "sealed"]
