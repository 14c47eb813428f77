"""One replay of a plan: run, held against the objective, and what limited it (`plan_binds`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pagedsim.analysis.configuration import Configuration
from pagedsim.analysis.plan_binds import binds
from pagedsim.analysis.plan_result import Replay
from pagedsim.analysis.plan_slo import Objective, count, measure
from pagedsim.analysis.report import Report
from pagedsim.analysis.simulate import Setup, run
from pagedsim.analysis.stepwise import by_step
from pagedsim.trace.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Replays of one configuration under one objective; `told` hears of every request done."""

    configuration: Configuration
    setup: Setup
    objective: Objective
    told: Callable[[int], None] | None = None

    def __call__(
        self,
        trace: Trace,
        *,
        at: float | None,
        rate: float | None,
        options: tuple[str, ...],
        concurrency: int = 0,
        full: bool = False,
    ) -> Replay:
        """Replay `trace`. With `full`, averages end when nobody waits for admission any more."""
        setup = replace(self.setup, progress=self.told, concurrency=concurrency)
        if concurrency:
            setup = replace(setup, closed_loop=False)
        report = run(trace, self.configuration.allocator, setup)
        return facts(
            report, self.objective, at=at, rate=rate, options=options, timed=_full(report, full)
        )


def facts(
    report: Report,
    objective: Objective,
    *,
    at: float | None,
    rate: float | None,
    options: tuple[str, ...],
    timed: Report | None = None,
) -> Replay:
    """What a plan keeps of a run. Averages over time are those of `timed`, if that is given."""
    timed = timed or report
    values = measure(report, objective)
    broken = objective.broken(values)
    _, compute = by_step(timed.timed, (), timed.steptime)
    rows, finished = report.recording.requests, report.finished
    run_of, whole = report.throughput, report.span
    return Replay(
        at=at,
        rate=rate,
        options=options,
        holds=not broken,
        values=values,
        broken=broken,
        binds=binds(timed, objective, broken, compute),
        batch_mean=timed.batch.mean,
        batch_peak=timed.batch.peak,
        limits=timed.binds,
        compute=compute,
        requests_per_s=run_of.requests_per_s,
        output_tokens_per_s=run_of.output_tokens_per_s,
        finished=len(finished),
        prompt_tokens=int(report.trace.prompt[finished].sum()),
        output_tokens=int(rows.generated[finished].sum()),
        preemptions=count(report, "preemptions"),
        refused=count(report, "refused"),
        truncated=count(report, "truncated"),
        makespan_s=None if whole is None else whole.to_s,
    )


def _full(report: Report, wanted: bool) -> Report | None:
    """The same run up to the last first admission, while the queue is never empty."""
    admitted = report.recording.requests.admitted_ns
    if not wanted or not len(admitted):
        return None
    starts = report.recording.column("start_ns")
    last = int(admitted.max())
    if not len(starts) or not np.any(starts < last):
        return None
    return replace(report, span_ns=(int(starts.min()), last))


__all__ = ["Runner", "facts"]
