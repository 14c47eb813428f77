"""A recipe of what stands on a slide: ``prompt p50=900 p99=6000, output mean=210, rate=5/s``.

Parts are separated by commas: ``prompt`` and ``output`` with any of mean, cv, min, max, median and
p1 to p99.9 in tokens; ``rate=5/s`` (or /min, /h), with ``cv=2`` for bursts; ``total max=8192``.

What is not said is filled in by lognormal distributions, for that is what lengths are most like:

- one percentile or a mean alone: a coefficient of variation of 1, unless cv is given;
- a mean and one percentile, or two percentiles: the lognormal that has both;
- more percentiles: between two neighbours the lognormal through both, beyond the outer ones those
  of the nearest two. A mean beside them cannot be kept too; what comes out is said.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

from pagedsim.errors import SpecError
from pagedsim.trace.arrivalmodels import ArrivalModel, Gamma, Poisson
from pagedsim.trace.draws import quantile
from pagedsim.trace.fields import LONGEST
from pagedsim.trace.lengthmodels import Constant, LogNormal, Model, Quantiles
from pagedsim.trace.recipe import Recipe

EXAMPLE = "prompt p50=900 p99=6000, output mean=210, rate=5/s"
_PER = {"s": 1.0, "min": 60.0, "h": 3600.0}
_GRID = (0.1, 0.5, 1.0, *(2.5 * k for k in range(1, 40)), 99.0, 99.5, 99.9)


class _Said(NamedTuple):
    """A number of a part and the column it stands in, from 1."""

    value: float
    column: int


def recipe_of(text: str, *, requests: int) -> tuple[Recipe, tuple[str, ...]]:
    """The recipe and how each part was filled in. SpecError with the place of what is wrong."""
    parts = _parts(text)
    notes, models = [], {}
    for name in ("prompt", "output"):
        if name not in parts:
            raise SpecError(f"--from-percentiles: says nothing of {name}; such as: {EXAMPLE}")
        models[name], note = _model(name, parts[name])
        notes.append(f"{name}: {note}")
    if "rate" not in parts:
        raise SpecError(f"--from-percentiles: gives no rate; such as: {EXAMPLE}")
    total = parts.get("total", {}).get("max")
    recipe = Recipe(
        name="percentiles",
        arrivals=_arrivals(parts["rate"]),
        prompt=models["prompt"],
        output=models["output"],
        requests=requests,
        max_total=None if total is None else int(total.value),
    )
    return recipe, tuple(notes)


def _parts(text: str) -> dict[str, dict[str, _Said]]:
    found: dict[str, dict[str, _Said]] = {}
    at = 0
    for part in text.split(","):
        words = [(m[0], at + m.start() + 1) for m in re.finditer(r"\S+", part)]
        at += len(part) + 1
        if not words:
            raise _wrong(at, "nothing stands between commas")
        first, column = words[0]
        name = first.partition("=")[0].lower()
        if name not in _KEYS:
            raise _wrong(column, f"{first} is no part; there are {', '.join(_KEYS)}: {EXAMPLE}")
        if name in found:
            raise _wrong(column, f"{name} is there twice")
        found[name] = {}
        for word, place in words if "=" in first else words[1:]:
            key, said = _pair(name, word, place)
            if key in found[name]:
                raise _wrong(place, f"{key} is there twice")
            found[name][key] = said
        if not found[name]:
            raise _wrong(column, f"{name} has no number")
    return found


_KEYS = {
    "prompt": ("mean", "cv", "min", "max", "median", "pN"),
    "output": ("mean", "cv", "min", "max", "median", "pN"),
    "rate": ("rate", "cv"),
    "total": ("max",),
}


def _pair(name: str, word: str, column: int) -> tuple[str, _Said]:
    key, sign, given = word.partition("=")
    key = "p50" if key.lower() == "median" else key.lower()
    percent = re.fullmatch(r"p(\d+(?:\.\d+)?)", key)
    known = percent is not None and "pN" in _KEYS[name] and 0 < float(percent[1]) < 100
    if not sign or not (known or key in _KEYS[name]):
        raise _wrong(column, f"{word} is not KEY=NUMBER with KEY of {', '.join(_KEYS[name])}")
    scale = 1.0
    if key == "rate":
        given, _, unit = given.partition("/")
        if unit not in _PER:
            raise _wrong(column, f"{word} has no unit: rate=5/s, /min or /h")
        scale = _PER[unit]
    try:
        value = float(given) / scale
    except ValueError:
        value = math.nan
    if not 0 < value <= LONGEST:
        raise _wrong(column, f"{word}: must be a number > 0, at most {LONGEST}")
    if value < 1 and key not in ("cv", "rate"):
        raise _wrong(column, f"{word}: must be at least 1 token")
    return (f"p{float(percent[1]):g}" if percent else key), _Said(value, column)


def _arrivals(part: dict[str, _Said]) -> ArrivalModel:
    if "rate" not in part:
        raise _wrong(part["cv"].column, "cv of what rate? Such as: rate=5/s cv=2")
    rate = part["rate"].value
    return Gamma(rate=rate, cv=part["cv"].value) if "cv" in part else Poisson(rate=rate)


def _model(name: str, part: dict[str, _Said]) -> tuple[Model, str]:
    """The distribution and how it was found."""
    given = {float(key[1:]): said for key, said in part.items() if key[0] == "p"}
    points = dict(sorted(given.items()))
    mean, cv, low, high = (part.get(key) for key in ("mean", "cv", "min", "max"))
    _rising(name, points, low, high)
    _possible(name, points, mean, low, high)
    if not points and mean is None:
        raise _wrong(next(iter(part.values())).column, f"{name} needs a mean or a percentile")
    if cv is not None and len(points) + (mean is not None) > 1:
        raise _wrong(cv.column, f"{name} cv={cv.value:g} is one number too many: leave it out")
    least, most = low.value if low else 1.0, high.value if high else float(LONGEST)
    if len(points) + (mean is not None) == 1:
        spread = cv.value if cv else 1.0
        said = f"cv {spread:g}" + ("" if cv else ", an assumption")
        if mean is not None:
            return _lognormal(mean.value, spread, least, most), f"lognormal of that mean, {said}"
        ((percent, at),) = points.items()
        sigma = math.sqrt(math.log1p(spread**2))
        middle = math.log(at.value) - sigma * _score(percent)
        found = _lognormal(math.exp(middle + sigma**2 / 2), spread, least, most)
        return found, f"lognormal through p{percent:g}, {said}"
    if len(points) == 1:
        assert mean is not None
        ((percent, at),) = points.items()
        sigma = _spread(name, percent, at, mean)
        found = _lognormal(mean.value, math.sqrt(math.expm1(sigma**2)), least, most)
        return found, f"lognormal through p{percent:g} with that mean"
    if len(points) == 2:
        middle, sigma = _through(*((_score(p), math.log(at.value)) for p, at in points.items()))
        average = math.exp(middle + sigma**2 / 2)
        found = _lognormal(average, math.sqrt(math.expm1(sigma**2)), least, most)
        note = "lognormal through " + " and ".join(f"p{p:g}" for p in points)
        return found, note + _off(mean, average)
    model = _between(points, low, high)
    values, percents = np.array(model.values), np.array(model.percents)
    average = float(((values[1:] + values[:-1]) / 2 * np.diff(percents)).sum()) / 100
    note = f"lognormal between neighbours of {len(points)} percentiles"
    return model, note + _off(mean, average)


def _rising(name: str, points: dict[float, _Said], low: _Said | None, high: _Said | None) -> None:
    """SpecError where a number is below one that must not be above it."""
    named = [("min", low), *((f"p{percent:g}", said) for percent, said in points.items())]
    last: tuple[str, _Said] | None = None
    for key, said in [*named, ("max", high)]:
        if said is None:
            continue
        if last is not None and said.value < last[1].value:
            raise _wrong(
                said.column,
                f"{name} {key}={said.value:g} contradicts {last[0]}={last[1].value:g} in column "
                f"{last[1].column}: it must be >= that",
            )
        last = key, said


def _possible(
    name: str,
    points: dict[float, _Said],
    mean: _Said | None,
    low: _Said | None,
    high: _Said | None,
) -> None:
    """SpecError for a mean that no such distribution has (each value at its least, or its most)."""
    if mean is None:
        return
    edges = [0.0, *points, 100.0]
    values = [low.value if low else 0.0, *(said.value for said in points.values())]
    widths = np.diff(edges) / 100
    least = float((widths * values).sum())
    if mean.value < least * (1 - 1e-9):
        said = f"{name} mean={mean.value:g} contradicts the rest: it must be >= {least:g}"
        raise _wrong(mean.column, said)
    if high is not None:
        most = float((widths * [*values[1:], high.value]).sum())
        if mean.value > most * (1 + 1e-9):
            said = f"{name} mean={mean.value:g} contradicts the rest: it must be <= {most:g}"
            raise _wrong(mean.column, said)


def _spread(name: str, percent: float, at: _Said, mean: _Said) -> float:
    """σ of the lognormal with that mean and percentile: mean = exp(m + σ²/2), p = exp(m + zσ)."""
    z, ratio = _score(percent), math.log(at.value / mean.value)
    root = z**2 - 2 * ratio
    if root < 0 or (z <= 0 < ratio):
        most = mean.value * math.exp(max(0.0, z) ** 2 / 2)
        raise _wrong(
            at.column,
            f"{name} p{percent:g}={at.value:g} is out of reach of a lognormal with mean "
            f"{mean.value:g}: it must be <= {most:.6g}; give two percentiles instead",
        )
    return z - math.sqrt(root) if ratio >= 0 else z + math.sqrt(root)


def _between(points: dict[float, _Said], low: _Said | None, high: _Said | None) -> Quantiles:
    """Quantiles of a distribution whose logarithm is a broken line in the normal score."""
    z = np.array([_score(percent) for percent in points])
    log = np.log([said.value for said in points.values()])
    percents = sorted({*_GRID, *points})
    at = np.array([_score(percent) for percent in percents])
    slope = np.diff(log) / np.diff(z)
    part = np.clip(np.searchsorted(z, at, "right") - 1, 0, len(slope) - 1)
    values = np.exp(log[part] + slope[part] * (at - z[part]))
    values = np.clip(values, low.value if low else 1.0, high.value if high else LONGEST)
    first, last = low.value if low else values[0], high.value if high else values[-1]
    return Quantiles(
        percents=[0.0, *percents, 100.0],
        values=np.maximum.accumulate([first, *values, last]).tolist(),
    )


def _through(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """m and σ of the line through two (score, logarithm)."""
    sigma = (other[1] - one[1]) / (other[0] - one[0])
    return one[1] - sigma * one[0], sigma


def _lognormal(mean: float, cv: float, least: float, most: float) -> Model:
    if cv < 1e-9:
        return Constant(value=mean)
    return LogNormal(mean=mean, cv=cv, least=least, most=most)


def _off(mean: _Said | None, found: float) -> str:
    """What a stated mean comes out as, where percentiles have settled it."""
    return "" if mean is None else f"; its mean comes out as {found:.4g}, not {mean.value:g}"


def _score(percent: float) -> float:
    return float(quantile(np.array([percent / 100]))[0])


def _wrong(column: int, text: str) -> SpecError:
    return SpecError(f"--from-percentiles: column {column}: {text}")


__all__ = ["EXAMPLE", "recipe_of"]
