"""Percentiles over time: nearest ranks of values by weight, for any number of steps.

A *nearest rank* percentile is a value that occurred: the smallest v such that the weight of all
values up to v is at least p % of the total weight. Values are int64, weights too and never below 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagedsim.analysis.integrals import Float64, total
from pagedsim.protocols import Int64

_EXACT = 1 << 53  # integers below it are floats too
_WIDE = 1 << 20  # places of a tally
_FEW = 4  # of them for each value that is counted at once
_MANY = 8  # chunks that wait until they are counted together
_APART = 1 << 62  # unit of places where there is but one


def weighted_ranks(values: Int64, weights: Int64, percents: Sequence[int]) -> list[int]:
    """Nearest-rank percentiles by weight; empty where the total weight is 0.

    p = 0 gives the smallest value that has any weight, p = 100 the largest. Cost as `Tally`.
    """
    tally = Tally()
    tally.add(values, weights)
    return tally.ranks(percents)


class Tally:
    """Weights by value, added a chunk at a time.

    Values are counted in places: one for the least, one for each `unit` up to the largest, where
    the unit is the largest power of two that leaves no value between two places (slots are taken
    by the block). O(n), while there are at most `_WIDE` of them and floats hold the weights
    exactly. From then on, memory for the values that differ, and O(n log n) of all these.
    """

    def __init__(self) -> None:
        self._whole = 0
        self._low, self._unit = 0, _APART  # of the places
        self._places: Float64 = np.zeros(0)
        self._sorted: tuple[Int64, Int64] | None = None  # values and weights, instead of places
        self._waiting: list[tuple[Int64, Int64]] = []

    def add(self, values: Int64, weights: Int64) -> None:
        """Count each value with its weight, which may be 0; neither is to be written to later.

        Chunks of values that lie far apart wait for others: places take time too.
        """
        if not len(values):
            return
        self._whole += total(weights)
        if not self._counted(values, weights, _FEW * len(values)):
            self._waiting.append((values, weights))
            if len(self._waiting) == _MANY:
                self._count_waiting()

    def ranks(self, percents: Sequence[int]) -> list[int]:
        """`weighted_ranks` of all that was added."""
        self._count_waiting()
        assert self._whole < 1 << 63, "a run of 292 years"
        if not self._whole:
            return []
        weights = self._places if self._sorted is None else self._sorted[1]
        needed = [max(-(-percent * self._whole // 100), 1) for percent in percents]
        at = np.searchsorted(np.cumsum(weights), needed).tolist()
        if self._sorted is None:
            return [self._low + each * self._unit for each in at]
        found: list[int] = self._sorted[0][at].tolist()
        return found

    def _count_waiting(self) -> None:
        if self._waiting:
            values, weights = map(np.concatenate, zip(*self._waiting, strict=True))
            self._waiting = []
            if not self._counted(values, weights, _WIDE):
                self._sort(values, weights)

    def _counted(self, values: Int64, weights: Int64, most: int) -> bool:
        """Count them in places, unless these values alone would take more than `most` or so."""
        if self._sorted is not None or self._whole >= _EXACT:
            return False
        low = int(values.min())
        above = values - low
        bits = int(np.bitwise_or.reduce(above))
        unit = bits & -bits or _APART
        if bits // unit >= most:
            return False
        if bits:
            places = np.bincount(above >> (unit.bit_length() - 1), weights)
        else:  # of one value
            places = weights.sum(keepdims=True)
        counted = places.astype(np.float64, copy=False)
        if not len(self._places):
            self._low, self._unit, self._places = low, unit, counted
            return True
        if not self._reaches(low, low + (len(counted) - 1) * unit, unit):
            return False
        first, by = (low - self._low) // self._unit, unit // self._unit
        self._places[first::by][: len(counted)] += counted
        return True

    def _reaches(self, low: int, high: int, unit: int) -> bool:
        """Make places from `low` to `high`, by the `unit` too, unless those would be too many."""
        count, apart = len(self._places), self._low - low
        unit = min(unit, self._unit, apart & -apart or _APART)
        low, high = min(low, self._low), max(high, self._low + (count - 1) * self._unit)
        wanted = (high - low) // unit + 1
        if wanted > _WIDE:
            return False
        if wanted > count:
            places = np.zeros(wanted)
            places[(self._low - low) // unit :: self._unit // unit][:count] = self._places
            self._low, self._unit, self._places = low, unit, places
        return True

    def _sort(self, values: Int64, weights: Int64) -> None:
        if self._sorted is None:
            known = self._low + self._unit * np.arange(len(self._places))
            self._sorted = known, self._places.astype(np.int64)
        values = np.concatenate((self._sorted[0], values))
        weights = np.concatenate((self._sorted[1], weights))
        some = weights > 0
        values, weights = values[some], weights[some]
        order = np.argsort(values, kind="stable")
        values, weights = values[order], weights[order]
        first = np.flatnonzero(np.diff(values, prepend=values[:1] - 1))
        self._sorted = values[first], np.add.reduceat(weights, first)


__all__ = ["Tally", "weighted_ranks"]
