"""The state machine over contiguous allocators with an oracle of addresses.

The oracle sees which slots are taken, from what was shown, and finds by brute force where the
next extent must lie. A free block of the buddy system is a largest aligned run of free slots
inside its chunk: joining at once leaves no other, whatever the history.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import settings

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.protocols import Sequence
from pagedsim.testing import (
    AllocatorMachine,
    Seq,
    Suite,
    allocator_suite,
    check,
    profile,
    rejects,
)

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
    """Knows besides where each extent must lie, how large it must be, and that it lasts."""

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

    def taken(self, slots: Any) -> set[int]:
        return {
            start + i
            for start, size in ((shown[0], len(shown)) for shown in slots.values())
            for i in range(self.cost(size))
        }

    def answered(
        self, seq: Seq, tokens: int, whole: int, spare: int, granted: bool, before: Any
    ) -> None:
        subject = self.play.subject
        taken, capacity, size = self.taken(before["slots"]), subject.capacity, self.size(seq)
        find = free_blocks if self.place == "buddy" else runs
        holes = [hole for hole in find(taken, capacity) if hole[1] >= size]
        fits = bool(holes) and capacity - len(taken) - self.cost(size) >= spare
        self.play.hold("calls", granted == fits, f"{granted} for {size} slots: {holes}")
        if granted:
            smallest = min(hole[1] for hole in holes)
            starts = [at for at, hole in holes if self.place == "first" or hole == smallest]
            place = list(range(min(starts), min(starts) + size))
            shown = subject.slots(seq).tolist()
            self.play.hold("slots", shown == place, f"{shown}, must be {place}")

    def grow(self, seq: Seq, tokens: int, pick: int) -> None:
        assert self.play.grow(seq, tokens), "refused though all was taken at admission"


def suite(made: str, place: str, reserve: str) -> Suite:
    """`made` is how they are placed, `place` what the oracle believes."""
    base = type("Addresses", (AddressMachine,), {"place": place, "reserve": reserve})
    make: Any = partial(Contiguous, max_len=MAX_LEN, place=made, reserve=reserve)
    return allocator_suite(make, base=base)


@pytest.mark.parametrize("reserve", RESERVES)
@pytest.mark.parametrize("place", PLACES)
def test_every_extent_lies_where_it_must(place: str, reserve: str) -> None:
    check(suite(place, place, reserve), settings(settings.default, max_examples=25))


@pytest.mark.parametrize("place", ["first", "best"])
def test_the_oracle_rejects_the_other_fit(place: str) -> None:
    """Only addresses tell first fit from best fit."""
    other = "best" if place == "first" else "first"
    assert rejects(suite(other, place, "exact"), profile("ci"))


class GrowsBeyondItsExtent(Contiguous):
    """With a policy that reserves the prompt alone, which the shipped ones never do."""

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        return self._extent(seq)[1] > 0


def test_growth_beyond_room_is_found() -> None:
    def make() -> Contiguous:
        return GrowsBeyondItsExtent(32, max_len=33, reserve=lambda seq: max(seq.tokens, 1))

    assert rejects(allocator_suite(make), profile("ci"))
