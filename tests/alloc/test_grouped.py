"""Groups of layers over one pool: against a model that knows nothing but the rules in words.

The model keeps what was ever stored as sets of (group, block id) -> content, and looks for hits by
trying every length. Single cases have the numbers of engines.
"""

from __future__ import annotations

from collections.abc import Collection
from math import lcm
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.alloc.grouped import Grouped
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import LayerGroup, Narrow, Outside
from pagedsim.testing.sequences import Library, Seq, sequence


def group(kind: str, window: int = 0, block: int = 4, token: int = 1, kept: int = 1) -> LayerGroup:
    return LayerGroup(kind, (), block, token * block, window, kept)


def read_by_next(one: LayerGroup, stored: int) -> range:
    """Positions before `stored` that the token there reads."""
    if one.kind == "sliding":
        return range(max(0, stored + 1 - one.window), stored)
    if one.kind == "chunked":
        return range(stored - stored % one.window, stored)
    return range(stored)


class Model:
    """What must be found: content of blocks by id, and nothing of free lists."""

    def __init__(self, pool: Grouped) -> None:
        self.pool, self.content = pool, dict[int, tuple[int, int]]()

    def stored(self, seq: Seq, tokens: int) -> None:
        for at, (one, table) in enumerate(
            zip(self.pool.groups, self.pool.tables(seq), strict=True)
        ):
            for index, block in enumerate(table):
                if block and (index + 1) * one.block > seq.computed:
                    self.content.pop(block, None)  # whatever stood there is written over
                if block and (index + 1) * one.block <= tokens:
                    self.content[block] = (at, seq.prefixes[(index + 1) * one.block - 1])

    def hit(self, seq: Seq) -> int:
        """The longest that all groups have."""
        there = set(self.content.values())
        align = lcm(*(one.block for one in self.pool.groups))
        for tokens in range((seq.tokens - 1) // align * align, 0, -align):
            wanted = {
                (at, seq.prefixes[position // one.block * one.block + one.block - 1])
                for at, one in enumerate(self.pool.groups)
                for position in read_by_next(one, tokens)
            }
            if wanted <= there:
                return tokens
        return 0


GROUPS = st.lists(
    st.builds(
        group,
        kind=st.sampled_from(["full", "sliding", "sliding", "chunked"]),
        window=st.sampled_from([1, 2, 3, 6, 9]),
        block=st.sampled_from([1, 2, 2, 4]),
    ).map(lambda one: one._replace(window=0) if one.kind == "full" else one),
    min_size=1,
    max_size=3,
).map(tuple)
MOVES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40), st.integers(0, 3)), max_size=25)


@given(groups=GROUPS, blocks=st.integers(4, 24), moves=MOVES)
def test_hits_tables_and_windows(groups: Any, blocks: int, moves: Any) -> None:
    try:
        pool = Grouped(blocks, groups=groups, prefix=True)
    except SpecError:
        return
    model, library = Model(pool), Library()
    running: list[Seq] = []
    for number, (kind, size, pick) in enumerate(moves):
        if kind < 3 or not running:
            base = [0, 0, 100, 7][pick]
            prompt = 1 + size % max(1, pool.longest - 1)
            seq = Seq(number, prompt, range(base, base + prompt + 9), library)
            assert pool.cached(seq) == model.hit(seq)
            hit = pool.cached(seq)
            before = seen(pool, running)
            if not pool.admit(seq, prompt, whole=prompt):
                assert running or hit, "refused though nothing is held"
                assert seen(pool, running) == before
                continue
            seq.computed = hit
            running.append(seq)
        elif kind == 5:
            seq = running.pop(size % len(running))
            pool.release(seq)
            continue
        else:
            seq = running[size % len(running)]
            if seq.tokens > seq.final:
                continue
            step(pool, seq, running)
            if seq not in running:
                continue
        model.stored(seq, seq.tokens)
        seq.store(seq.tokens)
        tables_are_right(pool, running)
    for seq in running:
        pool.release(seq)
    assert pool.usage().held == pool.usage().shared == 0
    assert len(pool.free_blocks()) == blocks - 1


