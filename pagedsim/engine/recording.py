"""What a run leaves behind: a row a window, a row a request, and nothing derived.

A *window* is `steps` steps taken at once; its terms are those right after the allocations of its
first step. What can be derived (idle, queue length, waiting time) is derived by the report. A
window of one step::

    step   start_ns                     end_ns
    | allocate |--------- compute ---------| yield, finish, release |

In a longer one only lengths change: step j (0, 1, …) has ``j · sequences`` more pairs, context and
live slots than the first (with groups of layers as many live bytes as `Apart` says), and holds what
`Start` rows add. Nobody joins, leaves or is preempted.

Columns are read as int64. ``live + reserved + internal + external + cached + idle = capacity``;
with groups of layers ``padding + outside`` as well (`Apart`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np

from pagedsim.engine.rows import Rows, Window, Windows
from pagedsim.protocols import Int64


class Start(NamedTuple):
    """Slots taken inside a window after its first step.

    They count from step `offset` on, which begins `at_ns` after the window. `held`, `internal` and
    `cached` are what is added, in slots; what of `held` is not internal is reserved. With groups of
    layers the columns of `StartApart` follow.
    """

    window: int
    offset: int
    at_ns: int
    held: int
    internal: int
    cached: int


class StartApart(NamedTuple):
    """The rest of a `Start` with groups of layers: what is added of these, in bytes.

    All that is added of terms was free before. What is live goes on growing as it did.
    """

    reserved: int
    padding: int
    outside: int


class Apart(NamedTuple):
    """What a window has more with groups of layers, whose slots are bytes; one row a window.

    `padding`: what blocks of narrow groups, held or cached, lose to the widest. `outside`: held for
    tokens that no layer of the group will read again. In a window of many steps each has
    `live_step` more live and `outside_step` more outside than the one before, both less reserved.
    """

    padding: int
    outside: int
    live_step: int
    outside_step: int


_PACK_START: Final = Struct(f"={len(Start._fields)}q").pack
_PACK_BOTH: Final = Struct(f"={len(Start._fields) + len(StartApart._fields)}q").pack
_PACK_APART: Final = Struct(f"={len(Apart._fields)}q").pack

BLOCKED: Final = 4  # added to Window.limit


class Status(IntEnum):
    """How a request ended."""

    FINISHED = 0
    TRUNCATED = 1  # finished, at the maximum length
    REFUSED = 2  # before the run
    UNFINISHED = 3  # the run was stopped before it was done


class Refusal(NamedTuple):
    """A request that was refused before the run: `value` > `bound`, in tokens.

    In slots where the bound is the pool: what its samples take together.
    """

    row: int
    reason: str  # "prompt" (a prompt of at least the maximum length) or "capacity"
    value: int
    bound: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Requests:
    """Per row of the trace; times in ns, -1 where it never came to that.

    `generated`: tokens yielded, of all samples. `hit`: tokens found in the cache at the first
    admission. `resumed_hit`: the same, summed over re-admissions. `recomputed`: tokens computed
    again after preemptions. `longest`: tokens of the longest sample.
    """

    arrival_ns: Int64
    admitted_ns: Int64
    first_token_ns: Int64
    finish_ns: Int64
    generated: Int64
    hit: Int64
    resumed_hit: Int64
    preemptions: Int64
    recomputed: Int64
    status: Int64
    longest: Int64


@dataclass(frozen=True, eq=False, kw_only=True)
class Recording:
    """All that one run recorded. `rows` are its windows, as they are kept.

    `grouped` is int64[windows, 4], columns as in `Apart`; without rows where all layers are alike.
    `token_bytes`: slots that a token takes in all groups, 0 where a slot is a token.
    """

    capacity: int
    max_len: int
    rows: Rows
    starts: Int64 = field(default_factory=lambda: np.zeros((0, len(Start._fields)), np.int64))
    requests: Requests
    refused: tuple[Refusal, ...]
    free: tuple[int, ...] = field(default=())  # the free list at the end, where there is one
    evicted: int | None = None  # slots of cached content dropped in all, where that is counted
    token_bytes: int = 0
    grouped: Int64 = field(default_factory=lambda: np.zeros((0, len(Apart._fields)), np.int64))

    @property
    def windows(self) -> Int64:
        """int64[windows, 19], columns as in `Window`: all of `rows`, made anew each time."""
        return self.rows.table()

    def column(self, name: str) -> Int64:
        """One column of `windows` by the name of its field in `Window`."""
        return self.rows.column(name)


class Recorder:
    """Appends windows and starts to flat buffers: no object is kept for a window.

    Why not ``array.extend``: packing a row takes half the time.
    """

    def __init__(self) -> None:
        self.windows = Windows()
        self._starts = bytearray()
        self._grouped = bytearray()

    def add_start(self, offset: int, at_ns: int, grown: tuple[int, ...]) -> None:
        """Add a `Start` of the window that is added next; `grown` is all but its first three."""
        window = len(self.windows)
        if len(grown) > 3:
            self._starts += _PACK_BOTH(window, offset, at_ns, *grown)
        else:  # compiled, a starred argument takes longer than all the rest
            held, internal, cached = grown
            self._starts += _PACK_START(window, offset, at_ns, held, internal, cached)

    def add_apart(self, row: tuple[int, ...]) -> None:
        """Add an `Apart`, after its window."""
        self._grouped += _PACK_APART(*row)

    def tables(self) -> dict[str, Any]:
        """`rows`, `starts` and `grouped` of a `Recording`.

        They are the buffers themselves, so nothing can be added from then on.
        """
        more = len(StartApart._fields) if self._grouped else 0
        return {
            "rows": self.windows.rows(),
            "starts": _table(self._starts, len(Start._fields) + more),
            "grouped": _table(self._grouped, len(Apart._fields)),
        }


def _table(buffer: bytearray, columns: int) -> Int64:
    flat = np.frombuffer(buffer, np.int64) if buffer else np.zeros(0, np.int64)
    return flat.reshape(-1, columns)


__all__ = [
    "BLOCKED",
    "Apart",
    "Recorder",
    "Recording",
    "Refusal",
    "Requests",
    "Rows",
    "Start",
    "StartApart",
    "Status",
    "Window",
]
