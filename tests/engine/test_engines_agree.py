"""The fast engine equals the reference engine in everything that is recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.slots import Slots
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import Recording, Requests, Window
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import SpecError
from pagedsim.protocols import Load
from pagedsim.trace.trace import Trace


class Odd:
    """A step time that jumps about with everything that a load says; no ramp."""

    def ns(self, load: Load) -> int:
        sequences, prefills, tokens, pairs, context = load
        return 1 + (7 * sequences + 11 * prefills + 5 * tokens + 3 * pairs + 13 * context) % 29


class Rising(Odd):
    """The same, priced many at once."""

    def ramp(self, load: Load, steps: int) -> Any:
        sequences, prefills, tokens, pairs, context = load
        return np.array(
            [
                self.ns(Load(sequences, prefills, tokens, pairs + j * sequences, context + j * sequences))
                for j in range(steps)
            ],
            np.int64,
        )  # fmt: skip


class Fixed:
    """Steps of one length, so that arrivals fall on their boundaries."""

    def __init__(self, ns: int) -> None:
        self._ns = ns

    def ns(self, load: Load) -> int:
        return self._ns


def expand(recording: Recording, price: Any) -> list[dict[str, int]]:
    """A row a step from rows of windows: an oracle that shares no code with the report."""
    starts: dict[int, list[list[int]]] = {}
    for row in recording.starts.tolist():
        starts.setdefault(row[0], []).append(row)
    steps = []
    for index, values in enumerate(recording.windows.tolist()):
        window = Window(*values)
        now, held, internal = window.start_ns, window.held, window.internal
        ramp = 0
        for j in range(window.steps):
            grown = j * window.sequences
            load = Load(window.sequences, window.prefills, window.tokens,
                        window.pairs + grown, window.context + grown)  # fmt: skip
            duration = price(load)
            for _, offset, at_ns, more_held, more_internal in starts.get(index, []):
                if offset == j:
                    assert window.start_ns + at_ns == now
                    held += more_held
                    internal += more_internal
            live = window.live + grown
            lost = window.held - window.live - window.reserved - window.internal
            blocked = window.limit >= 4
            free = recording.capacity - held - window.cached
            step = window._asdict() | load._asdict()
            step |= dict(
                step=window.step + j, steps=1, start_ns=now, end_ns=now + duration, ramp_ns=0,
                held=held, internal=internal, live=live, reserved=held - lost - live - internal,
                external=lost + (free if blocked else 0),
            )  # fmt: skip
            steps.append(step)
            ramp += j * duration
            now += duration
        assert now == window.end_ns
        assert ramp == window.ramp_ns
    return steps


def assert_equal(fast: Recording, reference: Recording, price: Any) -> None:
    assert fast.refused == reference.refused
    for name in Requests.__dataclass_fields__:
        ours = getattr(fast.requests, name).tolist()
        theirs = getattr(reference.requests, name).tolist()
        assert ours == theirs, name
    ours, theirs = expand(fast, price), expand(reference, price)
    for mine, other in zip(ours, theirs, strict=False):
        assert mine == other
    assert len(ours) == len(theirs)
    assert fast.free == reference.free


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    rows = draw(st.integers(1, 12))
    length = st.integers(1, 24)
    column = st.lists(length, min_size=rows, max_size=rows)
    arrivals = draw(st.lists(st.integers(0, 120), min_size=rows, max_size=rows))
    if draw(st.booleans()):
        arrivals = [arrival // 10 * 10 for arrival in arrivals]
    priority = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    return Trace.build("t", arrivals, draw(column), draw(column), columns={"priority": priority})


@st.composite
def makers(draw: st.DrawFn) -> Any:
    """(a function that makes an allocator, max_len)"""
    max_len = draw(st.sampled_from([6, 16, 30, 64]))
    kind = draw(st.sampled_from(["paged", "paged", "contiguous", "slots"]))
    if kind == "paged":
        block = draw(st.integers(1, 5))
        blocks = draw(st.integers(2, 20))
        order = draw(st.sampled_from(["0.33", "0.11"]))
        return lambda: Paged(blocks, block=block, free_order=order), max_len
    if kind == "slots":
        capacity, n = draw(st.integers(8, 90)), draw(st.integers(1, 4))
        return lambda: Slots(capacity, n=n), max_len
    capacity = draw(st.integers(8, 120))
    place = draw(st.sampled_from(["first", "best", "buddy"]))
    reserve = draw(st.sampled_from(["max", "pow2", "exact"]))
    return lambda: Contiguous(capacity, max_len=max_len, place=place, reserve=reserve), max_len


@st.composite
def schedulers(draw: st.DrawFn, max_len: int) -> Any:
    kind = draw(st.sampled_from(["vllm", "vllm", "vllm", "orca", "static"]))
    max_seqs = draw(st.sampled_from([1, 2, 3, 8]))
    watermark = draw(st.sampled_from([0.0, 0.0, 0.1, 0.3]))
    if kind == "static":
        return lambda: Static(max_seqs=max_seqs)
    if kind == "orca":
        prompt = draw(st.sampled_from([0, max_len, max_len + 7]))
        return lambda: Orca(max_seqs=max_seqs, max_prompt_tokens=prompt, watermark=watermark)
    chunked = draw(st.booleans())
    budget = draw(st.sampled_from([1, 2, 3, 5, 8, 40])) if chunked else max_len + 2
    options = {
        "max_seqs": max_seqs,
        "max_batched_tokens": budget,
        "chunked": chunked,
        "long_prefill": draw(st.sampled_from([0, 0, 1, 3])),
        "watermark": watermark,
        "full_input": draw(st.booleans()),
        "policy": draw(st.sampled_from(["fcfs", "priority"])),
    }
    return lambda: Vllm(**options)


@given(st.data())
def test_fast_equals_reference(data: st.DataObject) -> None:
    trace = data.draw(traces())
    make, max_len = data.draw(makers())
    try:
        make()
    except SpecError:
        return
    scheduler = data.draw(schedulers(max_len))
    steptime = data.draw(st.sampled_from([Odd(), Rising(), Fixed(1), Fixed(10)]))
    concurrency = data.draw(st.sampled_from([0, 0, 0, 1, 3]))
    runs = [
        engine(trace, make(), scheduler(), steptime, max_len=max_len, concurrency=concurrency).run()
        for engine in (FastEngine, ReferenceEngine)
    ]
    assert_equal(*runs, steptime.ns)
