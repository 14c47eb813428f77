"""At which request rate normalized latency passes a threshold, in a figure's curve and in ours.

Normalized latency is the mean over requests of end-to-end time / output tokens. In a curve it is
read off the straight line between points; in ours found by halving, in the logarithm of the rate::

    guess / SPAN |----------|-----x----| guess · SPAN        ROUNDS times, all cases side by side
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from pagedsim.analysis.experiments import opt
from pagedsim.analysis.experiments.experiment import Bench
from pagedsim.analysis.experiments.opt import Settings, System

THRESHOLD = 0.5  # s a token: ours, the paper states none
SPAN = 3.0
OUTSIDE = "the rate is not within the span in which it was sought"
ROUNDS = 8  # a rate is then known to 0.9 %

Curve: TypeAlias = tuple[tuple[float, float], ...]  # (requests/s, s a token), rates not falling


S = TypeVar("S", bound=Settings)


class Case(NamedTuple, Generic[S]):
    """A system under a load whose rate is sought around `guess`."""

    system: System
    seed: int
    settings: S
    guess: float


def of_curve(curve: Curve, threshold: float = THRESHOLD) -> float:
    """The rate at which a curve first passes `threshold`; ValueError if it does not."""
    for (low, below), (high, above) in itertools.pairwise(curve):
        if below < threshold <= above:
            return low + (high - low) * (threshold - below) / (above - below)
    raise ValueError(f"the curve does not pass {threshold} between its points")


def latency(system: System, seed: int, settings: Settings) -> float:
    """Mean normalized latency of one run, in s a token."""
    found = opt.replay(system, seed, settings).latency.normalized_s_per_token.mean
    return math.inf if found is None else found


def crossings(
    bench: Bench,
    cases: Sequence[Case[S]],
    threshold: float = THRESHOLD,
    measured: Callable[[System, int, S], float] = latency,
) -> list[float | None]:
    """The rate of each case; None where it is not within the span. ROUNDS runs a case."""
    bench.expect(ROUNDS * len(cases))
    ends = [(case.guess / SPAN, case.guess * SPAN) for case in cases]
    for _ in range(ROUNDS):
        middles = [math.sqrt(low * high) for low, high in ends]
        runs = [
            (case.system, case.seed, replace(case.settings, rate=rate))
            for case, rate in zip(cases, middles, strict=True)
        ]
        found = bench.map(measured, runs)
        ends = [
            (middle, high) if value < threshold else (low, middle)
            for (low, high), middle, value in zip(ends, middles, found, strict=True)
        ]
    return [
        math.sqrt(low * high) if case.guess / SPAN < low and high < case.guess * SPAN else None
        for case, (low, high) in zip(cases, ends, strict=True)
    ]


__all__ = [
    "OUTSIDE",
    "ROUNDS",
    "SPAN",
    "THRESHOLD",
    "Case",
    "Curve",
    "crossings",
    "latency",
    "of_curve",
]
