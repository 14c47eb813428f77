"""A replay beside what an engine logged: both at the same times, and how far they are apart.

The log's clock is the replay's plus an *offset*: the number of whole seconds with which the numbers
of running requests differ least (in the mean, absolute), the smallest of those that do, unless it
is given. docs/recordings.md defines every quantity.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from pagedsim.analysis.report import Report
from pagedsim.device.engineseries import EngineSeries
from pagedsim.engine.recording import Start, Status
from pagedsim.errors import InputError
from pagedsim.protocols import Int64
from pagedsim.trace.draws import Float64

SCHEMA = "pagedsim.verify-log/1"
UNITS = {
    "running": "requests",
    "waiting": "requests",
    "usage": "of the pool",
    "hit_rate": "of tokens",
    "output_tokens_s": "tokens/s",
    "prompt_tokens_s": "tokens/s",
    "preemptions": "so far",
    "cached_blocks": "blocks",
}
_SECOND = 10**9
_OFFSETS = 40_000


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity over time: means of both sides, and of replay less engine the mean, the mean
    absolute and the largest absolute value (`worst_s` into the series). `error`: the mean absolute
    over the engine's mean, None where that is 0.
    """

    name: str
    unit: str
    points: int
    engine_mean: float
    replay_mean: float
    bias: float
    absolute: float
    worst: float
    worst_s: float
    error: float | None
    engine: tuple[float | None, ...]
    replay: tuple[float | None, ...]


