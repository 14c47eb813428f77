"""Windows as they are kept: 120 bytes each, read as int64.

Counts of sequences and tokens of a window take 4 bytes, times and slots 8. Which step is its first
is not kept: it follows from the counts before. Where a count needs more than 4 bytes, all rows take
8 for each, so nothing is ever cut off::

    add    row of 18 int  ->  120 bytes  ...
    read   rows [first, last)  ->  int64[last - first, 19], columns as in `Window`
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import numpy as np

from pagedsim.protocols import Int64

_PART = 1 << 16  # how far apart the first steps are that are known without counting


class Window(NamedTuple):
    """One row of `Recording.windows`: counts, slots, ns."""

    step: int
    steps: int
    start_ns: int
    end_ns: int
    batch: int  # running sequences, scheduled in this step or not
    sequences: int  # of Load: those in the step
    prefills: int
    tokens: int
    pairs: int
    context: int
    live: int
    reserved: int
    internal: int
    external: int
    cached: int
    shared: int  # saved by sharing; no term of the account
    ramp_ns: int  # Σ j · duration of step j: with it an integral of a ramp is exact
    held: int  # owned by sequences, a buddy's rounding included; no term of the account
    limit: int  # protocols.Limit, plus 4 when the head was blocked


KEPT = Window._fields[1:]
_SMALL = ("steps", "batch", "sequences", "prefills", "tokens", "limit")
_NARROW: Final = np.dtype([(name, np.int32 if name in _SMALL else np.int64) for name in KEPT])
_WIDE: Final = np.dtype([(name, np.int64) for name in KEPT])
_PACK: Final = struct.Struct("=" + "".join("i" if name in _SMALL else "q" for name in KEPT)).pack
_PACK_WIDE: Final = struct.Struct(f"={len(KEPT)}q").pack


class Rows:
    """A table of windows, read-only; its first step is `step`."""

    def __init__(self, table: np.ndarray[Any, Any], step: int = 0) -> None:
        self._table = table
        parts = [table["steps"][at : at + _PART].sum() for at in range(0, len(table), _PART)]
        self._first = np.cumsum([step, *parts], dtype=np.int64)  # step of every `_PART`-th window

    @classmethod
    def of(cls, windows: Int64) -> Rows:
        """The same as int64[windows, 19]. ValueError unless each begins where the last ended."""
        table = np.zeros(len(windows), _WIDE)
        for at, name in enumerate(KEPT, 1):
            table[name] = windows[:, at]
        rows = cls(table, int(windows[0, 0]) if len(windows) else 0)
        if not np.array_equal(rows.column("step"), windows[:, 0]):
            raise ValueError("windows: one does not begin with the step after the one before it")
        return rows

    def __len__(self) -> int:
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes that they take."""
        return int(self._table.nbytes)

    def column(self, name: str, first: int = 0, last: int | None = None) -> Int64:
        """int64[last - first]: one column of the windows [first, last), a copy. O(last - first)."""
        if name != "step":
            column: Int64 = self._table[name][first:last].astype(np.int64)
            return column
        began = first // _PART * _PART
        counts = self.column("steps", began, last)
        before = np.cumsum(counts) - counts + self._first[began // _PART]
        found: Int64 = before[first - began :]
        return found

    def table(self, first: int = 0, last: int | None = None) -> Int64:
        """int64[last - first, 19], columns as in `Window`: a copy. O(last - first)."""
        columns = [self.column(name, first, last) for name in Window._fields]
        table: Int64 = np.stack(columns, axis=1)
        return table


class Windows:
    """Grows by a row a window; no object is kept for one."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._kind = _NARROW
        self._pack = _PACK
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, row: tuple[int, ...]) -> None:
        """Add a `Window` without its first column. O(1); once, O(rows), where a count is large."""
        try:
            self._bytes += self._pack(*row)
        except struct.error:
            narrow = np.frombuffer(self._bytes, self._kind)
            self._kind, self._pack = _WIDE, _PACK_WIDE
            self._bytes = bytearray(narrow.astype(_WIDE).tobytes())
            self._bytes += self._pack(*row)
        self._count += 1

    def rows(self) -> Rows:
        """What was added. It is the memory itself, so nothing can be added from then on."""
        return Rows(np.frombuffer(self._bytes, self._kind))


__all__ = ["Rows", "Window", "Windows"]
