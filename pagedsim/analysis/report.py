"""What a run means: pure functions of a `Recording`, with the definitions of docs/model.md.

A `Report` holds a recording, the trace it came from and the *span* the averages are over. Its
properties are the values of the result file, each worked out when first asked for. Two rules:

- averages over time weigh a step by its duration (by the part of it inside the span); the counts
  are those right after the step's allocations, and time in which nothing runs has no weight;
- statistics of requests are over those that arrived inside the span.

Sums are exact integers, divided once at the end. Nothing here reads a clock or a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from pagedsim.analysis import integrals, requests, results, series, span
from pagedsim.analysis.replica import told
from pagedsim.analysis.results import Run, Spread
from pagedsim.analysis.stepwise import PERCENTS, SupportsBounds, by_step, spread_of
from pagedsim.analysis.tally import weighted_ranks
from pagedsim.analysis.timed import Timed
from pagedsim.engine.recording import BLOCKED, Recording, Status
from pagedsim.protocols import Int64, Limit, StepTime
from pagedsim.trace.trace import Trace

if TYPE_CHECKING:
    import polars as pl

GIB = 1 << 30  # bytes
WASTE = ("reserved", "internal", "external", "padding", "outside")
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class Report:
    """One run's numbers. Made by `report`; `span_ns` is None for the whole run."""

    name: str
    recording: Recording
    trace: Trace
    span_ns: tuple[int, int] | None = None
    provenance: results.Provenance = field(default_factory=results.Provenance)
    steptime: StepTime | None = None
    replicas: tuple[Report, ...] = ()  # of each engine over its share, where there are several

    def __repr__(self) -> str:
        return f"<Report {self.name!r}: {len(self.finished)} of {len(self.trace)} finished>"

    @cached_property
    def timed(self) -> Timed:
        """The windows over the span; sums over time come from here."""
        return Timed(self.recording, self.steptime, self.span_ns)

    @cached_property
    def steps(self) -> Int64:
        """int64[steps, columns of `Window`]: the steps of which some part is in the span.

        For whoever wants them all at once; no number of the report needs that.
        """
        timed = self.timed
        return np.concatenate([part.table()[timed.inside(part) > 0] for part in timed.steps()])

    @cached_property
    def weights(self) -> Int64:
        """int64[steps]: ns of each step that lie in the span, each above 0."""
        return integrals.overlap(self.column("start_ns"), self.column("end_ns"), self.span_ns)

    @property
    def busy_ns(self) -> int:
        """Time in the span in which a step runs: the weight of everything."""
        return self.timed.busy_ns

    def column(self, name: str) -> Int64:
        """A column of `steps` by its name in `Window`, or ``"idle"``."""
        return series.column(self.steps, name, self.recording.capacity)

    def integral(self, name: str) -> int:
        """Σ column · ns over the span: an exact integer."""
        return self.timed.integral(name)

    def mean(self, name: str) -> float | None:
        """Time-weighted mean of a column; None where no step ran."""
        return integrals.share(self.integral(name), self.busy_ns)

    def _time_share(self, rows: Mask) -> float | None:
        """Share of the busy time that the picked rows of `timed` take."""
        return integrals.share(integrals.total(self.timed.weights[rows]), self.busy_ns)

    @property
    def _token(self) -> int:
        """Slots of a token: bytes, with groups of layers."""
        return self.recording.token_bytes or 1

    @cached_property
    def integrals(self) -> dict[str, int]:
        """Σ slots · ns of all terms (they add up to capacity · busy), of shared and held."""
        return {name: self.integral(name) for name in (*self.timed.terms, "shared", "held")}

    @cached_property
    def memory(self) -> results.Memory:
        """The account as shares of the capacity, time-weighted."""
        whole = self.recording.capacity * self.busy_ns
        sums = self.integrals
        waste = sum(sums.get(name, 0) for name in WASTE)
        return results.Memory(
            **{name: integrals.share(sums[name], whole) for name in (*self.timed.terms, "shared")},
            waste=integrals.share(waste, whole),
            waste_of_held=integrals.share(sums["held"] - sums["live"], sums["held"]),
            saved=integrals.share(sums["shared"], sums["held"] + sums["shared"]),
        )

    @cached_property
    def saved(self) -> results.Saved:
        """By sharing, in tokens. It is constant inside a window, so windows have the peak."""
        shared, live = self.integrals["shared"], self.integrals["live"]
        return results.Saved(
            tokens_mean=integrals.share(shared, self.busy_ns * self._token),
            tokens_peak=int(self.timed.column("shared").max(initial=0)) // self._token,
            share=integrals.share(shared, live + shared),
        )

    @cached_property
    def _by_step(self) -> tuple[dict[str, Spread], results.Compute | None]:
        """What no sum tells, in one pass over the steps."""
        return by_step(self.timed, (*self.timed.terms, "shared", "held"), self.steptime)

    @property
    def memory_spread(self) -> dict[str, Spread]:
        """Of each term, of shared and held: shares of the capacity."""
        return self._by_step[0]

    @property
    def compute(self) -> results.Compute | None:
        """By what the steps are bound, if the step-time model can say."""
        return self._by_step[1]

    @cached_property
    def batch(self) -> results.Batch:
        """Running sequences."""
        batch = self.timed.column("batch")
        spread = spread_of(weighted_ranks(batch, self.timed.weights, PERCENTS))
        return results.Batch(mean=self.mean("batch"), peak=int(batch.max(initial=0)), spread=spread)

    @cached_property
    def binds(self) -> results.Binds:
        """What kept the batch from being larger, as shares of time."""
        limit = self.timed.column("limit") % BLOCKED
        return results.Binds(**{of.name.lower(): self._time_share(limit == of) for of in Limit})

    @cached_property
    def blocked(self) -> float | None:
        """Share of time with the head of the queue blocked."""
        return self._time_share(self.timed.column("limit") >= BLOCKED)

    @cached_property
    def arrived(self) -> Int64:
        """Rows of the requests that arrived in the span."""
        arrivals = self.recording.requests.arrival_ns
        if self.span_ns is None:
            return np.arange(len(arrivals), dtype=np.int64)
        low, high = self.span_ns
        return np.flatnonzero((arrivals >= low) & (arrivals < high))

    def rows(self, *status: Status) -> Int64:
        """Rows of those that arrived in the span and ended so."""
        ended = self.recording.requests.status[self.arrived]
        return self.arrived[np.logical_or.reduce([ended == each for each in status])]

    @cached_property
    def finished(self) -> Int64:
        """Rows of finished requests, truncated ones included."""
        return self.rows(Status.FINISHED, Status.TRUNCATED)

    @cached_property
    def latency(self) -> results.Latency:
        """Of finished requests, in s."""
        return requests.latency(self.recording.requests, self.finished)

    @cached_property
    def throughput(self) -> results.Throughput:
        """What finished in the span, a second."""
        return requests.throughput(self.recording, self.span_ns)

    @cached_property
    def prefix(self) -> results.Prefix:
        """Hits over first admissions."""
        found = requests.prefix(self.recording.requests, self.trace, self.arrived)
        evicted = self.recording.evicted
        tokens = None if evicted is None else evicted // self._token
        return msgspec.structs.replace(found, evicted_tokens=tokens)

    @cached_property
    def span(self) -> results.Span | None:
        """What the averages are over, in s from the first arrival; None where no step ran."""
        if not self.timed.count:
            return None
        origin = span.first_arrival(self.recording)
        whole = (origin, int(self.timed.column("end_ns").max()))
        low, high = ((at - origin) / 10**9 for at in self.span_ns or whole)
        return results.Span(
            from_s=low, to_s=high, busy_s=self.busy_ns / 10**9, whole=self.span_ns is None
        )

    @cached_property
    def run(self) -> Run:
        """All of it, as it stands in the result file."""
        rows = self.recording.requests
        preempted = rows.preemptions[self.arrived]
        refused, cut = requests.token_shares(rows, self.trace, self.arrived)
        makespan = requests.makespan_ns(self.recording)
        arrived = set(self.arrived.tolist()) if self.recording.refused else set()
        engines = max(len(self.replicas), 1)
        return Run(
            name=self.name,
            capacity_tokens=self.recording.capacity // self._token * engines,
            capacity_bytes=self.recording.capacity * engines
            if self.recording.token_bytes
            else msgspec.UNSET,
            finished=len(self.finished),
            refused=len(self.rows(Status.REFUSED)),
            truncated=len(self.rows(Status.TRUNCATED)),
            dropped=self.trace.dropped,
            makespan_s=None if makespan is None else makespan / 10**9,
            memory=self.memory,
            batch=self.batch,
            binds=self.binds,
            preemptions=integrals.total(preempted),
            preempted_requests=int(np.count_nonzero(preempted)),
            recomputed_tokens=integrals.total(rows.recomputed[self.arrived]),
            prefix=self.prefix,
            throughput=self.throughput,
            latency=self.latency,
            provenance=self.provenance,
            unfinished=len(self.rows(Status.UNFINISHED)),
            steps=self.timed.count,
            blocked=self.blocked,
            span=self.span,
            memory_spread=self.memory_spread,
            saved=self.saved,
            compute=self.compute,
            refused_token_share=refused,
            truncated_token_share=cut,
            refused_requests=tuple(
                results.Refused(row=r.row, reason=r.reason, value=r.value, bound=r.bound)
                for r in series.refusals_of(self.recording)
                if r.row in arrived
            ),
            truncated_requests=tuple(self.rows(Status.TRUNCATED).tolist()),
            samples=integrals.total(self.trace.samples[self.finished]),
            replicas=tuple(map(told, self.replicas)),
        )

    def windows_frame(self) -> pl.DataFrame:
        """A row a recorded window of the whole run; columns in docs/model.md."""
        return series.windows_frame(self.recording)

    def requests_frame(self) -> pl.DataFrame:
        """A row a request of the trace, whenever it arrived; columns in docs/model.md."""
        return series.requests_frame(self.recording, self.trace)


