"""The running batch, with counters that no step touches.

A sequence is *decoding* when it wants exactly one token, else *prefilling*. All that decode move
together, so their counters are kept once::

    computed = base + tick          k steps of everyone: tick += k, whatever the batch
    finishes at the end of the step that brings tick to  `last`  = final - base
    must ask for room in the step that finds tick at              room - base

`last` lives in a heap; entries that a preemption has overtaken stay and are recognised, for they no
longer equal their sequence's. Who must ask is found in `due`, by that tick modulo `period`. Where
all grow by equal blocks the period is the block: a sequence that is always granted its block asks
again a period later, so nobody moves at a block start. Else there is none, and who was granted
room is put where it asks next.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final

from pagedsim.engine.reach import FOR_EVER, Reach
from pagedsim.engine.request import NEVER, STOPPED, Clock, Request

_RANK: Final = attrgetter("rank")
_NO_PERIOD: Final = 1 << 62


class Batch:
    """Running sequences in order of admission, and totals over those that decode.

    `block`: slots by which all of them grow, 0 if they do not grow alike.
    """

    def __init__(self, block: int = 0) -> None:
        self.clock = Clock()
        self.running: list[Request] = []
        self.prefilling: list[Request] = []
        self.decoding = 0  # how many decode
        self.stored = 0  # Σ computed over them
        self._ranks: list[int] = []  # of `running`
        self._rank = 0
        self._last: list[tuple[int, int, Request]] = []
        self.period = block or _NO_PERIOD
        self.due: dict[int, list[Request]] = {}  # none is empty; each in running order
        self.mixed = NEVER  # a tick at which some who are due then have their room already
        self.uneven = False  # whether somebody may have more than a block ahead
        self.reaches: list[Reach] = []  # of the windows of those that decode
        self.until = FOR_EVER  # a tick that no window of many steps may pass

    # Membership: O(log running), and a list's shift of pointers.

    def join(self, seq: Request, hit: int) -> None:
        """Put `seq` at the end of the batch with `hit` tokens computed; it prefills."""
        self._rank += 1
        seq.rank = self._rank
        seq.base = hit
        self.running.append(seq)
        self._ranks.append(self._rank)
        self.prefilling.append(seq)

    def reserve(self, ranks: int) -> None:
        """Keep so many ranks behind the last to join, for those who will follow it."""
        self._rank += ranks

    def insert(self, seq: Request) -> None:
        """Put `seq`, which prefills, where its rank belongs."""
        at = bisect_left(self._ranks, seq.rank)
        self.running.insert(at, seq)
        self._ranks.insert(at, seq.rank)
        insort(self.prefilling, seq, key=_RANK)

    def leave(self, seq: Request) -> None:
        """Take `seq` out; its counters stay readable."""
        at = bisect_left(self._ranks, seq.rank)
        assert self.running[at] is seq
        del self.running[at], self._ranks[at]
        if seq.clock is STOPPED:
            self.prefilling.remove(seq)
            return
        self.unplace(seq)
        self.decoding -= 1
        for reach in self.reaches:
            reach.leave(seq.base, self.clock.tick)
        base = seq.base + self.clock.tick
        self.stored -= base
        seq.base = base
        seq.known = base + 1
        seq.clock = STOPPED
        seq.last = NEVER

    def decode(self, seq: Request) -> None:
        """`seq` has all but one of its tokens computed: from now on the clock moves it."""
        self.prefilling.remove(seq)
        self.decoding += 1
        self.stored += seq.base
        seq.base -= self.clock.tick
        seq.clock = self.clock
        for reach in self.reaches:
            reach.enter(seq.base, self.clock.tick)
        self._time(seq)
        self.place(seq)

    def hold_back(self, seq: Request) -> None:
        """The clock has moved, but `seq`, which has `given` room, was not in that step."""
        self.unplace(seq)
        for reach in self.reaches:
            reach.leave(seq.base, self.clock.tick)
            reach.enter(seq.base - 1, self.clock.tick)
        seq.base -= 1
        self.stored -= 1
        self._time(seq)
        self.place(seq)

    def _time(self, seq: Request) -> None:
        seq.last = seq.final - seq.base
        heappush(self._last, (seq.last, seq.rank, seq))

    # Time.

    def advance(self, steps: int) -> None:
        """All that decode have done `steps` steps. O(1)."""
        self.clock.tick += steps
        self.stored += steps * self.decoding

    def steps_left(self) -> int:
        """Whole steps until the next one of those that decode finishes, at its end, or `until`."""
        heap = self._last
        while heap[0][2].last != heap[0][0]:
            heappop(heap)
        last = heap[0][0]
        return (last if last < self.until else self.until) - self.clock.tick

    def finished(self) -> list[Request]:
        """Those that decode and have just finished, in running order; they leave."""
        heap, tick = self._last, self.clock.tick
        done: list[Request] = []
        while heap and heap[0][0] <= tick:
            last, rank, seq = heappop(heap)
            if seq.last == last and seq.rank == rank:  # else of before it was preempted
                self.leave(seq)
                done.append(seq)
        return done

    # Room.

    def place(self, seq: Request) -> None:
        """Note when a decoding `seq`, which has `given` room, must ask for more."""
        seq.place = place = (seq.given - seq.base) % self.period
        self.ahead(seq, seq.given, self.clock.tick)
        there = self.due.get(place)
        if there is None:
            self.due[place] = [seq]
        elif there[-1].rank < seq.rank:  # most often it follows them in the batch
            there.append(seq)
        else:
            insort(there, seq, key=_RANK)

    def ahead(self, seq: Request, room: int, tick: int) -> None:
        """A decoding `seq` has this much room at `tick`, by itself: others due with it may not."""
        due = room - seq.base
        if due > tick + self.period:
            self.uneven = True
        if (due - tick) % self.period == 0:
            self.mixed = tick

    def unplace(self, seq: Request) -> None:
        """`seq` is not waited for any more. O(those due with it)."""
        there = self.due[seq.place]
        there.remove(seq)
        if not there:
            del self.due[seq.place]


__all__ = ["Batch"]
