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

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from pagedsim.analysis import inside, integrals, series
from pagedsim.analysis.results import GROUP_TERMS, TERMS
from pagedsim.engine.recording import BLOCKED, Recording
from pagedsim.protocols import Int64, StepTime

_AT = {name: at for at, name in enumerate(inside.COLUMNS)}
_OF_A_STEP = frozenset(("step", "steps", "start_ns", "end_ns", "ramp_ns"))


class Timed:
    """A recording over the half-open `span` of ns, None for all of it.

    `rows` are the windows that lie inside whole, then the steps of those that the span cuts;
    `weights` are their ns inside, each above 0.
    """

    def __init__(
        self, recording: Recording, steptime: StepTime | None, span: tuple[int, int] | None
    ) -> None:
        self._recording, self._steptime, self._span = recording, steptime, span
        windows = series.rows_of(recording)
        took = windows[:, _AT["end_ns"]] - windows[:, _AT["start_ns"]]
        within = self._inside(windows)
        whole = (within == took) & (within > 0)
        parts = [windows[whole]]
        for at in np.flatnonzero((within > 0) & ~whole).tolist():
            steps = series.expanded(recording, steptime, at, at + 1)
            parts.append(steps[self._inside(steps) > 0])
        self.rows: Int64 = np.concatenate(parts)
        self.weights = self._inside(self.rows)
        self._ramp_ns = recording.column("ramp_ns")[whole]
        self._steady = {name: more[whole] for name, more in inside.steady(recording).items()}
        window, _, at_ns, amounts = inside.taken(recording)
        kept = whole[window]
        of = window[kept]
        self._blocked = recording.column("limit")[of] >= BLOCKED
        self._left_ns = took[of] - at_ns[kept]  # of what is taken: until its window ends
        self._taken = {name: amount[kept] for name, amount in amounts.items()}

    def _inside(self, rows: Int64) -> Int64:
        return integrals.overlap(rows[:, _AT["start_ns"]], rows[:, _AT["end_ns"]], self._span)

    def column(self, name: str) -> Int64:
        """A column of `rows`: of the first step of each."""
        return series.column(self.rows, name, self.capacity)

    @property
    def capacity(self) -> int:
        """Slots."""
        return self._recording.capacity

    @property
    def terms(self) -> tuple[str, ...]:
        """Those of the account: six, or eight with groups of layers."""
        return GROUP_TERMS if len(self._recording.grouped) else TERMS

    @cached_property
    def busy_ns(self) -> int:
        """Time in which a step runs: the weight of everything."""
        return integrals.total(self.weights)

    @cached_property
    def count(self) -> int:
        """Steps of which some part is inside."""
        return int(self.column("steps").sum())

    def integral(self, name: str) -> int:
        """Σ column · ns over the steps inside, exact; `name` is a column of `Window` or idle."""
        assert name not in _OF_A_STEP, f"{name} is no quantity that is held for a time"
        if name == "idle":
            others = [name for name in self.terms if name != "idle"]
            return self.capacity * self.busy_ns - sum(map(self.integral, others))
        found = integrals.integral(self.column(name), self.weights)
        if name in self._steady:
            found += _signed(self._steady[name], self._ramp_ns)
        if name in self._taken:
            found += _signed(self._taken[name], self._left_ns)
        if name == "external":
            gained = inside.from_free(self._taken)[self._blocked]
            found -= _signed(gained, self._left_ns[self._blocked])
        return found

    def steps(self) -> Iterator[tuple[Int64, Int64]]:
        """Chunks of the steps inside, and the ns of each; ContractError as `series.steps`."""
        for rows in series.steps(self._recording, self._steptime):
            weights = self._inside(rows)
            yield rows[weights > 0], weights[weights > 0]


def _signed(values: Int64, weights: Int64) -> int:
    """Σ values · weights, exact; what is reserved or cached may become less."""
    more, less = values.clip(0), (-values).clip(0)
    return integrals.integral(more, weights) - integrals.integral(less, weights)


__all__ = ["Timed"]
