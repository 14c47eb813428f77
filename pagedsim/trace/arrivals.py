"""Load models: when requests arrive.

Each function gives the same requests other arrival times, and the trace a `load` that names the
model. Rows keep their order, so a turn never comes before its parent. Rates are requests a
second; a gap is rounded to whole nanoseconds (half to even) and gaps are added as integers, so
times do not depend on how sums are taken. The first request arrives after the first gap.
"""

from __future__ import annotations

import math

import numpy as np

from pagedsim.errors import SpecError
from pagedsim.protocols import Int64
from pagedsim.trace.draws import exponentials, stream
from pagedsim.trace.trace import Trace

_ARRIVALS = 1  # the purpose of the random stream
_TOO_LONG = "generated arrivals would pass 4e9 s; give a higher rate or fewer requests"


def poisson(trace: Trace, rate: float, seed: int = 0) -> Trace:
    """Independent exponential gaps."""
    times = poisson_ns(len(trace), rate, seed)
    return trace.with_arrivals(times, f"Poisson {rate:g}/s, seed {seed}")


def gamma(trace: Trace, rate: float, cv: float, seed: int = 0) -> Trace:
    """Gamma gaps with coefficient of variation `cv`: 1 is Poisson, above it burstier."""
    times = gamma_ns(len(trace), rate, cv, seed)
    return trace.with_arrivals(times, f"gamma {rate:g}/s, cv {cv:g}, seed {seed}")


def diurnal(
    trace: Trace, rate: float, swing: float, period_s: float = 86400.0, seed: int = 0
) -> Trace:
    """A Poisson process whose rate swings between ``rate·(1 - swing)``, where it starts, and
    ``rate·(1 + swing)`` half a period later.
    """
    times = diurnal_ns(len(trace), rate, swing, period_s, seed)
    load = f"diurnal {rate:g}/s ± {swing:.0%} in {period_s:g} s, seed {seed}"
    return trace.with_arrivals(times, load)


def saturate(trace: Trace) -> Trace:
    """All at time 0: a queue that never empties until the end."""
    return trace.with_arrivals(np.zeros(len(trace), np.int64), "saturated: all at time 0")


def scale(trace: Trace, factor: float) -> Trace:
    """The rate times `factor`: times are divided by it, rounded to whole nanoseconds.

    Think times stay. Refused for a trace without arrivals of its own.
    """
    _positive("rate scale", factor)
    if not trace.timed:
        raise SpecError(f"{trace.name}: has no arrivals to scale; give a rate")
    if factor == 1:
        return trace
    with np.errstate(over="ignore"):  # inf, refused
        times = np.rint(trace.arrival_ns / factor)
    if len(times) and times.max() >= 2**62:
        raise SpecError(f"rate scale is {factor:g}: times would pass 2^62 ns")
    return trace.with_arrivals(times.astype(np.int64), f"{trace.load}, rate x{factor:g}")


def poisson_ns(count: int, rate: float, seed: int) -> Int64:
    """Arrival times of a Poisson process."""
    return _times(exponentials(stream(seed, _ARRIVALS), count) / _positive("rate", rate))


def gamma_ns(count: int, rate: float, cv: float, seed: int) -> Int64:
    """Arrival times with gamma gaps."""
    spread = _positive("cv", cv) ** 2
    gaps = stream(seed, _ARRIVALS).standard_gamma(1 / spread, count) * spread
    return _times(gaps / _positive("rate", rate))


def diurnal_ns(count: int, rate: float, swing: float, period_s: float, seed: int) -> Int64:
    """Arrival times of a Poisson process with a sinusoidal rate, by inverting its integral."""
    if not 0 <= swing <= 1:
        raise SpecError(f"swing is {swing:g}, must be from 0 to 1")
    turns = 2 * np.pi / _positive("period", period_s)
    target = np.cumsum(exponentials(stream(seed, _ARRIVALS), count)) / _positive("rate", rate)
    low = np.maximum(target - 2 * swing / turns, 0.0)
    high = target + 2 * swing / turns
    for _ in range(80):  # ∫ (1 - swing·cos(turns·s)) ds up to t; bisection ends at the last bit
        middle = (low + high) / 2
        below = middle - swing * np.sin(turns * middle) / turns < target
        low = np.where(below, middle, low)
        high = np.where(below, high, middle)
    return np.maximum.accumulate(_whole_ns(high))


def profile_ns(count: int, rates: list[float], window_s: float, cv: float, seed: int) -> Int64:
    """Arrival times of a process whose rate is ``rates[k]`` in its k-th `window_s`, then again.

    Gamma gaps of mean 1 are taken as the rate's integral: `cv` is their coefficient of variation.
    """
    rng = stream(seed, _ARRIVALS)
    spread = _positive("cv", cv) ** 2
    plain = cv == 1
    gaps = exponentials(rng, count) if plain else rng.standard_gamma(1 / spread, count) * spread
    width = _positive("window", window_s)
    upto = np.concatenate(([0.0], np.cumsum(np.asarray(rates, np.float64) * width)))
    _positive("the mean of the rates", float(upto[-1]) / (width * len(rates)))
    rounds, rest = np.divmod(np.cumsum(gaps), upto[-1])
    at = np.interp(rest, upto, np.arange(len(rates) + 1) * width)
    seconds = rounds * (width * len(rates)) + at
    if count and seconds[-1] >= 4e9:
        raise SpecError(_TOO_LONG)
    return np.maximum.accumulate(np.rint(seconds * 1e9).astype(np.int64))


def _times(gaps_s: np.ndarray) -> Int64:
    return np.cumsum(_whole_ns(gaps_s), dtype=np.int64)


def _whole_ns(seconds: np.ndarray) -> Int64:
    if len(seconds) and seconds.sum() >= 4e9:
        raise SpecError(_TOO_LONG)
    whole: Int64 = np.rint(seconds * 1e9).astype(np.int64)
    return whole


def _positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise SpecError(f"{name} is {value:g}, must be > 0")
    return value


__all__ = [
    "diurnal",
    "diurnal_ns",
    "gamma",
    "gamma_ns",
    "poisson",
    "poisson_ns",
    "profile_ns",
    "saturate",
    "scale",
]
