"""Sums and ranks against plain Python integers, up to values that pass int64."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.analysis.integrals import integral, overlap, ranks, share, total
from pagedsim.analysis.tally import weighted_ranks

LARGE = st.one_of(
    st.integers(0, 3), st.integers((1 << 40) - 3, (1 << 40) + 3), st.integers(0, (1 << 63) - 1)
)
PAIRS = st.lists(st.tuples(LARGE, LARGE), max_size=40)


def _columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@given(PAIRS)
def test_an_integral_is_the_sum_in_python(pairs: list[tuple[int, int]]) -> None:
    values, weights = _columns(pairs)
    assert integral(values, weights) == sum(v * w for v, w in pairs)
    assert total(values) == sum(v for v, _ in pairs)


@pytest.mark.parametrize("rows", [1, (1 << 14) - 1, 1 << 14, (1 << 15) + 1])
def test_an_integral_is_exact_over_many_chunks(rows: int) -> None:
    values = np.full(rows, (1 << 63) - 1, np.int64)
    assert integral(values, values) == rows * ((1 << 63) - 1) ** 2
    assert integral(np.zeros(rows, np.int64), values) == 0


@given(st.lists(st.tuples(st.integers(-(1 << 63) + 1, (1 << 63) - 1), LARGE), max_size=9))
def test_what_is_added_up_may_be_below_0(pairs: list[tuple[int, int]]) -> None:
    values, weights = _columns(pairs)
    assert integral(values, weights) == sum(v * w for v, w in pairs)


def test_an_integral_refuses_what_time_cannot_be() -> None:
    with pytest.raises(AssertionError, match="a weight below 0"):
        integral(np.array([1]), np.array([-1]))
    with pytest.raises(AssertionError, match="2 values for 1 weights"):
        integral(np.array([1, 2]), np.array([1]))


@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40)), min_size=1, max_size=30),
    st.integers(0, 100),
)
def test_a_weighted_rank_is_the_first_value_that_reaches_it(
    pairs: list[tuple[int, int]], percent: int
) -> None:
    values, weights = _columns(pairs)
    found = weighted_ranks(values, weights, (percent,))
    whole = sum(w for _, w in pairs)
    if not whole:
        assert found == []
        return
    needed = max(Fraction(percent * whole, 100), Fraction(1))
    below = 0
    for value, weight in sorted(pairs):
        below += weight
        if weight and below >= needed:
            assert found == [value]
            return
    raise AssertionError("no value reaches it")


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(0, 100))
def test_ranks_are_weighted_ranks_of_equal_weights(values: list[int], percent: int) -> None:
    column = np.array(values, np.int64)
    assert ranks(column, (percent,)) == weighted_ranks(column, np.ones_like(column), (percent,))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50, 99, 100, 101])
def test_a_rank_is_the_least_number_of_values_that_suffices(count: int) -> None:
    column = np.random.default_rng(count).permutation(count) + 1
    wanted = [max(math.ceil(Fraction(percent * count, 100)), 1) for percent in range(101)]
    assert ranks(column, range(101)) == wanted


def test_nearest_ranks_of_the_textbook() -> None:
    column = np.array([15, 20, 35, 40, 50], np.int64)
    assert ranks(column, (5, 30, 40, 50, 100)) == [15, 20, 20, 35, 50]
    assert ranks(column[:0], (50,)) == []


@given(st.lists(st.integers(0, 50), min_size=3, max_size=3), st.integers(0, 50), st.integers(1, 9))
def test_overlaps_add_up(cuts: list[int], start: int, length: int) -> None:
    a, b, c = sorted(cuts)
    step = np.array([start]), np.array([start + length])
    parts = [overlap(*step, span) for span in ((a, b), (b, c))]
    assert parts[0] + parts[1] == overlap(*step, (a, c))
    assert overlap(*step, None) == length == overlap(*step, (0, 100))


def test_a_share_of_nothing_is_none() -> None:
    assert share(0, 0) is None
    assert share(10**30, 3 * 10**30) == 1 / 3
