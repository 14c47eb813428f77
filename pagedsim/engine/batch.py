"""The running batch, with counters that no step touches.

A sequence is *decoding* when it wants exactly one token, else *prefilling*. All that decode move
together, so their counters are kept once::

    computed = base + tick          k steps of everyone: tick += k, whatever the batch
    finishes at the end of the step that brings tick to  `last`  = final - base
    must ask for room in the step that finds tick at      `due`  = room - base

`last` lives in a heap, `due` in buckets by tick. Entries that a preemption has overtaken stay and
are recognised, for they no longer equal their sequence's.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from operator import attrgetter


class Clock:
    """How many decode steps were taken."""

    __slots__ = ("tick",)

    def __init__(self) -> None:
        self.tick = 0


_STOPPED = Clock()  # for those that do not decode; it never moves
_NEVER = -1


class Request:
    """A request on the device, a `Foreseen` sequence to plug-ins; ordered by `rank` in a batch."""

    __slots__ = (
        "admitted_ns",
        "arrival_ns",
        "base",
        "clock",
        "due",
        "end",
        "final",
        "finish_ns",
        "first_token_ns",
        "hit",
        "id",
        "known",
        "last",
        "output",
        "peak",
        "preemptions",
        "priority",
        "prompt",
        "rank",
        "recomputed",
        "resumed_hit",
        "room",
        "spill",
    )

    def __init__(
        self, row: int, prompt: int, output: int, priority: int, arrival_ns: int, end: int
    ) -> None:
        self.id = row
        self.prompt = self.known = prompt
        self.output = output
        self.priority = priority
        self.arrival_ns = arrival_ns
        self.end = end  # tokens known when it finishes
        self.final = end - 1  # tokens stored at its largest
        self.clock = _STOPPED
        self.base = self.peak = self.rank = self.room = self.spill = 0
        self.due = self.last = _NEVER
        self.admitted_ns = self.first_token_ns = self.finish_ns = -1
        self.hit = self.resumed_hit = self.preemptions = self.recomputed = 0

    @property
    def computed(self) -> int:
        return self.base + self.clock.tick

    @property
    def tokens(self) -> int:
        return self.known if self.clock is _STOPPED else self.base + self.clock.tick + 1

    @property
    def decoding(self) -> bool:
        """Whether it wants exactly one token."""
        return self.clock is not _STOPPED


_RANK = attrgetter("rank")


class Batch:
    """Running sequences in order of admission, and totals over those that decode."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.running: list[Request] = []
        self.prefilling: list[Request] = []
        self.decoding = 0  # how many decode
        self.stored = 0  # Σ computed over them
        self._ranks = 0
        self._last: list[tuple[int, int, Request]] = []
        self._due: dict[int, list[Request]] = {}

    # Membership: O(log running), and a list's shift of pointers.

    def join(self, seq: Request, hit: int) -> None:
        """Put `seq` at the end of the batch with `hit` tokens computed; it prefills."""
        self._ranks += 1
        seq.rank = self._ranks
        seq.base = hit
        self.running.append(seq)
        self.prefilling.append(seq)

    def leave(self, seq: Request) -> None:
        """Take `seq` out; its counters stay readable."""
        at = bisect_left(self.running, seq.rank, key=_RANK)
        assert self.running[at] is seq
        del self.running[at]
        if seq.clock is _STOPPED:
            self.prefilling.remove(seq)
        else:
            self._stop(seq)

    def decode(self, seq: Request) -> None:
        """`seq` has all but one of its tokens computed: from now on the clock moves it."""
        self.prefilling.remove(seq)
        tick = self.clock.tick
        self.decoding += 1
        self.stored += seq.base
        seq.base -= tick
        seq.clock = self.clock
        self._time(seq)

    def hold_back(self, seq: Request) -> None:
        """The clock has moved, but `seq` was not in that step."""
        seq.base -= 1
        self.stored -= 1
        self._time(seq)

    def _stop(self, seq: Request) -> None:
        self.decoding -= 1
        self.stored -= seq.base + self.clock.tick
        seq.known = seq.base + self.clock.tick + 1
        seq.base = seq.known - 1
        seq.clock = _STOPPED
        seq.due = seq.last = _NEVER

    def _time(self, seq: Request) -> None:
        seq.last = seq.final - seq.base
        heapq.heappush(self._last, (seq.last, seq.rank, seq))
        self.ask(seq)

    # Time.

    def advance(self, steps: int) -> None:
        """All that decode have done `steps` steps. O(steps that had starts)."""
        tick, due = self.clock.tick, self._due
        past = range(tick, tick + steps)
        for key in past if steps < len(due) else [key for key in due if key in past]:
            due.pop(key, None)
        self.clock.tick = tick + steps
        self.stored += steps * self.decoding

    def steps_left(self) -> int:
        """Whole steps until the next one of those that decode finishes, at its end."""
        heap = self._last
        while heap[0][2].last != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] - self.clock.tick

    def finished(self) -> list[Request]:
        """Those that decode and have just finished, in running order; they leave."""
        heap, tick = self._last, self.clock.tick
        done: list[Request] = []
        while heap and heap[0][0] <= tick:
            last, _, seq = heapq.heappop(heap)
            if seq.last == last:
                seq.last = _NEVER  # its duplicates in the heap are overtaken
                done.append(seq)
        for seq in done:
            self.leave(seq)
        return done

    # Room.

    def ask(self, seq: Request) -> None:
        """Note when a decoding `seq` runs out of the room it has."""
        seq.due = due = seq.room - seq.base
        bucket = self._due.get(due)
        if bucket is None:
            self._due[due] = [seq]
        else:
            bucket.append(seq)

    def starting(self, steps: int) -> list[Request]:
        """Those that must ask for room in the step `steps` from now, in running order."""
        due = self.clock.tick + steps
        bucket = self._due.get(due)
        if bucket is None:
            return []
        asking = [seq for seq in bucket if seq.due == due]
        if len(asking) > 1:
            asking.sort(key=_RANK)
        return asking


__all__ = ["Batch", "Clock", "Request"]
