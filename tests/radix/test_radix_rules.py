"""The tree, its runs, its free list and its policies, each rule by a case worked by hand."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.alloc.evict import POLICIES, Lru, make_evict
from pagedsim.alloc.radix_check import check, nodes
from pagedsim.alloc.radix_free import FreePages
from pagedsim.alloc.radix_held import Held
from pagedsim.alloc.radix_runs import Run, agree, cut, head
from pagedsim.alloc.radix_tree import Node, RadixTree
from pagedsim.errors import SpecError

ALL = 1 << 20


def tree_of(pages: int, page: int = 1, evict: str = "lru") -> RadixTree:
    return RadixTree(pages, page=page, evict=make_evict(evict))


def put(tree: RadixTree, *runs: Run, salt: int = 0) -> Node:
    """Store content as a request does that comes and goes alone; the node it ends at."""
    tokens = sum(length for _, length in runs)
    held = Held(tree, salt, runs, tokens, tokens)
    tree.reserve(tokens - held.path)
    held.take(-(-(tokens - held.path) // tree.page))
    held.keep()
    node = held.node
    held.finish(tokens)
    return node


def shape(tree: RadixTree) -> dict[tuple[Run, ...], tuple[int, ...]]:
    return {node.runs: tuple(node.pages) for node in nodes(tree)}


# Runs.


def tokens_of(runs: Any) -> list[int]:
    return [token for first, length in runs for token in range(first, first + length)]


RUNS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=6)


@given(mine=RUNS, yours=RUNS, data=st.data())
def test_runs_agree_as_their_tokens_do(mine: list[Run], yours: list[Run], data: Any) -> None:
    shared = data.draw(RUNS)
    mine, yours = shared + mine, shared + yours
    index = data.draw(st.integers(0, len(yours) - 1))
    offset = data.draw(st.integers(0, yours[index][1] - 1))
    one, other = tokens_of(mine), tokens_of(yours[index:])[offset:]
    most = data.draw(st.integers(0, min(len(one), len(other))))
    same = 0
    while same < most and one[same] == other[same]:
        same += 1
    done, at, skip = agree(mine, yours, index, offset, most)
    assert done == same
    assert tokens_of(yours[at:])[skip:] == other[same:]


@given(runs=RUNS, data=st.data())
def test_cut_is_a_slice(runs: list[Run], data: Any) -> None:
    tokens = tokens_of(runs)
    start = data.draw(st.integers(0, len(tokens)))
    stop = data.draw(st.integers(start, len(tokens)))
    assert tokens_of(cut(runs, start, stop)) == tokens[start:stop]
    assert all(length > 0 for _, length in cut(runs, start, stop))


@given(one=RUNS, other=RUNS, tokens=st.integers(1, 4))
def test_names_are_equal_where_tokens_are(one: list[Run], other: list[Run], tokens: int) -> None:
    one, other = [*one, (90, 4)], [*other, (90, 4)]
    same = tokens_of(one)[:tokens] == tokens_of(other)[:tokens]
    assert (head(one, 0, 0, tokens) == head(other, 0, 0, tokens)) is same


def test_a_name_of_consecutive_tokens_is_their_first() -> None:
    assert head([(5, 2), (7, 9)], 0, 0, 4) == head([(5, 4)], 0, 0, 4) == 5
    assert head([(4, 2), (6, 9)], 0, 1, 4) == 5
    assert head([(5, 2), (9, 9)], 0, 0, 4) == (5, 7, 9)


# Free list.


@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60),
    back=st.booleans(),
)
def test_the_free_list_is_a_list(steps: list[tuple[bool, int]], back: bool) -> None:
    free, plain, out = FreePages(9, back=back), list(range(1, 10)), [*range(0)]
    for gives, count in steps:
        if gives:
            group, out = out[:count], out[count:]
            free.give(array("q", group))
            plain = plain + group if back else group + plain
        else:
            count = min(count, len(plain))
            taken, plain = plain[:count], plain[count:]
            assert free.take(count).tolist() == taken
            out = taken[::-1] + out
        assert list(free.ids()) == plain
        assert len(free) == len(plain)


def test_a_long_free_list_drops_what_is_gone() -> None:
    free = FreePages(10_000, back=True)
    for _ in range(50):
        free.give(free.take(4_000))
    assert sorted(free.ids()) == list(range(1, 10_001))
    assert len(free._ids) < 30_000


def test_groups_come_back_in_order() -> None:
    """Pages of one token go to the back; larger ones to the front, the later group before."""
    for back, order in ((True, (5, 6, 3, 1, 4, 2)), (False, (4, 2, 3, 1, 5, 6))):
        free = FreePages(6, back=back)
        assert free.take(4).tolist() == [1, 2, 3, 4]
        free.give(array("q", [3, 1]))
        free.give(array("q", [4, 2]))
        assert free.ids() == order


# Tree.


def test_a_shared_prefix_is_split_off() -> None:
    tree = tree_of(20)
    put(tree, (100, 6))
    assert shape(tree) == {((100, 6),): (1, 2, 3, 4, 5, 6)}
    put(tree, (100, 4), (200, 2))
    assert shape(tree) == {((100, 4),): (1, 2, 3, 4), ((104, 2),): (5, 6), ((200, 2),): (7, 8)}
    assert (tree.available, tree.evictable, tree.protected) == (12, 8, 0)
    assert tree.peek(0, ((100, 5), (7, 7)), 12) == (5, 5)
    assert len(shape(tree)) == 3, "peek splits nothing"
    check(tree, [], 0)


def test_edges_are_followed_in_whole_pages() -> None:
    """Of 10 and 11 common tokens at page 4 only 8 are shared; 3 of a page are not stored."""
    tree = tree_of(20, 4)
    put(tree, (100, 11))
    assert shape(tree) == {((100, 8),): (1, 2)}
    assert tree.free.ids()[0] == 3, "the third page came back to the front"
    put(tree, (100, 10), (7, 2))
    assert shape(tree) == {((100, 8),): (1, 2), ((108, 2), (7, 2)): (3,)}
    assert tree.peek(0, ((100, 12),), 12) == (8, 8)


def test_salts_part_trees_but_not_the_pool() -> None:
    tree = tree_of(8)
    put(tree, (100, 3), salt=1)
    assert tree.peek(0, ((100, 3),), 3) == (0, 0)
    put(tree, (100, 3))
    assert tree.peek(1, ((100, 3),), 3) == tree.peek(0, ((100, 3),), 3) == (3, 3)
    assert (tree.available, tree.evictable) == (2, 6)
    put(tree, (200, 4), salt=7)
    assert tree.peek(1, ((100, 3),), 3) == (0, 0), "the oldest goes, whichever its salt"


def test_locks_reach_the_root_and_survive_a_split() -> None:
    tree = tree_of(20)
    node = put(tree, (100, 6))
    tree.lock(node)
    other = put(tree, (100, 4), (200, 2))
    upper = node.parent
    assert upper is not None
    assert (node.locks, upper.locks, other.locks) == (1, 1, 0)
    assert (tree.protected, tree.evictable) == (6, 2)
    assert tree.peek(0, ((100, 4), (200, 2)), 6) == (6, 2)
    assert tree.evict(ALL) == 2
    tree.unlock(node)
    assert (tree.protected, tree.evictable) == (0, 6)
    assert tree.evict(1) == 2, "the lower part, whole"
    assert tree.evict(1) == 4, "then what it hung from"
    with pytest.raises(AssertionError, match="unlocked more often"):
        tree.unlock(upper)


def test_a_parent_without_children_is_next_in_the_same_call() -> None:
    tree = tree_of(20)
    put(tree, (100, 6))
    put(tree, (100, 4), (200, 2))
    put(tree, (300, 5))
    assert tree.evict(7) == 8, "two leaves and their parent, which is older than the third"
    assert shape(tree) == {((300, 5),): (9, 10, 11, 12, 13)}


def test_both_parts_of_a_split_are_touched() -> None:
    """A look-up that ends in a node makes its lower part young too."""
    tree = tree_of(20)
    put(tree, (100, 6))
    put(tree, (300, 3))
    tree.match(0, ((100, 2), (9, 9)), 3)
    assert tree.evict(1) == 3, "the untouched one"
    assert shape(tree) == {((100, 2),): (1, 2), ((102, 4),): (3, 4, 5, 6)}


def test_slots_are_reserved_with_a_page_to_spare_above_page_1() -> None:
    tree = tree_of(4, 4)
    put(tree, (100, 8))
    assert tree.reserve(4) is None
    assert tree.reserve(5) == 8
    tree = tree_of(16)
    put(tree, (100, 8))
    assert tree.reserve(8) is None
    assert tree.reserve(9) == 8


def test_a_copy_of_what_came_in_between_goes_back_first() -> None:
    """Two compute the same prompt; the second lets its copy go and uses the first's pages."""
    for page, mine, after, free in (
        (1, [6, 7, 8, 9, 10], [1, 2, 3, 4, 5], [11, 12, 6, 7, 8, 9, 10]),
        (2, [4, 5, 6], [1, 2, 6], [4, 5]),
    ):
        tree = tree_of(12 // page, page)
        one, two = (Held(tree, 0, ((100, 5), (200, 9)), 5, 4) for _ in range(2))
        for held in (one, two):
            held.take(-(-5 // page))
        one.keep()
        assert two.pages().tolist() == mine
        two.keep()
        assert two.pages().tolist() == after
        assert list(tree.free.ids()) == free
        check(tree, [one.node, two.node], len(one.own) + len(two.own))
        one.finish(5)
        two.finish(5)
        assert tree.protected == 0
        assert tree.available + tree.evictable == 12


def test_a_finish_gives_back_two_groups() -> None:
    """What is double, then the rest: of page 2, so each in front of the one before."""
    tree = tree_of(12, 2)
    one, two = (Held(tree, 0, ((100, 20),), 2, 1) for _ in range(2))
    for held in (one, two):
        held.take(1)
        held.keep()
    assert tree.free.ids()[:2] == (2, 3), "the copy of the prompt came back"
    one.take(3)
    two.take(3)
    assert (one.pages().tolist(), two.pages().tolist()) == ([1, 2, 3, 4], [1, 5, 6, 7])
    one.finish(6)
    assert tree.free.ids()[:2] == (4, 8)
    two.finish(7)
    assert tree.free.ids()[:4] == (7, 5, 6, 4)
    assert shape(tree) == {((100, 2),): (1,), ((102, 4),): (2, 3)}


# Policies.


def entries(tree: RadixTree) -> list[int]:
    """First tokens of what is stored, in the order in which it is evicted."""
    order = []
    while tree.evictable:
        before = {node.runs[0][0] for node in nodes(tree)}
        tree.evict(1)
        (gone,) = before - {node.runs[0][0] for node in nodes(tree)}
        order.append(gone)
    return order


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("lru", [200, 400, 300, 100]),
        ("mru", [100, 300, 400, 200]),
        ("fifo", [100, 200, 300, 400]),
        ("lfu", [200, 400, 300, 100]),
        ("slru", [200, 400, 300, 100]),
    ],
)
def test_each_policy_by_hand(policy: str, order: list[int]) -> None:
    """Stored 100, 200, 300, 400 in turn; then 300 is used once more, 100 twice."""
    tree = tree_of(100, evict=policy)
    for first in (100, 200, 300, 400, 300, 100, 100):
        put(tree, (first, 3))
    assert entries(tree) == order


@pytest.mark.parametrize(
    ("policy", "order"),
    [("lru", [100, 200, 300]), ("lfu", [300, 200, 100]), ("slru", [300, 100, 200])],
)
def test_uses_outweigh_time(policy: str, order: list[int]) -> None:
    """100 is used three times, then 200 twice, then 300 once."""
    tree = tree_of(100, evict=policy)
    for first in (100, 100, 100, 200, 200, 300):
        put(tree, (first, 3))
    assert entries(tree) == order


def test_a_split_copies_uses_and_age() -> None:
    tree = tree_of(100, evict="lfu")
    for _ in range(3):
        put(tree, (100, 6))
    node = put(tree, (100, 4), (200, 2))
    found = {node.runs[0][0]: (node.uses, node.made) for node in nodes(tree)}
    assert {first: uses for first, (uses, _) in found.items()} == {100: 4, 104: 3, 200: 1}
    assert found[100][1] == found[104][1] < found[200][1] == node.made


def test_the_queue_stays_in_proportion() -> None:
    """A leaf that is looked up again and again does not fill the heap."""
    tree = tree_of(100)
    put(tree, (100, 6))
    put(tree, (200, 6))
    for _ in range(1_000):
        tree.match(0, ((100, 6),), 6)
    assert len(tree.queue) <= 70
    assert entries(tree) == [200, 100]


def test_policies_are_named() -> None:
    assert list(POLICIES) == sorted(POLICIES)
    assert isinstance(make_evict("lru"), Lru)
    with pytest.raises(SpecError, match="evict is 'belady', must be one of fifo, lfu, lru, mru, s"):
        make_evict("belady")
