"""A thinned series keeps its peaks, and shows nothing that was not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from records import SECOND, random_runs, recording, requests, three_steps, window

from pagedsim import Constant, make_device, simulate
from pagedsim.analysis.outline import COLUMNS, outline, quantiles, queue
from pagedsim.analysis.results import TERMS
from pagedsim.analysis.series import idle
from pagedsim.engine.recording import Recording, Refusal, Window
from pagedsim.trace.trace import Trace

SPECS = (
    "paged:block=3",
    "paged:block=2,prefix=on",
    "contiguous:place=first,reserve=exact",
    "slots:n=3",
)


@st.composite
def small_traces(draw: st.DrawFn) -> Trace:
    rows = draw(st.integers(1, 6))
    arrivals = sorted(draw(st.lists(st.integers(0, 400), min_size=rows, max_size=rows)))
    lengths = st.lists(st.integers(1, 20), min_size=rows, max_size=rows)
    return Trace.build("small", arrivals, draw(lengths), draw(lengths))


def each_step(made: Recording) -> np.ndarray[Any, Any]:
    """int64[steps, columns of an outline] of a recording whose windows are steps."""
    assert (made.column("steps") == 1).all()
    terms = [made.column(name) for name in TERMS[:-1]]
    return np.stack([*terms, idle(made.windows, made.capacity), made.column("batch")], axis=1)


@given(small_traces(), st.sampled_from(SPECS), st.sampled_from([1, 2, 7, 1000]))
def test_every_peak_of_the_slow_engine_is_there(trace: Trace, spec: str, bins: int) -> None:
    """The fast engine's windows, thinned, against the reference engine's steps."""
    device = make_device("llama-3.1-8b", "a100-80gb", kv_tokens=64)
    setup: dict[str, Any] = {"device": device, "max_len": 30, "steptime": Constant(ms=0.00001)}
    fast = simulate(trace, spec, **setup).recording
    steps = each_step(simulate(trace, spec, engine="reference", **setup).recording)
    thin = outline(fast, bins)
    there = thin.rows[:, :6].sum(axis=1) > 0
    assert {tuple(row) for row in thin.rows[there].tolist()} <= {tuple(r) for r in steps.tolist()}
    assert not thin.rows[~there].any()
    if len(steps):
        assert (thin.rows[there].max(axis=0) == steps.max(axis=0)).all()
        assert (thin.rows[there].min(axis=0) == steps.min(axis=0)).all()
    assert (np.diff(thin.at_ns) >= 0).all()
    assert len(thin.at_ns) <= (bins + 1) * (2 + 2 * len(COLUMNS)) + 2 * bins


@given(random_runs(), st.integers(1, 9))
def test_every_bin_keeps_its_own_peaks(run: tuple[Recording, Trace], bins: int) -> None:
    made, _ = run
    thin = outline(made, bins)
    starts, steps = made.column("start_ns"), each_step(made)
    origin = int(made.requests.arrival_ns.min())
    length = int(made.column("end_ns")[-1] - starts[0])
    width = max(-(-length // bins), 1)
    there = thin.rows[:, :6].sum(axis=1) > 0
    points = (thin.at_ns[there] + origin - starts[0]) // width
    for each in range(bins):
        of = (starts - starts[0]) // width == each
        if of.any():
            kept = thin.rows[there][points == each]
            assert (kept.max(axis=0) >= steps[of].max(axis=0)).all()
            assert (kept.min(axis=0) <= steps[of].min(axis=0)).all()


def test_an_hour_in_one_window_needs_two_points() -> None:
    rows = [window(steps=9, end_ns=90, sequences=2, batch=2, live=10, reserved=30, ramp_ns=360)]
    thin = outline(recording(rows, requests(arrival_ns=[0])))
    assert thin.at_ns.tolist() == [0, 90]
    assert thin.column("live").tolist() == [10, 26]
    assert thin.column("reserved").tolist() == [30, 14]
    assert thin.column("idle").tolist() == [60, 60]


def test_what_is_taken_inside_a_window_is_seen() -> None:
    """A block of 4 at step 2 of 3, in a blocked window: what was external is held."""
    rows = [window(steps=3, end_ns=30, sequences=1, live=4, external=96, limit=5, ramp_ns=30)]
    starts = np.array([[0, 1, 10, 4, 0, 0]], np.int64)
    thin = outline(recording(rows, requests(arrival_ns=[0]), starts=starts))
    assert thin.at_ns.tolist() == [0, 10, 10, 30]
    assert thin.column("live").tolist() == [4, 4, 5, 6]
    assert thin.column("reserved").tolist() == [0, 0, 3, 2]
    assert thin.column("external").tolist() == [96, 96, 92, 92]


def test_a_cached_block_that_is_taken_was_never_external() -> None:
    rows = [
        window(steps=2, end_ns=20, sequences=1, live=4, external=76, cached=20, limit=5, ramp_ns=10)
    ]
    starts = np.array([[0, 1, 10, 4, 0, -4]], np.int64)
    thin = outline(recording(rows, requests(arrival_ns=[0]), starts=starts))
    assert thin.column("cached").tolist() == [20, 20, 16, 16]
    assert thin.column("external").tolist() == [76, 76, 76, 76]
    assert thin.column("idle").tolist() == [0, 0, 0, 0]


def test_where_nothing_runs_it_is_empty() -> None:
    made, _ = three_steps()
    thin = outline(made, bins=6)  # of a second
    gap = thin.rows[:, :6].sum(axis=1) == 0
    assert thin.at_ns[gap].tolist() == [3 * SECOND, 5 * SECOND]
    assert not (outline(made, bins=2).rows[:, :6].sum(axis=1) == 0).any()  # narrower than a bin


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    made = simulate("code", "paged:prefix=on", max_len=16384).recording
    whole = outline(made, 50)
    monkeypatch.setattr("pagedsim.analysis.outline.CHUNK", 97)
    parts = outline(made, 50)
    assert (whole.at_ns == parts.at_ns).all()
    assert (whole.rows == parts.rows).all()


def test_the_queue_counts_who_was_never_admitted() -> None:
    ran = requests(
        arrival_ns=[10, 20, 20, 30, 40],
        admitted_ns=[10, 50, 60, -1, 45],
        status=[0, 0, 0, 2, 0],
    )
    made = recording([], ran, refused=(Refusal(row=3, reason="capacity", value=99, bound=9),))
    thin = queue(made)
    assert thin.at_ns.tolist() == [0, 10, 30, 35, 40, 50]
    assert thin.column("queue").tolist() == [0, 2, 3, 2, 1, 0]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=30),
    st.integers(1, 8),
)
def test_the_longest_queue_is_there(waits: list[tuple[int, int]], bins: int) -> None:
    arrivals = [at for at, _ in waits]
    made = recording(
        [], requests(arrival_ns=arrivals, admitted_ns=[at + waited for at, waited in waits])
    )
    longest = max(sum(at <= now < at + waited for at, waited in waits) for now in range(101))
    assert queue(made, bins).rows.max() == longest


def test_nothing_is_no_points() -> None:
    empty = recording([], requests())
    assert len(outline(empty).at_ns) == len(queue(empty).at_ns) == 0


@given(st.lists(st.integers(0, 99), max_size=50), st.integers(2, 60))
@example([], 2)
def test_a_distribution_is_of_nearest_ranks(values: list[int], points: int) -> None:
    shares, ranks = quantiles(values, points)
    assert len(shares) == len(ranks) <= points + 1
    for share, rank in zip(shares, ranks, strict=True):
        assert sum(value <= rank for value in values) >= share * len(values) - 1e-9
        assert rank in values
    if values:
        assert (ranks[0], ranks[-1], shares[-1]) == (min(values), max(values), 1)


def test_all_columns_are_named() -> None:
    assert (*TERMS, "batch") == COLUMNS
    assert set(COLUMNS) <= {*Window._fields, "idle"}
