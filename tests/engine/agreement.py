"""What it takes for two runs to be equal, and step times that leave no room for luck."""

from __future__ import annotations

from typing import Any

import numpy as np

from pagedsim.engine.recording import BLOCKED, Recording, Requests, Window
from pagedsim.protocols import Load

GROUP_START = (
    "window", "offset", "at_ns", "held", "internal", "cached", "reserved", "padding", "outside",
)  # fmt: skip


class Odd:
    """A step time that jumps about with everything that a load says; no ramp."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def ns(self, load: Load) -> int:
        sequences, prefills, tokens, pairs, context = load
        return 1 + (7 * sequences + 11 * prefills + 5 * tokens + 3 * pairs + 13 * context) % 29


class Rising(Odd):
    """The same, priced many at once."""

    def ramp(self, load: Load, steps: int) -> Any:
        sequences, prefills, tokens, pairs, context = load
        loads = [
            Load(sequences, prefills, tokens, pairs + j * sequences, context + j * sequences)
            for j in range(steps)
        ]
        return np.array([self.ns(each) for each in loads], np.int64)


class Fixed:
    """Steps of one length, so that arrivals fall on their boundaries."""

    def __init__(self, ns: int = 1) -> None:
        self._ns = ns

    def __repr__(self) -> str:
        return f"Fixed({self._ns})"

    def ns(self, load: Load) -> int:
        return self._ns


def expand(recording: Recording, price: Any) -> list[dict[str, int]]:
    """A row a step from rows of windows: an oracle that shares no code with the report."""
    if len(recording.grouped):
        return expand_groups(recording, price)
    starts: dict[int, list[list[int]]] = {}
    for row in recording.starts.tolist():
        starts.setdefault(row[0], []).append(row)
    steps = []
    for index, values in enumerate(recording.windows.tolist()):
        window = Window(*values)
        now, held, internal = window.start_ns, window.held, window.internal
        cached = window.cached
        ramp = 0
        for j in range(window.steps):
            grown = j * window.sequences
            load = Load(window.sequences, window.prefills, window.tokens,
                        window.pairs + grown, window.context + grown)  # fmt: skip
            duration = price(load)
            for _, offset, at_ns, more_held, more_internal, more_cached in starts.get(index, []):
                if offset == j:
                    assert window.start_ns + at_ns == now
                    held += more_held
                    internal += more_internal
                    cached += more_cached
            live = window.live + grown
            lost = window.held - window.live - window.reserved - window.internal
            blocked = window.limit >= 4
            free = recording.capacity - held - cached
            if j == 0:
                assert window.external == lost + (free if blocked else 0), "recorded external"
            step = window._asdict() | load._asdict()
            step |= {
                "step": window.step + j,
                "steps": 1,
                "start_ns": now,
                "end_ns": now + duration,
                "ramp_ns": 0,
                "held": held,
                "internal": internal,
                "cached": cached,
                "live": live,
                "reserved": held - lost - live - internal,
                "external": lost + (free if blocked else 0),
            }
            steps.append(step)
            ramp += j * duration
            now += duration
        assert now == window.end_ns
        assert ramp == window.ramp_ns
        offsets = [row[1] for row in starts.pop(index, [])]
        assert all(0 < offset < window.steps for offset in offsets), "a start outside its window"
    assert not starts, "a start of no window"
    return steps


def expand_groups(recording: Recording, price: Any) -> list[dict[str, int]]:
    """The same with groups of layers, whose slots are bytes; two terms more."""
    starts = [dict(zip(GROUP_START, row, strict=True)) for row in recording.starts.tolist()]
    terms = ("reserved", "internal", "cached", "padding", "outside")
    steps = []
    rows = zip(recording.windows.tolist(), recording.grouped.tolist(), strict=True)
    for index, (values, (padding, outside, live_step, outside_step)) in enumerate(rows):
        window = Window(*values)
        step = window._asdict() | {"padding": padding, "outside": outside, "steps": 1, "ramp_ns": 0}
        inside = [start for start in starts if start["window"] == index]
        assert all(0 < start["offset"] < window.steps for start in inside)
        step["end_ns"], ramp = window.start_ns, 0
        for j in range(window.steps):
            if j:
                for name in ("pairs", "context"):
                    step[name] += window.sequences
                step["live"] += live_step
                step["outside"] += outside_step
                step["reserved"] -= live_step + outside_step
                step["step"] += 1
            for start in inside:
                if start["offset"] == j:
                    assert window.start_ns + start["at_ns"] == step["end_ns"]
                    for name in (*terms, "held"):
                        step[name] += start[name]
            used = step["live"] + sum(step[name] for name in terms)
            step["external"] = recording.capacity - used if window.limit >= BLOCKED else 0
            assert j or step["external"] == window.external
            duration = price(Load(*(step[name] for name in Load._fields)))
            step["start_ns"], step["end_ns"] = step["end_ns"], step["end_ns"] + duration
            ramp += j * duration
            steps.append(step.copy())
        assert (step["end_ns"], ramp) == (window.end_ns, window.ramp_ns)
    assert all(0 <= start["window"] < len(recording.windows) for start in starts)
    return steps


def assert_equal(fast: Recording, reference: Recording, price: Any) -> None:
    """Every recorded number, step by step, and what is free at the end."""
    assert (fast.capacity, fast.max_len) == (reference.capacity, reference.max_len)
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
    assert fast.evicted == reference.evicted
