"""What a run leaves behind: a row a window, a row a request, and nothing derived.

A *window* is `steps` steps taken at once; its terms are those right after the allocations of its
first step. What can be derived (idle, queue length, waiting time) is derived by the report. A
window of one step::

    step   start_ns                     end_ns
    | allocate |--------- compute ---------| yield, finish, release |

In a longer one only lengths change: step j (0, 1, …) has ``j · sequences`` more pairs, context and
live slots than the first (with groups of layers as many live bytes as `Apart` says), and holds what
`Start` rows add. Nobody joins, leaves or is preempted.

All columns are int64. ``live + reserved + internal + external + cached + idle = capacity``; with
groups of layers ``padding + outside`` as well (`Apart`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from pagedsim.protocols import Int64


class Window(NamedTuple):
    """One row of `Recording.windows`: counts, slots, ns. 19 int64, so 152 bytes."""

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


BLOCKED = 4  # added to Window.limit


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
    """All that one run recorded. `windows` is int64[windows, 19], columns as in `Window`.

    `grouped` is int64[windows, 4], columns as in `Apart`; without rows where all layers are alike.
    `token_bytes`: slots that a token takes in all groups, 0 where a slot is a token.
    """

    capacity: int
    max_len: int
    windows: Int64
    starts: Int64 = field(default_factory=lambda: np.zeros((0, len(Start._fields)), np.int64))
    requests: Requests
    refused: tuple[Refusal, ...]
    free: tuple[int, ...] = field(default=())  # the free list at the end, where there is one
    evicted: int | None = None  # slots of cached content dropped in all, where that is counted
    token_bytes: int = 0
    grouped: Int64 = field(default_factory=lambda: np.zeros((0, len(Apart._fields)), np.int64))

    def column(self, name: str) -> Int64:
        """One column of `windows` by the name of its field in `Window`."""
        return self.windows[:, Window._fields.index(name)]


class Recorder:
    """Appends windows and starts to flat buffers of int64: no object is kept for a window.

    Why not ``array.extend``: packing a row takes half the time.
    """

    def __init__(self) -> None:
        self._windows = bytearray()
        self._starts = array("q")
        self._grouped = array("q")
        self._pack = Struct(f"={len(Window._fields)}q").pack
        self.add_starts = self._starts.extend  # rows of Start, one after another
        self.add_apart = self._grouped.extend  # a row of Apart, after its window
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, row: Iterable[int]) -> None:
        """Add a `Window`, or any row of its 19 ints."""
        self._windows += self._pack(*row)
        self._count += 1

    def tables(self) -> dict[str, Any]:
        """`windows`, `starts` and `grouped` of a `Recording`.

        They are the buffers themselves, so nothing can be added from then on.
        """
        more = len(StartApart._fields) if self._grouped else 0
        return {
            "windows": _table(self._windows, len(Window._fields)),
            "starts": _table(self._starts, len(Start._fields) + more),
            "grouped": _table(self._grouped, len(Apart._fields)),
        }


def _table(buffer: array[int] | bytearray, columns: int) -> Int64:
    flat = np.frombuffer(buffer, np.int64) if buffer else np.zeros(0, np.int64)
    return flat.reshape(-1, columns)


__all__ = [
    "BLOCKED",
    "Apart",
    "Recorder",
    "Recording",
    "Refusal",
    "Requests",
    "Start",
    "StartApart",
    "Status",
    "Window",
]