def step(pool: Grouped, seq: Seq, running: list[Seq]) -> None:
    """A token more; below `room` nothing may change, at a refusal nothing but what was trimmed."""
    room, before = pool.room(seq), seen(pool, running)
    freed = pool.trim(seq, seq.computed)
    if seq.tokens <= room:
        assert not freed
        assert seen(pool, running) == before
    for one, table in zip(pool.groups, pool.tables(seq), strict=True):
        reads = {at // one.block for at in read_by_next(one, seq.computed)}
        assert all(table[index] for index in reads)
        assert not any(table[: min(reads, default=0)])
    trimmed = seen(pool, running)
    if not pool.grow(seq, seq.tokens):
        assert seq.tokens > room
        assert seen(pool, running) == trimmed
        running.remove(seq)
        pool.release(seq)
    elif seq.tokens <= room:
        assert seen(pool, running) == before


def seen(pool: Grouped, running: list[Seq]) -> Any:
    tables = [pool.tables(seq) for seq in running]
    return pool.usage(), pool.group_blocks(), pool.free_blocks(), tables, pool.keys_cached()


def tables_are_right(pool: Grouped, running: list[Seq], forked: Collection[int] = ()) -> None:
    """Blocks are held or free, in one group, and shared only by equal content.

    Those `forked` may have an end that is nobody's yet.
    """
    users: dict[int, set[tuple[int, int]]] = {}
    for seq in running:
        for at, (one, table) in enumerate(zip(pool.groups, pool.tables(seq), strict=True)):
            assert len(table) >= -(-seq.computed // one.block)
            for index, block in enumerate(table):
                end = (index + 1) * one.block
                if block:
                    content = seq.prefixes[end - 1] if end <= seq.computed else -1 - seq.id
                    if end > seq.computed and block in forked:
                        content = -1
                    users.setdefault(block, set()).add((at, content))
    assert all(len(contents) == 1 for contents in users.values())
    free = pool.free_blocks()
    assert not users.keys() & set(free)
    assert sorted([*users, *free]) == list(range(1, pool.blocks))
    counts = pool.group_blocks()
    assert sum(count.held for count in counts) == len(users)
    entries = [[len(table) for table in pool.tables(seq)] for seq in running]
    for at, count in enumerate(counts):
        assert sum(lengths[at] for lengths in entries) == count.held + count.shared + count.gone


# Single cases.


def test_a_window_drops_from_its_highest_block() -> None:
    """Freed blocks without a key go to the front as one set: the last of them is the new front."""
    pool = Grouped(9, groups=(group("sliding", 8),))
    seq = sequence(0, 20, 4)
    assert pool.admit(seq, 20)
    assert pool.tables(seq) == ((1, 2, 3, 4, 5),)
    assert pool.trim(seq, 20)  # tokens 13 … 20 are read by token 20: 12 // 4 = 3 blocks can go
    assert pool.tables(seq) == ((0, 0, 0, 4, 5),)
    assert pool.free_blocks() == (3, 2, 1, 6, 7, 8)
    assert not pool.trim(seq, 20)


def test_a_hit_needs_only_the_window() -> None:
    pool = Grouped(20, groups=(group("full"), group("sliding", 8)), prefix=True)
    first, again = sequence(0, 17, 2), sequence(0, 17, 2)
    again.prefixes = first.prefixes
    assert pool.admit(first, 17)
    pool.release(first)
    assert pool.cached(again) == 16
    assert pool.admit(again, 17)
    full, sliding = pool.tables(again)
    assert [bool(block) for block in full] == [True] * 5
    assert [bool(block) for block in sliding] == [False, False, True, True, True]


def test_the_full_input_of_a_window_is_capped() -> None:
    """W 64, 64 in flight, blocks of 16: 9 blocks and no more, however long the prompt is."""
    one = (LayerGroup("sliding", (), 16, 16, 64),)
    seq = sequence(0, 10_000, 5)
    assert Grouped(10, groups=one, in_flight=64).admit(seq, 64, whole=10_000)
    assert not Grouped(9, groups=one, in_flight=64).admit(seq, 64, whole=10_000)
    assert not Grouped(10, groups=one).admit(seq, 64, whole=10_000)
    assert Grouped(10, groups=one, in_flight=64).longest > 1 << 60
    assert Grouped(10, groups=one).longest == 144


def test_blocks_of_groups_are_handed_out_in_their_order() -> None:
    pool = Grouped(20, groups=(group("full"), group("state", kept=2), group("sliding", 8, 8)))
    seq = sequence(0, 9, 3)
    assert pool.admit(seq, 9)
    assert pool.tables(seq) == ((1, 2, 3), (4, 5), (6, 7))
    pool.release(seq)
    assert pool.free_blocks()[:7] == (7, 6, 5, 4, 3, 2, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"groups": ()}, "there are no groups"),
        ({"groups": (group("local", 3),)}, r"group 0 \(local\): its kind must be one of"),
        ({"groups": (group("full"), group("sliding", 0))}, "group 1 .*window is 0, must be >= 1"),
        ({"groups": (group("full", block=0),)}, "block is 0 tokens, must be >= 1"),
        ({"groups": (group("full")._replace(page_bytes=6),)}, "6 bytes of a block are no whole"),
        ({"groups": (group("full", token=-1),)}, "has -4 bytes, must be >= 0"),
        ({"groups": (group("sliding", 2)._replace(narrow=((2, 2),)),)}, "narrow layers, which"),
        ({"groups": (group("state", kept=0),)}, "keeps 0 states"),
        ({"groups": (group("full"),), "block_bytes": 3}, "block of 3 bytes, must be >= 4"),
        ({"groups": (group("full"),), "free_order": "9"}, "free_order is 9"),
        ({"groups": (group("full"),), "blocks": 1}, "a pool of 1 blocks"),
        ({"groups": (group("full"),) * 5, "blocks": 5}, "holds no token of all 5 groups"),
    ],
)
def test_what_makes_no_pool(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        Grouped(given.pop("blocks", 9), **given)


def test_misuse_is_an_error() -> None:
    pool, seq = Grouped(9, groups=(group("full"),)), sequence(0, 3, 3)
    for call in (lambda: pool.grow(seq, 1), lambda: pool.release(seq), lambda: pool.trim(seq, 1)):
        with pytest.raises(ContractError, match="holds nothing"):
            call()
    assert pool.admit(seq, 3)
    with pytest.raises(ContractError, match="admitted twice"):
        pool.admit(seq, 3)


def test_of_a_shared_block_so_much_is_outside_as_nobody_reads() -> None:
    """Two hold blocks of 4; 11 tokens of one and 10 of the other are read by none of their own."""
    layers = LayerGroup("full", (), 4, 8, narrow=(Narrow("sliding", 3, 2),))
    pool = Grouped(40, groups=(layers,), prefix=True)
    first, again = sequence(0, 13, 9), sequence(0, 13, 9)
    again.prefixes = first.prefixes
    assert pool.admit(first, 13)
    assert pool.admit(again, 13)
    first.computed, again.computed = 13, 12
    # 8 tokens of two blocks, 2 of the third, whose 3rd and 4th go by the step of who reads more
    assert pool.outside([first, again]) == Outside(2 * 10, 2 * 1, 2)
    assert pool.out_of_windows([first, again]) == 20
    first.computed, again.computed = 15, 14
    found = pool.outside([first, again])  # each leaves a block of its own behind
    assert found[:2] == (2 * 13, 2 * 2)
    assert found.steps > 10**9
    pool.release(again)
    assert pool.outside([first])[:2] == (2 * 13, 2 * 1)


@pytest.mark.parametrize("length", [8, 90])
@pytest.mark.parametrize("kind", ["paged", "full", "sliding", "state"])
def test_what_has_no_content_gets_no_key(kind: str, length: int) -> None:
    """Without a cache slots may be asked for ahead; with one, only for what there is."""
    groups = (group(kind, 3 if kind == "sliding" else 0),)

    def pool(prefix: bool) -> Any:
        if kind == "paged":
            return (PrefixPaged if prefix else Paged)(99, block=4)
        return Grouped(99, groups=groups, prefix=prefix)

    seq, said = sequence(7, 5, 2), f"request 7 asks for {length} tokens .* fill {length // 4} "
    for ahead in (lambda pool: pool.admit(seq, length), lambda pool: _grown(pool, seq, length)):
        assert ahead(pool(False))
        with pytest.raises(ContractError, match=said + "blocks of 4, but .* output fill 1: "):
            ahead(pool(True))
    whole = pool(True)
    assert whole.admit(seq, 7)  # of its last block no token need be there


def _grown(pool: Any, seq: Seq, length: int) -> bool:
    return bool(pool.admit(seq, 5) and pool.grow(seq, length))
