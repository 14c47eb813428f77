"""A run's course for Perfetto and Chrome's trace viewer: steps, requests, preemptions, counters.

The Trace Event Format (JSON), as ui.perfetto.dev and chrome://tracing read it: a process a run. It
has a track of steps (a slice a window), tracks of running requests (each on the first track that is
free, its prefill and its decode inside), instants where sequences were preempted or came back, and
counters of memory in slots, the batch and the queue. Times are microseconds with three decimals, so
exact to the nanosecond, from the first arrival on.
"""

from __future__ import annotations

import gzip
import heapq
import json
import os
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from pagedsim.analysis.outline import queue, stretches
from pagedsim.analysis.results import GROUP_TERMS, TERMS
from pagedsim.analysis.span import first_arrival
from pagedsim.engine.recording import BLOCKED, Recording, Window
from pagedsim.files import write_whole
from pagedsim.present import formats
from pagedsim.protocols import Limit

if TYPE_CHECKING:
    from pagedsim.analysis.report import Report

STEPS, EVENTS, LANES = 1, 2, 3  # ids of tracks; requests have LANES and what follows
_MANY = 1 << 62  # bins: every change of the queue stays


def save(reports: Sequence[Report], path: str | os.PathLike[str]) -> None:
    """Write the course of `reports`, whole or not at all; ``.json.gz`` is compressed.

    O(windows + starts + requests); what is in memory does not grow with the file.
    """
    packed = formats.suffix(path, formats.TIMELINES).endswith(".gz")
    with write_whole(path) as file:
        if packed:
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as inner:
                _write(inner, reports)
        else:
            _write(file, reports)


def events(report: Report, process: int) -> Iterator[dict[str, Any]]:
    """The events of one run, its tracks named first."""
    recording, origin = report.recording, first_arrival(report.recording)
    yield _named("process_name", process, 0, report.name)
    yield _named("thread_name", process, STEPS, "steps")
    yield _named("thread_name", process, EVENTS, "preemptions")
    yield from _steps(recording, process, origin)
    yield from _requests(report, process, origin)
    yield from _preemptions(recording, process, origin)
    yield from _counters(recording, process, origin)


def _write(file: IO[bytes] | gzip.GzipFile, reports: Sequence[Report]) -> None:
    version = reports[0].provenance.version if reports else ""
    command = reports[0].provenance.command if reports else ""
    about = json.dumps({"generator": f"pagedsim {version}", "command": command})
    file.write(f'{{"displayTimeUnit":"ms","otherData":{about},"traceEvents":[\n'.encode())
    comma = ""
    for process, report in enumerate(reports, 1):
        for event in events(report, process):
            # A time is a string up to here, so that its digits are exact; JSON has it as a number.
            times = "".join(f',"{key}":{event.pop(key)}' for key in ("ts", "dur") if key in event)
            text = json.dumps(event, separators=(",", ":"))
            file.write(f"{comma}{text[:-1]}{times}}}".encode())
            comma = ",\n"
    file.write(b"\n]}\n")


def _steps(recording: Recording, process: int, origin: int) -> Iterator[dict[str, Any]]:
    """A slice a window, called by what it computes."""
    for row in _rows(recording):
        window = Window(*row)
        kind = "decode" if not window.prefills else "prefill"
        if 0 < window.prefills < window.sequences:
            kind = "prefill + decode"
        yield {
            **{"ph": "X", "pid": process, "tid": STEPS},
            "name": kind if window.steps == 1 else f"{kind} x {window.steps:,}",
            "ts": _us(window.start_ns - origin),
            "dur": _us(window.end_ns - window.start_ns),
            "args": {
                "first step": window.step,
                "steps": window.steps,
                "batch": window.batch,
                "prefills": window.prefills,
                "tokens": window.tokens,
                "context": window.context,
                "limited by": Limit(window.limit % BLOCKED).name.lower(),
                "queue blocked": window.limit >= BLOCKED,
            },
        }


