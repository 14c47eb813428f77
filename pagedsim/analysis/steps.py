"""Steps out of windows, a column at a time: the one place where a window becomes its steps.

A window of one step is its own row. In one of many, only lengths change (`engine.recording`)::

    window        0          1       2
    steps      |  0  1  2  |  0  |  0  1  2  3  |
    `_of`         0  0  0     1     2  2  2  2       window of each step
    `_ahead`      0  1  2     0     0  1  2  3       steps before it in its window
    `_taken`      0  0  1     1     1  1  2  2       `Start` rows up to it

So a column is its windows' values by `_of`, plus `_ahead` times what grows by the step, plus what
the `Start` rows of its own window have added. Why a column at a time: a report looks at half of
them, and to fill a table of all takes longer than whatever is worked out from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import cast

import numpy as np

from pagedsim.analysis import inside
from pagedsim.engine.recording import Recording
from pagedsim.errors import ContractError
from pagedsim.protocols import Int64, Load, StepTime, SupportsMany, SupportsRamp

CHUNK = 1 << 14  # steps of a chunk: their columns stay in a cache of the second level


class Steps:
    """The steps of the windows [first, last); a column is made when it is asked for, and kept.

    Windows of many steps need `steptime`, the model of the run, to say how long each takes:
    ContractError without it, or where they do not add up to the window. O(steps) a column.
    """

    def __init__(
        self, recording: Recording, steptime: StepTime | None, first: int, last: int
    ) -> None:
        self._names, self._steptime = inside.names(recording), steptime
        self._windows = inside.Windows(recording, first, last)
        self._counts = self._windows.column("steps")
        self._alone = bool((self._counts == 1).all())
        self._columns: dict[str, Int64] = {}

    def table(self) -> Int64:
        """int64[steps, columns of `Window`], with groups of layers their other two terms too."""
        return np.stack([self.column(name) for name in self._names], axis=1)

    def column(self, name: str) -> Int64:
        """int64[steps]: a column of `table` by its name, or ``"idle"``; not to be written to."""
        if self._alone:
            return self._windows.column(name)
        if name not in self._columns:
            self._columns[name] = self._by_step(name)
        return self._columns[name]

    @cached_property
    def ns(self) -> Int64:
        """int64[steps]: how long each takes."""
        starts, ends = self._windows.column("start_ns"), self._windows.column("end_ns")
        if self._alone:
            return ends - starts
        ns = (ends - starts)[self._of]
        many = np.flatnonzero((self._counts > 1)[self._of])
        ns[many] = self._prices(many)
        reached = starts + np.add.reduceat(ns, self._bases)
        wrong = np.flatnonzero(reached != ends)
        if len(wrong):
            at = wrong[0]
            step, count = self._windows.column("step")[at], self._counts[at]
            raise ContractError(
                f"step {step}: {count} steps end at {reached[at]} ns, the window at {ends[at]} ns:"
                " not the step-time model of the run"
            )
        return ns

    def _by_step(self, name: str) -> Int64:
        if name == "steps":
            return np.ones_like(self._of)
        if name == "ramp_ns":
            return np.zeros_like(self._of)
        if name == "end_ns":
            return self.column("start_ns") + self.ns
        values = self._windows.column(name)
        if name == "step":
            return values[self._of] + self._ahead
        if name == "start_ns":
            before: Int64 = np.cumsum(self.ns) - self.ns
            return (values - before[self._bases])[self._of] + before
        change = self._windows.change(name)
        if change is None or not change.any():
            return self._grown(name, values, self._of, self._ahead)
        sums = np.concatenate(([0], np.cumsum(change)))[self._taken]
        values = values - sums[self._bases]  # nothing is taken in a first step
        return self._grown(name, values, self._of, self._ahead) + sums

    def _grown(self, name: str, values: Int64, of: Int64, ahead: Int64) -> Int64:
        """`values` of the windows `of`, and what each has more `ahead` steps later."""
        slope = self._windows.slope(name)
        return values[of] if slope is None else values[of] + ahead * slope[of]

    @cached_property
    def _bases(self) -> Int64:
        """int64[windows]: the row of each one's first step."""
        return np.cumsum(self._counts) - self._counts

    @cached_property
    def _of(self) -> Int64:
        return np.repeat(np.arange(len(self._counts)), self._counts)

    @cached_property
    def _ahead(self) -> Int64:
        return np.arange(len(self._of)) - self._bases[self._of]

    @cached_property
    def _taken(self) -> Int64:
        rows = self._bases[self._windows.window] + self._windows.starts[:, 1]
        assert (rows[1:] >= rows[:-1]).all(), "starts are recorded in the order of their steps"
        return np.cumsum(np.bincount(rows, minlength=len(self._of)))

    def _prices(self, many: Int64) -> Int64:
        """ns of the steps `many`, those of the windows of more than one."""
        model = self._steptime
        columns = [(name, self._windows.column(name)) for name in Load._fields]
        if model is None:
            raise ContractError(
                "windows of many steps: the run's step-time model is needed for them"
            )
        if hasattr(model, "many"):
            of, ahead = self._of[many], self._ahead[many]
            loads = np.empty((len(columns), len(many)), np.int64)
            for row, (name, values) in zip(loads, columns, strict=True):
                row[:] = self._grown(name, values, of, ahead)
            ns: Int64 = cast(SupportsMany, model).many(loads.T)
            return ns
        at = np.flatnonzero(self._counts > 1)
        firsts = zip(*(values[at].tolist() for _, values in columns), strict=True)
        counts = self._counts[at].tolist()
        return np.concatenate(
            [_ramp(model, Load(*load), n) for load, n in zip(firsts, counts, strict=True)]
        )


def chunks(
    recording: Recording,
    steptime: StepTime | None,
    rows: int | None = None,
    first: int = 0,
    last: int | None = None,
) -> Iterator[Steps]:
    """The windows [first, last) in chunks of about `rows` steps (None: `CHUNK`); at least one."""
    reached = np.cumsum(recording.rows.column("steps", first, last))
    start, windows = 0, len(reached)
    while True:
        before = int(reached[start - 1]) if start else 0
        end = int(np.searchsorted(reached, before + (rows or CHUNK), side="right"))
        end = min(max(end, start + 1), windows)
        yield Steps(recording, steptime, first + start, first + end)
        start = end
        if start >= windows:
            return


def _ramp(steptime: StepTime, load: Load, count: int) -> Int64:
    """int64[count]: ns of `load` and of the next steps of the same sequences.

    Called for each window, and a check of a protocol costs more than many a ramp: hence `hasattr`.
    """
    if hasattr(steptime, "ramp"):
        return cast(SupportsRamp, steptime).ramp(load, count)
    grown = (load.sequences * j for j in range(count))
    loads = (load._replace(pairs=load.pairs + k, context=load.context + k) for k in grown)
    return np.array([steptime.ns(each) for each in loads], np.int64)


__all__ = ["CHUNK", "Steps", "chunks"]