def report(
    recording: Recording,
    trace: Trace,
    *,
    name: str,
    window: span.SpanSpec = None,
    provenance: results.Provenance | None = None,
    steptime: StepTime | None = None,
) -> Report:
    """The numbers of one run. O(1): they are worked out as they are asked for.

    `window` restricts the averages: None, ``"steady"``, ``"A:B"`` or (A, B) in s from the first
    arrival; SpecError where no step runs in it. `steptime` is the model of the run: needed where
    it took many steps at once, and for what steps are bound by if it is a `SupportsBounds`.
    """
    return Report(
        name=name,
        recording=recording,
        trace=trace,
        span_ns=span.resolve(recording, window),
        provenance=provenance or results.Provenance(),
        steptime=steptime,
    )


def result(
    runs: Sequence[Report | Run], device: results.DeviceInfo, trace: Trace
) -> results.Result:
    """The result file of runs of one trace on one device. What was saved gets its GiB here."""
    found = (run.run if isinstance(run, Report) else run for run in runs)
    return results.Result(
        trace=requests.trace_info(trace),
        device=device,
        runs=tuple(_in_gib(run, device.kv_bytes_per_token) for run in found),
    )


def _in_gib(run: Run, token: float | None) -> Run:
    saved = run.saved
    if saved is None or token is None:
        return run
    mean, peak = saved.tokens_mean, saved.tokens_peak * token / GIB
    saved = msgspec.structs.replace(
        saved, gib_mean=None if mean is None else mean * token / GIB, gib_peak=peak
    )
    return msgspec.structs.replace(run, saved=saved)


__all__ = ["Report", "SupportsBounds", "report", "result"]
