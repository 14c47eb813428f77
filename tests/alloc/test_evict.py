"""Eviction policies of the prefix cache, beside a model that keeps every block in plain lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pagedsim.alloc.evict import BLOCK_POLICIES, Entry, Lru
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.errors import ContractError, SpecError

RANKS: dict[str, Any] = {
    "fifo": lambda b: b.made,
    "lfu": lambda b: (b.uses, b.touched),
    "lru": lambda b: b.touched,
    "mru": lambda b: -b.touched,
    "slru": lambda b: (b.uses > 1, b.touched),
}
NAMES: dict[tuple[int, ...], int] = {}  # a key a prefix, made up here


@dataclass(eq=False)
class Seq:
    """Knows all of `text`, of which `tokens` are shown."""

    id: int
    text: tuple[int, ...]
    tokens: int
    salt: int = 0

    def keys(self, block: int) -> Any:
        ends = range(block, len(self.text) + 1, block)
        prefixes = [(block, self.salt, *self.text[:end]) for end in ends]
        return np.array([NAMES.setdefault(prefix, len(NAMES)) for prefix in prefixes], np.int64)

    def key(self, block: int, at: int) -> tuple[int, ...]:
        return (self.salt, *self.text[: (at + 1) * block])


@dataclass
class Block:
    """All that there is to know of a block."""

    id: int
    key: tuple[int, ...] | None = None
    holders: int = 0
    made: int = 0
    uses: int = 0
    touched: int = 0
    came: int = 0  # to the free list


@dataclass
class Model:
    """The rules, one block at a time."""

    policy: str
    size: int
    count: int
    to_front: bool
    plain: list[int] = field(default_factory=list)
    tables: dict[Seq, list[int]] = field(default_factory=dict)
    named: dict[Seq, int] = field(default_factory=dict)
    found: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    clock: int = 0
    came: int = 0

    def __post_init__(self) -> None:
        self.blocks = {at: Block(at) for at in range(1, self.count)}
        self.plain = list(self.blocks)

    def kept(self) -> list[int]:
        """Free blocks with content, the first to go first."""
        idle = [b for b in self.blocks.values() if not b.holders and b.key is not None]
        return [b.id for b in sorted(idle, key=lambda b: (RANKS[self.policy](b), b.came))]

    def free(self) -> list[int]:
        return self.plain + self.kept()

    def hits(self, seq: Seq) -> list[int]:
        out: list[int] = []
        for at in range((seq.tokens - 1) // self.size):
            there = self.found.get(seq.key(self.size, at))
            if not there:
                break
            out.append(there[0])
        return out

    def take(self) -> int:
        at = self.plain.pop(0) if self.plain else self.kept()[0]
        block = self.blocks[at]
        if block.key is not None:
            self.found[block.key].remove(at)
            block.key = None
        block.holders = 1
        return at

    def admit(self, seq: Seq, tokens: int, whole: int, spare: int) -> bool:
        hits = self.hits(seq)
        idle = [at for at in hits if not self.blocks[at].holders]
        need = -(-max(tokens, whole) // self.size) - len(hits)
        if need + -(-spare // self.size) > len(self.free()) - len(idle):
            return False
        for at in hits:
            self.blocks[at].holders += 1
            self.blocks[at].uses += 1
        self.tables[seq], self.named[seq] = hits, len(hits)
        return self.grow(seq, tokens)

    def grow(self, seq: Seq, tokens: int) -> bool:
        table = self.tables[seq]
        need = -(-tokens // self.size) - len(table)
        if need > len(self.free()):
            return False
        table += [self.take() for _ in range(need)]
        fresh = range(self.named[seq], tokens // self.size)
        self.clock += bool(fresh)
        for at in fresh:
            block = self.blocks[table[at]]
            block.key, block.made, block.uses = seq.key(self.size, at), self.clock, 1
            self.found.setdefault(block.key, []).append(block.id)
            self.named[seq] = at + 1
        return True

    def release(self, seq: Seq) -> None:
        self.clock += 1
        group = []
        for at in reversed(self.tables.pop(seq)):
            block = self.blocks[at]
            block.holders -= 1
            if block.holders:
                continue
            block.touched = self.clock
            self.came += 1
            block.came = self.came
            if block.key is None:
                group.append(at)
        self.plain = group + self.plain if self.to_front else self.plain + group


def play(data: st.DataObject, policy: str, made: Any = RankedPaged) -> int:
    """Drive both, and compare all that shows after each call; how many blocks were evicted."""
    size, count = data.draw(st.integers(1, 3)), data.draw(st.integers(3, 12))
    order = data.draw(st.sampled_from(["0.33", "0.11"]))
    pool = made(count, block=size, free_order=order, evict=policy)
    model = Model(policy, size, count, order == "0.33")
    waiting: list[Seq] = []
    evicted = 0
    for step in range(data.draw(st.integers(1, 25))):
        kind = data.draw(st.sampled_from(["admit", "admit", "grow", "release", "fill"]))
        running = list(model.tables)
        before = len(model.kept())
        if kind == "admit" or not running:
            text = data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=3 * size + 2))
            salt = data.draw(st.sampled_from([0, 0, 0, 1]))
            seq = Seq(step, tuple(text), data.draw(st.integers(1, len(text))), salt)
            assert pool.cached(seq) == len(model.hits(seq)) * size
            tokens = data.draw(st.integers(pool.cached(seq) + 1, seq.tokens))
            whole, spare = data.draw(st.sampled_from([0, seq.tokens])), data.draw(st.integers(0, 2))
            granted = pool.admit(seq, tokens, whole=whole, spare=spare)
            assert granted == model.admit(seq, tokens, whole, spare)
            if not granted:
                waiting.append(seq)
        elif kind == "release":
            seq = data.draw(st.sampled_from(running))
            pool.release(seq)
            model.release(seq)
        else:
            seq = data.draw(st.sampled_from(running))
            more = data.draw(st.integers(0, len(seq.text)))
            room = len(model.tables[seq]) * size
            more = min(room, len(seq.text)) if kind == "fill" else more
            seq.tokens = max(seq.tokens, more)
            assert pool.grow(seq, more) == model.grow(seq, more)
        evicted += max(0, before - len(model.kept()))
        assert list(pool.free_blocks()) == model.free()
        assert [pool.cached(seq) for seq in waiting] == [
            len(model.hits(seq)) * size for seq in waiting
        ]
        assert {seq: list(pool.table(seq)) for seq in model.tables} == model.tables
        held = {at for table in model.tables.values() for at in table}
        stored = sum(len(table) for table in model.tables.values())
        usage = pool.usage()
        assert usage.held == len(held) * size
        assert usage.cached == len(model.kept()) * size
        assert usage.shared == (stored - len(held)) * size
        assert pool.keys_cached() == sum(1 for there in model.found.values() if there)
    return evicted


@pytest.mark.parametrize("policy", sorted(RANKS))
@given(data=st.data())
def test_blocks_leave_in_the_order_of_the_policy(policy: str, data: st.DataObject) -> None:
    play(data, policy)


class _UsesNotCounted(RankedPaged):
    def _taking(self, seq: Any, hits: Any) -> None:
        pass


class _RootFirst(RankedPaged):
    def _keep(self, blocks: Any) -> None:
        super()._keep(blocks[::-1])


class _ContentFirst(RankedPaged):
    """Blocks without content last."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        plain, ranks = self._ranks._plain, self._ranks

        def take(blocks: int) -> list[int]:
            if blocks > ranks._ranked:
                return plain.take(blocks) if blocks <= len(plain) else ranks.take_many(blocks)
            held, ranks._plain = ranks._plain, type(plain)(0, 0)
            try:
                return ranks.take_many(blocks).tolist()
            finally:
                ranks._plain = held

        ranks.take = take  # type: ignore[method-assign]