class Cached(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks in the cache over time. `at_s` are seconds of the log, as the replay has them; the
    events' own clock is told apart by `offset_s`, found as the log's is. `stored` and `removed` are
    blocks, `cleared` events, `elsewhere` events of another medium than the GPU.
    """

    batches: int
    stored: int
    removed: int
    cleared: int
    elsewhere: int
    damaged: int
    named: tuple[str, ...]
    offset_s: float
    at_s: tuple[float, ...]
    side: Side


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `at_s` are seconds of the log from its first line."""

    schema: str = SCHEMA
    engine: str
    lines: int
    damaged: int
    named: tuple[str, ...]
    offset_s: float
    offset_given: bool
    pool_tokens: int
    configuration: dict[str, Any]
    at_s: tuple[float, ...]
    sides: tuple[Side, ...]
    notes: tuple[str, ...]
    cached: Cached | None = None  # where KV-cache events were given


class Replayed:
    """A report's quantities at any times of the replay, ns."""

    def __init__(self, report: Report) -> None:
        self._recording = report.recording
        self._requests = report.recording.requests
        self._prompt = report.trace.prompt
        refused = self._requests.status == Status.REFUSED
        self._kept = ~refused

    def running(self, at: Int64) -> Float64:
        """Sequences in the batch: 0 between steps that nothing follows."""
        return np.where(self._busy(at), self._column("batch")[self._window(at)], 0).astype(float)

    def waiting(self, at: Int64) -> Float64:
        """Arrived and not admitted; those that wait again after a preemption are not counted."""
        kept, requests = self._kept, self._requests
        arrived = np.sort(requests.arrival_ns[kept])
        admitted = np.sort(requests.admitted_ns[kept])
        return _upto(arrived, at) - _upto(admitted, at)

    def usage(self, at: Int64) -> Float64:
        """Slots held by running sequences over the capacity."""
        starts = self._recording.starts
        window = self._window(at)
        since = at - self._column("start_ns")[window]
        order = np.lexsort((starts[:, 2], starts[:, 0]))
        of, begun = starts[order, 0], starts[order, Start._fields.index("at_ns")]
        upto = np.concatenate(([0], np.cumsum(starts[order, Start._fields.index("held")])))
        span = int(self._column("end_ns").max(initial=0)) + 1
        key = of * span + begun
        before = np.searchsorted(of, window, "left")
        taken = upto[np.searchsorted(key, window * span + np.minimum(since, span - 1), "right")]
        held = self._column("held")[window] + np.maximum(0, taken - upto[before])
        return np.where(self._busy(at), held, 0) / self._recording.capacity

    def hit_rate(self, at: Int64, window: int) -> Float64:
        """Tokens hit over those asked for, of the last `window` requests admitted; 0: of all."""
        rows = np.flatnonzero(self._kept & (self._requests.admitted_ns >= 0))
        rows = rows[np.argsort(self._requests.admitted_ns[rows], kind="stable")]
        hits = np.concatenate(([0], np.cumsum(self._requests.hit[rows])))
        asked = np.concatenate(([0], np.cumsum(self._prompt[rows])))
        last = np.searchsorted(self._requests.admitted_ns[rows], at, "right")
        first = np.maximum(0, last - window) if window else np.zeros_like(last)
        tokens = asked[last] - asked[first]
        share = (hits[last] - hits[first]) / np.maximum(1, tokens)
        return np.where(tokens > 0, share, np.nan)

    def output_tokens_s(self, at: Int64) -> Float64:
        """Tokens yielded since the time before, those of a request evenly over its decode."""
        requests = self._requests
        done = np.flatnonzero(requests.finish_ns >= 0)
        first, finish = requests.first_token_ns[done], requests.finish_ns[done]
        made = requests.generated[done].astype(np.float64)
        total = np.zeros(len(at))
        for place, now in enumerate(at.tolist()):
            part = (now - first) / np.maximum(1, finish - first)
            share = 1 + np.clip(part, 0, 1) * (made - 1)
            total[place] = float(np.where(now >= first, share, 0).sum())
        return _a_second(total, at)

    def prompt_tokens_s(self, at: Int64) -> Float64:
        """Prompt tokens since the time before, those of a request when its first token comes."""
        done = np.flatnonzero(self._requests.first_token_ns >= 0)
        done = done[np.argsort(self._requests.first_token_ns[done], kind="stable")]
        upto = np.concatenate(([0], np.cumsum(self._prompt[done])))
        total = upto[np.searchsorted(self._requests.first_token_ns[done], at, "right")]
        return _a_second(total.astype(np.float64), at)

    def preemptions(self, at: Int64) -> Float64:
        """So far; those of a request count when it finishes."""
        done = np.argsort(self._requests.finish_ns, kind="stable")
        upto = np.concatenate(([0], np.cumsum(self._requests.preemptions[done])))
        return upto[np.searchsorted(self._requests.finish_ns[done], at, "right")].astype(np.float64)

    def _column(self, name: str) -> Int64:
        return self._recording.column(name)

    def _window(self, at: Int64) -> Int64:
        last = np.searchsorted(self._column("start_ns"), at, "right") - 1
        return np.maximum(0, last).astype(np.int64)

    def _busy(self, at: Int64) -> np.ndarray:
        window = self._window(at)
        inside = at < self._column("end_ns")[window]
        return inside & (at >= self._column("start_ns")[window])


def beside(
    series: EngineSeries,
    report: Report,
    *,
    offset_s: float | None,
    configuration: dict[str, Any],
    notes: tuple[str, ...] = (),
) -> Logged:
    """Compare. InputError where the replay has no step."""
    if not len(report.recording.rows):
        raise InputError(f"{report.trace.name}: no step of it ran, so there is nothing to compare")
    replayed = Replayed(report)
    given = offset_s is not None
    shift = aligned(series.at_ns, series.columns["running"], replayed.running, report)
    if offset_s is not None:
        shift = round(offset_s * _SECOND)
    at = series.at_ns - shift
    sides = []
    for name in UNITS:
        if name not in series.columns or np.isnan(series.columns[name]).all():
            continue
        if name == "hit_rate":
            ours = replayed.hit_rate(at, series.hit_window)
        else:
            ours = getattr(replayed, name)(at)
        sides.append(side(name, series.at_ns, series.columns[name], ours))
    return Logged(
        engine=series.engine,
        lines=len(series.at_ns),
        damaged=series.damaged,
        named=series.named,
        offset_s=shift / _SECOND,
        offset_given=given,
        pool_tokens=report.recording.capacity,
        configuration=configuration,
        at_s=tuple((series.at_ns / _SECOND).tolist()),
        sides=tuple(each for each in sides if each is not None),
        notes=(*series.notes, *notes),
    )


def side(name: str, at_ns: Int64, engine: Float64, replay: Float64) -> Side | None:
    """One quantity where both sides say something; None where they never do."""
    both = ~(np.isnan(engine) | np.isnan(replay))
    if not both.any():
        return None
    apart = (replay - engine)[both]
    worst = int(np.abs(apart).argmax())
    mean = float(engine[both].mean())
    absolute = float(np.abs(apart).mean())
    return Side(
        name=name,
        unit=UNITS[name],
        points=int(both.sum()),
        engine_mean=mean,
        replay_mean=float(replay[both].mean()),
        bias=float(apart.mean()),
        absolute=absolute,
        worst=float(np.abs(apart[worst])),
        worst_s=float(at_ns[both][worst] / _SECOND),
        error=absolute / mean if mean else None,
        engine=_plain(engine),
        replay=_plain(replay),
    )


def aligned(at_ns: Int64, values: Float64, sample: Any, report: Report) -> int:
    """The offset, ns in whole seconds, with which `sample` differs least from `values`."""
    end = int(report.recording.column("end_ns")[-1])
    first, last = -(end // _SECOND) - 1, int(at_ns[-1] // _SECOND) + 1
    step = max(1, (last - first) // _OFFSETS)
    offsets = np.arange(first, last + 1, step) * _SECOND
    known = ~np.isnan(values)
    apart = [float(np.abs(sample(at_ns[known] - o) - values[known]).mean()) for o in offsets]
    least = min(apart)
    good = [int(o) for o, a in zip(offsets.tolist(), apart, strict=True) if a <= least * 1.000001]
    return min(good, key=abs)


def _upto(ordered: Int64, at: Int64) -> Float64:
    return np.searchsorted(ordered, at, "right").astype(np.float64)


def _a_second(total: Float64, at: Int64) -> Float64:
    """Differences over time; NaN for the first, which has none before it, and for equal times."""
    spent = np.diff(at) / _SECOND
    found = np.full(len(at), np.nan)
    found[1:] = np.where(spent > 0, np.diff(total) / np.where(spent > 0, spent, 1), np.nan)
    return found


def _plain(values: Float64) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(value) else float(value) for value in values)


__all__ = ["UNITS", "Cached", "Logged", "Replayed", "Side", "aligned", "beside", "side"]
