"""Statistics of requests: latency, throughput, hits, and what was not served.

`rows` are the rows of the trace that count (those that arrived in the report's span). Times are
integer ns, summed exactly; percentiles are nearest ranks, so each is the time of some request.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagedsim.analysis import integrals, results
from pagedsim.analysis.results import Stats
from pagedsim.analysis.span import first_arrival
from pagedsim.engine.recording import Recording, Requests, Status
from pagedsim.protocols import Int64
from pagedsim.trace import samples
from pagedsim.trace.trace import Trace

SECOND = 10**9  # ns


def latency(requests: Requests, finished: Int64) -> results.Latency:
    """Of the rows `finished`; a field of nulls where there are none."""
    arrival, admitted, first, last, longest = _columns(requests, finished)
    several = longest > 1
    return results.Latency(
        queue_s=_of_ns(admitted - arrival),
        ttft_s=_of_ns(first - arrival),
        tpot_s=_of_quotients((last - first)[several], longest[several] - 1),
        e2e_s=_of_ns(last - arrival),
        normalized_s_per_token=_of_quotients(last - arrival, longest),
    )


def times(requests: Requests, finished: Int64) -> dict[str, npt.NDArray[np.float64]]:
    """By "queue", "ttft", "tpot", "e2e", "normalized": seconds of each of the rows `finished`.

    Outputs of one token have no "tpot".
    """
    arrival, admitted, first, last, longest = _columns(requests, finished)
    several = longest > 1
    return {
        "queue": (admitted - arrival) / SECOND,
        "ttft": (first - arrival) / SECOND,
        "tpot": (last - first)[several] / ((longest[several] - 1) * SECOND),
        "e2e": (last - arrival) / SECOND,
        "normalized": (last - arrival) / (longest * SECOND),
    }


def makespan_ns(recording: Recording) -> int | None:
    """First arrival to last finish; None where nothing finished."""
    last = int(recording.requests.finish_ns.max(initial=-1))
    return None if last < 0 else last - first_arrival(recording)


def throughput(recording: Recording, span_ns: tuple[int, int] | None) -> results.Throughput:
    """What finished after the span's start and up to its end, by the span's length.

    The span is cut to the makespan, which it is when `span_ns` is None. A finish at a span's end
    belongs to it: that step did the work.
    """
    whole = makespan_ns(recording)
    if whole is None:
        return results.Throughput(requests_per_s=None, output_tokens_per_s=None)
    low = first_arrival(recording)
    high = low + whole
    if span_ns is not None:
        low, high = max(low, span_ns[0]), min(high, span_ns[1])
    finish = recording.requests.finish_ns
    done = (finish > low) & (finish <= high)
    length = max(high - low, 0)
    tokens = integrals.total(recording.requests.generated[done])
    return results.Throughput(
        requests_per_s=integrals.share(int(done.sum()) * SECOND, length),
        output_tokens_per_s=integrals.share(tokens * SECOND, length),
    )


def prefix(requests: Requests, trace: Trace, rows: Int64) -> results.Prefix:
    """Prompt tokens and hits over the first admissions of `rows`."""
    admitted = rows[requests.admitted_ns[rows] >= 0]
    prompts, hits = (integrals.total(c[admitted]) for c in (trace.prompt, requests.hit))
    return results.Prefix(
        prompt_tokens=prompts,
        hit_tokens=hits,
        hit_rate=integrals.share(hits, prompts),
        resumed_hit_tokens=integrals.total(requests.resumed_hit[admitted]),
    )


def token_shares(
    requests: Requests, trace: Trace, rows: Int64
) -> tuple[float | None, float | None]:
    """Of all prompt and output tokens of `rows`: those refused, and those cut by truncation."""
    outputs = samples.outputs_of_rows(trace)
    whole = integrals.total(trace.prompt[rows]) + integrals.total(outputs[rows])
    refused = rows[requests.status[rows] == Status.REFUSED]
    cut = rows[requests.status[rows] == Status.TRUNCATED]
    lost = integrals.total(trace.prompt[refused]) + integrals.total(outputs[refused])
    return (
        integrals.share(lost, whole),
        integrals.share(integrals.total(outputs[cut] - requests.generated[cut]), whole),
    )


def trace_info(trace: Trace) -> results.TraceInfo:
    """What the result file says of the requests that went in."""
    return results.TraceInfo(
        name=trace.name,
        requests=len(trace),
        prompt_tokens=integrals.total(trace.prompt),
        output_tokens=integrals.total(samples.outputs_of_rows(trace)),
        sha256=trace.sha256,
        load=trace.load,
        format=trace.format,
        notes=trace.notes,
    )


def _columns(requests: Requests, rows: Int64) -> tuple[Int64, Int64, Int64, Int64, Int64]:
    return (
        requests.arrival_ns[rows],
        requests.admitted_ns[rows],
        requests.first_token_ns[rows],
        requests.finish_ns[rows],
        requests.longest[rows],
    )


def _of_ns(values: Int64) -> Stats:
    if not len(values):
        return Stats()
    mean = integrals.total(values) / (len(values) * SECOND)
    return Stats(mean, *(int(value) / SECOND for value in integrals.ranks(values, (50, 90, 99))))


def _of_quotients(ns: Int64, tokens: Int64) -> Stats:
    if not len(ns):
        return Stats()
    values: npt.NDArray[np.float64] = ns / (tokens * SECOND)
    mean = integrals.Floats(values).sum() / len(values)
    return Stats(mean, *(float(value) for value in integrals.ranks(values, (50, 90, 99))))


__all__ = ["latency", "makespan_ns", "prefix", "throughput", "times", "token_shares"]
