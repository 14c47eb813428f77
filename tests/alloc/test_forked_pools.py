"""Pools whose sequences fork, beside a model that knows only who stores what."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.alloc.grouped import Grouped
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.errors import ContractError
from pagedsim.protocols import LayerGroup, SupportsFork
from pagedsim.testing.sequences import Library
from pagedsim.testing.sequences import Seq as Known

POOLS = [Paged, PrefixPaged, RankedPaged]
LONGEST = 40


class Seq:
    """A sequence whose blocks are like nobody else's."""

    made = 0

    def __init__(self, tokens: int) -> None:
        self.id, self.tokens, self.prompt, self.salt = 0, tokens, tokens, 0
        self.computed = LONGEST  # all that it ever holds, by the time it is given back
        Seq.made += 1
        self.first = Seq.made * LONGEST

    def keys(self, block: int) -> Any:
        return np.arange(self.first, self.first + LONGEST // block)


@pytest.mark.parametrize("make", POOLS)
def test_a_fork_takes_nothing_and_the_last_to_hold_keeps(make: Any) -> None:
    pool = make(6, block=4)
    assert isinstance(pool, SupportsFork)
    parent, one, two = Seq(6), Seq(6), Seq(6)
    assert pool.admit(parent, 6)
    pool.fork(parent, one, 6)
    pool.fork(parent, two, 6)
    assert [pool.table(seq) for seq in (parent, one, two)] == [(1, 2)] * 3
    assert pool.usage()[:3] == (8, 0, 12)  # 6 tokens twice more than there are slots for
    assert [pool.room(seq) for seq in (parent, one, two)] == [6, 6, 6]
    assert pool.grow(one, 6)  # what it holds: no copy
    assert pool.table(one) == (1, 2)
    assert pool.grow(one, 7)
    assert pool.table(one) == (1, 3)
    assert (pool.room(one), pool.room(two), pool.usage().shared) == (8, 6, 4 + 6)
    assert pool.extend([two]) == 1  # the same as growing by a token
    assert pool.table(two) == (1, 4)
    assert pool.room(parent) == 8  # alone by now
    assert pool.grow(parent, 7)
    assert pool.table(parent) == (1, 2)
    assert pool.usage()[:3] == (16, 0, 8)
    assert pool.grow(one, 9)
    assert not pool.grow(two, 9)
    assert pool.table(two) == (1, 4)
    pool.release(parent)
    assert (pool.table(one), pool.usage().shared) == ((1, 3, 5), 4)


@pytest.mark.parametrize("make", POOLS)
def test_a_copy_may_be_refused_and_changes_nothing(make: Any) -> None:
    pool = make(3, block=4)
    parent, child = Seq(5), Seq(5)
    assert pool.admit(parent, 5)
    pool.fork(parent, child, 5)
    assert not pool.grow(child, 6)
    assert pool.extend([parent, child]) == 0
    assert pool.table(parent) == pool.table(child) == (1, 2)
    pool.release(parent)
    assert pool.grow(child, 6)
    assert pool.table(child) == (1, 2)


@pytest.mark.parametrize("make", POOLS)
def test_forks_that_break_the_contract(make: Any) -> None:
    pool = make(9, block=4)
    parent, child = Seq(6), Seq(6)
    assert pool.admit(parent, 6)
    for stored in (4, 9):
        with pytest.raises(ContractError, match=f"is forked at {stored} tokens, but stores others"):
            pool.fork(parent, child, stored)
    pool.fork(parent, child, 6)
    with pytest.raises(ContractError, match="stores others"):
        pool.fork(parent, Seq(6), 5)
    with pytest.raises(ContractError, match="is forked into one that holds blocks"):
        pool.fork(parent, child, 6)
    with pytest.raises(ContractError, match="holds nothing"):
        pool.fork(Seq(6), Seq(6), 6)


def grouped(blocks: int, *, block: int, evict: str = "lru") -> Grouped:
    groups = (
        LayerGroup("full", (0,), block, 8 * block),
        LayerGroup("sliding", (1,), block, 8 * block, window=8),
    )
    return Grouped(2 * blocks, groups=groups, prefix=True, evict=evict)


def ranked_groups(blocks: int, *, block: int) -> Grouped:
    return grouped(blocks, block=block, evict="lfu")


@pytest.mark.parametrize("make", [PrefixPaged, RankedPaged, grouped, ranked_groups])
@pytest.mark.parametrize("want", [2, 5])
def test_what_a_sample_was_to_compute_is_not_found(make: Any, want: int) -> None:
    """Preempted in the step that was to fill blocks, which have their keys: they lose them.

    Two blocks of 2 are computed, and more as far as `want` tokens beyond them.
    """
    pool = make(16, block=2)
    library = Library()
    parent, child, late = (Known(n, 5, range(20), library) for n in range(3))
    empty = pool.free_blocks()
    assert pool.admit(parent, 5)
    parent.computed = child.computed = 5
    pool.fork(parent, child, 5)
    for seq in (parent, child):
        seq.tokens = 5 + want
    assert pool.grow(child, 5 + want)
    late.tokens = 15
    assert pool.cached(late) == (5 + want) // 2 * 2  # as long as it is to be computed
    pool.release(child)
    assert pool.cached(late) == 4
    pool.release(parent)
    assert pool.cached(late) == 4
    usage = pool.usage()
    assert (usage.held, usage.shared) == (0, 0)
    assert sorted(pool.free_blocks()) == sorted(empty)
    assert pool.admit(late, 15)  # blocks without a key are as good as new
    pool.release(late)
    late.tokens = 16
    assert pool.cached(late) == 14


@given(data=st.data(), make=st.sampled_from(POOLS), block=st.integers(1, 4))
def test_pools_agree_with_a_model(data: st.DataObject, make: Any, block: int) -> None:
    """What is stored is where it was or was copied; slots are shared by what was forked alone."""
    pool, twin = (make(data.draw(st.just(14)), block=block) for _ in range(2))
    stored: dict[Seq, list[object]] = {}  # tokens are objects, the same where they were forked
    for _ in range(data.draw(st.integers(1, 30))):
        kinds = ["admit", "grow", "grow", "fork", "fork", "release"] if stored else ["admit"]
        kind = data.draw(st.sampled_from(kinds))
        if kind == "admit":
            seq = Seq(data.draw(st.integers(1, 9)))
            granted = pool.admit(seq, seq.tokens)
            assert granted == twin.admit(seq, seq.tokens)
            if granted:
                stored[seq] = [object() for _ in range(seq.tokens)]
            continue
        seq = data.draw(st.sampled_from(list(stored)))
        have = len(stored[seq])
        if kind == "fork":
            if have % block == 0 and pool.room(seq) > have:
                continue
            child = Seq(have)
            pool.fork(seq, child, have)
            twin.fork(seq, child, have)
            stored[child] = list(stored[seq])
        elif kind == "release":
            pool.release(seq)
            twin.release(seq)
            del stored[seq]
        elif have < LONGEST - 1:
            one_more = pool.room(seq) == have and data.draw(st.booleans())
            granted = pool.extend([seq]) == 1 if one_more else pool.grow(seq, have + 1)
            if one_more and granted and make is not Paged and (have + 1) % block == 0:
                pool.fill([seq])
            assert granted == twin.grow(seq, have + 1)
            seq.tokens = have + 1
            if granted:
                stored[seq].append(object())
        assert pool.free_blocks() == twin.free_blocks()
        judge(pool, stored, block)


def judge(pool: Any, stored: dict[Seq, list[object]], block: int) -> None:
    tables = {seq: pool.table(seq) for seq in stored}
    held = Counter(at for table in tables.values() for at in table)
    assert pool.usage().held == len(held) * block
    assert not held.keys() & set(pool.free_blocks())
    where: dict[int, object] = {}
    for seq, tokens in stored.items():
        slots = pool.slots(seq).tolist()
        assert len(tables[seq]) == -(-len(tokens) // block)
        for slot, token in zip(slots, tokens, strict=False):
            assert where.setdefault(slot, token) is token, "two tokens in one slot"
        tail = tables[seq][-1]
        shared = held[tail] > 1 and len(tokens) % block
        assert pool.room(seq) == (len(tokens) if shared else len(tables[seq]) * block)
    assert pool.usage().shared == sum(map(len, stored.values())) - len(where)
