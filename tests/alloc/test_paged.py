"""The paged pool: exact ids of each free order, sizes, misuse; a machine that knows the ids."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import Sequence, SupportsBlocks, SupportsSlots, Usage, headroom
from pagedsim.testing import (
    AllocatorMachine,
    Seq,
    Suite,
    allocator_suite,
    check,
    judged,
    profile,
    rejects,
    sequence,
)


def admitted(pool: Paged, *sizes: int) -> list[Seq]:
    seqs = [sequence(row, size, 1) for row, size in enumerate(sizes)]
    for seq in seqs:
        assert pool.admit(seq, seq.prompt)
    return seqs


def test_the_free_list_starts_in_id_order() -> None:
    """Block 0 is the null block, never handed out: a pool of N has N - 1 to give."""
    pool = Paged(5, block=4)
    assert pool.free_blocks() == (1, 2, 3, 4)
    assert pool.capacity == pool.longest == 16
    without = Paged(5, block=4, null=0)
    assert without.free_blocks() == (0, 1, 2, 3, 4)
    assert without.capacity == without.longest == 20


def test_blocks_are_taken_from_the_front() -> None:
    pool = Paged(9, block=2)
    a, b = admitted(pool, 3, 2)
    assert (pool.table(a), pool.table(b)) == ((1, 2), (3,))
    assert pool.grow(a, 4)  # within its blocks
    assert pool.table(a) == (1, 2)
    assert pool.grow(a, 9)
    assert pool.table(a) == (1, 2, 4, 5, 6)
    assert pool.free_blocks() == (7, 8)
    assert pool.usage() == Usage(12)


def test_order_0_33() -> None:
    """Keyless blocks of one release go to the front as one group, the last of the table first.

    A later release's group lies before an earlier one's.
    """
    pool = Paged(9, block=1)
    a, b = admitted(pool, 3, 2)  # 1 2 3, 4 5
    pool.release(a)
    assert pool.free_blocks() == (3, 2, 1, 6, 7, 8)
    pool.release(b)
    assert pool.free_blocks() == (5, 4, 3, 2, 1, 6, 7, 8)
    assert pool.admit(a, 4)
    assert pool.table(a) == (5, 4, 3, 2)


def test_order_0_11() -> None:
    """The same table goes to the back, last block first."""
    pool = Paged(9, block=1, free_order="0.11")
    a, b = admitted(pool, 3, 2)
    pool.release(a)
    assert pool.free_blocks() == (6, 7, 8, 3, 2, 1)
    pool.release(b)
    assert pool.free_blocks() == (6, 7, 8, 3, 2, 1, 5, 4)
    assert pool.admit(a, 4)
    assert pool.table(a) == (6, 7, 8, 3)


@pytest.mark.parametrize("order", ["0.33", "0.11"])
def test_a_release_of_grown_tables(order: str) -> None:
    """A table that others' blocks lie between goes back in table order all the same."""
    pool = Paged(8, block=1, free_order=order)
    a, b = admitted(pool, 2, 2)  # 1 2, 3 4
    assert pool.grow(a, 3)  # 1 2 5
    assert pool.grow(b, 3)  # 3 4 6
    pool.release(a)
    assert pool.free_blocks() == ((5, 2, 1, 7) if order == "0.33" else (7, 5, 2, 1))


