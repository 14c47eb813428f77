"""Every policy at every capacity against a cache that holds blocks one by one."""

from __future__ import annotations

from itertools import pairwise

import curve_cases as plain
import numpy as np
import pytest
from curve_cases import Case, cases
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.analysis.curve import Lookups
from pagedsim.analysis.curve_replay import fifo, lfu, optimal
from pagedsim.analysis.curve_runs import paths
from pagedsim.trace import Trace

SIZES = st.integers(1, 4)
COUNTS = st.sampled_from(["all", "full", "outputs"])


def distinct(requests: list[plain.Request]) -> int:
    return len({key for request in requests for key in request.touched})


@given(cases(), SIZES, COUNTS, st.booleans(), st.floats(0, 0.9))
def test_lru_is_right_at_every_capacity(
    case: Case, block: int, count: str, leaf: bool, warmup: float
) -> None:
    requests = case.requests(block, count)
    touch = "leaf" if leaf else "root"
    lookups = Lookups(case.trace, block=block, touch=touch, count=count, warmup=warmup)
    capacities = range(1, distinct(requests) + 2)
    found = lookups.hits("lru", capacities)
    skipped = int(len(requests) * warmup)
    ideal = 0
    for index, capacity in enumerate(capacities):
        hits = plain.lru(requests, capacity, leaf=leaf)[0]
        pairs = list(zip(requests, hits, strict=True))[skipped:]
        tokens = [sum(request.tokens[:blocks]) for request, blocks in pairs]
        assert found.blocks[index] == sum(blocks for _, blocks in pairs)
        assert found.tokens[index] == sum(tokens)
        assert found.requests[index] == sum(blocks > 0 for _, blocks in pairs)
        shares = [a / request.prompt for a, (request, _) in zip(tokens, pairs, strict=True)]
        assert found.prompts[index] == pytest.approx(sum(shares))
        ideal = max(ideal, sum(blocks for _, blocks in pairs))
    needed = [c for c, blocks in zip(capacities, found.blocks, strict=True) if blocks == ideal]
    assert lookups.needed == (needed[0] if ideal else 0)
    assert lookups.ideal.blocks[0] == ideal
    assert lookups.blocks == sum(len(request.looked) for request in requests[skipped:])


@given(cases(), SIZES, COUNTS, st.booleans())
def test_larger_caches_contain_smaller_ones(case: Case, block: int, count: str, leaf: bool) -> None:
    """What the one pass rests on, of the plain cache: inclusion; and, last block touched first,
    no block without the one before it, so that every cached block of a prompt is hit.
    """
    requests = case.requests(block, count)
    every = [
        plain.lru(requests, capacity, leaf=leaf)[1] for capacity in range(1, distinct(requests) + 2)
    ]
    for smaller, larger in pairwise(every):
        assert all(a <= b for a, b in zip(smaller, larger, strict=True))
    if leaf:
        for held in every:
            for state in held:
                assert all(len(key) - 1 <= block or shorter(key, block) in state for key in state)


def shorter(key: plain.Key, block: int) -> plain.Key:
    """The block before; the salt is the first entry of a key."""
    return key[: 1 + (len(key) - 2) // block * block]


@given(cases(), SIZES, COUNTS)
def test_root_first_never_hits_more(case: Case, block: int, count: str) -> None:
    ends = [Lookups(case.trace, block=block, count=count, touch=t) for t in ("leaf", "root")]
    at = np.arange(1, ends[0].runs.distinct + 2)
    leaf, root = (end.hits("lru", at).blocks for end in ends)
    assert (leaf >= root).all()


@given(cases(), SIZES, COUNTS, st.booleans())
def test_fifo_at_every_capacity(case: Case, block: int, count: str, leaf: bool) -> None:
    requests = case.requests(block, count)
    lists = paths(Lookups(case.trace, block=block, count=count).runs)
    for capacity in range(1, distinct(requests) + 2):
        assert fifo(lists, capacity, leaf=leaf) == plain.fifo(requests, capacity, leaf=leaf)


@given(cases(), SIZES, COUNTS)
def test_lfu_at_every_capacity(case: Case, block: int, count: str) -> None:
    requests = case.requests(block, count)
    lists = paths(Lookups(case.trace, block=block, count=count).runs)
    for capacity in range(1, distinct(requests) + 2):
        assert lfu(lists, capacity) == plain.lfu(requests, capacity)


@given(cases(most=6, longest=3), st.integers(1, 3), COUNTS)
def test_nothing_beats_the_optimum(case: Case, block: int, count: str) -> None:
    requests = case.requests(block, count)
    lookups = Lookups(case.trace, block=block, count=count)
    lists = paths(lookups.runs)
    for capacity in range(1, min(4, distinct(requests)) + 1):
        assert sum(optimal(lists, capacity)) == plain.most_hits(requests, capacity)


@given(cases(most=14), SIZES, COUNTS)
def test_the_optimum_bounds_all_policies(case: Case, block: int, count: str) -> None:
    lookups = Lookups(case.trace, block=block, count=count)
    at = list(range(1, lookups.runs.distinct + 2))
    best = lookups.hits("optimal", at).blocks
    assert (np.diff(best) >= 0).all()
    assert best[-1] == lookups.ideal.blocks[0]
    for policy in ("lru", "fifo", "lfu"):
        assert (lookups.hits(policy, at).blocks <= best).all()


@given(cases(), SIZES, COUNTS)
def test_runs_are_the_trace(case: Case, block: int, count: str) -> None:
    """Laid out block by block they share as prompts do; and no two of them could be one."""
    requests = case.requests(block, count)
    runs = Lookups(case.trace, block=block, count=count).runs
    names: dict[plain.Key, tuple[int, int]] = {}
    for row, request in enumerate(requests):
        path = runs.run[runs.rows[row] : runs.rows[row + 1]].tolist()
        laid = [(run, index) for run in path for index in range(runs.length[run])]
        assert len(laid) == len(request.touched)
        assert runs.asked_blocks[row] == len(request.looked)
        assert sum(runs.length[run] for run in path[: runs.asked[row]]) == len(request.looked)
        for key, name in zip(request.touched, laid, strict=True):
            assert names.setdefault(key, name) == name
    assert len(set(names.values())) == len(names) == runs.distinct


def test_the_optimum_keeps_nothing_for_a_touch_without_a_look_up() -> None:
    """Two equal answers: the second would be put in anyway, so its first is worth no room."""
    trace = Trace.build(
        "answers",
        [0, 1, 2, 3],
        [1, 1, 1, 1],
        [1, 2, 2, 1],
        runs=([0, 1, 2, 3, 4], [7, 0, 0, 7], [1, 1, 1, 1]),
        output_token=[100, 5, 5, 101],
    )
    lists = paths(Lookups(trace, block=1, count="outputs").runs)
    assert optimal(lists, 2) == [0, 0, 1, 1]
