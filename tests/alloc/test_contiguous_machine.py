"""The state machine over contiguous allocators, an oracle of addresses, and planted bugs.

The oracle sees which slots are taken, from what was shown, and finds by brute force where the
next extent must lie. A free block of the buddy system is a largest aligned run of free slots
inside its chunk: joining at once leaves no other, whatever the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import strategies as st
from machine import AllocatorMachine, Seq, assert_rejects, make_machine, run

from pagedsim.alloc.buddy import Buddy
from pagedsim.alloc.contiguous import Contiguous, Space
from pagedsim.alloc.holes import BestFit, FirstFit
from pagedsim.errors import SpecError
from pagedsim.protocols import Sequence

PLACES = ("first", "best", "buddy")
RESERVES = ("max", "pow2", "exact")
MAX_LEN = 12


def runs(taken: set[int], capacity: int) -> Iterator[tuple[int, int]]:
    """(start, size) of each longest run of free slots."""
    start = 0
    for slot in range(capacity + 1):
        if slot == capacity or slot in taken:
            if slot > start:
                yield start, slot - start
            start = slot + 1


def free_blocks(taken: set[int], capacity: int) -> Iterator[tuple[int, int]]:
    """(start, size) of each largest aligned free block of a buddy system."""
    start, size = 0, 1 << capacity.bit_length()
    while size:
        if start + size <= capacity:
            yield from halves(taken, start, size)
            start += size
        size //= 2


def halves(taken: set[int], start: int, size: int) -> Iterator[tuple[int, int]]:
    if taken.isdisjoint(range(start, start + size)):
        yield start, size
    elif size > 1:
        yield from halves(taken, start, size // 2)
        yield from halves(taken, start + size // 2, size // 2)


class AddressMachine(AllocatorMachine):
    """Knows besides where each extent must lie, and how large it must be."""

    place = ""
    reserve = ""

    def size(self, seq: Seq) -> int:
        if self.reserve == "max":
            return MAX_LEN
        if self.reserve == "exact":
            return seq.final
        rounded = next(power for power in (1, 2, 4, 8, 16) if power >= seq.output)
        return min(seq.prompt + rounded, MAX_LEN)

    def cost(self, size: int) -> int:
        if self.place != "buddy":
            return size
        return next(power for power in (1, 2, 4, 8, 16) if power >= size)

    def taken(self) -> set[int]:
        return {
            start + i
            for start, size in ((slots[0], len(slots)) for slots in self.shown.values())
            for i in range(self.cost(size))
        }

    def judge(self, seq: Seq, tokens: int, whole: int, spare: int, granted: bool) -> None:
        taken, capacity, size = self.taken(), self.subject.capacity, self.size(seq)
        find = free_blocks if self.place == "buddy" else runs
        holes = [hole for hole in find(taken, capacity) if hole[1] >= size]
        assert granted == (bool(holes) and capacity - len(taken) - self.cost(size) >= spare)
        if granted:
            smallest = min(hole[1] for hole in holes)
            fits = [at for at, hole in holes if self.place == "first" or hole == smallest]
            assert self.subject.slots(seq).tolist() == list(range(min(fits), min(fits) + size))


def factories(place: str, reserve: str) -> st.SearchStrategy[Callable[[], Contiguous]]:
    def fits(make: Callable[[], Contiguous]) -> bool:
        try:
            make()
        except SpecError:
            return False
        return True

    make = partial(Contiguous, max_len=MAX_LEN, place=place, reserve=reserve)  # type: ignore[arg-type]
    return st.builds(partial, st.just(make), st.integers(8, 48)).filter(fits)


@pytest.mark.parametrize("reserve", RESERVES)
@pytest.mark.parametrize("place", PLACES)
def test_machine(place: str, reserve: str) -> None:
    base = type("Addresses", (AddressMachine,), {"place": place, "reserve": reserve})
    run(make_machine(factories(place, reserve), whole_life=True, base=base))


class NeverJoins(FirstFit):
    def give(self, start: int, size: int) -> None:
        self._insert(start, size)


class JoinsOnlyRight(BestFit):
    def give(self, start: int, size: int) -> None:
        if start + size in self._sizes:
            size += self._remove(start + size)
        self._insert(start, size)


class CutsOneShort(FirstFit):
    def take(self, size: int) -> int | None:
        return super().take(max(size - 1, 1))


class LosesTheRest(BestFit):
    def take(self, size: int) -> int | None:
        start = super().take(size)
        if start is not None and start + size in self._sizes:
            self._remove(start + size)
        return start


class NeverJoinsBuddies(Buddy):
    def _discard(self, order: int, start: int) -> bool:
        return False


class JoinsAnyNeighbour(Buddy):
    """Takes the block to the right for the buddy, wherever the block itself lies."""

    def give(self, start: int, size: int) -> None:
        order = self.rounded(size).bit_length() - 1
        while order + 1 < len(self._free) and self._discard(order, start + (1 << order)):
            order += 1
        self._free[order] = sorted([*self._free[order], start])


class JoinsTakenBuddies(Buddy):
    """Does not ask whether the buddy is free."""

    def _discard(self, order: int, start: int) -> bool:
        return super()._discard(order, start) or order < 2


class RoundsDown(Buddy):
    def rounded(self, size: int) -> int:
        return 1 << size.bit_length() - 1


class RoundsOneTooHigh(Buddy):
    """A power of two goes to the next one."""

    def rounded(self, size: int) -> int:
        return 1 << size.bit_length()


SPACES = [
    NeverJoins,
    JoinsOnlyRight,
    CutsOneShort,
    LosesTheRest,
    NeverJoinsBuddies,
    JoinsAnyNeighbour,
    JoinsTakenBuddies,
    RoundsDown,
    RoundsOneTooHigh,
]


@pytest.mark.parametrize("space", SPACES)
def test_the_machine_rejects_a_space(space: Callable[[int], Space]) -> None:
    def make() -> Contiguous:
        allocator = Contiguous(32, max_len=33, place="buddy", reserve="exact")
        allocator._space = space(32)
        return allocator

    assert_rejects(make_machine(make, whole_life=True))


class TakesBeforeItRefuses(Contiguous):
    def admit(self, seq: Sequence, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        if super().admit(seq, tokens, whole=whole, spare=spare):
            return True
        self._space.take(1)
        return False


class CountsBeforeItRefuses(Contiguous):
    def admit(self, seq: Sequence, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        granted = super().admit(seq, tokens, whole=whole, spare=spare)
        if not granted and self._held < self.capacity:
            self._lost += 1
        return granted


class IgnoresSpare(Contiguous):
    def admit(self, seq: Sequence, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        return super().admit(seq, tokens, whole=whole)


class GrowsBeyondItsExtent(Contiguous):
    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        return self._extent(seq)[1] > 0


class CountsRoundingAsRoom(Contiguous):
    def room(self, seq: Sequence, /) -> int:
        return self._space.rounded(self._extent(seq)[1])


class ReleasesTwice(Contiguous):
    def release(self, seq: Sequence, /) -> None:
        if seq in self._extents:
            super().release(seq)


class PromisesTooMuch(Contiguous):
    def _longest(self) -> int:
        return self.capacity


@pytest.mark.parametrize(
    "planted",
    [
        TakesBeforeItRefuses,
        CountsBeforeItRefuses,
        IgnoresSpare,
        CountsRoundingAsRoom,
        ReleasesTwice,
        PromisesTooMuch,
    ],
)
def test_the_machine_rejects_an_allocator(planted: type[Contiguous]) -> None:
    def make() -> Contiguous:
        return planted(27, max_len=33, place="buddy", reserve="exact")

    assert_rejects(make_machine(make, whole_life=True))


def test_the_machine_rejects_growth_beyond_room() -> None:
    """With a policy that reserves the prompt alone, which the shipped ones never do."""

    def make() -> Contiguous:
        return GrowsBeyondItsExtent(32, max_len=33, reserve=lambda seq: max(seq.tokens, 1))

    assert_rejects(make_machine(make))


@pytest.mark.parametrize("place", ["first", "best"])
def test_the_oracle_rejects_the_other_fit(place: str) -> None:
    """Only addresses tell first fit from best fit."""
    other = "best" if place == "first" else "first"
    base = type("Addresses", (AddressMachine,), {"place": place, "reserve": "exact"})
    assert_rejects(make_machine(factories(other, "exact"), whole_life=True, base=base))