class _MadeAgainByAHit(RankedPaged):
    def _taking(self, seq: Any, hits: Any) -> None:
        super()._taking(seq, hits)
        self._all_made[hits] = self._clock


class _NeverDies(RankedPaged):
    """What is hit stays in its run."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self._ranks.remove = lambda blocks: None  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("policy", "planted"),
    [
        ("lfu", _UsesNotCounted),
        ("lru", _RootFirst),
        ("slru", _ContentFirst),
        ("fifo", _MadeAgainByAHit),
        ("mru", _NeverDies),
    ],
)
def test_a_planted_mistake_is_found(policy: str, planted: Any) -> None:
    @settings(
        max_examples=800,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(st.data())
    def search(data: st.DataObject) -> None:
        play(data, policy, planted)

    with pytest.raises((AssertionError, KeyError, IndexError)):
        search()


def test_the_sample_evicts() -> None:
    total = []

    @settings(max_examples=150, derandomize=True, database=None, deadline=None)
    @given(st.data())
    def sample(data: st.DataObject) -> None:
        total.append(play(data, "lfu"))

    sample()
    assert sum(evicted > 0 for evicted in total) >= 30


def test_dead_entries_are_dropped() -> None:
    """A prefix that is hit for ever leaves one entry alive."""
    pool = RankedPaged(40, block=1, evict="mru")
    for row in range(2000):
        seq = Seq(row, tuple(range(9)), 9)
        assert pool.admit(seq, 9)
        pool.release(seq)
    assert len(pool._ranks._heap) < 600


class Oldest:
    """A policy of somebody's own."""

    def __init__(self) -> None:
        self.asked: list[Entry] = []

    def rank(self, entry: Entry) -> int:
        self.asked.append(entry)
        return entry.made


