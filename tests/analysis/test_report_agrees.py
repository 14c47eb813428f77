"""Reports of windows against the same of single steps, which the reference engine takes.

Its windows are steps, so nothing of them is worked out; what they add up to is told in plain
Python.
"""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tally import ranked

import pagedsim
from pagedsim.analysis import inside, steps, tally
from pagedsim.analysis.report import Report, report
from pagedsim.analysis.steps import Steps
from pagedsim.engine.recording import BLOCKED
from pagedsim.protocols import Load
from pagedsim.specs import make_steptime
from pagedsim.trace import Trace
from pagedsim.trace.samples import with_samples

LLAMA = pagedsim.make_device("llama-3.1-8b", "a100-80gb", kv_tokens=16 * 24)
GEMMA = pagedsim.make_device("gemma-3-27b", "h100", kv_memory_bytes=1 << 30, max_batched_tokens=512)
PLAIN = (
    "paged:block=4",
    "paged:block=16,prefix=on",
    "contiguous:place=buddy,reserve=exact",
    "radix:page=1",
)
GROUPED = ("paged:groups=on", "paged:groups=full", "paged:groups=on,prefix=on")
PERCENTS = (0, 50, 90, 99, 100)


class Odd:
    """Times that jump about with what grows in a window; no `many`."""

    def ns(self, load: Load) -> int:
        return 10**6 + (3 * load.pairs + 13 * load.context + load.tokens) % 10**6


class OddByRamp(Odd):
    def ramp(self, load: Load, steps: int) -> Any:
        grown = (load.sequences * j for j in range(steps))
        loads = (load._replace(pairs=load.pairs + k, context=load.context + k) for k in grown)
        return np.array([self.ns(each) for each in loads], np.int64)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Report, Report]:
    """A run of windows, and of steps; often short of memory, with content that repeats."""
    grouped = draw(st.sampled_from([False, False, True]))
    device, most = (GEMMA, 1300) if grouped else (LLAMA, 90)
    rows = draw(st.integers(1, 8))
    prompt = draw(st.lists(st.integers(1, most), min_size=rows, max_size=rows))
    output = draw(st.lists(st.integers(1, 90), min_size=rows, max_size=rows))
    gaps = draw(st.lists(st.integers(0, 10**9), min_size=rows, max_size=rows))
    tokens = [0 if draw(st.booleans()) else 10_000 * row for row in range(rows)]
    content = (list(range(rows + 1)), tokens, prompt)
    trace = Trace.build("pairs", np.cumsum(gaps), prompt, output, runs=content)
    allocator = draw(st.sampled_from(GROUPED if grouped else PLAIN))
    if allocator.startswith("paged") and draw(st.booleans()):
        trace = with_samples(trace, 2)
    step = draw(st.sampled_from([Odd(), OddByRamp(), "roofline", "constant:ms=30"]))
    setup: dict[str, Any] = {
        "device": device,
        "max_len": 2 * most,
        "scheduler": draw(st.sampled_from(["vllm", "vllm:max_seqs=3", "orca"])),
        "steptime": make_steptime(step, device=device) if isinstance(step, str) else step,
    }
    fast, reference = (
        pagedsim.simulate(trace, allocator, name="run", engine=engine, **setup)
        for engine in ("fast", "reference")
    )
    return fast, reference


def told(run: Report) -> dict[str, Any]:
    """The result file's entry, but for when and how it was made."""
    found: dict[str, Any] = msgspec.to_builtins(run.run)
    return {name: value for name, value in found.items() if name != "provenance"}


def held(run: Report) -> list[Any]:
    recording = run.recording
    tables = (recording.windows, recording.starts, recording.grouped)
    return [table.tolist() for table in tables]


