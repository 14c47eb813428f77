"""The device as a scheduler sees it: the batch, the queue, and the slots they hold.

Every change of what is held goes through here, so two sums are kept instead of recounted: `spill`,
the slots that are held and never will be filled (*internal*), and what `Batch` keeps.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from operator import attrgetter
from typing import Any

from pagedsim.engine.batch import Batch
from pagedsim.engine.request import STOPPED, Bucket, Request
from pagedsim.protocols import (
    Allocator,
    Scheduler,
    SupportsExtend,
    SupportsFill,
    SupportsRank,
    SupportsSteady,
    Usage,
    headroom,
)

_RANK = attrgetter("rank")
_NOTHING = (0, 0)
_NOBODY: tuple[Any, int] = (None, 0)


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
        self.pledged = 0
        self._headroom: dict[float, int] = {}
        self.head_first = isinstance(scheduler, SupportsSteady) and scheduler.head_first
        self._freed = False
        self.seen = _NOBODY  # whose hit a plan asked for last, and what it was
        self._looked = _NOBODY  # the same, as long as nothing has changed since
        equal = allocator if isinstance(allocator, SupportsExtend) else None
        self._extend = None if equal is None else equal.extend
        self._block = 0 if equal is None else equal.block
        self.fills = isinstance(allocator, SupportsFill) and allocator.fills
        self._fill = allocator.fill if self.fills else None  # type: ignore[attr-defined]

    # What a scheduler sees and does.

    @property
    def decoding(self) -> int:
        return self.batch.decoding

    def cached(self, seq: Any) -> int:
        self._looked = self.seen = (seq, self.allocator.cached(seq))
        return self.seen[1]

    def headroom(self, share: float) -> int:
        if share not in self._headroom:
            self._headroom[share] = headroom(self.allocator, share)
        return self._headroom[share]

    def admit(self, seq: Any, tokens: int, *, whole: int = 0, spare: int = 0) -> bool:
        who, hit = self._looked  # most often it was looked up just now
        if who is not seq:
            hit = self.allocator.cached(seq)
            self.seen = (seq, hit)
        self._looked = _NOBODY
        if not self.allocator.admit(seq, tokens, whole=whole, spare=spare):
            return False
        if self.waiting[0] is seq:
            del self.waiting[0]
        else:
            self.waiting.remove(seq)
        self.batch.join(seq, hit)
        self.fit(seq, tokens)
        if seq.admitted_ns < 0:
            seq.admitted_ns, seq.hit = self.now_ns, hit
        else:
            seq.resumed_hit += hit
        return True

    def grow(self, seq: Any, tokens: int) -> bool:
        if tokens < seq.room or (tokens == seq.room and self._fill is None):
            return True
        self._looked = _NOBODY
        before = self.allocator.usage().held if self._extend is None else 0
        if not self.allocator.grow(seq, tokens):
            return False
        if self._extend is None and self.allocator.usage().held < before:
            self._freed = True  # of two copies one was given back
        self.fit(seq, tokens)
        return True

    def grow_all(self, wants: dict[Any, int]) -> bool:
        if not wants:
            return self.grow_decoding(0) is not None
        needs = {seq: seq.base + count for seq, count in wants.items()}
        enough = 0 if self._fill is None else 1  # a block that is filled must be heard of too
        needy = [seq for seq, tokens in needs.items() if tokens > seq.given - enough]
        if needy:
            due, tick = self.batch.due, self.batch.clock.tick
            ticks = (tick, tick + 1) if enough else (tick,)
            among = [seq for each in ticks if each in due for seq in due[each].seqs]
            if among and needy[0].rank < max(seq.rank for seq in among):
                order = sorted({*among, *needy}, key=_RANK)
                return all(self.grow(seq, needs.get(seq) or seq.computed + 1) for seq in order)
        if self.grow_decoding(0) is None:
            return False
        return all(self.grow(seq, needs[seq]) for seq in needy)

    def grow_decoding(self, steps: int) -> tuple[int, int] | None:
        """A token more of room to those who must ask for it in the step `steps` from now, in order.

        Returns by how many slots what is held and what is cached have grown. None at the first
        refusal, or where anything else has changed; what was done stays done.
        """
        due, tick = self.batch.due, self.batch.clock.tick + steps
        bucket = due.get(tick)
        if self._fill is None:
            if bucket is None:
                return _NOTHING
            self._looked = _NOBODY
            if self._extend is None:
                return self._grow_each(list(bucket.seqs), tick)
            held = len(bucket.seqs) * self._block
            return (held, 0) if self._grow_equally(bucket) else None
        if bucket is None and tick + 1 not in due:
            return _NOTHING
        self._looked = _NOBODY
        before = self.allocator.usage()
        if bucket is not None and not self._grow_equally(bucket):
            return None
        if (full := due.get(tick + 1)) is not None:
            self._fill(list(full.seqs))
        return self._change(before)

    def _grow_equally(self, bucket: Bucket) -> bool:
        """A block to each of `bucket`."""
        assert self._extend is not None
        asking = list(bucket.seqs)
        given = self._extend(asking)
        if given == len(asking):
            self.spill += self.batch.extended(bucket, self._block)
            return True
        if given:
            served = self.batch.part(bucket, asking[:given])
            self.spill += self.batch.extended(served, self._block)
            self.batch.due[bucket.due] = bucket
        return False

    def _grow_each(self, asking: list[Request], tick: int) -> tuple[int, int] | None:
        before = self.allocator.usage()
        if not all(self.grow(seq, seq.base + tick + 1) for seq in asking):
            return None
        return self._change(before)

    def _change(self, before: Usage) -> tuple[int, int] | None:
        after = self.allocator.usage()
        if after[2:] != before[2:]:
            return None
        return after.held - before.held, after.cached - before.cached

    def forget(self) -> None:
        """A new plan begins: nobody was looked at."""
        self.seen = self._looked = _NOBODY
        self._freed = False

    def head_stirs(self) -> bool:
        """Whether the head of the queue could fare otherwise than when the plan looked at it.

        It could if it would hit more or less by now, or if growing has given slots back.
        """
        who, hit = self.seen
        if who is None or not self.waiting or self.waiting[0] is not who:
            return False
        return self._freed or self.allocator.cached(who) != hit

    def width(self, seq: Any) -> int:
        return 1

    def preempt(self, seq: Any) -> tuple[Any, ...]:
        seq.peak = max(seq.peak, seq.computed)
        self.batch.leave(seq)
        self.release(seq)
        seq.base = 0
        seq.preemptions += 1
        self.enqueue(seq, front=True)
        return (seq,)

    # What the engine does.

    def enqueue(self, seq: Request, *, front: bool = False) -> None:
        if self.rank is not None:
            insort(self.waiting, seq, key=self.rank)
        elif front:
            self.waiting.appendleft(seq)
        else:
            self.waiting.append(seq)

    def fit(self, seq: Request, tokens: int) -> None:
        """Note the room of `seq`, which holds `tokens` now, and what of it will never be filled."""
        block = self._block
        room = -(-tokens // block) * block if block else self.allocator.room(seq)
        spill = room - seq.final if room > seq.final else 0
        self.spill += spill - seq.spill
        seq.spill = spill
        seq.given = room
        if seq.clock is not STOPPED:
            self.batch.ask(seq, room)

    def release(self, seq: Request) -> None:
        self._looked = _NOBODY
        self.allocator.release(seq)
        self.spill -= seq.spill
        seq.given = seq.spill = 0

    def keep(self, seq: Request) -> None:
        """`seq` is done, but all that it holds stays held, and none of it will be filled."""
        self.spill += seq.room - seq.spill
        seq.spill = seq.room


__all__ = ["State"]
