"""What a run leaves behind: a row a window, a row a request, and nothing derived.

A *window* is `steps` steps taken at once; its terms are those right after the allocations of its
first step. What can be derived (idle, queue length, waiting time) is derived by the report::

    step   start_ns                     end_ns
    | allocate |--------- compute ---------| yield, finish, release |

All columns are int64. ``live + reserved + internal + external + cached + idle = capacity``.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from pagedsim.protocols import Int64


class Window(NamedTuple):
    """One row of `Recording.windows`: counts, slots, ns. 18 int64, so 144 bytes."""

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
    held: int  # owned by sequences, a buddy's rounding included; no term of the account
    limit: int  # protocols.Limit, plus 4 when the head was blocked


BLOCKED = 4  # added to Window.limit


class Status(IntEnum):
    """How a request ended."""

    FINISHED = 0
    TRUNCATED = 1  # finished, at the maximum length
    REFUSED = 2  # before the run
    UNFINISHED = 3  # the run was stopped before it was done


class Refusal(NamedTuple):
    """A request that was refused before the run: `value` > `bound`, in tokens."""

    row: int
    reason: str  # "prompt" (a prompt of at least the maximum length) or "capacity"
    value: int
    bound: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Requests:
    """Per row of the trace; times in ns, -1 where it never came to that.

    `generated`: tokens yielded. `hit`: tokens found in the cache at the first admission.
    `resumed_hit`: the same, summed over re-admissions. `recomputed`: tokens computed again after
    preemptions.
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Recording:
    """All that one run recorded. `windows` is int64[windows, 18], columns as in `Window`."""

    capacity: int
    max_len: int
    windows: Int64
    requests: Requests
    refused: tuple[Refusal, ...]
    free: tuple[int, ...] = field(default=())  # the free list at the end, where there is one

    def column(self, name: str) -> Int64:
        """One column of `windows` by the name of its field in `Window`."""
        return self.windows[:, Window._fields.index(name)]


class Recorder:
    """Appends windows to one flat int64 buffer: no object is kept for a window."""

    def __init__(self) -> None:
        self._buffer = array("q")
        self.add = self._buffer.extend  # add(Window(...)) or any row of its 18 ints

    def windows(self) -> Int64:
        """int64[windows, 18], a copy."""
        flat = np.frombuffer(self._buffer, np.int64) if self._buffer else np.zeros(0, np.int64)
        return flat.reshape(-1, len(Window._fields)).copy()


__all__ = ["BLOCKED", "Recorder", "Recording", "Refusal", "Requests", "Status", "Window"]
