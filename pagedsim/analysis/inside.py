"""What changes inside a window of many steps, by column, with groups of layers or without.

Two things do: what grows by the same amount each step, and what `Start` rows add from a step on::

    live |          __.....       `slope`: so much more each step
         |     __.''
         |__.''__________________ ns
    held |          ________       `change`: so much more from a step on, `at_ns` after the start
         |_________|
         |__________at___________ ns

What the terms gain comes from what is free, so where the head of the queue is blocked `external`
loses as much.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property

import numpy as np

from pagedsim.analysis.terms import GROUP_TERMS, TERMS
from pagedsim.engine.recording import BLOCKED, Apart, Recording, Start, StartApart, Window
from pagedsim.protocols import Int64

APART = Apart._fields[:2]  # terms of the account beside those of `Window`
COLUMNS = (*Window._fields, *APART)  # of rows of windows and steps; without groups `Window`'s alone
_FIRST = Start._fields.index("held")
_AMOUNTS = (*Start._fields[_FIRST:], *StartApart._fields)
_TERMS = ("reserved", "internal", "cached", "padding", "outside")
_CHANGED = (*_TERMS, "held")
_STEADY = ("pairs", "context", "live", "reserved", "outside")


def names(recording: Recording) -> tuple[str, ...]:
    """`COLUMNS` that a recording has."""
    return COLUMNS if len(recording.grouped) else Window._fields


def terms(recording: Recording) -> tuple[str, ...]:
    """Those of its account: six, or eight with groups of layers."""
    return GROUP_TERMS if len(recording.grouped) else TERMS


def column(recording: Recording, name: str, first: int = 0, last: int | None = None) -> Int64:
    """A copy of the windows' [first, last) column: one of `COLUMNS`, or ``"idle"``."""
    if name in APART:
        return recording.grouped[first:last, APART.index(name)].copy()
    if name != "idle":
        return recording.rows.column(name, first, last)
    used = [column(recording, term, first, last) for term in terms(recording) if term != "idle"]
    return recording.capacity - sum(used[1:], used[0])


def amounts_of(starts: Int64) -> dict[str, Int64]:
    """The amounts of rows of `Start` by column; without groups `reserved` follows from others."""
    found = dict(zip(_AMOUNTS, starts[:, _FIRST:].T, strict=False))
    if "reserved" not in found:
        found["reserved"] = found["held"] - found["internal"]
    return found


def from_free(amounts: dict[str, Int64]) -> Int64:
    """What the terms gain by `amounts`, and what is free loses."""
    found = np.zeros_like(amounts["held"])
    for name in _TERMS:
        if name in amounts:
            found += amounts[name]
    return found


def steady(recording: Recording, first: int = 0, last: int | None = None) -> dict[str, Int64]:
    """By column what each step of the windows [first, last) has more than the one before it."""
    sequences = recording.rows.column("sequences", first, last)
    found = {"pairs": sequences, "context": sequences, "live": sequences, "reserved": -sequences}
    if len(recording.grouped):
        live, outside = recording.grouped[first:last, len(APART) :].T
        found |= {"live": live, "outside": outside, "reserved": -live - outside}
    return found


class Windows:
    """The windows [first, last) of a recording, and what changes inside them; made as asked for.

    Nothing of it is to be written to. `Start` rows must be in the order of their steps.
    """

    def __init__(self, recording: Recording, first: int, last: int) -> None:
        self._recording, self._first, self._last = recording, first, last
        self._columns: dict[str, Int64] = {}

    def column(self, name: str) -> Int64:
        """int64[windows]: one of `COLUMNS`, or ``"idle"``, as it is recorded."""
        if name not in self._columns:
            self._columns[name] = column(self._recording, name, self._first, self._last)
        return self._columns[name]

    @cached_property
    def starts(self) -> Int64:
        """int64[starts, columns of `Start`]: those of these windows."""
        starts = self._recording.starts
        low, high = (bisect_left(starts[:, 0], at) for at in (self._first, self._last))
        return starts[low:high]

    @cached_property
    def window(self) -> Int64:
        """int64[starts]: which of these windows each is of."""
        window: Int64 = self.starts[:, 0] - self._first
        return window

    @cached_property
    def left_ns(self) -> Int64:
        """int64[starts]: from when each counts to the end of its window."""
        took = self.column("end_ns") - self.column("start_ns")
        left: Int64 = took[self.window] - self.starts[:, 2]
        return left

    def change(self, name: str) -> Int64 | None:
        """int64[starts]: what each adds to a column, takes away if below 0; None: never anything.

        What the terms gain was idle before or, where the head of the queue is blocked, external.
        """
        if name in _CHANGED:
            return self._amounts.get(name)
        if name not in ("external", "idle"):
            return None
        blocked = self.column("limit") >= BLOCKED
        if name == "external" and not blocked.any():
            return None
        loses = blocked[self.window] == (name == "external")
        found: Int64 = -from_free(self._amounts) * loses
        return found

    def slope(self, name: str) -> Int64 | None:
        """int64[windows]: what each step has more than the one before it; None: always the same."""
        return self._steady.get(name) if name in _STEADY else None

    @cached_property
    def _amounts(self) -> dict[str, Int64]:
        return amounts_of(self.starts)

    @cached_property
    def _steady(self) -> dict[str, Int64]:
        return steady(self._recording, self._first, self._last)


__all__ = [
    "APART",
    "COLUMNS",
    "Windows",
    "amounts_of",
    "column",
    "from_free",
    "names",
    "steady",
    "terms",
]
