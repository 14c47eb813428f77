"""Coarse numbers: what a fitted recipe may hold of a column of lengths or times.

Quantiles are rounded to about a percent, the ends outwards; at least `CROWD` values lie between two
of them.
"""

from __future__ import annotations

import math

import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace.draws import Float64
from pagedsim.trace.lengthmodels import ByPrompt, Constant, Model, Quantiles

CROWD = 5
_CLASS = 400  # requests of a class of prompts, at least
_CLASSES = 8
_PERCENTS = (0.1, 0.5, 1.0, *(2.5 * step for step in range(1, 40)), 99.0, 99.5, 99.9)


def coarse(value: float, *, up: int = 0) -> float:
    """`value` to about a percent: its third digit rounded to 1 (below 200), 2 (below 500) or 5.

    Whole numbers below 100 stay; outwards with `up` 1 or -1.
    """
    if value == 0 or not math.isfinite(value):
        return 0.0
    power = math.floor(math.log10(abs(value))) - 2
    leading = abs(value) / 10.0**power  # from 100 to 1,000
    step = (1 if leading < 200 else 2 if leading < 500 else 5) * 10.0**power
    if 10 <= abs(value) < 100:
        step = 1.0
    whole = (round, math.ceil, math.floor)[up](round(value / step, 9))
    return round(whole * step, max(0, 2 - power))


def percents(count: int) -> list[float]:
    """Which quantiles `count` values allow: from 0 to 100, `CROWD` of them in between."""
    found = [0.0]
    for percent in _PERCENTS:
        beside = min(percent - found[-1], 100 - percent)
        if count * beside / 100 >= CROWD - 1e-9:
            found.append(float(percent))
    return [*found, 100.0]


def quantiles(values: Int64 | Float64, *, whole: bool = False) -> Model:
    """The distribution of `values` as quantiles; a constant where all are the same.

    Of fewer than `CROWD` values no more is told than the range, to a digit.
    """
    if len(values) < CROWD:
        return Quantiles(percents=[0.0, 100.0], values=_digit(values))
    at = percents(len(values))
    found = _at(values, at)
    if found[0] == found[-1] and (not whole or found[0] >= 1):
        return Constant(value=found[0])
    said = [
        0 < place < len(at) - 1 and found[place - 1] == found[place + 1]  # says nothing new
        for place in range(len(at))
    ]
    kept = [place for place, drop in enumerate(said) if not drop]
    return Quantiles(percents=[at[p] for p in kept], values=[found[p] for p in kept])


def outputs(prompt: Int64, output: Int64) -> Model:
    """Outputs by classes of prompts of about as many requests each."""
    classes = min(_CLASSES, len(prompt) // _CLASS)
    edges = [np.quantile(prompt, share / classes) for share in range(1, classes)]
    bounds = sorted({coarse(float(edge)) for edge in edges})
    index = np.searchsorted(bounds, prompt, "right")
    sizes = np.bincount(index, minlength=len(bounds) + 1)
    if len(bounds) == 0 or sizes.min() < 4 * CROWD:
        return quantiles(output, whole=True)
    at = percents(int(sizes.min()))
    values = [_at(output[index == which], at) for which in range(len(bounds) + 1)]
    return ByPrompt(percents=at, bounds=bounds, values=values)


def _digit(values: Int64 | Float64) -> list[float]:
    """The ends, rounded outwards to their first digit."""
    ends = []
    for value, outwards in ((float(values.min()), math.floor), (float(values.max()), math.ceil)):
        step = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
        ends.append(round(outwards(round(value / step, 9)) * step, 6))
    return ends


def _at(values: Int64 | Float64, at: list[float]) -> list[float]:
    """Coarse values at the percents, rising."""
    exact = np.percentile(values, at)
    middle = [coarse(float(value)) for value in exact[1:-1]]
    found = [coarse(float(exact[0]), up=-1), *middle, coarse(float(exact[-1]), up=1)]
    return [float(value) for value in np.maximum.accumulate(found)]


__all__ = ["CROWD", "coarse", "outputs", "percents", "quantiles"]
