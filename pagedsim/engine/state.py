"""The device as a scheduler sees it: the batch, the queue, and the slots they hold.

Every change of what is held goes through here, so two sums are kept instead of recounted: `spill`,
the slots that are held and never will be filled (*internal*), and what `Batch` keeps.

Where all grow by equal blocks, how much room a decoding sequence has is asked of the allocator when
it matters, which is seldom; and what its last block will spill is noted at the tick it is due::

    base + tick    0 ... block ... 2·block ... final
    granted at     |     |         | last block: spills -final % block, noted in `_spills`
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from operator import attrgetter
from typing import Any

from pagedsim.engine.batch import Batch
from pagedsim.engine.request import NEVER, STOPPED, Request
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
        equal = allocator if isinstance(allocator, SupportsExtend) else None
        self._extend = None if equal is None else equal.extend
        self._block = 0 if equal is None else equal.block
        self.batch = Batch(self._block)
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
        self._spills: dict[int, int] = {}  # by tick, what is spilt when who is due gets a block
        self._served = NEVER  # a tick at which all who are due have their block
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
        room = self.room(seq)
        if tokens < room or (tokens == room and self._fill is None):
            return True
        self._looked = _NOBODY
        if self._extend is not None:
            if not self.allocator.grow(seq, tokens):
                return False
        else:
            before = self.allocator.usage().held
            if not self.allocator.grow(seq, tokens):
                return False
            if self.allocator.usage().held < before:
                self._freed = True  # of two copies one was given back
        if self._block and seq.clock is not STOPPED:
            self._moved(seq, room)
        else:
            self.fit(seq, tokens)
        return True

    def grow_all(self, wants: dict[Any, int]) -> bool:
        if not wants:
            return self.grow_decoding(0) is not None
        needs = {seq: seq.base + count for seq, count in wants.items()}
        enough = 0 if self._fill is None else 1  # a block that is filled must be heard of too
        needy = [seq for seq, tokens in needs.items() if tokens > seq.given - enough]
        if needy:
            batch, tick = self.batch, self.batch.clock.tick
            ticks = (tick, tick + 1) if enough else (tick,)
            among = [seq for each in ticks for seq in batch.due.get(each % batch.period, ())]
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
        batch = self.batch
        tick, due = batch.clock.tick + steps, batch.due
        asking = due.get(tick % batch.period)
        if self._fill is None:
            if asking is None:
                return _NOTHING
            self._looked = _NOBODY
            if self._extend is None:
                return self._grow_each(list(asking), tick)
            given = self._give(asking, tick)
            return None if given < 0 else (given * self._block, 0)
        full = (tick + 1) % batch.period
        if asking is None and full not in due:
            return _NOTHING
        self._looked = _NOBODY
        before = self.allocator.usage()
        if asking is not None and self._give(asking, tick) < 0:
            return None
        if full in due:
            self._fill(self._filling(due[full], tick + 1))
        return self._change(before)

    def _filling(self, due: dict[Request, None], tick: int) -> list[Request]:
        if not self.batch.uneven:
            return list(due)
        room = self.allocator.room
        return [seq for seq in due if room(seq) == seq.base + tick]

    def _give(self, due: dict[Request, None], tick: int) -> int:
        """A block to each of those `due` at `tick` who lack one; how many, -1 at a refusal."""
        batch, extend = self.batch, self._extend
        assert extend is not None
        asking = list(due)
        alike = not batch.uneven and batch.mixed != tick
        if not alike:
            room = self.allocator.room
            asking = [seq for seq in asking if room(seq) <= seq.base + tick]
        elif self._served == tick:
            return 0
        given = extend(asking) if asking else 0
        if alike and given == len(asking):
            self._served = tick
            if tick in self._spills:
                self.spill += self._spills.pop(tick)
            return given
        for seq in asking[:given]:
            self._moved(seq, seq.base + tick)
        if given < len(asking):
            batch.mixed = tick
            return -1
        self._served, batch.mixed = tick, NEVER
        return given

    def _moved(self, seq: Request, before: int) -> None:
        """A decoding `seq` has got more room than `before`, by itself."""
        room, final = self.allocator.room(seq), seq.final
        self.batch.ahead(seq, room)
        if before < final:
            if room < final:
                return
            self._unspill(seq)
            before = final
        self.spill += room - before
        seq.spill += room - before

    def _spills_later(self, seq: Request) -> None:
        """Note what the last block of a decoding `seq` will spill, which it has not got yet."""
        if spill := -seq.final % self._block:
            tick = seq.final + spill - self._block - seq.base
            self._spills[tick] = self._spills.get(tick, 0) + spill
            seq.spill = spill

    def _unspill(self, seq: Request) -> None:
        """Take that back."""
        if seq.spill:
            self._spills[seq.final + seq.spill - self._block - seq.base] -= seq.spill
            seq.spill = 0

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

    def room(self, seq: Any) -> int:
        """Tokens that a running `seq` can store without asking again."""
        if self._block and seq.clock is not STOPPED:
            return self.allocator.room(seq)
        room: int = seq.given
        return room

    def preempt(self, seq: Any) -> tuple[Any, ...]:
        seq.peak = max(seq.peak, seq.computed)
        if self._block and seq.clock is not STOPPED and self.allocator.room(seq) < seq.final:
            self._unspill(seq)
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

    def decode(self, seq: Request) -> None:
        """`seq`, which ran, has all but one of its tokens computed."""
        self.batch.decode(seq)
        if self._block and seq.given < seq.final:
            self._spills_later(seq)

    def hold_back(self, seq: Request) -> None:
        """The clock has moved, but a decoding `seq` was not in that step."""
        if not self._block:
            self.batch.hold_back(seq)
            return
        seq.given = self.allocator.room(seq)
        if seq.given < seq.final:
            self._unspill(seq)
        self.batch.hold_back(seq)
        if seq.given < seq.final:
            self._spills_later(seq)

    def fit(self, seq: Request, tokens: int) -> None:
        """Note the room of `seq`, which holds `tokens` now, and what of it will never be filled."""
        block = self._block
        room = -(-tokens // block) * block if block else self.allocator.room(seq)
        spill = room - seq.final if room > seq.final else 0
        self.spill += spill - seq.spill
        seq.spill = spill
        if seq.clock is STOPPED:
            seq.given = room
        else:
            self.batch.unplace(seq)
            seq.given = room
            self.batch.place(seq)

    def release(self, seq: Request) -> None:
        self._looked = _NOBODY
        self.allocator.release(seq)
        self.spill -= seq.spill
        seq.given = seq.spill = 0

    def keep(self, seq: Request) -> None:
        """`seq` is done, but all that it holds stays held, and none of it will be filled."""
        room = self.allocator.room(seq)
        self.spill += room - seq.spill
        seq.spill = room


__all__ = ["State"]
