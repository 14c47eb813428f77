"""Room: who holds how many slots, who must ask for more, and what is held for nothing.

Every change of what is held goes through here, so two sums are kept instead of recounted: `spill`,
the slots that are held and never will be filled (*internal*), and what `Batch` keeps.

Where all grow by equal blocks, how much room a decoding sequence has is asked of the allocator when
it matters, which is seldom; and what its last block will spill is noted at the tick it is due::

    base + tick    0 ... block ... 2·block ... final
    granted at     |     |         | last block: spills -final % block, noted in `_spills`
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from pagedsim.engine.batch import Batch
from pagedsim.engine.grouped import GroupAccount
from pagedsim.engine.request import NEVER, STOPPED, Request
from pagedsim.protocols import (
    Allocator,
    SupportsExtend,
    SupportsFill,
    SupportsGroups,
    SupportsSlots,
    Usage,
)

_RANK: Final = attrgetter("rank")
_NOTHING: Final[tuple[int, ...]] = ()
NOBODY: Final[tuple[Any, int]] = (None, 0)


class Rooms:
    """The slots that a batch holds, kept in step with its allocator."""

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        grouped = allocator if isinstance(allocator, SupportsGroups) else None
        alike = isinstance(allocator, SupportsExtend) and grouped is None
        equal: Any = allocator if alike else None
        self._extend = None if equal is None else equal.extend
        self._block = 0 if equal is None else equal.block
        self.batch = Batch(self._block)
        self.spill = 0
        self._spills: dict[int, int] = {}  # by tick, what is spilt when who is due gets a block
        self._served = NEVER  # a tick at which all who are due have their block
        self.fills = alike and isinstance(allocator, SupportsFill) and allocator.fills
        self._fill = allocator.fill if self.fills else None  # type: ignore[attr-defined]
        self._trim = grouped.trim if grouped is not None and grouped.windowed else None
        self.groups = None if grouped is None else GroupAccount(allocator, self.batch)
        self._looked = NOBODY  # who was looked up, and its hit, as long as nothing has changed
        self.used: Usage | None = None  # as it is, where `terms` or growth has just asked
        self._freed = False  # whether growing has given slots back since a plan looked at the head

    def room(self, seq: Any) -> int:
        """Tokens that a running `seq` can store without asking again."""
        if self._block and seq.clock is not STOPPED:
            return self.allocator.room(seq)
        room: int = seq.given
        return room

    def grow(self, seq: Any, tokens: int) -> bool:
        room = self.room(seq)
        enough = tokens < room or (tokens == room and self._fill is None)
        if enough and (self._trim is None or not self._ahead(seq, tokens - 1)):
            return True
        self._looked = NOBODY
        if self._extend is None:
            return self._grow(seq, tokens, seq.computed)
        if not self.allocator.grow(seq, tokens):
            return False
        if self._block and seq.clock is not STOPPED:
            self._moved(seq, room, self.batch.clock.tick)
        else:
            self.fit(seq, tokens)
        return True

    def _ahead(self, seq: Request, tokens: int) -> bool:
        """Whether more than `tokens` were asked for: what a window leaves may go within `room`."""
        return self.groups is not None and self.groups.covered(seq) > tokens

    def _grow(self, seq: Request, tokens: int, computed: int) -> bool:
        """`grow` beyond the room of `seq`, which has so many computed by then."""
        if self.groups is not None:
            if self._trim is not None:
                self._freed = self._trim(seq, computed) or self._freed
            if not self.allocator.grow(seq, tokens):
                return False
        else:
            before = self.allocator.usage().held
            if not self.allocator.grow(seq, tokens):
                return False
            if self.allocator.usage().held < before:
                self._freed = True  # of two copies one was given back
        self.fit(seq, tokens)
        return True

    def grow_all(self, wants: dict[Any, int]) -> bool:
        if not wants:
            return self._grow_due(self.batch.clock.tick)
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
        if not self._grow_due(self.batch.clock.tick):
            return False
        return all(self.grow(seq, needs[seq]) for seq in needy)

    def grow_decoding(self, steps: int) -> tuple[int, ...] | None:
        """A token more of room to those who must ask for it in the step `steps` from now, in order.

        Returns the amounts of a row of `Start`, nothing where all are 0. None at the first refusal,
        or where anything else has changed; what was done stays done.
        """
        batch = self.batch
        tick, due = batch.clock.tick + steps, batch.due
        asking = due.get(tick % batch.period)
        if self._fill is None:
            if asking is None:
                return _NOTHING
            if self._extend is not None:
                self._looked = NOBODY
                spill = self.spill
                given = self._give(asking, tick)
                if given < 0:
                    return None
                spill = self.spill - spill
                return (given * self._block, spill, 0) if given or spill else _NOTHING
        elif asking is None and (tick + 1) % batch.period not in due:
            return _NOTHING
        before = self.used or self.allocator.usage()
        self.used = None
        spill, groups = self.spill, self.groups
        blocks = () if groups is None else groups.blocks()
        if not self._grow_due(tick):
            return None
        spill = self.spill - spill
        if groups is not None:
            return groups.change(before, blocks, spill)
        self.used = after = self.allocator.usage()
        if after[2:] != before[2:]:
            return None
        held, cached = after[0] - before[0], after[1] - before[1]
        return (held, spill, cached) if held or cached or spill else _NOTHING

    def _grow_due(self, tick: int) -> bool:
        """The same for the step at `tick`; whether nobody was refused."""
        due, period = self.batch.due, self.batch.period
        asking = due.get(tick % period)
        if asking is not None:
            self._looked = NOBODY
            if self._extend is None:
                return all(
                    self._grow(seq, seq.base + tick + 1, seq.base + tick) for seq in list(asking)
                )
            if self._give(asking, tick) < 0:
                return False
        if self._fill is not None and (full := due.get((tick + 1) % period)) is not None:
            self._looked = NOBODY
            self._fill(self._filling(full, tick + 1))
        return True

    def _give(self, due: list[Request], tick: int) -> int:
        """A block to each of those `due` at `tick` who lack one; how many, -1 at a refusal."""
        batch, extend = self.batch, self._extend
        assert extend is not None
        asking = due
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
            self._moved(seq, seq.base + tick, tick)
        if given < len(asking):
            batch.mixed = tick
            return -1
        self._served, batch.mixed = tick, NEVER
        return given

    def _filling(self, due: list[Request], tick: int) -> list[Request]:
        if not self.batch.uneven:
            return due
        room = self.allocator.room
        return [seq for seq in due if room(seq) == seq.base + tick]

    def decode(self, seq: Request) -> None:
        """`seq`, which ran, has all but one of its tokens computed."""
        if self._trim is not None and self._ahead(seq, seq.base):
            seq.given = seq.base
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

    def leave(self, seq: Request) -> None:
        """Take a running `seq` out of the batch before its end."""
        if self._block and seq.clock is not STOPPED and self.allocator.room(seq) < seq.final:
            self._unspill(seq)
        self.batch.leave(seq)

    def fit(self, seq: Request, tokens: int) -> None:
        """Note the room of `seq`, which holds `tokens` now, and what of it will never be filled."""
        block = self._block
        room = -(-tokens // block) * block if block else self.allocator.room(seq)
        spill = room - seq.final if room > seq.final else 0
        if self.groups is not None:
            spill = self.groups.spill(seq)
            if self._ahead(seq, tokens):
                room = tokens  # so it asks at every step
        self.spill += spill - seq.spill
        seq.spill = spill
        if seq.clock is STOPPED:
            seq.given = room
        else:
            self.batch.unplace(seq)
            seq.given = room
            self.batch.place(seq)

    def release(self, seq: Request) -> None:
        self._looked = NOBODY
        self.allocator.release(seq)
        if self.groups is not None:
            self.groups.release(seq)
        self.spill -= seq.spill
        seq.given = seq.spill = 0

    def keep(self, seq: Request) -> None:
        """`seq` is done, but all that it holds stays held, and none of it will be filled.

        That may be more than `room`, which only says how far it would not have had to ask. O(room).
        """
        allocator = self.allocator
        if self.groups is not None:
            held = self.groups.keep(seq)
        elif isinstance(allocator, SupportsSlots):
            held = len(allocator.slots(seq))
        else:
            held = allocator.room(seq)
        self.spill += held - seq.spill
        seq.spill = held

    def _moved(self, seq: Request, before: int, tick: int) -> None:
        """A decoding `seq` has got more room than `before`, by itself, for the step at `tick`."""
        room, final = self.allocator.room(seq), seq.final
        self.batch.ahead(seq, room, tick)
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


__all__ = ["NOBODY", "Rooms"]
