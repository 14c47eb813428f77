"""The replays of a plan: run, held against the objective, and what is kept of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pagedsim.analysis import integrals
from pagedsim.analysis.configuration import Configuration
from pagedsim.analysis.plan_binds import binds
from pagedsim.analysis.plan_result import Replay
from pagedsim.analysis.plan_slo import Objective, count, finished, measure
from pagedsim.analysis.report import Report
from pagedsim.analysis.simulate import Setup, run
from pagedsim.analysis.stepwise import by_step
from pagedsim.engine.recording import Requests
from pagedsim.trace import arrivals
from pagedsim.trace.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Replays of one configuration under one objective; `told` hears of every request done."""

    configuration: Configuration
    setup: Setup
    objective: Objective
    told: Callable[[int], None] | None = None

    def on(self, configuration: Configuration) -> Runner:
        """The same for another configuration."""
        return replace(self, configuration=configuration, setup=configuration.setup())

    def __call__(
        self,
        trace: Trace,
        *,
        at: float | None,
        rate: float | None,
        options: tuple[str, ...],
        concurrency: int = 0,
        servers: int = 1,
        full: bool = False,
    ) -> Replay:
        """Replay `trace`, dealt out to `servers`.

        With `full`, averages end when nobody waits for admission any more.
        """
        closed = self.setup.closed_loop and not concurrency
        setup = replace(
            self.setup,
            progress=self.told,
            concurrency=concurrency,
            closed_loop=closed,
            replicas=servers,
            route=route(self.setup.closed_loop),
        )
        report = run(trace, self.configuration.allocator, setup)
        each = report.replicas or (report,)
        timed = [_full(one) for one in each] if full else each
        rows = report.recording.requests
        return facts(rows, each, timed, self.objective, at=at, rate=rate, options=options)

    def room(self) -> str:
        """What a request must fit, in words."""
        device, longest = self.setup.device, self.setup.max_len
        assert device is not None
        return f"a pool of {device.capacity_tokens:,} tokens, a maximum length of {longest:,}"

    def saturated(self, trace: Trace) -> Replay:
        """All requests at time 0."""
        options = ("--arrivals", "saturate")
        return self(arrivals.saturate(trace), at=None, rate=None, options=options, full=True)

    def lone(self, trace: Trace) -> Replay:
        """One request at a time."""
        return self(trace, at=None, rate=None, options=("--concurrency", "1"), concurrency=1)


def route(closed_loop: bool) -> str:
    """How requests are dealt out: in turn; where turns wait for answers, sessions are."""
    return "session" if closed_loop else "round-robin"


def facts(
    rows: Requests,
    reports: Sequence[Report],
    timed: Sequence[Report],
    objective: Objective,
    *,
    at: float | None,
    rate: float | None,
    options: tuple[str, ...],
) -> Replay:
    """What a plan keeps of a run on one server or several.

    Latencies and counts are over `rows`, the requests of all; the batch is that of a server that
    works, what limits that of the first. Averages over time are those of `timed`.
    """
    values = measure(rows, objective)
    broken = objective.broken(values)
    _, compute = by_step(timed[0].timed, (), timed[0].steptime)
    done = [finished(report.recording.requests) for report in reports]
    spans = [report.span.to_s for report in reports if report.span is not None]
    first = timed[0]
    busy = sum(report.busy_ns for report in timed)
    rates = [report.throughput for report in reports]
    return Replay(
        at=at,
        rate=rate,
        options=options,
        holds=not broken,
        values=values,
        broken=broken,
        binds=binds(first, objective, broken, compute),
        batch_mean=integrals.share(sum(report.integral("batch") for report in timed), busy),
        batch_peak=max(report.batch.peak for report in timed),
        limits=first.binds,
        compute=compute,
        requests_per_s=_sum([rate.requests_per_s for rate in rates]),
        output_tokens_per_s=_sum([rate.output_tokens_per_s for rate in rates]),
        finished=sum(map(len, done)),
        prompt_tokens=sum(
            int(report.trace.prompt[own].sum()) for report, own in zip(reports, done, strict=True)
        ),
        output_tokens=int(rows.generated[finished(rows)].sum()),
        preemptions=count(rows, "preemptions"),
        refused=count(rows, "refused"),
        truncated=count(rows, "truncated"),
        makespan_s=max(spans, default=None),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _full(report: Report) -> Report:
    """The same run up to the last first admission, while the queue is never empty."""
    admitted = report.recording.requests.admitted_ns
    starts = report.recording.column("start_ns")
    last = int(admitted.max(initial=-1))
    if not np.any(starts < last):
        return report
    return replace(report, span_ns=(int(starts.min()), last))


__all__ = ["Runner", "facts", "route"]
