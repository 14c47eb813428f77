"""Exact sums over time, and ranks of requests: the arithmetic of the report.

An *integral* is Σ value · weight over steps, in slots · ns when the value is slots and the weight
the step's duration. It passes 2⁶³ for a large pool in an hour, so it is a Python integer. Values
and weights are int64 columns.

Percentiles over time are in `analysis.tally`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pagedsim.protocols import Int64

_LIMB = 24  # bits: three limbs hold any int64
_ROWS = 1 << 14  # a product of two limbs, summed over that many rows, stays below 2**62
_TOP = 1 << 63
_UNIT = 1074  # the least float above 0 is 2**-1074

Float64: TypeAlias = npt.NDArray[np.float64]
Number = TypeVar("Number", np.int64, np.float64)


def integral(values: Int64, weights: Int64) -> int:
    """Σ values · weights, exact; O(n), in int64 where the bound is below 2⁶³.

    Values may be below 0, weights not. Where int64 is too small both are cut into limbs of 24 bits
    and summed by chunks. Why not one product in Python integers: object arrays cost fifty times as
    much.
    """
    rows = len(values)
    assert rows == len(weights), f"{rows} values for {len(weights)} weights"
    if not rows:
        return 0
    assert weights.min() >= 0, "a weight below 0"
    if _largest(values) * total(weights) < _TOP:
        return int(values @ weights)
    found = 0
    for start in range(0, rows, _ROWS):
        a, b = _limbs(values[start : start + _ROWS]), _limbs(weights[start : start + _ROWS])
        for i, limb in enumerate(a):
            for j, other in enumerate(b):
                found += int(limb @ other) << (_LIMB * (i + j))
    return found


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


class Floats:
    """Adds up floats exactly, in any order and number: what is kept is one integer.

    Why not `math.fsum`: it needs them all at once, as Python's own floats.
    """

    def __init__(self, values: Float64 | None = None) -> None:
        self._sum = 0  # in units of 2**-_UNIT, of which every float is a multiple
        self._odd = 0.0  # what is not finite
        if values is not None:
            self.add(values)

    def add(self, values: Float64) -> None:
        """Add each of `values`; O(n) for each 40 bits or so from the first to the last that is set.

        Leading bits are added up as int64; what follows them is left for the next round.
        """
        finite = np.isfinite(values)
        if not finite.all():
            self._odd += float(values[~finite].sum())
            values = values[finite]
        bits = 62 - len(values).bit_length()
        while most := float(np.abs(values).max(initial=0)):
            shift = min(bits - math.frexp(most)[1], _UNIT)
            leading = np.trunc(np.ldexp(values, shift))
            self._sum += int(leading.astype(np.int64).sum()) << (_UNIT - shift)
            values = values - np.ldexp(leading, -shift)

    def sum(self) -> float:
        """The sum, rounded once, as `math.fsum` has it."""
        return self._odd or self._sum / (1 << _UNIT)


def ranks(values: npt.NDArray[Number], percents: Sequence[int]) -> list[Number]:
    """Nearest-rank percentiles, every value counting once; empty where there is none. O(n)."""
    count = len(values)
    if not count:
        return []
    at = [max(-(-percent * count // 100), 1) - 1 for percent in percents]
    ordered = np.partition(values, at)
    return [ordered[each] for each in at]


def share(part: int, whole: int) -> float | None:
    """One correctly rounded division at the end; None where there is nothing to divide by."""
    return part / whole if whole else None


def _largest(values: Int64) -> int:
    """The largest absolute value."""
    return max(int(values.max()), -int(values.min()))


def _limbs(values: Int64) -> list[Int64]:
    """`values` = Σ limb[i] · 2^(24 i), as many as the largest needs; the last has the sign."""
    mask = (1 << _LIMB) - 1
    last = max(-(-_largest(values).bit_length() // _LIMB), 1) - 1
    limbs = [(values >> (_LIMB * i)) & mask for i in range(last)]
    return [*limbs, values >> (_LIMB * last)]


__all__ = ["Floats", "integral", "overlap", "ranks", "share", "total"]
