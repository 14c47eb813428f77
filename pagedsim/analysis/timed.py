"""What a recording adds up to over a span of time, its windows left as they are.

A window of many steps is its first step, held for all of its time, and what changes from there. Of
the changes a recording has exact sums: `ramp_ns` = Σ j · ns of step j for what grows by one a
sequence and step, and a `Start` row for slots that are taken `at_ns` after the window began::

    live |          __.....         Σ live · ns = live · ns + sequences · ramp_ns
         |     __.''
         |__.''__________________ ns
    held |          ________         Σ held · ns = held · ns + Σ taken · (ns - at_ns)
         |_________|
         |__________at___________ ns

So an integral costs O(windows + starts), not O(steps). Windows that the span cuts are taken apart;
all are only for percentiles and for what bounds a step, a chunk at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from pagedsim.analysis import inside, integrals
from pagedsim.analysis.steps import Steps, chunks
from pagedsim.engine.recording import Recording
from pagedsim.protocols import Int64, StepTime

WINDOWS = 1 << 16  # that are added up at once
_OF_A_STEP = frozenset(("step", "steps", "start_ns", "end_ns", "ramp_ns"))


class Timed:
    """A recording over the half-open `span` of ns, None for all of it.

    Its *rows* are the windows that lie inside whole, then the steps of those that the span cuts;
    `weights` are their ns inside, each above 0.
    """

    def __init__(
        self, recording: Recording, steptime: StepTime | None, span: tuple[int, int] | None
    ) -> None:
        self._recording, self._steptime, self._span = recording, steptime, span
        starts, ends = recording.column("start_ns"), recording.column("end_ns")
        within = integrals.overlap(starts, ends, span)
        some = within > 0
        self._whole = some & (within == ends - starts)
        self._all = bool(self._whole.all())
        cut = np.flatnonzero(some & ~self._whole).tolist()
        self._cut = [Steps(recording, steptime, at, at + 1) for at in cut]
        parts = [self.inside(steps) for steps in self._cut]
        weights = within if self._all else within[self._whole]
        self.weights: Int64 = np.concatenate([weights, *(part[part > 0] for part in parts)])
        self._touched = slice(0, 0)
        if some.any():
            self._touched = slice(int(some.argmax()), len(some) - int(some[::-1].argmax()))
        self._sums: dict[str, int] = {}

    def inside(self, steps: Steps) -> Int64:
        """int64[steps]: ns of each that lie in the span. ContractError as `Steps`."""
        if self._span is None:
            return steps.ns
        return integrals.overlap(steps.column("start_ns"), steps.column("end_ns"), self._span)

    def column(self, name: str) -> Int64:
        """A column of the rows, or ``"idle"``: of the first step of each. O(rows), every time."""
        found = inside.column(self._recording, name)
        if self._all:
            return found
        parts = [steps.column(name)[self.inside(steps) > 0] for steps in self._cut]
        return np.concatenate([found[self._whole], *parts])

    @property
    def capacity(self) -> int:
        """Slots."""
        return self._recording.capacity

    @property
    def terms(self) -> tuple[str, ...]:
        """Those of the account: six, or eight with groups of layers."""
        return inside.terms(self._recording)

    @cached_property
    def busy_ns(self) -> int:
        """Time in which a step runs: the weight of everything."""
        return integrals.total(self.weights)

    @cached_property
    def count(self) -> int:
        """Steps of which some part is inside."""
        return int(self.column("steps").sum())

    def integral(self, name: str) -> int:
        """Σ column · ns over the steps inside, exact; `name` is a column of `Window` or idle.

        O(windows + starts), for the account the first time for all that is in it.
        """
        assert name not in _OF_A_STEP, f"{name} is no quantity that is held for a time"
        if name not in self._sums:
            used = [term for term in self.terms if term != "idle"]
            if name in (*used, "idle", "shared", "held"):
                self._add_up((*used, "shared", "held"))
                taken = sum(self._sums[term] for term in used)
                self._sums["idle"] = self.capacity * self.busy_ns - taken
            else:
                self._add_up((name,))
        return self._sums[name]

    def _add_up(self, names: Sequence[str]) -> None:
        """Write down the integrals of these columns, all at once; O(`WINDOWS`) memory."""
        recording, add = self._recording, integrals.integral
        sums = dict.fromkeys(names, 0)
        for first in range(0, len(recording.rows), WINDOWS):
            part = inside.Windows(recording, first, first + WINDOWS)
            whole = self._whole[first : first + WINDOWS]
            ns = (part.column("end_ns") - part.column("start_ns")) * whole
            for name in names:
                values, slope, change = part.column(name), part.slope(name), part.change(name)
                assert values.min() >= 0, f"{name} below 0"
                sums[name] += add(values, ns)
                if slope is not None:
                    sums[name] += add(slope, part.column("ramp_ns") * whole)
                if change is not None:
                    sums[name] += add(change, part.left_ns * whole[part.window])
        for steps in self._cut:
            ns = self.inside(steps)
            for name in names:
                sums[name] += add(steps.column(name), ns)
        self._sums |= sums

    def steps(self) -> Iterator[Steps]:
        """All steps of which some part is inside, and maybe others, in chunks; at least one."""
        first, last = self._touched.start, self._touched.stop
        return chunks(self._recording, self._steptime, first=first, last=last)


__all__ = ["Timed"]
