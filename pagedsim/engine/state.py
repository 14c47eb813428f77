"""The device as a scheduler sees it: the batch, the queue, and the slots they hold.

Every change of what is held goes through here, so two sums are kept instead of recounted: `spill`,
the slots that are held and never will be filled (*internal*), and what `Batch` keeps.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from operator import attrgetter
from typing import Any

from pagedsim.engine.batch import Batch, Request
from pagedsim.protocols import (
    Allocator,
    Scheduler,
    SupportsExtend,
    SupportsRank,
    headroom,
)

_RANK = attrgetter("rank")


class State:
    """A `BatchView`. `now_ns` is set by the engine before each plan."""

    def __init__(self, allocator: Allocator, scheduler: Scheduler, max_len: int) -> None:
        self.allocator, self.max_len = allocator, max_len
        self.batch = Batch()
        self.running = self.batch.running
        self.prefilling = self.batch.prefilling
        self.rank = scheduler.rank if isinstance(scheduler, SupportsRank) else None
        self.waiting: Any = deque() if self.rank is None else []
        self.now_ns = 0
        self.spill = 0
        self._headroom: dict[float, int] = {}
        self._extend = allocator.extend if isinstance(allocator, SupportsExtend) else None
        self._block = allocator.block if isinstance(allocator, SupportsExtend) else 0

    # What a scheduler sees and does.

    @property
    def decoding(self) -> int:
        return self.batch.decoding

    def cached(self, seq: Any) -> int:
        return self.allocator.cached(seq)

    def headroom(self, share: float) -> int:
        if share not in self._headroom:
            self._headroom[share] = headroom(self.allocator, share)
        return self._headroom[share]

    def admit(self, seq: Any, tokens: int, *, whole: int = 0, spare: int = 0) -> bool:
        hit = self.allocator.cached(seq)
        if not self.allocator.admit(seq, tokens, whole=whole, spare=spare):
            return False
        if self.waiting[0] is seq:
            del self.waiting[0]
        else:
            self.waiting.remove(seq)
        self.batch.join(seq, hit)
        self.fit(seq)
        if seq.admitted_ns < 0:
            seq.admitted_ns, seq.hit = self.now_ns, hit
        else:
            seq.resumed_hit += hit
        return True

    def grow(self, seq: Any, tokens: int) -> bool:
        if tokens <= seq.room:
            return True
        if not self.allocator.grow(seq, tokens):
            return False
        self.fit(seq)
        return True

    def grow_all(self, wants: dict[Any, int]) -> bool:
        needs = {seq: seq.base + count for seq, count in wants.items()}
        needy = [seq for seq, tokens in needs.items() if tokens > seq.room]
        asking = self.batch.due.get(self.batch.clock.tick)
        if asking and needy and needy[0].rank < next(reversed(asking)).rank:  # among each other
            order = sorted([*asking, *needy], key=_RANK)
            return all(self.grow(seq, needs.get(seq) or seq.computed + 1) for seq in order)
        if asking and self.grow_decoding(0) is None:
            return False
        return all(self.grow(seq, needs[seq]) for seq in needy)

    def grow_decoding(self, steps: int) -> int | None:
        """A token more of room to those who must ask for it in the step `steps` from now, in order.

        Returns the slots by which what is held has grown, 0 if nobody asks. None at the first
        refusal, or where more than what is held has changed; those served keep what they got.
        """
        tick = self.batch.clock.tick + steps
        bucket = self.batch.due.get(tick)
        if not bucket:
            return 0
        asking = list(bucket)
        if self._extend is None:
            before = self.allocator.usage()
            if not all(self.grow(seq, seq.base + tick + 1) for seq in asking):
                return None
            after = self.allocator.usage()
            return after.held - before.held if after[1:] == before[1:] else None
        given = self._extend(asking)
        served = asking if given == len(asking) else asking[:given]
        if served:
            self.spill += self.batch.extended(tick, served, self._block)
        return given * self._block if served is asking else None

    def preempt(self, seq: Any) -> None:
        seq.peak = max(seq.peak, seq.computed)
        self.batch.leave(seq)
        self.release(seq)
        seq.base = 0
        seq.preemptions += 1
        self.enqueue(seq, front=True)

    # What the engine does.

    def enqueue(self, seq: Request, *, front: bool = False) -> None:
        if self.rank is not None:
            insort(self.waiting, seq, key=self.rank)
        elif front:
            self.waiting.appendleft(seq)
        else:
            self.waiting.append(seq)

    def fit(self, seq: Request) -> None:
        """Note the room that `seq` has got, and what of it will never be filled."""
        seq.room = room = self.allocator.room(seq)
        spill = room - seq.final if room > seq.final else 0
        self.spill += spill - seq.spill
        seq.spill = spill
        if seq.decoding:
            self.batch.ask(seq)

    def release(self, seq: Request) -> None:
        self.allocator.release(seq)
        self.spill -= seq.spill
        seq.room = seq.spill = 0

    def keep(self, seq: Request) -> None:
        """`seq` is done, but all that it holds stays held, and none of it will be filled."""
        self.spill += seq.room - seq.spill
        seq.spill = seq.room


__all__ = ["State"]
