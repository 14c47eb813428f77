"""The running batch, with counters that no step touches.

A sequence is *decoding* when it wants exactly one token, else *prefilling*. All that decode move
together, so their counters are kept once::

    computed = base + tick          k steps of everyone: tick += k, whatever the batch
    finishes at the end of the step that brings tick to  `last`  = final - base
    must ask for room in the step that finds tick at      `due`  = room - base

`last` lives in a heap; entries that a preemption has overtaken stay and are recognised, for they no
longer equal their sequence's. `due` lives in buckets by tick, each sequence in one of them.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from operator import attrgetter

from pagedsim.engine.request import NEVER, STOPPED, Clock, Request

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
        self.due: dict[int, dict[Request, None]] = {}  # by tick, who must ask for room then

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
        if seq.clock is STOPPED:
            self.prefilling.remove(seq)
            return
        self.decoding -= 1
        seq.base += self.clock.tick
        self.stored -= seq.base
        seq.known = seq.base + 1
        seq.clock = STOPPED
        seq.last = NEVER
        self._unask(seq)

    def decode(self, seq: Request) -> None:
        """`seq` has all but one of its tokens computed: from now on the clock moves it."""
        self.prefilling.remove(seq)
        self.decoding += 1
        self.stored += seq.base
        seq.base -= self.clock.tick
        seq.clock = self.clock
        self._time(seq)

    def hold_back(self, seq: Request) -> None:
        """The clock has moved, but `seq` was not in that step."""
        seq.base -= 1
        self.stored -= 1
        self._time(seq)

    def _time(self, seq: Request) -> None:
        seq.last = seq.final - seq.base
        heappush(self._last, (seq.last, seq.rank, seq))
        self.ask(seq)

    # Time.

    def advance(self, steps: int) -> None:
        """All that decode have done `steps` steps. O(steps), or O(buckets) if that is less."""
        tick, due = self.clock.tick, self.due
        past = range(tick, tick + steps)
        for key in past if steps < len(due) else [key for key in due if key in past]:
            due.pop(key, None)
        self.clock.tick = tick + steps
        self.stored += steps * self.decoding

    def steps_left(self) -> int:
        """Whole steps until the next one of those that decode finishes, at its end."""
        heap = self._last
        while heap[0][2].last != heap[0][0]:
            heappop(heap)
        return heap[0][0] - self.clock.tick

    def finished(self) -> list[Request]:
        """Those that decode and have just finished, in running order; they leave."""
        heap, tick = self._last, self.clock.tick
        done: list[Request] = []
        while heap and heap[0][0] <= tick:
            last, _, seq = heappop(heap)
            if seq.last == last:
                self.leave(seq)
                done.append(seq)
        return done

    # Room. A bucket is in running order.

    def ask(self, seq: Request) -> None:
        """Note when a decoding `seq` runs out of the room it has."""
        self._unask(seq)
        seq.due = due = seq.room - seq.base
        bucket = self.due.get(due)
        if bucket is None:
            self.due[due] = {seq: None}
        else:
            self.due[due] = _merged(bucket, {seq: None})

    def _unask(self, seq: Request) -> None:
        bucket = self.due.get(seq.due)
        if bucket is not None:
            bucket.pop(seq, None)
        seq.due = NEVER

    def extended(self, due: int, seqs: list[Request], block: int) -> int:
        """Each of `seqs`, due at that tick, has got a block more; what is spilt, in slots.

        They are due together again, so where all of a bucket got one, the bucket moves as a whole.
        """
        bucket = self.due[due]
        if len(bucket) == len(seqs):
            del self.due[due]
        else:
            for seq in seqs:
                del bucket[seq]
            bucket = dict.fromkeys(seqs)
        due += block
        spilt = 0
        for seq in seqs:
            seq.due = due
            seq.room = room = seq.room + block
            if room > seq.final:
                seq.spill = room - seq.final
                spilt += seq.spill
        there = self.due.get(due)
        self.due[due] = _merged(bucket, there) if there else bucket
        return spilt


def _merged(one: dict[Request, None], other: dict[Request, None]) -> dict[Request, None]:
    """Two buckets as one, in running order; most often the second follows the first."""
    if one and next(reversed(one)).rank > next(iter(other)).rank:
        return dict.fromkeys(sorted((*one, *other), key=_RANK))
    one.update(other)
    return one


__all__ = ["Batch"]
