"""Replicas in a report: a trace over several engines, and what each of them did.

The merged report is of all steps of all engines (docs/model.md): one recording, whose windows
overlap in time. Each engine's own report is of its share, over the same span.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from pagedsim.engine.recording import Recording
from pagedsim.engine.routes import LEAST_LOADED, ROUTES, shares
from pagedsim.errors import SpecError
from pagedsim.protocols import Int64
from pagedsim.trace.trace import Trace

if TYPE_CHECKING:
    from pagedsim.analysis.report import Report

MOST = 1024  # engines


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One engine of several: its share of the requests, and the main numbers of its own run."""

    name: str
    requests: int
    finished: int
    refused: int
    steps: int
    preemptions: int
    makespan_s: float | None
    live: float | None
    waste: float | None
    blocked: float | None
    batch_mean: float | None
    batch_peak: int
    hit_rate: float | None
    requests_per_s: float | None
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    tpot_p50_s: float | None


def told(report: Report) -> Replica:
    """What is said of one engine of several."""
    run = report.run
    return Replica(
        name=run.name,
        requests=len(report.arrived),
        finished=run.finished,
        refused=run.refused,
        steps=run.steps,
        preemptions=run.preemptions,
        makespan_s=run.makespan_s,
        live=run.memory.live,
        waste=run.memory.waste,
        blocked=run.blocked,
        batch_mean=run.batch.mean,
        batch_peak=run.batch.peak,
        hit_rate=run.prefix.hit_rate,
        requests_per_s=run.throughput.requests_per_s,
        ttft_p50_s=run.latency.ttft_s.p50,
        ttft_p99_s=run.latency.ttft_s.p99,
        tpot_p50_s=run.latency.tpot_s.p50,
    )


class Spread(NamedTuple):
    """A run over several engines: all of it, and each with its share of the trace."""

    recording: Recording
    shares: list[tuple[Trace, Recording]]


def check(
    replicas: int, route: str, *, concurrency: int, closed_loop: bool, engine: str, observed: bool
) -> None:
    """SpecError where these contradict each other."""
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not 1 <= replicas <= MOST:
        raise SpecError(f"replicas is {replicas!r}, must be a whole number from 1 to {MOST}")
    if route not in ROUTES:
        raise SpecError(f"route is {route!r}, must be one of {', '.join(ROUTES)}")
    if replicas == 1:
        return
    if closed_loop and route != "session":
        raise SpecError(
            f"route is {route}, but in a closed loop a turn waits for the answer before it: "
            "session keeps them on one replica"
        )
    if route == LEAST_LOADED and concurrency:
        raise SpecError(f"route {route} needs arrivals, but a concurrency has none of its own")
    if route == LEAST_LOADED and engine != "fast":
        raise SpecError(f"route {route} needs the fast engine: the {engine} one runs alone")
    if observed:
        raise SpecError("observers are of one engine: with replicas there are several")


def spread(
    trace: Trace,
    parts: Sequence[tuple[Any, Any, Any]],
    route: str,
    seed: int,
    observers: Sequence[tuple[Any, ...]],
    engine: str,
    **more: Any,
) -> Spread:
    """Run `trace` over engines of these `parts` (allocator, scheduler, step time of each).

    Raises SpecError where an allocator must know what comes, but the route is not known before.
    """
    from pagedsim.engine.replicas import merged, run_routed, run_shares

    if route == LEAST_LOADED:
        if any(getattr(allocator, "foresees", False) for allocator, _, _ in parts):
            raise SpecError(
                f"route {route}: an optimal policy must know which requests come to it, and here "
                "nobody does: give another route"
            )
        replica, recordings = run_routed(trace, parts, observers, **more)
    else:
        replica = shares(trace, len(parts), route, seed)
        if engine == "fast":
            recordings = run_shares(trace, replica, parts, observers, **more)
        else:
            recordings = _one_by_one(trace, replica, parts, observers, **more)
    own = [trace.take(np.flatnonzero(replica == number)) for number in range(len(parts))]
    whole = merged(trace, replica, recordings)
    return Spread(whole, list(zip(own, recordings, strict=True)))


def _one_by_one(
    trace: Trace,
    replica: Int64,
    parts: Sequence[tuple[Any, Any, Any]],
    observers: Sequence[tuple[Any, ...]],
    **more: Any,
) -> list[Recording]:
    """The same by the reference engine, which knows of no environment."""
    from pagedsim.engine.reference import ReferenceEngine

    found = []
    for number, (own, seen) in enumerate(zip(parts, observers, strict=True)):
        share = trace.take(np.flatnonzero(replica == number))
        found.append(ReferenceEngine(share, *own, observers=seen, **more).run())
    return found


__all__ = ["MOST", "Replica", "Spread", "check", "spread", "told"]
