"""A shadow of the pool that stores token ids: what a table reads back is its sequence's content.

In every step the tokens that are computed are written to the slots where the allocator says they
are, and every running sequence is then read back in whole. A block handed out twice, a stale key, a
hit on other content, or a slot that moved reads back something else.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from agreement import Fixed
from forked import forking_traces
from hypothesis import given
from hypothesis import strategies as st
from test_prefix_agrees import setups, sharing_traces

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.evict import BLOCK_POLICIES
from pagedsim.alloc.keyed import KeyedPaged
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.prefix_tables import Tables
from pagedsim.alloc.radix import Radix
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.alloc.stretches import Stretch
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca
from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import Plan, View
from pagedsim.trace.samples import Forks
from pagedsim.trace.trace import Trace


class Shadow:
    """An observer of one run, and the model that it keeps."""

    def __init__(self, allocator: Any, trace: Trace, *, holds: bool) -> None:
        self.allocator = allocator
        self.holds = holds  # members of a batch that are done still hold blocks, unseen
        self.slots: dict[int, tuple[int, int]] = {}  # slot -> (salt, token)
        self.content = [self._tokens(trace, row) for row in range(len(trace))]
        self.forks = bool(len(trace)) and trace.samples.max() > 1
        self.read = self.copied = 0
        self.view: Any = None
        self.before: dict[Any, list[int]] = {}  # where those that run had theirs a step ago

    @staticmethod
    def _tokens(trace: Trace, row: int) -> list[tuple[int, int]]:
        part = slice(int(trace.run_rows[row]), int(trace.run_rows[row + 1]))
        runs = [*zip(trace.run_token[part], trace.run_length[part], strict=True)]
        runs.append((trace.output_token[row], trace.output[row]))
        salt = int(trace.salt[row])
        return [(salt, int(first) + j) for first, length in runs for j in range(int(length))]

    def scheduled(self, step: int, plan: Plan, view: View, /) -> None:
        where = {seq: self.allocator.slots(seq).tolist() for seq in view.running}
        told = {seq: self._told(seq) for seq in view.running}
        self._copy(where)
        self.view = view
        for seq, count in plan.scheduled.items():
            for at in range(seq.computed, seq.computed + count):
                self.slots[where[seq][at]] = told[seq][at]
        live: dict[int, int] = {}
        for seq in view.running:
            stored = seq.computed + plan.scheduled.get(seq, 0)
            found = [self.slots.get(slot) for slot in where[seq][:stored]]
            assert found == told[seq][:stored], f"step {step}, request {seq.id}"
            self.read += stored
            for slot in where[seq][:stored]:
                live[slot] = live.get(slot, 0) + 1
        if not self.holds:
            assert self.allocator.usage().shared == sum(live.values()) - len(live)
        if isinstance(self.allocator, PrefixPaged | KeyedPaged | Paged):
            self._count([self.allocator.table(seq) for seq in view.running])

    def _told(self, seq: Any) -> list[tuple[int, int]]:
        """What `seq` must hold; test_forks.py holds what samples say of themselves to an oracle."""
        if not self.forks:
            return self.content[seq.id]
        return [(seq.salt, first + j) for first, length in seq.runs() for j in range(length)]

    def finished(self, step: int, done: Any, /) -> None:
        self.before = {seq: self.allocator.slots(seq).tolist() for seq in self.view.running}

    def _copy(self, where: dict[Any, list[int]]) -> None:
        """A fork may find what it has stored elsewhere: copied, before anyone writes."""
        if not self.forks:
            return
        then = dict(self.slots)
        for seq, slots in where.items():
            stored = list(zip(self.before.get(seq, ()), slots, strict=False))[: seq.computed]
            for old, new in stored:
                if old != new:
                    self.slots[new] = then[old]
                    self.copied += 1

    def _count(self, tables: list[tuple[int, ...]]) -> None:
        """Holders are the tables that hold a block; nothing held is free."""
        holders = Counter(block for table in tables for block in table)
        usage, block = self.allocator.usage(), self.allocator.block
        free = self.allocator.free_blocks()
        assert len(set(free)) == len(free)
        assert not holders.keys() & set(free)
        if self.holds:
            assert usage.held >= len(holders) * block
        else:
            assert usage.held == len(holders) * block


def replay(engine: Any, trace: Trace, allocator: Any, scheduler: Any, max_len: int) -> Shadow:
    shadow = Shadow(allocator, trace, holds=getattr(scheduler, "hold", False))
    scheduler.steady = False  # a jump leaves `computed` at its first step
    engine(trace, allocator, scheduler, Fixed(1), max_len=max_len, observers=[shadow]).run()
    usage = allocator.usage()
    assert (usage.held, usage.shared) == (0, 0)
    return shadow


@pytest.mark.parametrize("engine", [FastEngine, ReferenceEngine])
@given(trace=sharing_traces(), setup=setups(), kind=st.sampled_from(["prefix", "paged", "buddy"]))
def test_tables_read_back_their_content(engine: Any, trace: Trace, setup: Any, kind: str) -> None:
    make, scheduler, max_len = setup
    allocator: Any = make()
    if kind == "paged":
        allocator = Paged(allocator.blocks, block=allocator.block)
    elif kind == "buddy":
        try:
            allocator = Contiguous(
                allocator.capacity, max_len=max_len, place="buddy", reserve="pow2"
            )
        except SpecError:
            return
    replay(engine, trace, allocator, scheduler(), max_len)


@pytest.mark.parametrize("engine", [FastEngine, ReferenceEngine])
@given(trace=sharing_traces(), setup=setups(), page=st.integers(1, 3))
def test_a_radix_tree_reads_back_its_content(
    engine: Any, trace: Trace, setup: Any, page: int
) -> None:
    make, scheduler, max_len = setup
    replay(engine, trace, Radix(make().capacity, page=page), scheduler(), max_len)


@pytest.mark.parametrize("engine", [FastEngine, ReferenceEngine])
@given(trace=forking_traces(), setup=setups(), prefix=st.booleans())
def test_samples_and_beams_read_back_their_content(
    engine: Any, trace: Trace, setup: Any, prefix: bool
) -> None:
    """Whoever writes into a block that others hold, or gives back what they hold, is seen."""
    make, scheduler, max_len = setup
    allocator, made = make(), scheduler()
    made.max_seqs = max(4, made.max_seqs)
    if not prefix:
        allocator = Paged(allocator.blocks, block=allocator.block)
    replay(engine, trace, allocator, made, max_len)


@pytest.mark.parametrize("engine", [FastEngine, ReferenceEngine])
@pytest.mark.parametrize("evict", sorted(BLOCK_POLICIES))
def test_what_a_preempted_sample_was_to_compute_is_not_hit(engine: Any, evict: str) -> None:
    """Row 5 is preempted in steps in which its first sample fills blocks; row 7 begins like it."""
    samples = [2, 1, 1, 1, 2, 2, 3, 2, 1, 1, 1]
    prompts = [1, 1, 1, 1, 28, 1, 1, 3, 1, 1, 1]
    outputs = [3, 1, 1, 6, 14, 7, 1, 1, 1, 1, 1]
    trace = Trace.build(
        "t",
        [0] * 3 + [3] * 4 + [4] * 4,
        prompts,
        outputs,
        runs=([0, 1, 2, 3, 4, *range(7, 14)], [0] * 13, [*[1] * 5, 13, 14, 1, 1, 3, 1, 1, 1]),
        output_token=[1, 1, 1, 1, 14, 1, 1, 3, 1, 1, 1],
        columns={"samples": samples, "beam": [1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0]},
        sample_output=[n for n, of in zip(outputs, samples, strict=True) for _ in range(of)],
        forks=Forks([0] * 5 + [1] * 7, [9], [0], [1]),
    )
    replay(engine, trace, RankedPaged(30, block=2, evict=evict), Orca(max_seqs=4), 70)


def _twice(self: Any, blocks: int, table: list[int]) -> None:
    """Hands out a block that stays on the list."""
    _TAKE(self, blocks, table)
    self._free.put_front(Stretch(table[-1:], 0, None))


_TAKE = PrefixPaged._take


def test_the_shadow_sees_a_block_that_is_handed_out_twice() -> None:
    trace = Trace.build("t", [0, 0], [5, 5], [3, 3])
    from pagedsim.engine.schedulers import Vllm

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrefixPaged, "_take", _twice)
        with pytest.raises(AssertionError):
            replay(ReferenceEngine, trace, PrefixPaged(12, block=2), Vllm(), 40)


def test_the_shadow_sees_a_stale_key() -> None:
    """Taking a block leaves its key: a later look-up hits other content."""
    from pagedsim.engine.schedulers import Vllm

    trace = Trace.build(
        "t",
        [0, 20, 40],
        [4, 8, 6],
        [1, 1, 1],
        runs=([0, 1, 2, 3], [0, 100, 0], [4, 8, 6]),
        output_token=[900, 910, 920],
    )

    def keeps(self: Any, block: int) -> None:
        self._cached -= 1
        self._key[block] = -1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeyedPaged, "_forget", keeps)
        with pytest.raises(AssertionError):
            replay(ReferenceEngine, trace, KeyedPaged(6, block=2), Vllm(), 40)


# Planted mistakes in what forks share, each of which the shadow must see.


def _writes_in_place(patch: pytest.MonkeyPatch) -> None:
    """The first to write does not copy."""
    patch.setattr(Tables, "_copies", lambda self, table, tokens: False)


def _gives_back_what_others_hold(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Paged, "_leave", lambda self, block: True)


def _one_holder_too_few(patch: pytest.MonkeyPatch) -> None:
    """A fork of two, and the first to end takes the blocks with it."""

    def fork(self: Any, parent: Any, child: Any, tokens: int) -> None:
        self._tables[child] = self._tables[parent].copy()

    patch.setattr(Paged, "fork", fork)


@pytest.mark.parametrize(
    "plant",
    [
        _writes_in_place,
        _gives_back_what_others_hold,
        _one_holder_too_few,
    ],
)
def test_the_shadow_sees_what_forks_must_not_do(plant: Any) -> None:
    from pagedsim.engine.schedulers import Vllm

    trace = Trace.build("t", [0, 0], [5, 3], [6, 9], samples=[3, 2], sample_output=[2, 6, 4, 9, 9])

    def both() -> None:
        for pool in (Paged, PrefixPaged):
            replay(ReferenceEngine, trace, pool(30, block=4), Vllm(), 40)

    both()
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises((AssertionError, ContractError)):
            both()
