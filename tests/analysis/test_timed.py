"""Sums over windows against the same sums over their steps, for runs of the fast engine."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagedsim
from pagedsim.analysis import integrals, steps
from pagedsim.analysis.report import Report, report
from pagedsim.analysis.stepwise import PERCENTS, by_step
from pagedsim.analysis.tally import weighted_ranks
from pagedsim.engine.recording import BLOCKED, Window
from pagedsim.protocols import Int64, Load
from pagedsim.trace import Trace

NAMES = (
    *("batch", "sequences", "prefills", "tokens", "pairs", "context", "live", "reserved"),
    *("internal", "external", "cached", "shared", "held", "idle"),
)
DEVICE = pagedsim.make_device("llama-3.1-8b", "a100-80gb", kv_tokens=16 * 24)
ALLOCATORS = (
    "paged:block=4",
    "paged:block=16,prefix=on",
    "paged:block=4,prefix=on",
    "contiguous:place=buddy,reserve=exact",
    "contiguous:place=first,reserve=pow2",
)


@st.composite
def runs(draw: st.DrawFn) -> Report:
    """A small run, often short of memory, with content that repeats."""
    rows = draw(st.integers(1, 12))
    numbers = st.integers(1, 90)
    prompt = draw(st.lists(numbers, min_size=rows, max_size=rows))
    output = draw(st.lists(numbers, min_size=rows, max_size=rows))
    gaps = draw(st.lists(st.integers(0, 10**9), min_size=rows, max_size=rows))
    tokens = [0 if draw(st.booleans()) else 100 * row for row in range(rows)]
    content = (list(range(rows + 1)), tokens, prompt)
    trace = Trace.build("runs", np.cumsum(gaps), prompt, output, runs=content)
    return pagedsim.simulate(
        trace,
        draw(st.sampled_from(ALLOCATORS)),
        device=DEVICE,
        max_len=200,
        scheduler=draw(st.sampled_from(["vllm", "vllm:max_seqs=3", "orca"])),
    )


def spans(run: Report) -> st.SearchStrategy[tuple[float, float] | None]:
    """A span that some step runs in, or the whole run."""
    last = int(run.recording.column("end_ns").max()) / 1e9 + 0.01
    ends = st.tuples(st.floats(0, last / 2), st.floats(last / 2, last))
    return st.none() | ends.filter(lambda pair: pair[0] < pair[1])


@settings(max_examples=60)
@given(st.data())
def test_sums_over_windows_are_those_over_steps(data: st.DataObject) -> None:
    run = data.draw(runs())
    if not len(run.recording.windows):
        return
    span = data.draw(spans(run))
    try:
        part = report(run.recording, run.trace, name="", window=span, steptime=run.steptime)
    except pagedsim.PagedsimError:  # no step runs in the span
        return
    assert part.busy_ns == integrals.total(part.weights)
    for name in NAMES:
        assert part.integral(name) == integrals.integral(part.column(name), part.weights), name
        if name in part.memory_spread:
            ranks = weighted_ranks(part.column(name), part.weights, PERCENTS)
            shares = tuple(value / run.recording.capacity for value in ranks)
            assert msgspec.structs.astuple(part.memory_spread[name]) == shares
    assert sum(part.integrals[name] for name in NAMES[6:11]) + part.integrals["idle"] == (
        run.recording.capacity * part.busy_ns
    )
    assert part.run.steps == len(part.steps)
    assert part.batch.peak == part.column("batch").max()
    blocked = part.weights[part.column("limit") >= BLOCKED]
    assert part.blocked == integrals.total(blocked) / part.busy_ns
    assert part.span is not None


def test_the_runs_above_have_windows_of_many_steps_with_blocks_taken_in_them() -> None:
    many = Trace.build("many", [0] * 9, [20] * 9, [60] * 9)
    run = pagedsim.simulate(many, "paged:block=4", device=DEVICE, max_len=200)
    windows = run.recording.windows
    assert windows[:, Window._fields.index("steps")].max() > 3
    assert len(run.recording.starts) > 3
    assert (windows[:, Window._fields.index("limit")] >= BLOCKED).any()


def test_it_does_not_matter_how_steps_are_chunked(monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers(rows: int) -> dict[str, Any]:
        monkeypatch.setattr(steps, "CHUNK", rows)
        whole = dataclasses.replace(run)  # nothing is worked out yet
        found: dict[str, Any] = msgspec.to_builtins(whole.run)
        return found

    run = pagedsim.simulate("chat", device=pagedsim.make_device("opt-13b", "h100"), max_len=2048)
    assert run.compute is not None
    assert numbers(1 << 16) == numbers(100) == numbers(1 << 30)


def test_sums_need_no_step_time_where_the_span_cuts_no_window() -> None:
    many = Trace.build("many", [0] * 9, [20] * 9, [60] * 9)
    run = pagedsim.simulate(many, "paged:block=4", device=DEVICE, max_len=200)
    bare = report(run.recording, many, name="")
    assert bare.memory == run.memory
    with pytest.raises(pagedsim.PagedsimError, match="step-time model is needed"):
        _ = bare.memory_spread
    with pytest.raises(AssertionError, match="end_ns is no quantity"):
        bare.integral("end_ns")


class Counting:
    """A run's model that counts the steps which it is asked for."""

    def __init__(self, run: Report) -> None:
        self.priced = 0
        self.right = run.steptime

    def ns(self, load: Load) -> int:
        raise AssertionError(load)

    def many(self, loads: Int64) -> Int64:
        self.priced += len(loads)
        return self.right.many(loads)  # type: ignore[union-attr, no-any-return]


def test_steps_outside_the_span_are_not_looked_at() -> None:
    many = Trace.build("many", np.arange(40) * 10**9, [20] * 40, [30] * 40)
    run = pagedsim.simulate(many, "paged:block=4", device=DEVICE, max_len=200)
    model = Counting(run)
    part = report(run.recording, many, name="", window=(10, 11), steptime=model)
    assert part.memory_spread["live"].max > 0
    assert 0 < model.priced < len(run.steps) / 10


def test_what_bounds_steps_needs_no_account() -> None:
    run = pagedsim.simulate("chat", device=pagedsim.make_device("opt-13b", "h100"), max_len=2048)
    assert by_step(run.timed, (), run.steptime) == ({}, run.compute)
    assert by_step(run.timed, (), None) == ({}, None)
