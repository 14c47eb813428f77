"""Exact sums over time, and nearest ranks: the arithmetic of the report.

An *integral* is Σ value · weight over steps, in slots · ns when the value is slots and the weight
the step's duration. It passes 2⁶³ for a large pool in an hour, so it is a Python integer. Values
and weights are int64 columns, never negative.

A *nearest rank* percentile is a value that occurred: the smallest v such that the weight of all
values up to v is at least p % of the total weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pagedsim.protocols import Int64

_LIMB = 24  # bits: three limbs hold any int64
_ROWS = 1 << 14  # a product of two limbs, summed over that many rows, stays below 2**62
_TOP = 1 << 63

Number = TypeVar("Number", np.int64, np.float64)


def integral(values: Int64, weights: Int64) -> int:
    """Σ values · weights, exact; O(n), in int64 where the bound is below 2⁶³.

    Where it is not, both are cut into limbs of 24 bits and summed by chunks. Why not one product
    in Python integers: object arrays cost fifty times as much.
    """
    rows = len(values)
    assert rows == len(weights), f"{rows} values for {len(weights)} weights"
    if not rows:
        return 0
    assert values.min() >= 0, "a value below 0"
    assert weights.min() >= 0, "a weight below 0"
    if int(values.max()) * int(weights.max()) * rows < _TOP:
        return int(values @ weights)
    total = 0
    for start in range(0, rows, _ROWS):
        a, b = _limbs(values[start : start + _ROWS]), _limbs(weights[start : start + _ROWS])
        for i, limb in enumerate(a):
            for j, other in enumerate(b):
                total += int(limb @ other) << (_LIMB * (i + j))
    return total


def total(values: Int64) -> int:
    """Σ values, exact: the weight of everything."""
    if len(values) and int(values.max()) * len(values) < _TOP:
        return int(values.sum())
    return integral(values, np.ones(len(values), np.int64))


def overlap(start: Int64, end: Int64, span: tuple[int, int] | None) -> Int64:
    """int64[n]: ns of each half-open [start, end) inside the half-open `span` (None = all)::

               A                 B
        [start   end)        [start   end)
               |--|          |---|               what counts of each

    So the overlaps with [A, B) and [B, C) add up to that with [A, C).
    """
    if span is None:
        return end - start
    inside: Int64 = np.minimum(end, span[1]) - np.maximum(start, span[0])
    return inside.clip(0)


def weighted_ranks(values: Int64, weights: Int64, percents: Sequence[int]) -> list[int]:
    """Nearest-rank percentiles by weight; empty where the total weight is 0. O(n log n).

    p = 0 gives the smallest value that has any weight, p = 100 the largest.
    """
    some = weights > 0
    values, weights = values[some], weights[some]
    if not len(values):
        return []
    order = np.argsort(values, kind="stable")
    whole = total(weights)
    assert whole < _TOP, "a run of 292 years"
    reached = np.cumsum(weights[order])
    ranks = []
    for percent in percents:
        needed = max(-(-percent * whole // 100), 1)
        ranks.append(int(values[order[np.searchsorted(reached, needed)]]))
    return ranks


class Tally:
    """Weights by value, added a chunk at a time; memory for the values that differ."""

    def __init__(self) -> None:
        self._values = self._weights = np.zeros(0, np.int64)

    def add(self, values: Int64, weights: Int64) -> None:
        """Count each value with its weight; O(n log n) of these and those there are."""
        values = np.concatenate((self._values, values))
        weights = np.concatenate((self._weights, weights))
        if not len(values):
            return
        order = np.argsort(values, kind="stable")
        values = values[order]
        first = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
        self._values, self._weights = values[first], np.add.reduceat(weights[order], first)

    def ranks(self, percents: Sequence[int]) -> list[int]:
        """`weighted_ranks` of all that was added."""
        return weighted_ranks(self._values, self._weights, percents)


def ranks(values: npt.NDArray[Number], percents: Sequence[int]) -> list[Number]:
    """Nearest-rank percentiles, every value counting once; empty where there is none."""
    count = len(values)
    if not count:
        return []
    ordered = np.sort(values)
    return [ordered[max(-(-percent * count // 100), 1) - 1] for percent in percents]


def share(part: int, whole: int) -> float | None:
    """One correctly rounded division at the end; None where there is nothing to divide by."""
    return part / whole if whole else None


def _limbs(values: Int64) -> list[Int64]:
    """`values` = Σ limb[i] · 2^(24 i), as many limbs as the largest value needs."""
    mask = (1 << _LIMB) - 1
    count = max(-(-int(values.max()).bit_length() // _LIMB), 1)
    return [(values >> (_LIMB * i)) & mask for i in range(count)]


__all__ = ["Tally", "integral", "overlap", "ranks", "share", "total", "weighted_ranks"]
