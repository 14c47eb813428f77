"""The allocator suite: what pagedsim ships passes it, and planted mistakes do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from planted_allocators import PLANTED

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.radix import Radix
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.alloc.slots import Slots
from pagedsim.testing import allocator_suite, check_allocator, profile, rejects

SHIPPED = [
    Paged,
    partial(Paged, free_order="0.11", null=0),
    PrefixPaged,
    partial(PrefixPaged, free_order="0.11"),
    partial(RankedPaged, evict="lfu"),
    Radix,
    partial(Radix, evict="lfu"),
    partial(Slots, n=3),
    partial(Contiguous, place="first", reserve="exact"),
    partial(Contiguous, place="best", reserve="max"),
    partial(Contiguous, place="buddy", reserve="pow2"),
]


def named(make: Any) -> str:
    given = getattr(make, "keywords", {})
    return ",".join([getattr(make, "func", make).__name__, *map(str, given.values())])


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
