"""What a group holds at most: `LayerGroup.most_held` against every step that could be."""

from __future__ import annotations

from itertools import product

import pytest

from pagedsim.alloc.grouped import Grouped
from pagedsim.errors import SpecError
from pagedsim.protocols import LayerGroup
from pagedsim.testing.sequences import sequence


def tried(group: LayerGroup, length: int, in_flight: int) -> int:
    """Every step from `computed` stored to `end`: blocks of the table that were not given back."""
    most = 0
    for computed in range(length):
        gone = group.first_read(computed) // group.block
        for end in range(computed + 1, min(computed + in_flight, length) + 1):
            most = max(most, -(-end // group.block) - gone)
    return most


CASES = list(product(range(1, 10), range(1, 7), range(1, 8)))  # windows, blocks, in flight


def test_chunks_hold_no_more_than_that_and_come_to_hold_it() -> None:
    """Exactly so where chunks are no whole blocks; else vLLM's count, of a token more."""
    exact = 0
    for window, block, in_flight in CASES:
        group = LayerGroup("chunked", (), block, block, window)
        for length in range(1, 3 * window * block + 2):
            most, found = group.most_held(length, in_flight), tried(group, length, in_flight)
            counted = min(-(-length // block), group.most_blocks(length, in_flight))
            assert most == max(found, counted), (group, length, in_flight)
            exact += found > counted
    assert exact > 1000  # what the start-up counts would have been too few


def test_windows_hold_no_more_than_that() -> None:
    for window, block, in_flight in CASES:
        group = LayerGroup("sliding", (), block, block, window)
        for length in range(1, 2 * window * block + 2):
            most, found = group.most_held(length, in_flight), tried(group, length, in_flight)
            assert found <= most <= found + 1, (group, length, in_flight)


def test_what_the_start_up_counts_is_as_the_engine_counts_it() -> None:
    """A chunk of 6 in blocks of 4 with 2 in flight: 6 … 12 are three blocks, vLLM counts two."""
    group = LayerGroup("chunked", (), 4, 4, 6)
    assert group.most_blocks(100, 2) == 2
    assert group.most_held(100, 2) == tried(group, 100, 2) == 3
    assert group.most_held(12, 2) == tried(group, 12, 2) == 2


def test_a_pool_promises_what_it_can_hold() -> None:
    """Every length up to `longest` fits, in any steps; one more does not, in some."""
    seen = set()
    for window, block, in_flight, blocks in product((1, 3, 5, 6), (2, 4), (1, 2, 3), (2, 3, 4)):
        group = LayerGroup("chunked", (), block, block, window)
        try:
            longest = Grouped(blocks, groups=(group,), in_flight=in_flight).longest
        except SpecError:
            continue
        most = 4 * window * block
        assert tried(group, min(longest, most), in_flight) < blocks
        if longest < most:
            assert group.most_held(longest + 1, in_flight) >= blocks
        seen.add(longest < most)
        for first in range(in_flight):
            pool, seq = Grouped(blocks, groups=(group,), in_flight=in_flight), sequence(0, most, 1)
            for tokens in range(first + 1, min(longest, most) + 1, in_flight):
                if seq.computed:
                    pool.trim(seq, seq.computed)
                    assert pool.grow(seq, tokens)
                else:
                    assert pool.admit(seq, tokens, whole=min(longest, most))
                seq.computed = tokens
    assert seen == {False, True}


@pytest.mark.parametrize("length", [1, 7, 1 << 62])
def test_what_needs_no_bound_has_none(length: int) -> None:
    assert LayerGroup("state", (), 4, 4, kept=2).most_held(length, 3) == 2
    assert LayerGroup("full", (), 4, 4).most_held(length, 3) == -(-length // 4)
