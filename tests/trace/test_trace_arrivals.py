"""Load models: rates, burstiness, stable streams, and that nothing else of a trace changes."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from pagedsim.errors import SpecError
from pagedsim.trace import Trace, arrivals
from pagedsim.trace.draws import quantile, stream, uniforms

COUNT = 20_000
POISSON = [1102451552, 1509700144, 2316694487, 3884350504]
TRACE = Trace.build("x", np.zeros(COUNT, int), np.arange(1, COUNT + 1), np.ones(COUNT, int))


def gaps(trace: Trace) -> np.ndarray:
    return np.diff(trace.arrival_ns) / 1e9


def test_poisson() -> None:
    trace = arrivals.poisson(TRACE, 4.0, seed=3)
    assert trace.load == "Poisson 4/s, seed 3"
    assert trace.timed
    assert gaps(trace).mean() == pytest.approx(0.25, rel=0.03)
    assert gaps(trace).std() == pytest.approx(0.25, rel=0.03)
    assert trace.prompt.tolist() == TRACE.prompt.tolist()
    assert arrivals.poisson(TRACE, 4.0, seed=3).arrival_ns.tolist() == trace.arrival_ns.tolist()
    assert arrivals.poisson(TRACE, 4.0, seed=4).arrival_ns.tolist() != trace.arrival_ns.tolist()


def test_poisson_times_are_these() -> None:
    assert arrivals.poisson_ns(4, 2.0, 0).tolist() == POISSON
    assert arrivals.poisson_ns(2, 2.0, 0).tolist() == POISSON[:2]  # more do not move the first


def test_gamma() -> None:
    trace = arrivals.gamma(TRACE, 10.0, 2.0, seed=1)
    assert trace.load == "gamma 10/s, cv 2, seed 1"
    assert gaps(trace).mean() == pytest.approx(0.1, rel=0.06)
    assert gaps(trace).std() / gaps(trace).mean() == pytest.approx(2.0, rel=0.06)


def test_diurnal() -> None:
    trace = arrivals.diurnal(TRACE, 10.0, 0.8, period_s=1000.0, seed=1)
    phase = (trace.arrival_ns / 1e9) % 1000
    trough = ((phase < 100) | (phase > 900)).sum()
    peak = ((phase > 400) & (phase < 600)).sum()
    assert peak / trough == pytest.approx(1.75 / 0.25, rel=0.12)
    assert COUNT / (trace.arrival_ns[-1] / 1e9) == pytest.approx(10, rel=0.03)
    assert (np.diff(trace.arrival_ns) >= 0).all()
    flat = arrivals.diurnal(TRACE, 10.0, 0.0, seed=1)
    assert abs(flat.arrival_ns - arrivals.poisson(TRACE, 10.0, seed=1).arrival_ns).max() <= COUNT


def test_saturate_and_scale() -> None:
    trace = arrivals.poisson(TRACE, 2.0)
    assert arrivals.saturate(trace).arrival_ns.max() == 0
    twice = arrivals.scale(trace, 2.0)
    assert twice.load == "Poisson 2/s, seed 0, rate x2"
    assert abs(twice.arrival_ns * 2 - trace.arrival_ns).max() <= 1
    assert arrivals.scale(trace, 1.0) is trace


def test_refused() -> None:
    lengths = Trace.build("x", [0], [1], [1], timed=False)
    with pytest.raises(SpecError, match="no arrivals to scale"):
        arrivals.scale(lengths, 2.0)
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SpecError, match="must be > 0"):
            arrivals.poisson(TRACE, wrong)
    with pytest.raises(SpecError, match=r"swing is 1\.5, must be from 0 to 1"):
        arrivals.diurnal(TRACE, 1.0, 1.5)
    with pytest.raises(SpecError, match="would pass"):
        arrivals.poisson(TRACE, 1e-9)
    with pytest.raises(SpecError, match="seed is -1"):
        arrivals.poisson(TRACE, 1.0, seed=-1)


def test_normal_quantile() -> None:
    p = np.concatenate((uniforms(stream(0), 1000), [1e-300, 1e-12, 0.5, 1 - 1e-12]))
    exact = [statistics.NormalDist().inv_cdf(float(x)) for x in p]
    assert quantile(p) == pytest.approx(exact, rel=1e-13, abs=1e-15)
