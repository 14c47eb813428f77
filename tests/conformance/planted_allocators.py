"""Allocators with one mistake each, and the laws that may be the first to show it.

Most of them are wrong in one method of an allocator that pagedsim ships. Where its parts are
renamed a plant fails loudly, for there is nothing left to override.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from pagedsim.alloc.buddy import Buddy
from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.holes import BestFit, FirstFit
from pagedsim.alloc.keyed import KeyedPaged
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.radix import Radix
from pagedsim.alloc.slots import Slots
from pagedsim.protocols import Usage

PLANTED: dict[str, tuple[Callable[..., Any], set[str]]] = {}


def plant(*laws: str, **given: Any) -> Callable[[type], type]:
    """Note a class, made with `given`, as one that breaks one of `laws`."""

    def note(kind: type) -> type:
        PLANTED[kind.__name__] = (partial(kind, **given), set(laws))
        return kind

    return note


def in_space(*laws: str) -> Callable[[type], type]:
    """Note a linear space, as the one of a contiguous allocator that reserves what is needed."""

    def note(space: type) -> type:
        class Spoilt(Contiguous):
            def __init__(self, capacity: int, *, max_len: int) -> None:
                super().__init__(capacity, max_len=max_len, reserve="exact")
                self._space = space(capacity)
                self._largest = self._space.largest()
                self.longest = self._longest()

        Spoilt.__name__ = space.__name__
        PLANTED[space.__name__] = (Spoilt, set(laws))
        return space

    return note


@plant("blocks", "usage", "empty", "longest")
class LeaksABlock(Paged):
    """The last block of a longer table does not come back."""

    def release(self, seq: Any, /) -> None:
        if len(self._table(seq)) > 2:
            self._table(seq).pop()
        super().release(seq)


@plant("blocks", "slots", "no alias", "usage", "conservation")
class HandsOutTwice(Paged):
    """A block stays on the list when it is taken while two others hold something."""

    def admit(self, seq: Any, tokens: int, /, **more: Any) -> bool:
        granted = super().admit(seq, tokens, **more)
        if granted and len(self._tables) == 3:
            self._free.insert(0, self._tables[seq][-1])
        return granted


@plant("refusal", "determinism", "blocks")
class TakesBeforeItRefuses(Paged):
    """Growth is block by block, and what was taken before the refusal stays."""

    def grow(self, seq: Any, tokens: int, /) -> bool:
        while self.room(seq) < tokens:
            if not super().grow(seq, self.room(seq) + 1):
                return False
        return True


@plant("enough", "content", "usage", "extend")
class OneShortAtTheEdge(Paged):
    """A token that starts a block gets none."""

    def grow(self, seq: Any, tokens: int, /) -> bool:
        return super().grow(seq, tokens - (tokens % self.block == 1 and tokens > 1))


@plant("within room", "no timid refusal", "longest", "usage", "extend")
class OneTooManyAtTheEdge(Paged):
    """A token that fills a block takes the next one as well."""

    def grow(self, seq: Any, tokens: int, /) -> bool:
        return super().grow(seq, tokens + 1)


@plant("spare")
class IgnoresWhole(Paged):
    def admit(self, seq: Any, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        return super().admit(seq, tokens, spare=spare)


@plant("spare")
class IgnoresSpare(Contiguous):
    def admit(self, seq: Any, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        return super().admit(seq, tokens, whole=whole)


@plant("no timid refusal", "longest")
class KeepsABlockBack(Paged):
    """Refuses the last block."""

    def grow(self, seq: Any, tokens: int, /) -> bool:
        if len(self._free) == 1 and tokens > self.room(seq):
            return False
        return super().grow(seq, tokens)


@plant("extend")
class TimidExtend(Paged):
    """Serves one fewer than it could."""

    def extend(self, seqs: Any, /) -> int:
        return super().extend(seqs[: max(1, len(self._free) - 1)])


@plant("extend", "blocks", "slots", "no alias")
class GreedyExtend(Paged):
    """Says that it served all, however many blocks there were."""

    def extend(self, seqs: Any, /) -> int:
        super().extend(seqs)
        return len(seqs)


@plant("extend")
class ExtendsInReverse(Paged):
    def extend(self, seqs: Any, /) -> int:
        return super().extend(list(seqs)[::-1])


@plant("fill", "determinism", "blocks", "conservation")
class FillsNothing(PrefixPaged):
    """Blocks that decoding fills are never found again."""

    def fill(self, seqs: Any, /) -> None:
        pass


@plant("hits", "content", "determinism", "slots")
class StaleKeys(KeyedPaged):
    """A block taken for something else keeps its key."""

    def _forget(self, block: int) -> None:
        self._cached -= 1
        self._key[block] = -1


@plant("hits", "calls")
class HitsTheLastToken(PrefixPaged):
    """Nothing would be left to compute."""

    def _look_up(self, seq: Any, tokens: int) -> Any:
        return super()._look_up(seq, tokens + 1)


@plant("usage", "blocks", "no alias", "slots", "content", "empty", "conservation", "calls")
class ReferenceUnderflow(KeyedPaged):
    """A block is free when the first of its holders leaves."""

    def release(self, seq: Any, /) -> None:
        self._all_holders[list(self._table(seq))] = 1
        super().release(seq)


@plant("usage", "blocks", "empty", "conservation", "determinism")
class CountsHoldersOnce(KeyedPaged):
    """A hit on a block that is held already is not counted."""

    def admit(self, seq: Any, tokens: int, /, **more: Any) -> bool:
        held = [int(block) for block in self.hits(seq) if self._holders[block]]
        granted = super().admit(seq, tokens, **more)
        if granted and held:
            self._holders[held[0]] -= 1
        return granted


@plant("no move", "content", "within room", "extend")
class MovesKv(Paged):
    """Compacts: a growing table is swapped for blocks that are free."""

    def grow(self, seq: Any, tokens: int, /) -> bool:
        granted = super().grow(seq, tokens)
        table = self._table(seq)
        if granted and self._free and self._free[-1] < table[0]:
            table[0], self._free[-1] = self._free[-1], table[0]
        return granted


@plant("calls", "determinism", "longest")
class LosesAnEvictedPage(Radix):
    """A page that is evicted does not come back."""

    def admit(self, seq: Any, tokens: int, /, **more: Any) -> bool:
        before = self.tree.evictable
        granted = super().admit(seq, tokens, **more)
        if granted and self.tree.evictable < before and len(self.tree.free):
            self.tree.free.take(1)
        return granted


@plant("no alias", "calls", "within room", "usage", "conservation")
class NeverCopies(Paged):
    """Missing copy on write: those that share a block that is not full write into it."""

    def fork(self, parent: Any, child: Any, tokens: int, /) -> None:
        super().fork(parent, child, tokens)
        self._tails.clear()


@plant("blocks", "usage", "no alias", "slots", "conservation", "calls", "content", "empty")
class ForgetsForks(Paged):
    """The first to leave takes the blocks of all with it."""

    def fork(self, parent: Any, child: Any, tokens: int, /) -> None:
        super().fork(parent, child, tokens)
        self._more.clear()


@plant("fork", "usage", "extend", "determinism", "empty", "conservation")
class ForksCopy(Paged):
    """A fork copies the block that is not full at once."""

    def fork(self, parent: Any, child: Any, tokens: int, /) -> None:
        super().fork(parent, child, tokens)
        if self._free:
            self.grow(child, self.room(child) + 1)


@in_space("longest")
class NeverJoins(FirstFit):
    def give(self, start: int, size: int) -> None:
        self._insert(start, size)


@in_space("longest")
class JoinsOnlyRight(BestFit):
    def give(self, start: int, size: int) -> None:
        if start + size in self._sizes:
            size += self._remove(start + size)
        self._insert(start, size)


@in_space("slots", "no alias", "usage", "calls")
class CutsOneShort(FirstFit):
    def take(self, size: int) -> int | None:
        return super().take(max(size - 1, 1))


@in_space("longest")
class NeverJoinsBuddies(Buddy):
    """No coalescing."""

    def _discard(self, order: int, start: int) -> bool:
        return False


@in_space("slots", "no alias", "calls", "longest", "holes")
class JoinsTakenBuddies(Buddy):
    """Does not ask whether the buddy is free."""

    def _discard(self, order: int, start: int) -> bool:
        return super()._discard(order, start) or order < 2


@in_space("usage", "slots", "no alias", "conservation", "calls")
class RoundsDown(Buddy):
    def rounded(self, size: int) -> int:
        return 1 << size.bit_length() - 1


@plant("longest", "calls", reserve="exact")
class PromisesTooMuch(Contiguous):
    def _longest(self) -> int:
        return self.capacity + 1


@plant("enough", "usage", place="buddy", reserve="exact")
class CountsRoundingAsRoom(Contiguous):
    def room(self, seq: Any, /) -> int:
        return self._space.rounded(self._extent(seq)[1])


@plant("misuse", n=3)
class ReleasesTwice(Slots):
    def release(self, seq: Any, /) -> None:
        if seq in self._places:
            super().release(seq)


@plant("hits", "determinism")
class LooksAndTakes(PrefixPaged):
    """A look-up moves what it finds to the back of the list."""

    def cached(self, seq: Any, /) -> int:
        for stretch in self._hit(seq).stretches:
            if not stretch.holders:
                self._free.remove(stretch)
                self._free.put_back(stretch)
        return super().cached(seq)


@plant("determinism")
class DependsOnChance(Paged):
    """Takes any free block."""

    random = Random(7)

    def _take(self, blocks: int) -> list[int]:
        self.random.shuffle(self._free)
        return super()._take(blocks)


@plant("less room")
class AvoidsSlivers:
    """Counts slots, and refuses who would leave just one."""

    def __init__(self, capacity: int) -> None:
        self.capacity = self.longest = capacity
        self._held: dict[Any, int] = {}

    def cached(self, seq: Any, /) -> int:
        return 0

    def admit(self, seq: Any, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        if seq in self._held:
            raise ValueError("twice")
        left = self.capacity - self.usage().held - max(tokens, whole) - spare
        if left < 0 or (left == 1 and self._held):
            return False
        self._held[seq] = tokens
        return True

    def grow(self, seq: Any, tokens: int, /) -> bool:
        if tokens - self._held[seq] > self.capacity - self.usage().held:
            return False
        self._held[seq] = max(tokens, self._held[seq])
        return True

    def release(self, seq: Any, /) -> None:
        del self._held[seq]

    def room(self, seq: Any, /) -> int:
        return self._held[seq]

    def usage(self) -> Usage:
        return Usage(sum(self._held.values()))
