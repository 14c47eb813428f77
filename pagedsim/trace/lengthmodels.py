"""Distributions that a recipe can name, for lengths in tokens and for times in seconds.

Each draws float64 values by inversion of uniforms (`pagedsim.trace.draws`); whoever draws rounds.
`least` and `most` cut a distribution by drawing again, not by clipping.
"""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np

from pagedsim.errors import InputError
from pagedsim.protocols import Int64
from pagedsim.trace.draws import Float64, normals, uniforms
from pagedsim.trace.fields import LONGEST

_TRIES = 1000


class _Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Each has ``draw(rng, count)``: that many values, not yet cut."""

    def check(self) -> None:
        """Raise ValueError where the numbers make no distribution."""


class Constant(_Model, frozen=True, tag="constant"):
    """Always the same."""

    value: float

    def draw(self, rng: np.random.Generator, count: int) -> Float64:
        return np.full(count, float(self.value))


class Uniform(_Model, frozen=True, tag="uniform"):
    """Anywhere from `lo` to `hi`."""

    lo: float
    hi: float

    def draw(self, rng: np.random.Generator, count: int) -> Float64:
        return self.lo + (self.hi - self.lo) * rng.random(count)

    def check(self) -> None:
        _need(self.lo <= self.hi, "lo must not be above hi")


class LogNormal(_Model, frozen=True, tag="lognormal"):
    """By mean and coefficient of variation, both before cutting at `least` and `most`."""

    mean: float
    cv: float
    least: float = 0.0
    most: float = float(LONGEST)

    def draw(self, rng: np.random.Generator, count: int) -> Float64:
        spread = math.log1p(self.cv**2)
        middle = math.log(self.mean) - spread / 2
        return _cut(
            lambda n: np.exp(middle + math.sqrt(spread) * normals(rng, n)),
            count,
            self.least,
            self.most,
        )

    def check(self) -> None:
        _need(0 < self.mean <= LONGEST, f"mean must be > 0, at most {LONGEST}")
        _need(0 <= self.cv <= 100, "cv must be from 0 to 100")


class Geometric(_Model, frozen=True, tag="geometric"):
    """Whole numbers from `least` up, by mean."""

    mean: float
    least: int = 1

    def draw(self, rng: np.random.Generator, count: int) -> Float64:
        beyond = self.mean - self.least
        if beyond == 0:
            return np.full(count, float(self.least))
        fails = np.floor(np.log(uniforms(rng, count)) / math.log1p(-1 / (beyond + 1)))
        return self.least + fails

    def check(self) -> None:
        _need(self.least <= self.mean <= LONGEST, f"mean must be from least to {LONGEST}")


class Chances(_Model, frozen=True, tag="chances"):
    """Whole numbers from 1: after the k-th a further one with ``chances[k - 1]``, the last of which
    holds from there on.
    """

    chances: list[float]

    def draw(self, rng: np.random.Generator, count: int) -> Float64:
        left = np.cumprod(self.chances[:-1])  # shares that go beyond 1, 2, …
        ranks = uniforms(rng, count)
        found: Float64 = np.searchsorted(-left, -ranks, "left").astype(np.float64) + 1
        beyond = np.flatnonzero(found > len(left))
        last = self.chances[-1]
        if last > 0 and len(beyond):
            whole = left[-1] if len(left) else 1.0
            found[beyond] += np.floor(np.log(ranks[beyond] / whole) / math.log(last))
        return found

    def check(self) -> None:
        _need(len(self.chances) >= 1, "chances must hold at least one number")
        _need(all(0 <= chance <= 1 for chance in self.chances), "chances must be from 0 to 1")
        _need(self.chances[-1] < 1, "the last of chances must be below 1")


class Quantiles(_Model, frozen=True, tag="quantiles"):
    """`values` at the `percents`, straight lines between them. Ends are 0 and 100."""

    percents: list[float]
    values: list[float]

    def draw(self, rng: np.random.Generator, count: int) -> Float64:
        return np.interp(100 * rng.random(count), self.percents, self.values)

    def check(self) -> None:
        same = len(self.percents) == len(self.values) >= 2
        _need(same, "percents and values must have the same length, at least 2")
        _need(self.percents[0] == 0 and self.percents[-1] == 100, "percents must go from 0 to 100")
        _need(_rises(self.percents), "percents must rise")
        _need(_rises(self.values), "values must rise")


class Histogram(_Model, frozen=True, tag="histogram"):
    """Equal bins from `lo` to `hi`, uniform within each; `density` up to a factor.

    The three can come from a JSON `file`, `key` being the path to the object in it, with dots.
    """

    lo: float = 0.0
    hi: float = 0.0
    density: list[float] = []
    file: str = ""
    key: str = ""

    def draw(self, rng: np.random.Generator, count: int) -> Float64:
        weights = np.asarray(self.density, np.float64)
        edges = np.linspace(self.lo, self.hi, len(weights) + 1)
        upto = np.concatenate(([0.0], np.cumsum(weights)))
        drawn: Float64 = np.interp(rng.random(count) * upto[-1], upto, edges)
        return drawn

    def check(self) -> None:
        _need(self.lo < self.hi, "lo must be below hi")
        fine = len(self.density) > 0 and min(self.density) >= 0 and sum(self.density) > 0
        _need(fine, "density must hold weights >= 0, some above 0")


class Empirical(_Model, frozen=True, tag="empirical"):
    """One of the `values`, all equally likely; or of a trace `file`, `column` prompt or output."""

    values: list[float] = []
    file: str = ""
    column: str = "prompt"

    def draw(self, rng: np.random.Generator, count: int) -> Float64:
        pool = np.asarray(self.values, np.float64)
        index = (rng.random(count) * len(pool)).astype(np.int64)
        drawn: Float64 = np.take(pool, index, mode="clip")
        return drawn

    def check(self) -> None:
        _need(len(self.values) > 0, "values must hold at least one number")


class ByPrompt(_Model, frozen=True, tag="by_prompt"):
    """Output lengths that go with the prompt's: quantiles a class of prompts.

    Class k holds prompts of at least ``bounds[k - 1]`` and below ``bounds[k]`` tokens; its
    ``values[k]`` stand at the `percents`, as in `Quantiles`.
    """

    percents: list[float]
    bounds: list[float]
    values: list[list[float]]

    def draw(self, rng: np.random.Generator, count: int) -> Float64:
        """Ranks from 0 to 1, to be looked up (`given`) once the prompts are known."""
        return rng.random(count)

    def given(self, prompt: Int64, ranks: Float64) -> Float64:
        """The lengths at `ranks` among outputs of such prompts."""
        index = np.searchsorted(self.bounds, prompt, "right")
        found = np.empty(len(prompt), np.float64)
        for which in set(index.tolist()):
            rows = index == which
            found[rows] = np.interp(100 * ranks[rows], self.percents, self.values[which])
        return found

    def check(self) -> None:
        _need(len(self.values) == len(self.bounds) + 1, "values need one list more than bounds")
        _need(_rises(self.bounds), "bounds must rise")
        for values in self.values:
            Quantiles(percents=self.percents, values=values).check()


Model: TypeAlias = (
    Constant
    | Uniform
    | LogNormal
    | Geometric
    | Chances
    | Quantiles
    | Histogram
    | Empirical
    | ByPrompt
)


def resolve(model: Model, folder: Path) -> Model:
    """The model with what it takes from a file, and checked. Raises InputError or ValueError."""
    if isinstance(model, Histogram) and model.file:
        found = _histogram(folder / model.file, model.key)
        model = Histogram(lo=found["lo"], hi=found["hi"], density=found["density"])
    elif isinstance(model, Empirical) and model.file:
        from pagedsim.trace.reading import load

        _need(model.column in ("prompt", "output"), "column must be prompt or output")
        values = getattr(load(folder / model.file), model.column).tolist()
        model = Empirical(values=values)
    model.check()
    return model


def tokens(model: Model, rng: np.random.Generator, count: int, least: int = 1) -> np.ndarray:
    """Whole tokens, rounded half to even and at least `least`."""
    return _whole(model.draw(rng, count), least)


def outputs(model: Model, rng: np.random.Generator, prompt: Int64) -> np.ndarray:
    """Whole tokens of the outputs of requests with such prompts, at least 1."""
    return answered(model, model.draw(rng, len(prompt)), prompt)


def answered(model: Model, drawn: Float64, prompt: Int64) -> np.ndarray:
    """What `drawn` of `model` means for such prompts, in whole tokens, at least 1."""
    return _whole(model.given(prompt, drawn) if isinstance(model, ByPrompt) else drawn, 1)


def _whole(drawn: Float64, least: int) -> np.ndarray:
    return np.clip(np.rint(drawn), least, LONGEST).astype(np.int64)


def _histogram(path: Path, key: str) -> Any:
    try:
        found = json.loads(path.read_bytes())
        for step in filter(None, key.split(".")):
            found = found[step]
        return {"lo": found["lo"], "hi": found["hi"], "density": list(found["density"])}
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        text = f"{type(error).__name__} {error}"
        raise InputError(f"{path}: no histogram (lo, hi, density) under {key!r}: {text}") from None


def _cut(draw: Any, count: int, least: float, most: float) -> Float64:
    values: Float64 = draw(count)
    for _ in range(_TRIES):
        outside = np.flatnonzero((values < least) | (values > most))
        if not len(outside):
            return values
        values[outside] = draw(len(outside))
    raise InputError(f"no draw between {least:g} and {most:g} in {_TRIES} tries")


def _rises(values: list[float]) -> bool:
    return all(a <= b for a, b in itertools.pairwise(values))


def _need(fine: bool, must: str) -> None:
    if not fine:
        raise ValueError(must)


__all__ = [
    "ByPrompt",
    "Chances",
    "Constant",
    "Empirical",
    "Geometric",
    "Histogram",
    "LogNormal",
    "Model",
    "Quantiles",
    "Uniform",
    "answered",
    "outputs",
    "resolve",
    "tokens",
]