def _requests(report: Report, process: int, origin: int) -> Iterator[dict[str, Any]]:
    """Slices of the requests that were admitted, none over another on its track."""
    ran, trace = report.recording.requests, report.trace
    end = int(report.recording.column("end_ns").max(initial=0))
    rows = np.flatnonzero(ran.admitted_ns >= 0)
    rows = rows[np.argsort(ran.admitted_ns[rows], kind="stable")]
    free: list[int] = []  # tracks
    taken: list[tuple[int, int]] = []  # until, track
    tracks = 0
    for row in rows.tolist():
        admitted, first, last = (
            int(column[row]) for column in (ran.admitted_ns, ran.first_token_ns, ran.finish_ns)
        )
        last = last if last >= 0 else end
        first = first if first >= 0 else last
        while taken and taken[0][0] <= admitted:
            heapq.heappush(free, heapq.heappop(taken)[1])
        if not free:
            yield _named("thread_name", process, LANES + tracks, f"requests {tracks}")
            heapq.heappush(free, LANES + tracks)
            tracks += 1
        track = heapq.heappop(free)
        heapq.heappush(taken, (last, track))
        where = {"ph": "X", "pid": process, "tid": track}
        yield {
            **where,
            "name": f"request {row}",
            "ts": _us(admitted - origin),
            "dur": _us(last - admitted),
            "args": {
                "prompt": int(trace.prompt[row]),
                "output": int(trace.output[row]),
                "hit": int(ran.hit[row]),
                "waited ms": int(admitted - ran.arrival_ns[row]) / 10**6,
                "preempted": int(ran.preemptions[row]),
            },
        }
        yield {
            **where,
            "name": "prefill",
            "ts": _us(admitted - origin),
            "dur": _us(first - admitted),
        }
        if last > first:
            yield {**where, "name": "decode", "ts": _us(first - origin), "dur": _us(last - first)}


def _preemptions(recording: Recording, process: int, origin: int) -> Iterator[dict[str, Any]]:
    """Instants at which sequences were preempted or came back, if the recording tells.

    A recording has how often each request was preempted, not when. A batch that is smaller than
    arrivals and finishes make it was preempted from. That is exact where no step both preempts and
    admits, and is left out where the sum does not agree.
    """
    total = int(recording.requests.preemptions.sum())
    if not total:
        return
    starts, batch = recording.column("start_ns"), recording.column("batch")
    admitted = np.sort(recording.requests.admitted_ns[recording.requests.admitted_ns >= 0])
    finish = np.sort(recording.requests.finish_ns[recording.requests.finish_ns >= 0])
    came = np.searchsorted(admitted, starts, side="right")
    went = np.searchsorted(finish, starts, side="right")
    away = np.diff(came - went - batch, prepend=0)
    if int(away[away > 0].sum()) != total:
        return
    for at in np.flatnonzero(away).tolist():
        count = int(away[at])
        yield {
            **{"ph": "i", "s": "p", "pid": process, "tid": EVENTS},
            "name": f"preempted {count}" if count > 0 else f"came back {-count}",
            "ts": _us(int(starts[at]) - origin),
        }


def _counters(recording: Recording, process: int, origin: int) -> Iterator[dict[str, Any]]:
    """Memory and batch where they change direction, the queue where it changes."""
    last: list[int] = []
    grouped = len(recording.grouped) > 0  # whose slots are bytes
    terms, unit = (GROUP_TERMS, "bytes") if grouped else (TERMS, "slots")
    for times, rows in stretches(recording):
        for at, row in zip(times.tolist(), rows.tolist(), strict=True):
            when = _us(at - origin)
            if row[:-1] != last[:-1]:
                slots = dict(zip(terms, row, strict=False))
                yield {
                    "ph": "C",
                    "pid": process,
                    "name": f"memory ({unit})",
                    "ts": when,
                    "args": slots,
                }
            if row[-1:] != last[-1:]:
                running = {"running": row[-1]}
                yield {"ph": "C", "pid": process, "name": "batch", "ts": when, "args": running}
            last = row
    waiting = queue(recording, _MANY)
    for at, count in zip(waiting.at_ns.tolist(), waiting.column("queue").tolist(), strict=True):
        args = {"waiting": count}
        yield {"ph": "C", "pid": process, "name": "queue", "ts": _us(at), "args": args}


def _rows(recording: Recording) -> Iterator[list[int]]:
    """Windows as lists, some thousand in memory at once."""
    for first in range(0, len(recording.rows), 4096):
        yield from recording.rows.table(first, first + 4096).tolist()


def _named(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": track, "name": kind, "args": {"name": name}}


def _us(ns: int) -> str:
    """Microseconds, all digits: 1,234,567 ns are 1234.567."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


__all__ = ["events", "save"]