@pytest.mark.parametrize(
    ("tokens", "whole", "spare", "granted"),
    [
        (8, 0, 0, True),
        (9, 0, 0, False),
        (1, 8, 0, True),
        (1, 9, 0, False),
        (5, 4, 0, True),  # 2 blocks of 4, the larger of both
        (4, 4, 4, True),
        (4, 4, 5, False),  # spare slots are whole blocks too
        (4, 5, 1, False),  # 2 + 1 of 2
        (1, 0, 4, True),
    ],
)
def test_admission_room(tokens: int, whole: int, spare: int, granted: bool) -> None:
    """max(tokens, whole) would fit now with `spare` left over; only those of `tokens` are taken."""
    pool = Paged(3, block=4)
    seq = sequence(0, 9, 1)
    assert pool.admit(seq, tokens, whole=whole, spare=spare) is granted
    assert pool.usage().held == (-(-tokens // 4) * 4 if granted else 0)
    assert len(pool.free_blocks()) == (2 - -(-tokens // 4) if granted else 2)


def test_extend_is_growth_by_a_block_each() -> None:
    """All, or as many as there are blocks, in order."""
    pool = Paged(6, block=2)
    a, b, c = admitted(pool, 2, 2, 2)  # 1, 2, 3; 4 5 are free
    assert pool.extend([c, a, b]) == 2
    assert (pool.table(a), pool.table(b), pool.table(c)) == ((1, 5), (2,), (3, 4))
    assert pool.extend([b]) == 0
    assert pool.extend([]) == 0
    assert pool.usage() == Usage(10)


@pytest.mark.parametrize("pool", [Paged(5, block=4), PrefixPaged(5, block=4)])
def test_extending_forks_is_growing_each_by_a_token(pool: Any) -> None:
    """The last to hold a block that is not full keeps it, and needs no other."""
    parent, child = sequence(0, 2, 6), sequence(0, 2, 6)
    assert pool.admit(parent, 2)
    pool.fork(parent, child, 2)
    assert pool.extend([parent, child]) == 2
    assert (pool.table(parent), pool.table(child)) == ((2,), (1,))
    assert (pool.room(parent), pool.room(child)) == (4, 4)


def test_a_refused_growth_changes_nothing() -> None:
    pool = Paged(4, block=2)
    a, b = admitted(pool, 2, 2)
    before = pool.free_blocks(), pool.table(a)
    assert not pool.grow(a, 5)  # 2 more, 1 is free
    assert (pool.free_blocks(), pool.table(a)) == before
    assert pool.grow(b, 4)
    assert not pool.grow(a, 3)


def test_room_and_slots() -> None:
    """Token t lives in slot table[t // block] · block + t % block."""
    pool = Paged(9, block=3)
    a, b = admitted(pool, 4, 1)
    pool.release(a)
    assert pool.admit(a, 4)  # 2 1, the last block of its old table first
    assert pool.room(a) == 6
    assert pool.slots(a).tolist() == [6, 7, 8, 3, 4, 5]
    assert pool.slots(b).tolist() == [9, 10, 11]
    assert pool.cached(a) == 0


def test_capabilities_and_headroom() -> None:
    """A watermark is int(share · blocks) blocks, the null block counted."""
    pool = Paged(20, block=16)
    assert isinstance(pool, SupportsBlocks)
    assert isinstance(pool, SupportsSlots)
    assert headroom(pool, 0.05) == 16
    assert headroom(Paged(19, block=16), 0.05) == 0
    assert headroom(Paged(101, block=16), 0.05) == 5 * 16


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"blocks": 9, "block": 0}, "block is 0, must be >= 1"),
        ({"blocks": 9, "null": 2}, "null is 2, must be 0 or 1"),
        ({"blocks": 1}, r"a pool of 1 blocks \(null 1\) has none to give"),
        ({"blocks": 0, "null": 0}, r"a pool of 0 blocks \(null 0\) has none to give"),
        ({"blocks": 9, "free_order": "0.5"}, "free_order is 0.5, must be 0.33 or 0.11"),
    ],
)
def test_what_cannot_work_is_said_at_construction(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Paged(**given)


def test_misuse() -> None:
    pool = Paged(9)
    seq = sequence(7, 3, 4)
    for call in (pool.release, pool.room, pool.table, pool.slots, lambda seq: pool.grow(seq, 1)):
        with pytest.raises(ContractError, match="request 7 holds nothing"):
            call(seq)
    assert pool.admit(seq, 3)
    with pytest.raises(ContractError, match="request 7 is admitted twice"):
        pool.admit(seq, 3)
    pool.release(seq)
    with pytest.raises(ContractError, match="request 7 holds nothing"):
        pool.release(seq)
    assert pool.usage() == Usage(0)


class JudgedMachine(AllocatorMachine):
    """Knows besides what is granted, and what each call makes of the free list."""

    def answered(
        self, seq: Seq, tokens: int, whole: int, spare: int, granted: bool, before: Any
    ) -> None:
        block, free = self.play.subject.block, before["free"]
        need = -(-max(tokens, whole) // block) + -(-spare // block)
        self.play.hold("calls", granted == (need <= len(free)), f"{need} of {len(free)}")
        taken = -(-tokens // block) if granted else 0
        self.frees(free[taken:])
        if granted:
            table = list(self.play.subject.table(seq))
            self.play.hold("blocks", table == free[:taken], f"{table}, the list was {free}")

    def grow(self, seq: Seq, tokens: int, pick: int) -> None:
        pool = self.play.subject
        free, have = pool.free_blocks(), len(pool.table(seq))
        super().grow(seq, tokens, pick)
        if seq in self.play.stored and seq.computed == tokens:
            self.frees(free[max(0, -(-tokens // pool.block) - have) :])

    @precondition(lambda self: not self.over and self.play.stored)
    @rule(who=st.integers(0, 7))
    @judged
    def goes(self, who: int) -> None:
        seqs = list(self.play.stored)
        seq, pool = seqs[who % len(seqs)], self.play.subject
        free, group = pool.free_blocks(), pool.table(seq)[::-1]
        self.play.release(seq)
        self.frees(group + free if pool._to_front else free + group)

    def decoding(self) -> list[Seq]:
        """Nobody forks here: the ids of copies have tests of their own."""
        return []

    def frees(self, wanted: Any) -> None:
        free = list(self.play.subject.free_blocks())
        self.play.hold("blocks", free == list(wanted), f"free {free}, must be {list(wanted)}")


def judged_suite(make: Any) -> Suite:
    return allocator_suite(make, base=JudgedMachine)


@pytest.mark.parametrize("order", ["0.33", "0.11"])
def test_every_block_is_the_one_it_must_be(order: str) -> None:
    check(judged_suite(partial(Paged, free_order=order)))


class TakesFromTheBack(Paged):
    """In growing alone, so that what `admit` takes is right."""

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        self._free.reverse()
        granted = super().grow(seq, tokens)
        self._free.reverse()
        return granted


class TakesWhole(Paged):
    def admit(self, seq: Sequence, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        return super().admit(seq, max(tokens, whole), spare=spare)


class GivesOneByOne(Paged):
    """The last of the table first, so that the list begins with the table's first."""

    def release(self, seq: Sequence, /) -> None:
        self._table(seq).reverse()
        super().release(seq)


class HandsOutTheNullBlock(Paged):
    def __init__(self, blocks: int, **given: Any) -> None:
        super().__init__(blocks, **given)
        self._free.append(0)


@pytest.mark.parametrize(
    "planted", [TakesFromTheBack, TakesWhole, GivesOneByOne, HandsOutTheNullBlock]
)
def test_the_oracle_rejects(planted: type[Paged]) -> None:
    """What is within the contract, and yet not what vLLM does."""
    make = partial(planted, 20, block=1, free_order="0.33")
    assert rejects(judged_suite(make), profile("ci"))
