"""The running batch, with counters that no step touches.

A sequence is *decoding* when it wants exactly one token, else *prefilling*. All that decode move
together, so their counters are kept once::

    computed = base + tick          k steps of everyone: tick += k, whatever the batch
    finishes at the end of the step that brings tick to  `last`  = final - base
    must ask for room in the step that finds tick at      `due`  = room - base

`last` lives in a heap; entries that a preemption has overtaken stay and are recognised, for they no
longer equal their sequence's. `due` is kept for a bucket of sequences at once: those that grow by
equal blocks and are due together stay so, and a block start moves their bucket, not them.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from operator import attrgetter

from pagedsim.engine.request import NEVER, STOPPED, Bucket, Clock, Request

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
        self.due: dict[int, Bucket] = {}  # by tick, who must ask for room then; none is empty

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
        self._unask(seq)
        self.decoding -= 1
        seq.base += self.clock.tick
        self.stored -= seq.base
        seq.known = seq.base + 1
        seq.clock = STOPPED
        seq.last = NEVER

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
        self._unask(seq)
        seq.base -= 1
        self.stored -= 1
        self._time(seq)

    def _time(self, seq: Request) -> None:
        seq.last = seq.final - seq.base
        heappush(self._last, (seq.last, seq.rank, seq))
        self.ask(seq, seq.given)

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

    # Room.

    def ask(self, seq: Request, room: int) -> None:
        """A decoding `seq` has this much room; note when that runs out."""
        self._unask(seq)
        due = room - seq.base
        bucket = self.due.get(due)
        if bucket is None:
            seq.bucket = self.due[due] = Bucket(due, {seq: None}, seq.last)
        else:
            self._join(bucket, {seq: None}, seq.last)

    def _unask(self, seq: Request) -> None:
        """`seq` leaves its bucket; its room is then kept in `given`."""
        bucket = seq.bucket
        if bucket is not None:
            seq.given = bucket.due + seq.base
            seq.bucket = None
            del bucket.seqs[seq]
            if not bucket.seqs:
                self.due.pop(bucket.due, None)

    def extended(self, bucket: Bucket, block: int) -> int:
        """Each of `bucket` has got a block more; what is spilt, in slots. O(1) but for spills."""
        self.due.pop(bucket.due, None)
        bucket.due = due = bucket.due + block
        spilt = 0
        if due > bucket.soonest:
            spilt = _spill(bucket)
        there = self.due.get(due)
        if there is None:
            self.due[due] = bucket
        else:
            self._join(there, bucket.seqs, bucket.soonest)
        return spilt

    def part(self, bucket: Bucket, seqs: list[Request]) -> Bucket:
        """Those of `bucket` as one of their own, which is in no place yet."""
        for seq in seqs:
            del bucket.seqs[seq]
        own = Bucket(bucket.due, dict.fromkeys(seqs), bucket.soonest)
        for seq in seqs:
            seq.bucket = own
        return own

    def _join(self, bucket: Bucket, seqs: dict[Request, None], soonest: int) -> None:
        """More who are due together with `bucket`; most often they follow it in the batch."""
        for seq in seqs:
            seq.bucket = bucket
        if next(reversed(bucket.seqs)).rank > next(iter(seqs)).rank:
            bucket.seqs = dict.fromkeys(sorted((*bucket.seqs, *seqs), key=_RANK))
        else:
            bucket.seqs.update(seqs)
        bucket.soonest = min(bucket.soonest, soonest)


def _spill(bucket: Bucket) -> int:
    """Count what those of `bucket` that will finish before they fill their room have too much."""
    spilt, soonest = 0, bucket.due + (1 << 62)
    for seq in bucket.seqs:
        over = bucket.due - seq.last  # room - final
        if over > 0:
            spilt += over - seq.spill
            seq.spill = over
        elif seq.last < soonest:
            soonest = seq.last
    bucket.soonest = soonest
    return spilt


__all__ = ["Batch"]
