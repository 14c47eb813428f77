"""Percentiles over time, added a chunk at a time, against plain Python; floats added exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.analysis import tally
from pagedsim.analysis.integrals import Floats
from pagedsim.analysis.tally import Tally, weighted_ranks

PERCENTS = (0, 1, 33, 50, 90, 99, 100)
Chunks = list[list[tuple[int, int]]]


@st.composite
def chunks(draw: st.DrawFn) -> Chunks:
    """Values that lie by a block, or anyhow, near or far; weights that may be 0."""
    start = draw(st.sampled_from([0, 1, 16, 1000, 1 << 40]))
    kinds = [
        st.just(start),
        st.integers(0, 6).map(lambda k: start + 16 * k),
        st.integers(0, 3).map(lambda k: start + 48 * k),
        st.integers(0, 300).map(lambda k: start + 4 * k),
        st.integers(start, start + 20),
        st.integers(0, 1 << 62),
    ]
    weights = st.sampled_from([0, 1, 2, 7, 1 << 33])
    parts = []
    for _ in range(draw(st.integers(0, 6))):
        pairs = st.tuples(draw(st.sampled_from(kinds)), weights)
        parts.append(draw(st.lists(pairs, max_size=8)))
    return parts


def ranked(pairs: list[tuple[int, int]], percent: int) -> int:
    """A percentile of (value, weight), told in plain Python."""
    needed = max(Fraction(percent * sum(weight for _, weight in pairs), 100), Fraction(1))
    below = 0
    for value, weight in sorted(pairs):
        below += weight
        if below >= needed:
            return value
    raise AssertionError("no value reaches it")


@given(
    chunks(),
    st.sampled_from([1, 5, 40, 1 << 20]),
    st.sampled_from([0, 1, 4]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([1, 9, 1 << 34, 1 << 53]),
)
def test_ranks_of_chunks_are_those_of_all(
    parts: Chunks, wide: int, few: int, many: int, exact: int
) -> None:
    bounds = {"_WIDE": wide, "_FEW": few, "_MANY": many, "_EXACT": exact}
    pairs = [pair for part in parts for pair in part]
    with mock.patch.multiple(tally, **bounds):
        found = Tally()
        for part in parts:
            table = np.array(part, np.int64).reshape(-1, 2)
            found.add(table[:, 0], table[:, 1])
        ranks = found.ranks(PERCENTS)
        assert ranks == found.ranks(PERCENTS), "asked again"
    wanted = [ranked(pairs, percent) for percent in PERCENTS] if any(w for _, w in pairs) else []
    assert ranks == wanted
    assert all(isinstance(value, int) for value in ranks)


def test_weights_that_floats_would_round() -> None:
    """One ns decides which of two values it is."""
    values, half = np.array([3, 5], np.int64), 1 << 60
    assert weighted_ranks(values, np.array([half, half], np.int64), (50,)) == [3]
    assert weighted_ranks(values, np.array([half, half + 1], np.int64), (50,)) == [5]
    for whole in (1 << 53, (1 << 53) + 2, (1 << 53) + 6, (1 << 54) - 3, 1 << 54):
        needed = -(-90 * whole // 100)
        for first, wanted in ((needed, 3), (needed - 1, 5)):
            weights = np.array([first, whole - first], np.int64)
            assert weighted_ranks(values, weights, (90,)) == [wanted], whole


def test_values_by_the_block_take_a_place_a_block() -> None:
    """So 100 GiB in blocks of 1 MiB are counted, not sorted."""
    found, low = Tally(), (5 << 30) + 7
    for start in (low, low + (60 << 30)):
        values = start + (np.arange(1 << 15, dtype=np.int64) << 20)
        found.add(values, np.ones_like(values))
    last = low + (60 << 30) + (32767 << 20)
    assert found.ranks((0, 50, 100)) == [low, low + (32767 << 20), last]
    assert len(found._places) == 60 * 1024 + (1 << 15)


def test_no_run_is_longer_than_the_clock() -> None:
    with pytest.raises(AssertionError, match="292 years"):
        weighted_ranks(np.array([1, 2]), np.array([(1 << 63) - 1, 1]), (50,))


FLOATS = st.one_of(
    st.floats(0, 1e18), st.floats(0, 1e-300), st.floats(-1e300, 1e300), st.integers(0, 9).map(float)
)


@given(st.lists(st.lists(FLOATS, max_size=9), max_size=5))
def test_floats_add_up_exactly(parts: list[list[float]]) -> None:
    found = Floats()
    for part in parts:
        found.add(np.array(part, np.float64))
    assert found.sum() == math.fsum(value for part in parts for value in part)


def test_many_floats_add_up_exactly() -> None:
    values = np.random.default_rng(3).random(100_003) * 1e9
    assert Floats(values).sum() == math.fsum(values.tolist())
    assert math.isnan(Floats(np.array([1.0, math.nan])).sum())
    assert Floats(np.array([1.0, math.inf])).sum() == math.inf
