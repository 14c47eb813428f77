"""Eviction by a policy, forks and states over groups, beside a model of every block in plain lists.

The model knows no free list but two lists: blocks without content, in order, and those with some,
sorted by what the policy is said to see. It finds hits by trying every length.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import lcm
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from test_evict import RANKS
from test_grouped import GROUPS, group, read_by_next, tables_are_right

import pagedsim.alloc.grouped as module
from pagedsim.alloc.evict import BLOCK_POLICIES, POLICIES
from pagedsim.alloc.grouped import Grouped
from pagedsim.alloc.grouped_ranked import RankedPool
from pagedsim.errors import SpecError
from pagedsim.protocols import LayerGroup
from pagedsim.testing.sequences import Library, Seq


class Place(NamedTuple):
    """What `LayerGroup` says, and what of a table must be there."""

    one: LayerGroup

    def entries(self, tokens: int) -> int:
        return -(-tokens // self.one.block)

    def read(self, tokens: int) -> set[int]:
        """Entries that hold what the token after `tokens` stored ones needs."""
        if self.one.kind == "state":
            return {(tokens - 1) // self.one.block} if tokens else set()
        return {position // self.one.block for position in read_by_next(self.one, tokens)}

    def before(self, tokens: int) -> int:
        """Entries that are behind all that any later token needs."""
        if self.one.kind == "state":
            return max(0, tokens - 1) // self.one.block
        return read_by_next(self.one, tokens).start // self.one.block

    def new(self, there: int, tokens: int) -> list[bool]:
        """Entries that are added: whether each is a block."""
        more = self.entries(tokens) - there
        if self.one.kind == "state":
            return [False] * (more - 1) + [True] * (more > 0)
        return [True] * more

    def named(self, since: int, tokens: int) -> range:
        """Entries that get their content."""
        full = tokens // self.one.block
        if self.one.kind == "state":
            return range(full - 1 if tokens == full * self.one.block else full, full)
        return range(since, full)


@dataclass
class Block:
    content: tuple[int, int] | None = None  # its group, and the number of the prefix that it ends
    holders: int = 0
    made: int = 0
    uses: int = 0
    touched: int = 0
    came: int = 0


@dataclass
class Model:
    """The rules, one block at a time."""

    groups: tuple[LayerGroup, ...]
    count: int
    policy: str
    to_front: bool
    tables: dict[Seq, list[list[int]]] = field(default_factory=dict)
    named: dict[Seq, list[int]] = field(default_factory=dict)
    clock: int = 0
    came: int = 0
    evicted: int = 0

    def __post_init__(self) -> None:
        self.blocks = {at: Block() for at in range(1, self.count)}
        self.plain = list(self.blocks)
        self.found: dict[tuple[int, int], list[int]] = {}
        self.places = [Place(one) for one in self.groups]
        self.steps: dict[Seq, int] = {}  # tokens at whose end the last states were named
        self.asked: dict[Seq, int] = {}  # most tokens that each was given
        self.samples: set[Seq] = set()  # those that were forked

    def kept(self) -> list[int]:
        idle = [(at, b) for at, b in self.blocks.items() if not b.holders and b.content]
        return [at for at, b in sorted(idle, key=lambda x: (RANKS[self.policy](x[1]), x[1].came))]

    def free(self) -> list[int]:
        return self.plain + self.kept()

    def hit(self, seq: Seq) -> tuple[int, list[list[int]]]:
        """The longest that all groups have: blocks of each, 0 where none is needed."""
        align = lcm(*(one.block for one in self.groups))
        for tokens in range((seq.tokens - 1) // align * align, -1, -align):
            tables = []
            for at, one in enumerate(self.groups):
                table = [0] * (tokens // one.block)
                for index in self.places[at].read(tokens):
                    content = (at, seq.prefixes[(index + 1) * one.block - 1])
                    table[index] = next(iter(self.found.get(content, [])), -1)
                tables.append(table)
            if not any(-1 in table for table in tables):
                return tokens, tables
        raise AssertionError("no hit is a hit of nothing")

    def admit(self, seq: Seq, tokens: int, whole: int, spare: int, size: int) -> bool:
        hit, tables = self.hit(seq)
        if any(one.kind == "state" for one in self.groups) and any(
            hit == end > other.computed and other.prefixes[end - 1] == seq.prefixes[hit - 1]
            for other, end in self.steps.items()
        ):
            return False  # its state is computed in this very step
        idle = {at for table in tables for at in table if at and not self.blocks[at].holders}
        need = sum(
            sum(place.new(len(table), max(tokens, whole)))
            for place, table in zip(self.places, tables, strict=True)
        )
        if need + len(idle) + -(-spare // size) > len(self.free()):
            return False
        for at in [at for table in tables for at in table if at]:
            self.blocks[at].holders += 1
            self.blocks[at].uses += 1
        self.tables[seq] = tables
        self.named[seq] = [len(table) for table in tables]
        self.asked[seq] = tokens
        return self.grow(seq, tokens)

    def fork(self, parent: Seq, child: Seq) -> None:
        self.samples |= {parent, child}
        self.tables[child] = [list(table) for table in self.tables[parent]]
        self.named[child] = list(self.named[parent])
        self.asked[child] = self.asked[parent]
        for table in self.tables[child]:
            for at in filter(None, table):
                self.blocks[at].holders += 1

    def copied(self, seq: Seq, tokens: int) -> list[bool]:
        """Groups whose last block is written, and is held by others."""
        there = self.asked[seq]
        return [
            tokens > there % one.block + there // one.block * one.block
            and there % one.block > 0
            and self.blocks[table[-1]].holders > 1
            for one, table in zip(self.groups, self.tables[seq], strict=True)
        ]

    def grow(self, seq: Seq, tokens: int) -> bool:
        needs = [
            place.new(len(table), tokens)
            for place, table in zip(self.places, self.tables[seq], strict=True)
        ]
        copies = self.copied(seq, tokens)
        if sum(map(sum, needs)) + sum(copies) > len(self.free()):
            return False
        self.asked[seq] = max(tokens, self.asked[seq])
        for table, need, copy in zip(self.tables[seq], needs, copies, strict=True):
            if copy:
                self.blocks[table[-1]].holders -= 1
                table[-1] = self.take()
            table += [self.take() if block else 0 for block in need]
        named = self.named[seq]
        full = [tokens // one.block for one in self.groups]
        self.clock += any(now > before for now, before in zip(full, named, strict=True))
        for at, one in enumerate(self.groups):
            for index in self.places[at].named(named[at], tokens) if full[at] > named[at] else ():
                number = self.tables[seq][at][index]
                if number:
                    self.steps[seq] = tokens
                    content = (at, seq.prefixes[(index + 1) * one.block - 1])
                    self.blocks[number] = Block(content, 1, self.clock, 1)
                    self.found.setdefault(content, []).append(number)
            named[at] = max(named[at], full[at])
        return True

    def take(self) -> int:
        number = self.plain.pop(0) if self.plain else self.kept()[0]
        if content := self.blocks[number].content:
            self.found[content].remove(number)
            self.evicted += 1
        self.blocks[number] = Block(None, 1)
        return number

    def back(self, part: list[int]) -> None:
        """Of one table, in token order."""
        plain = []
        for number in [number for number in reversed(part) if number]:
            block = self.blocks[number]
            block.holders -= 1
            if block.holders:
                continue
            self.came += 1
            block.touched, block.came = self.clock, self.came
            if not block.content:
                plain.append(number)
        self.plain = plain + self.plain if self.to_front else self.plain + plain

    def trim(self, seq: Seq) -> None:
        firsts = [place.before(seq.computed) for place in self.places]
        tables = self.tables[seq]
        self.clock += any(any(t[:first]) for t, first in zip(tables, firsts, strict=True))
        for table, first in zip(tables, firsts, strict=True):
            self.back(table[:first])
            table[:first] = [0] * first

    def release(self, seq: Seq) -> None:
        if seq in self.samples:  # in the step that was to compute what has its keys already
            for one, table in zip(self.groups, self.tables[seq], strict=True):
                for number in filter(None, table[seq.computed // one.block :]):
                    block = self.blocks[number]
                    if block.content and block.holders == 1:
                        self.found[block.content].remove(number)
                        block.content = None
        self.clock += 1
        self.steps.pop(seq, None)
        for table in self.tables.pop(seq):
            self.back(table)


STATES = st.builds(group, kind=st.just("state"), block=st.sampled_from([2, 4])).map(lambda x: (x,))
MIXED = GROUPS | st.tuples(STATES, GROUPS).map(lambda pair: pair[1][:2] + pair[0])
MOVES = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 3, 3, 4, 4, 5, 6]), st.integers(0, 40), st.integers(0, 4)),
    min_size=5,
    max_size=40,
)


def play(groups: Any, blocks: int, order: str, policy: Any, moves: Any) -> int:
    """Drive both, and compare all that shows after each call; how many blocks were evicted."""
    name = policy if isinstance(policy, str) else type(policy).__name__.lower()
    try:
        pool = Grouped(blocks, groups=groups, prefix=True, free_order=order, evict=policy)
    except SpecError:
        return 0
    model, library = Model(groups, blocks, name, order == "0.33"), Library()
    steps: list[tuple[Seq, int]] = []  # what the step being planned will store
    for number, (kind, size, pick) in enumerate(moves):
        running = list(model.tables)
        if kind < 3 or not running:
            base = [0, 0, 0, 100, 7][pick]
            prompt = 1 + size % max(1, pool.longest - 1)
            seq = Seq(number, prompt, range(base, base + prompt + 9), library)
            hit, _ = model.hit(seq)
            assert pool.cached(seq) == hit
            tokens = prompt if pick % 2 else hit + 1
            whole, spare = prompt * (pick > 2), pick * (kind == 1)
            granted = pool.admit(seq, tokens, whole=whole, spare=spare)
            assert granted == model.admit(seq, tokens, whole, spare, pool.block)
            if granted:
                seq.computed = hit
                steps.append((seq, tokens))
        elif kind == 5 or running[size % len(running)].computed >= pool.longest:
            seq = running[size % len(running)]
            pool.release(seq)
            model.release(seq)
        elif kind == 6:
            seq = running[size % len(running)]
            if steps or seq.computed != pool.covered(seq):
                continue
            content = (*seq.content[: seq.computed], *range(500 + 10 * number, 509 + 10 * number))
            child = Seq(number, min(seq.prompt, seq.computed), content, library)
            child.tokens, child.computed = seq.computed + 1, seq.computed
            pool.fork(seq, child, seq.computed)
            model.fork(seq, child)
        else:
            seq = running[size % len(running)]
            if seq.computed == seq.final + 1 or any(seq is other for other, _ in steps):
                continue
            pool.trim(seq, seq.computed)
            model.trim(seq)
            tokens = min(seq.tokens, seq.computed + 1 + pick)
            granted = pool.grow(seq, tokens)
            assert granted == model.grow(seq, tokens)
            if granted:
                steps.append((seq, tokens))
        if kind % 2:  # the step is over
            for seq, tokens in steps:
                if seq in model.tables:
                    seq.store(tokens)
            steps.clear()
        assert list(pool.free_blocks()) == model.free()
        for seq, tables in model.tables.items():
            assert [list(table) for table in pool.tables(seq)] == tables
        if not steps:
            tables_are_right(pool, list(model.tables), forked={block for block in model.blocks
                             if model.blocks[block].holders > 1})  # fmt: skip
        assert pool.usage().cached == len(model.kept()) * pool.block
        assert pool.evicted == model.evicted * pool.block
    return model.evicted


@pytest.mark.parametrize("policy", sorted(RANKS))
@given(groups=MIXED, blocks=st.integers(4, 24), moves=MOVES, order=st.sampled_from("ab"))
def test_blocks_leave_in_the_order_of_the_policy(
    policy: str, groups: Any, blocks: int, moves: Any, order: str
) -> None:
    play(groups, blocks, {"a": "0.33", "b": "0.11"}[order], POLICIES[policy](), moves)


@given(groups=MIXED, blocks=st.integers(4, 24), moves=MOVES)
def test_the_free_list_itself_is_least_recently_used(groups: Any, blocks: int, moves: Any) -> None:
    play(groups, blocks, "0.33", "lru", moves)


def test_the_sample_evicts() -> None:
    total = []

    @settings(max_examples=150, derandomize=True, database=None, deadline=None)
    @given(groups=MIXED, blocks=st.integers(4, 24), moves=MOVES)
    def sample(groups: Any, blocks: int, moves: Any) -> None:
        total.append(play(groups, blocks, "0.33", "lfu", moves))

    sample()
    assert sum(evicted > 0 for evicted in total) >= 15, total


class _UsesNotCounted(RankedPool):
    def hold(self, group: int, blocks: Any) -> None:
        super(RankedPool, self).hold(group, blocks)


class _RootFirst(RankedPool):
    def _keep(self, blocks: Any) -> None:
        super()._keep(blocks[::-1])


class _NoTime(RankedPool):
    """What a window leaves behind is as old as what was given back before."""

    def tick(self) -> None:
        pass


class _MadeAgain(RankedPool):
    def hold(self, group: int, blocks: Any) -> None:
        super().hold(group, blocks)
        for block in blocks:
            self._made[block] = self._clock


@pytest.mark.parametrize("planted", ["hit at once", "named inside", "passed over is taken"])
def test_a_mistake_with_states_is_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if planted == "hit at once":
        monkeypatch.setattr(Grouped, "unsettled", lambda self, seq: False)
    elif planted == "named inside":
        monkeypatch.setattr(module, "STATES", "none")
    else:
        monkeypatch.setattr(module, "wanted", lambda one, there, tokens, most=0: max(
            0, -(-tokens // one.block) - there
        ))  # fmt: skip

    @settings(
        max_examples=800,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(groups=st.tuples(STATES, GROUPS).map(lambda pair: pair[1][:1] + pair[0]),
           blocks=st.integers(4, 24), moves=MOVES)  # fmt: skip
    def search(groups: Any, blocks: int, moves: Any) -> None:
        play(groups, blocks, "0.33", "lru", moves)

    with pytest.raises((AssertionError, KeyError, IndexError)):
        search()


@pytest.mark.parametrize(
    ("policy", "planted"),
    [("lfu", _UsesNotCounted), ("lru", _RootFirst), ("mru", _NoTime), ("fifo", _MadeAgain)],
)
def test_a_planted_mistake_is_found(
    policy: str, planted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RankedPool", planted)

    @settings(
        max_examples=800,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(groups=MIXED, blocks=st.integers(4, 24), moves=MOVES)
    def search(groups: Any, blocks: int, moves: Any) -> None:
        play(groups, blocks, "0.33", POLICIES[policy](), moves)

    with pytest.raises((AssertionError, KeyError, IndexError)):
        search()


def test_what_a_window_leaves_is_ranked_when_it_leaves() -> None:
    """Blocks of 2, a window of 2: of 6 tokens the first blocks went when token 4 was written."""
    pool = Grouped(9, groups=(group("sliding", 2, 2),), prefix=True, evict="mru")
    seq = Seq(0, 4, range(9), Library())
    assert pool.admit(seq, 4)
    seq.store(4)
    pool.trim(seq, 4)
    assert pool.tables(seq) == ((0, 2),)
    assert pool.grow(seq, 5)
    pool.release(seq)
    # 3 was never full; then what was given back last, 2, and 1 that had left its window
    assert pool.free_blocks() == (3, 4, 5, 6, 7, 8, 2, 1)


def test_what_cannot_be() -> None:
    windows = (group("full"), group("sliding", 3))
    names = ", ".join(sorted(BLOCK_POLICIES))
    with pytest.raises(SpecError, match=f"paged: evict is 'belady', must be one of {names}"):
        Grouped(9, groups=windows, prefix=True, evict="belady")
    with pytest.raises(SpecError, match="evict is 'lfu', which needs prefix=on"):
        Grouped(9, groups=windows, evict="lfu")
    for groups in (windows, windows[1:], (group("full"), group("full"))):
        with pytest.raises(SpecError, match="evict needs the future, and of several groups or a"):
            Grouped(20, groups=groups, prefix=True, evict="optimal")