def test_a_policy_is_asked_once_for_blocks_that_are_alike() -> None:
    policy = Oldest()
    pool = RankedPaged(10, block=1, evict=policy)
    seq = Seq(0, (1, 2, 3, 4, 5), 5)
    assert pool.admit(seq, 3)  # made at tick 1
    assert pool.grow(seq, 5)  # at tick 2
    pool.release(seq)  # at tick 3: 5 4, then 3 2 1
    found = [(entry.touched, entry.made, entry.uses) for entry in policy.asked]
    assert found == [(3, 2, 1), (3, 1, 1)]
    assert pool.free_blocks() == (6, 7, 8, 9, 3, 2, 1, 5, 4)


def test_what_cannot_be() -> None:
    names = ", ".join(sorted(BLOCK_POLICIES))
    with pytest.raises(SpecError, match=f"paged: evict is 'belady', must be one of {names}"):
        RankedPaged(9, evict="belady")
    blind = RankedPaged(9, block=1, evict="optimal")
    seq = Seq(0, (1, 2), 2)
    assert blind.admit(seq, 2)
    with pytest.raises(ContractError, match="needs the future; call foresee before the run"):
        blind.release(seq)


def test_least_recently_used_is_the_free_list_itself() -> None:
    """Exact ids: two releases, a hit, an eviction."""
    for pool in (PrefixPaged(8, block=1), RankedPaged(8, block=1, evict=Lru())):
        a, b = Seq(0, (1, 2, 3), 3), Seq(1, (1, 2, 4, 5), 4)
        assert pool.admit(a, 3)
        pool.release(a)
        assert pool.free_blocks() == (4, 5, 6, 7, 3, 2, 1)
        assert pool.admit(b, 4)  # hits 1 2
        assert pool.table(b) == (1, 2, 4, 5)
        pool.release(b)
        assert pool.free_blocks() == (6, 7, 3, 5, 4, 2, 1)
        assert pool.admit(Seq(2, (9, 9, 9), 3), 3)  # 3 is evicted
        assert pool.keys_cached() == 4 + 3
