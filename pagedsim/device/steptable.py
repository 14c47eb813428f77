"""Step times measured on a real server, read from a CSV table.

Columns: ``sequences`` (or ``batch``), ``ms``, and optionally ``prefill_tokens`` (tokens of the
step beyond one per decoding sequence) and ``context`` (KV tokens read by the step, summed over
its sequences). The rows are a full grid of the columns' values, in any order.

Between the grid's values a time is interpolated linearly, one column after the other; below the
first value it is that value's, above the last it goes on along the last segment, or stays if that
one falls. The arithmetic is exact (Fractions), rounded half to even to nanoseconds once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TypeAlias

import numpy as np

from pagedsim.device.stepcells import number, read_rows
from pagedsim.device.steptime import checked, exact, half_even
from pagedsim.errors import InputError, PagedsimError, SpecError
from pagedsim.protocols import Int64, Load

Row: TypeAlias = tuple[int, int, int, float]  # sequences, prefill tokens, context, ms
_AXES = ("sequences", "prefill_tokens", "context")


class Table:
    """Step times from `rows`: (sequences, prefill tokens, context, ms) each.

    A column that has one value only does not matter to the time. SpecError unless the rows are a
    full grid without repetition, of integers >= 0 and times > 0.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        grid: dict[tuple[int, ...], Fraction] = {}
        for row in rows:
            *key, ms = row
            place = ", ".join(f"{a} {v}" for a, v in zip(_AXES, key, strict=True))
            if any(isinstance(v, bool) or not isinstance(v, int) or v < 0 for v in key):
                raise SpecError(f"table: {place}: must be integers >= 0")
            if tuple(key) in grid:
                raise SpecError(f"table: {place} is there twice")
            grid[tuple(key)] = Fraction(exact("ms", ms, 10**6), 10**6)
            if not ms > 0:
                raise SpecError(f"table: {place}: ms is {ms}, must be > 0")
        if not grid:
            raise SpecError("table: has no rows")
        self._axes = [sorted({key[i] for key in grid}) for i in range(3)]
        missing = next((key for key in product(*self._axes) if key not in grid), None)
        if missing is not None:
            place = ", ".join(f"{a} {v}" for a, v in zip(_AXES, missing, strict=True))
            raise SpecError(f"table: no row for {place}; the rows must be a full grid")
        self._grid = grid
        self._profile = lru_cache(maxsize=1024)(self._fold)

    def ns(self, load: Load) -> int:
        """Nanoseconds, at least 1."""
        return int(self._times(load, 1)[0])

    def ramp(self, load: Load, steps: int) -> Int64:
        """int64[steps]: `ns` of each of the next `steps` decode steps; O(steps) in Python."""
        return np.array(self._times(load, steps), np.int64)

    def _times(self, load: Load, steps: int) -> list[int]:
        sequences, prefills, tokens, _, context = map(int, load)
        values = self._profile(sequences, tokens - (sequences - prefills))
        knots, times = self._axes[2], []
        for at in range(context, context + max(0, steps) * max(1, sequences), max(1, sequences)):
            x = at if sequences else context
            value = _interpolate(knots, values, x)
            times.append(checked(half_even(value.numerator, value.denominator)))
        return times

    def _fold(self, sequences: int, prefill: int) -> tuple[Fraction, ...]:
        """Nanoseconds at each context of the grid."""
        first, second, third = self._axes
        return tuple(
            _interpolate(
                first,
                [
                    _interpolate(second, [self._grid[s, p, c] for p in second], prefill)
                    for s in first
                ],
                sequences,
            )
            for c in third
        )


def read_table(path: str | Path) -> Table:
    """The table in a CSV file. InputError names file, line, field, value and bound."""
    rows = [_row(*row) for row in read_rows(path, ("sequences", "ms"))]
    try:
        return Table(rows)
    except PagedsimError as error:
        raise InputError(f"{path}: {error}") from None


def _row(place: str, cells: dict[str, str]) -> Row:
    key = [int(number(cells.get(axis, "0"), axis, place, int)) for axis in _AXES]
    return key[0], key[1], key[2], number(cells["ms"], "ms", place, float)


def _interpolate(knots: Sequence[int], values: Sequence[Fraction], at: int) -> Fraction:
    if len(knots) == 1 or at <= knots[0]:
        return values[0]
    right = min(bisect_right(knots, at), len(knots) - 1)
    low, high = knots[right - 1], knots[right]
    if at > high and values[right] < values[right - 1]:
        return values[right]  # noise of a measurement must not lead to no time at all
    return values[right - 1] + (values[right] - values[right - 1]) * Fraction(at - low, high - low)


__all__ = ["Table", "read_table"]
