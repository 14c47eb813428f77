"""Block 0 and key 0 are like all others; many at once are as one by one; evict what is needed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.freelist import FreeList
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.radix import Radix
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.protocols import Int64
from pagedsim.testing.sequences import Library, Seq

POOLS: dict[str, Any] = {
    "prefix": PrefixPaged,
    "0.11": partial(PrefixPaged, free_order="0.11"),
    "ranked": RankedPaged,
}


def run(library: Library, number: int, first: int, prompt: int) -> Seq:
    return Seq(number, prompt, range(first, first + prompt + 1), library)


@pytest.mark.parametrize("pool", POOLS)
def test_of_two_blocks_with_a_key_the_first_is_found(pool: str) -> None:
    library = Library()
    allocator = POOLS[pool](6, block=1, null=0)
    one, two, three = (run(library, number, 0, 3) for number in range(3))
    for seq in (one, two):  # both compute the same, for neither was complete when the other came
        seq.tokens = 1
        assert allocator.admit(seq, 1)
        seq.tokens = 3
    assert allocator.grow(one, 2)
    assert allocator.admit(three, 3)
    assert allocator.table(three)[0] == allocator.table(one)[0] == 0


@pytest.mark.parametrize("pool", POOLS)
@given(
    kept=st.integers(1, 60),
    lost=st.integers(1, 100),
    more=st.integers(0, 20),
    block=st.integers(1, 3),
)
@example(kept=40, lost=60, more=20, block=1)
def test_what_is_taken_is_found_no_more(
    pool: str, kept: int, lost: int, more: int, block: int
) -> None:
    """A prompt of `kept` blocks is cached; another takes all but some of the pool."""
    library = Library()
    count = kept + more
    allocator = POOLS[pool](count + 1, block=block)
    first = run(library, 0, 0, kept * block + 1 if more else kept * block)
    assert allocator.admit(first, kept * block)
    first.computed = kept * block
    allocator.release(first)
    assert allocator.usage().cached == kept * block
    lost = min(lost, count)
    other = run(library, 1, 10_000, lost * block)
    assert allocator.admit(other, lost * block)
    evicted = max(0, lost - more)
    assert allocator.usage().cached == (kept - evicted) * block
    again = run(library, 2, 0, kept * block + 1)
    again.tokens = kept * block + 1
    assert allocator.cached(again) == (kept - evicted) * block
    allocator.release(other)


class FromZero(Seq):
    """Keys of whole blocks, from 0 up."""

    def keys(self, block: int, /) -> Int64:
        return super().keys(block) // block


@pytest.mark.parametrize("pool", POOLS)
@given(st.integers(1, 30), st.integers(2, 3))
@example(12, 2)
def test_a_block_that_is_not_full_keeps_no_old_key(pool: str, kept: int, block: int) -> None:
    """All but a slot of a pool is taken for something else: its last block, full once, is not now.

    Its old key, the first of all, goes then and there, and not once more with its next holder.
    """
    library = Library()
    allocator = POOLS[pool](kept + 3, block=block)
    first = FromZero(0, kept * block, range(kept * block), library)
    assert allocator.admit(first, kept * block)
    first.computed = kept * block
    allocator.release(first)
    count = kept + 2
    for number in (1, 2):
        content = range(10_000 * number, 10_000 * number + count * block)
        other = FromZero(number, count * block - 1, content, library)
        assert allocator.admit(other, count * block - 1)
        other.computed = count * block - 1
        assert allocator.usage().cached == 0
        assert allocator.evicted == (kept if number == 1 else kept + count - 1) * block
        allocator.release(other)
        assert allocator.usage().cached == allocator.keys_cached() * block == (count - 1) * block


@pytest.mark.parametrize("pool", POOLS)
@given(st.integers(0, 12), st.integers(1, 20), st.integers(2, 3))
@example(0, 12, 2)
def test_who_waits_hits_what_was_filled_since(
    pool: str, before: int, more: int, block: int
) -> None:
    """Looked up, then again when `more` blocks right behind what it hit were filled at once."""
    library = Library()
    allocator = POOLS[pool](before + more + 9, block=block)
    tokens = (before + more) * block
    one, waiting = (run(library, number, 0, tokens + 1) for number in range(2))
    assert allocator.admit(one, before * block + 1)
    waiting.tokens = tokens + 1
    assert allocator.cached(waiting) == before * block
    assert allocator.grow(one, tokens)
    assert allocator.cached(waiting) == tokens


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 70))
def test_taken_many_are_as_taken_one_by_one(given_back: list[int], ids: int) -> None:
    one, many = FreeList(0, ids), FreeList(0, ids)
    for count in given_back:
        count = min(count * 5, len(many))
        taken = many.take_many(count).tolist()
        assert taken == [block for _ in range(count) for block in one.take(1)]
        for each in (one, many):
            each.push_back(np.array(taken[::2], np.int64))
            each.push_front(taken[1::2])
        assert one.in_order() == many.in_order()


def test_a_list_goes_round_and_round() -> None:
    """More is given back in all than ten lists hold, a few at a time; first in, first out."""
    listed, mirror = FreeList(0, 100), list(range(100))
    for turn in range(3000):
        count = 1 + turn * 7 % 60
        taken = listed.take_many(count).tolist()
        assert taken == mirror[:count]
        mirror = mirror[count:] + taken[::-1]
        listed.push_back(np.array(taken[::-1], np.int64))
    assert listed.in_order() == tuple(mirror)


@given(st.integers(2, 12), st.integers(0, 12), st.integers(0, 12), st.data())
def test_an_extent_leaves_what_is_to_be_spared(
    capacity: int, held: int, spare: int, data: st.DataObject
) -> None:
    library = Library()
    allocator = Contiguous(capacity, max_len=capacity + 2, reserve="exact")
    held = min(held, capacity - 1)
    if held:
        assert allocator.admit(run(library, 0, 0, held), held)
    asked = data.draw(st.integers(1, capacity))
    seq = run(library, 1, 1000, asked)
    assert allocator.admit(seq, asked, spare=spare) == (held + asked + spare <= capacity)


@given(
    st.integers(4, 24), st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 20),
    st.booleans(),
)  # fmt: skip
def test_a_tree_evicts_until_it_has_room_and_no_further(
    capacity: int, leaves: list[int], asked: int, again: bool
) -> None:
    """Prompts that share nothing are leaves; whole ones go, the oldest first, until enough is free.

    With `again` the one that asks begins as the last of them did, so that part is there already.
    """
    library = Library()
    allocator = Radix(capacity)
    sizes: list[int] = []
    for size in leaves:
        if sum(sizes) + size <= capacity:
            seq = run(library, len(sizes), 1000 * len(sizes), size)
            assert allocator.admit(seq, size)
            seq.computed = size
            allocator.release(seq)
            sizes.append(size)
    last = len(sizes) - 1
    hit = sizes[last] if again and sizes else 0
    content = (*range(1000 * last, 1000 * last + hit), *range(10**6, 10**6 + asked + 1))
    seq = Seq(99, hit + asked, content, library)
    free = capacity - sum(sizes)
    if asked > free + sum(sizes) - hit:
        assert not allocator.admit(seq, seq.tokens)
        return
    assert allocator.admit(seq, seq.tokens)
    idle = sizes[:last] if hit else list(sizes)
    while free < asked:
        free += idle.pop(0)
    assert allocator.usage().cached == sum(idle)
