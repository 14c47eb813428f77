"""The device as a scheduler sees it: the batch, the queue, and the slots they hold."""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import Any

from pagedsim.engine.request import Request
from pagedsim.engine.rooms import NOBODY, Rooms
from pagedsim.protocols import (
    Allocator,
    Scheduler,
    SupportsRank,
    SupportsStates,
    SupportsSteady,
    headroom,
)


class State(Rooms):
    """A `BatchView`. `now_ns` is set by the engine before each plan."""

    def __init__(self, allocator: Allocator, scheduler: Scheduler, max_len: int) -> None:
        super().__init__(allocator)
        self.max_len = max_len
        self.state_block: int = getattr(allocator, "state_block", 0)
        self.running = self.batch.running
        self.prefilling = self.batch.prefilling
        self.rank = scheduler.rank if isinstance(scheduler, SupportsRank) else None
        self.waiting: Any = deque() if self.rank is None else []
        self.now_ns = 0
        self.pledged = 0
        self._headroom: dict[float, int] = {}
        self.head_first = isinstance(scheduler, SupportsSteady) and scheduler.head_first
        self.seen = NOBODY  # whose hit a plan asked for last, and what it was
        self._refused_at = 0  # slots that were held when somebody was refused last
        states = isinstance(allocator, SupportsStates) and self.state_block > 0
        self._unsettled = allocator.unsettled if states else None  # type: ignore[attr-defined]
        self._settles = False  # whether the head was refused a state that is there a step later

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
        self._looked = NOBODY
        if not self.allocator.admit(seq, tokens, whole=whole, spare=spare):
            if self.groups is not None:
                self._freed = False  # what was given back before that was not enough
                self._refused_at = self.allocator.usage().held
            if self._unsettled is not None and self._unsettled(seq):
                self._settles = True
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

    def forget(self) -> None:
        """A new plan begins: nobody was looked at."""
        self.seen = self._looked = NOBODY
        self._freed = self._settles = False

    def head_stirs(self) -> bool:
        """Whether the head of the queue could fare otherwise than when the plan looked at it.

        It could if it would hit more or less by now, if the state that it would hit was about to be
        computed, or if growing has given slots back. Windows do that all the time: who hits nothing
        fares the same as long as no less is held.
        """
        who, hit = self.seen
        if who is None or not self.waiting or self.waiting[0] is not who:
            return False
        if self._settles or (self.head_first and self._unsettled is not None):
            return True  # where states move on is not foreseen, and a head is looked at before
        if self._freed and (hit or self.groups is None):
            return True
        if self._freed and self.allocator.usage().held < self._refused_at:
            return True
        return self.allocator.cached(who) != hit

    def width(self, seq: Any) -> int:
        return 1

    def preempt(self, seq: Any) -> tuple[Any, ...]:
        seq.peak = max(seq.peak, seq.computed)
        self.leave(seq)
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


__all__ = ["State"]