def check_sums(run: Report, rows: list[dict[str, int]], weights: list[int]) -> None:
    """The numbers of a report that are over time, from the account of every step."""
    busy, capacity = sum(weights), run.recording.capacity
    assert (run.busy_ns, run.run.steps) == (busy, sum(ns > 0 for ns in weights))
    for name in (*run.timed.terms, "shared", "held", "batch", "sequences", "tokens", "context"):
        pairs = [(row[name], ns) for row, ns in zip(rows, weights, strict=True)]
        assert run.integral(name) == sum(value * ns for value, ns in pairs), name
        ranks = [ranked(pairs, percent) for percent in PERCENTS]
        if name in run.memory_spread:
            spread = msgspec.structs.astuple(run.memory_spread[name])
            assert spread == tuple(value / capacity for value in ranks), name
        if name == "batch":
            assert msgspec.structs.astuple(run.batch.spread) == tuple(ranks)
            assert run.batch.peak == ranks[-1]
    blocked = sum(ns for row, ns in zip(rows, weights, strict=True) if row["limit"] >= BLOCKED)
    assert run.blocked == blocked / busy
    if run.compute is not None:
        loads = [[row[name] for row in rows] for name in ("tokens", "pairs", "context")]
        model: Any = run.steptime
        shares = model.intensities(*np.array(loads, np.int64)) * weights
        assert run.compute.intensity == math.fsum(shares.tolist()) / busy


@settings(max_examples=60)
@given(st.data())
def test_a_report_of_windows_is_that_of_their_steps(data: st.DataObject) -> None:
    fast, reference = data.draw(pairs())
    if not len(reference.recording.rows):
        return
    before = held(fast)
    names = inside.names(reference.recording)
    table = Steps(reference.recording, None, 0, len(reference.recording.rows)).table()
    rows = [dict(zip(names, row, strict=True)) for row in table.tolist()]
    terms = [name for name in fast.timed.terms if name != "idle"]
    for row in rows:
        row["idle"] = reference.recording.capacity - sum(row[name] for name in terms)
    last = max(row["end_ns"] for row in rows)
    cuts = st.tuples(st.integers(0, last), st.integers(0, last)).map(sorted)
    span = data.draw(st.none() | cuts.filter(lambda cut: cut[0] < cut[1]))
    low, high = span or (0, last)
    weights = [max(min(row["end_ns"], high) - max(row["start_ns"], low), 0) for row in rows]
    chunk, few = data.draw(st.sampled_from([(1, 0), (7, 1), (1 << 14, 4)]))
    with mock.patch.object(steps, "CHUNK", chunk), mock.patch.object(tally, "_FEW", few):
        part, single = (
            Report(
                name="run", recording=each.recording, trace=each.trace, steptime=each.steptime,
                span_ns=None if span is None else (low, high),
            )
            for each in (fast, reference)
        )  # fmt: skip
        if any(weights):
            check_sums(part, rows, weights)
            assert part.steps.tolist() == table[np.array(weights) > 0].tolist()
            assert part.column("idle").tolist() == [
                row["idle"] for row, ns in zip(rows, weights, strict=True) if ns
            ]
            assert part.weights.tolist() == [ns for ns in weights if ns]
        assert told(part) == told(single)
        again = report(fast.recording, fast.trace, name="run", steptime=fast.steptime)
        assert told(again) == told(reference)
    assert held(fast) == before, "a report changed its recording"


@given(pairs(), st.data())
def test_every_column_of_any_windows(runs: tuple[Report, Report], data: st.DataObject) -> None:
    fast, reference = runs
    count = len(fast.recording.rows)
    first = data.draw(st.integers(0, count))
    last = data.draw(st.integers(first, count))
    part = Steps(fast.recording, fast.steptime, first, last)
    whole = Steps(reference.recording, None, 0, len(reference.recording.rows))
    taken = fast.recording.column("steps")
    rows = slice(int(taken[:first].sum()), int(taken[:last].sum()))
    columns = (*inside.names(fast.recording), "idle")
    for name in data.draw(st.permutations(columns)):  # none depends on what was asked before
        assert part.column(name).tolist() == whole.column(name)[rows].tolist(), name
    took = whole.column("end_ns")[rows] - whole.column("start_ns")[rows]
    assert part.ns.tolist() == took.tolist()


def test_the_pairs_above_have_windows_of_many_steps_with_blocks_taken_in_them() -> None:
    many = Trace.build("many", [0] * 9, [20] * 9, [60] * 9)
    for device, allocator in ((LLAMA, "paged:block=4"), (GEMMA, "paged:groups=on")):
        run = pagedsim.simulate(many, allocator, device=device, max_len=200)
        assert run.recording.column("steps").max() > 3
        assert len(run.recording.starts) > 2
