"""The allocator suite: what pagedsim ships passes it, and planted mistakes do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from planted_allocators import PLANTED as OF_SLOTS
from planted_groups import PLANTED as OF_GROUPS
from planted_sizes import MISTAKES, Bounded, Sound, TakesOneToGrow, of_size

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.grouped import Grouped
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.radix import Radix
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.alloc.slots import Slots
from pagedsim.errors import SpecError
from pagedsim.protocols import LayerGroup, Narrow
from pagedsim.testing import allocator_suite, check_allocator, profile, rejects

PLANTED = {**OF_SLOTS, **OF_GROUPS}
WINDOWS = (LayerGroup("sliding", (0,), 2, 6, 3), LayerGroup("chunked", (1,), 4, 4, 6))
STATES = (LayerGroup("full", (0,), 2, 6), LayerGroup("state", (1,), 1, 5))
FOUND = (LayerGroup("state", (2,), 2, 5),)
NARROW = (
    LayerGroup("full", (0, 1), 4, 8, narrow=(Narrow("sliding", 3, 1), Narrow("chunked", 5, 1))),
)
SHIPPED = [
    Paged,
    partial(Paged, free_order="0.11", null=0),
    PrefixPaged,
    partial(PrefixPaged, free_order="0.11"),
    partial(RankedPaged, evict="lfu"),
    partial(Grouped, groups=WINDOWS, prefix=True),
    partial(Grouped, groups=WINDOWS, prefix=True, evict="lfu"),
    partial(Grouped, groups=NARROW, prefix=True),
    partial(Grouped, groups=STATES, free_order="0.11"),
    partial(Grouped, groups=(*WINDOWS, *FOUND), prefix=True),
    Radix,
    partial(Radix, evict="lfu"),
    partial(Slots, n=3),
    partial(Contiguous, place="first", reserve="exact"),
    partial(Contiguous, place="best", reserve="max"),
    partial(Contiguous, place="buddy", reserve="pow2"),
]


def named(make: Any) -> str:
    given = getattr(make, "keywords", {})
    groups = [group.kind for group in given.get("groups", ())]
    others = [str(value) for key, value in given.items() if key != "groups"]
    return ",".join([getattr(make, "func", make).__name__, *groups, *others])


@pytest.mark.parametrize("make", SHIPPED, ids=named)
def test_what_is_shipped_keeps_the_laws(make: Callable[..., Any]) -> None:
    check_allocator(make)


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_mistake_is_found(planted: str) -> None:
    make, laws = PLANTED[planted]
    broken = rejects(allocator_suite(make), profile("ci"))
    assert broken is not None, "nothing was found"
    assert broken.law in laws, broken
    assert planted == "DependsOnChance" or planted in broken.history[0]


SIZES = [5, 16, 256]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [Sound, Bounded])
def test_blocks_of_a_size_that_is_written_down_inside(kind: type[Sound], size: int) -> None:
    check_allocator(of_size(kind, size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_several_such_blocks_is_found(mistake: str, size: int) -> None:
    kind, laws = MISTAKES[mistake]
    broken = rejects(allocator_suite(of_size(kind, size)), profile("ci"))
    assert broken is not None, "nothing was found"
    assert broken.law in laws, broken


@pytest.mark.parametrize("size", SIZES)
def test_a_pool_of_a_capacity_that_is_given(size: int) -> None:
    make = partial(of_size(TakesOneToGrow, size), 20 * size)
    broken = rejects(allocator_suite(make), profile("ci"))
    assert broken is not None
    assert broken.law == "enough"


def test_a_part_of_which_none_could_be_tried_does_not_pass() -> None:
    with pytest.raises(SpecError, match="Sound: nothing was tried, for no part of the sizes drawn"):
        check_allocator(of_size(Sound, 10_000))
    check_allocator(partial(of_size(Sound, 10_000), 20_000), profile("dev"))
