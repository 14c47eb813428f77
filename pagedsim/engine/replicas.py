"""Several engines in one SimPy environment, each with its part of one trace.

The parts are known before the run (`Share`), or a `Router` sends requests as they arrive. Either
way what an engine does is what it would do alone with the requests that it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import Recording, Refusal, Requests, Rows
from pagedsim.engine.routes import Router, least_loaded
from pagedsim.engine.source import source_of
from pagedsim.protocols import Int64
from pagedsim.trace.trace import Trace

Parts = tuple[Any, Any, Any]  # allocator, scheduler, step time, of one engine alone


def run_shares(
    trace: Trace,
    replica: Int64,
    parts: Sequence[Parts],
    observers: Sequence[tuple[Any, ...]],
    **more: Any,
) -> list[Recording]:
    """Each engine replays its rows, those with its number in `replica`; recordings are of them.

    `observers` are each engine's own; `more` is what `FastEngine` takes.
    """
    engines: list[FastEngine] = []
    for number, (own, seen) in enumerate(zip(parts, observers, strict=True)):
        share = trace.take(np.flatnonzero(replica == number))
        engines.append(_engine(engines, share, own, source_of, {**more, "observers": seen}))
    _run(engines)
    return [engine.recording() for engine in engines]


def run_routed(
    trace: Trace, parts: Sequence[Parts], observers: Sequence[tuple[Any, ...]], **more: Any
) -> tuple[Int64, list[Recording]]:
    """Rows go to the least loaded engine as they arrive; int64[rows] says to which they went."""
    router = Router(trace, len(parts), least_loaded)
    engines: list[FastEngine] = []
    for own, seen in zip(parts, observers, strict=True):
        engines.append(_engine(engines, trace, own, router.feed, {**more, "observers": seen}))
    _run(engines)
    rows = [np.flatnonzero(router.replica == number) for number in range(len(parts))]
    recordings = [engine.recording() for engine in engines]
    return router.replica, [_of(found, own) for found, own in zip(recordings, rows, strict=True)]


def _engine(
    before: list[FastEngine],
    trace: Trace,
    parts: Parts,
    feed: Callable[..., Any],
    more: dict[str, Any],
) -> FastEngine:
    """One more engine, in the environment of those before it."""
    return FastEngine(trace, *parts, feed=feed, env=before[0].env if before else None, **more)


def _run(engines: Sequence[FastEngine]) -> None:
    for engine in engines:
        engine.start()
    engines[0].env.run()


def _of(recording: Recording, rows: Int64) -> Recording:
    """The recording of an engine that had only these rows of the trace, as of a trace of them."""
    requests = Requests(
        **{f.name: getattr(recording.requests, f.name)[rows] for f in fields(Requests)}
    )
    where = {row: at for at, row in enumerate(rows.tolist())}
    refused = tuple(Refusal(where[r.row], *r[1:]) for r in recording.refused)
    return replace(recording, requests=requests, refused=refused)


def merged(trace: Trace, replica: Int64, recordings: Sequence[Recording]) -> Recording:
    """One recording of all: windows of the first replica, then of the next; requests as in `trace`.

    Its windows overlap in time, so sums and percentiles over them weigh every step of every
    replica; steps are numbered on from replica to replica.
    """
    windows, starts, grouped = [], [], []
    steps = count = 0
    for found in recordings:
        own = found.windows
        own[:, 0] += steps
        windows.append(own)
        more = found.starts.copy()
        more[:, 0] += count
        starts.append(more)
        grouped.append(found.grouped)
        steps += int(found.column("steps").sum())
        count += len(own)
    columns: dict[str, Int64] = {}
    for f in fields(Requests):
        column = np.zeros(len(trace), np.int64)
        for number, found in enumerate(recordings):
            column[replica == number] = getattr(found.requests, f.name)
        columns[f.name] = column
    refused = []
    for number, found in enumerate(recordings):
        rows = np.flatnonzero(replica == number)
        refused += [Refusal(int(rows[r.row]), *r[1:]) for r in found.refused]
    evicted = [found.evicted for found in recordings]
    return replace(
        recordings[0],
        rows=Rows.of(np.concatenate(windows)),
        starts=np.concatenate(starts),
        grouped=np.concatenate(grouped),
        requests=Requests(**columns),
        refused=tuple(sorted(refused)),
        free=(),
        evicted=None if None in evicted else sum(e for e in evicted if e is not None),
    )


__all__ = ["Parts", "merged", "run_routed", "run_shares"]
