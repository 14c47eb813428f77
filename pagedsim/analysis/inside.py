"""What changes inside a window of many steps, by column, with groups of layers or without.

Two things do: what grows by the same amount each step, and what `Start` rows add from a step on::

    live |          __.....       `steady`: so much more each step
         |     __.''
         |__.''__________________ ns
    held |          ________       `taken`: so much more from `offset` on, `at_ns` after the start
         |_________|
         |__________at___________ ns

What the terms gain comes from what is free, so where the head of the queue is blocked `external`
loses as much.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagedsim.engine.recording import Apart, Recording, Start, StartApart, Window
from pagedsim.protocols import Int64

APART = Apart._fields[:2]  # terms of the account beside those of `Window`
COLUMNS = (*Window._fields, *APART)  # of rows of windows and steps; without groups `Window`'s alone
_FIRST = Start._fields.index("held")
_AMOUNTS = (*Start._fields[_FIRST:], *StartApart._fields)
_TERMS = ("reserved", "internal", "cached", "padding", "outside")


class Taken(NamedTuple):
    """Rows of `Start`, in columns; `amounts` by the column of `COLUMNS` that gains them."""

    window: Int64
    offset: Int64
    at_ns: Int64
    amounts: dict[str, Int64]


def taken(recording: Recording) -> Taken:
    """All that is taken inside windows; O(starts)."""
    starts = recording.starts
    return Taken(starts[:, 0], starts[:, 1], starts[:, 2], amounts_of(starts))


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


def steady(recording: Recording, rows: slice = slice(None)) -> dict[str, Int64]:
    """By column what each step of a window has more than the one before; O(windows)."""
    sequences = recording.column("sequences")[rows]
    found = {"pairs": sequences, "context": sequences, "live": sequences, "reserved": -sequences}
    if len(recording.grouped):
        live, outside = recording.grouped[rows, len(APART) :].T
        found |= {"live": live, "outside": outside, "reserved": -live - outside}
    return found


__all__ = ["APART", "COLUMNS", "Taken", "amounts_of", "from_free", "steady", "taken"]
