"""Radix against the plain model and the shadow of every slot; planted bugs are found."""

from __future__ import annotations

from typing import Any

import pytest
from radix_play import assert_rejects, run

from pagedsim.alloc.radix import Radix
from pagedsim.alloc.radix_free import FreePages
from pagedsim.alloc.radix_held import Held
from pagedsim.alloc.radix_tree import Node, RadixTree


def make(capacity: int, page: int, evict: str) -> Radix:
    return Radix(capacity, page=page, evict=evict)


def test_it_equals_the_model_and_every_slot_is_right() -> None:
    run(make, examples=300)


class EvictsBeforeItLocks(RadixTree):
    """The lock on the hit path is missing while slots are taken for the rest."""

    def lock(self, node: Node) -> None:
        self.late = node

    def reserve(self, tokens: int) -> int | None:
        evicted = super().reserve(tokens)
        self.lock_late()
        return evicted

    def unlock(self, node: Node) -> None:
        self.lock_late()
        super().unlock(node)

    def lock_late(self) -> None:
        node, self.late = getattr(self, "late", None), None
        if node is not None:
            super().lock(node)


class SplitsWithoutLocks(RadixTree):
    def _split(self, lower: Node, at: int) -> Node:
        upper = super()._split(lower, at)
        upper.locks = 0
        return upper


class EvictsLocked(RadixTree):
    def _candidate(self, node: Node) -> bool:
        return not node.children and node.parent is not None


class ForgetsTheLowerPart(RadixTree):
    """Only the upper part of a split has the new access time."""

    def _split(self, lower: Node, at: int) -> Node:
        upper = super()._split(lower, at)
        lower.touched -= 1
        return upper


class ForgetsParents(RadixTree):
    """A parent that became a leaf is no candidate."""

    def _drop(self, node: Node) -> int:
        parent = node.parent
        assert parent is not None
        parent.queued = self.rank(parent)
        size = super()._drop(node)
        parent.queued = None
        return size


class KeepsOldRanks(RadixTree):
    """A leaf that is used again keeps its place in the order."""

    def _offer(self, node: Node) -> None:
        if node.queued is None:
            super()._offer(node)


class ComparesTokens(RadixTree):
    """Lengths are not cut down to whole pages."""

    def peek(self, salt: int, runs: Any, tokens: int) -> tuple[int, int]:
        found, loose = super().peek(salt, runs, tokens)
        return (tokens, loose) if tokens - found < self.page > 1 else (found, loose)


class MixesSalts(RadixTree):
    def match(self, salt: int, runs: Any, tokens: int) -> tuple[Node, int]:
        return super().match(0, runs, tokens)

    def peek(self, salt: int, runs: Any, tokens: int) -> tuple[int, int]:
        return super().peek(0, runs, tokens)


class AsksTooLittle(RadixTree):
    """Above page 1 a page more than needed is evicted for."""

    def reserve(self, tokens: int) -> int | None:
        return self.evict(tokens - self.available) if tokens > self.available else None


class GivesSorted(FreePages):
    def give(self, group: Any) -> None:
        super().give(type(group)("q", sorted(group)))


class GivesBackwards(FreePages):
    def give(self, group: Any) -> None:
        super().give(group[::-1])


class GivesToTheOtherEnd(FreePages):
    def give(self, group: Any) -> None:
        if self._back:
            self._ids[self._head : self._head] = group
        else:
            self._ids[:0] = group[::-1]


class Keeps(Radix):
    """Uses another way of keeping."""

    held_type: type[Held]

    def admit(self, seq: Any, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        granted = super().admit(seq, tokens, whole=whole, spare=spare)
        if granted:
            self.held[seq].__class__ = self.held_type
        return granted


class Leaking(Held):
    """Own copies of what the tree had do not come back."""

    __slots__ = ()

    def keep(self) -> None:
        give, self.tree.free.give = self.tree.free.give, lambda group: None  # type: ignore[method-assign]
        try:
            super().keep()
        finally:
            self.tree.free.give = give  # type: ignore[method-assign]


class TailFirst(Held):
    """The two groups of a finish in the wrong order."""

    __slots__ = ()

    def finish(self, done: int) -> None:
        free, groups = self.tree.free, []
        give = free.give
        free.give = groups.append  # type: ignore[method-assign]
        try:
            super().finish(done)
        finally:
            free.give = give  # type: ignore[method-assign]
        for group in reversed(groups):
            give(group)


class LeakingRadix(Keeps):
    held_type = Leaking


class TailFirstRadix(Keeps):
    held_type = TailFirst


class RefusesTooLate(Radix):
    """Evicts first and refuses then."""

    def grow(self, seq: Any, tokens: int, /) -> bool:
        if tokens > self.room(seq):
            self.tree.reserve(tokens - self.room(seq))
        return super().grow(seq, tokens)


class KeepsTheLastToken(Radix):
    """Nothing would be left to compute."""

    def cached(self, seq: Any, /) -> int:
        return self.tree.peek(seq.salt, seq.runs(), seq.tokens)[0]


class KeepsWhatWasNotComputed(Radix):
    """A victim's slots of the step in which it fell are taken for content."""

    def release(self, seq: Any, /) -> None:
        computed, seq.computed = seq.computed, max(seq.computed, min(self.room(seq), seq.tokens))
        super().release(seq)
        seq.computed = computed


TREES = (
    EvictsBeforeItLocks,
    SplitsWithoutLocks,
    EvictsLocked,
    ForgetsTheLowerPart,
    ForgetsParents,
    KeepsOldRanks,
    ComparesTokens,
    MixesSalts,
    AsksTooLittle,
)
FREES = (GivesSorted, GivesBackwards, GivesToTheOtherEnd)
ALLOCATORS = (
    LeakingRadix,
    TailFirstRadix,
    RefusesTooLate,
    KeepsTheLastToken,
    KeepsWhatWasNotComputed,
)


@pytest.mark.parametrize("planted", [*TREES, *FREES, *ALLOCATORS], ids=lambda kind: kind.__name__)
def test_a_planted_bug_is_found(planted: Any) -> None:
    def make_planted(capacity: int, page: int, evict: str) -> Radix:
        if planted in ALLOCATORS:
            return planted(capacity, page=page, evict=evict)
        made = make(capacity, page, evict)
        part = made.tree if planted in TREES else made.tree.free
        part.__class__ = planted
        return made

    assert_rejects(make_planted)
