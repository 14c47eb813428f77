"""The span of time that averages are over: all of the run, A:B, or its steady part.

Seconds count from the first arrival. A span is half-open::

    first arrival        A                    B
    |--------------------|////////////////////|---------      requests with A <= arrival < B,
       [ step )[ step )[ st|ep )[ step )[ step |)             steps by the part inside
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from pagedsim.engine.recording import BLOCKED, Recording
from pagedsim.errors import SpecError

SpanSpec: TypeAlias = "str | tuple[float | None, float | None] | None"
"""None (the whole run), ``"steady"``, ``"A:B"``, or (A, B) in s; None for an open end."""


def parse(spec: SpanSpec) -> SpanSpec:
    """Check `spec`: None, "steady" or a pair (A, B) with 0 <= A < B come back, else SpecError."""
    if spec is None or spec == "steady":
        return spec
    if isinstance(spec, str):
        start, colon, end = spec.partition(":")
        if not colon or not (start.strip() or end.strip()):
            raise SpecError(
                f"window {spec!r}: must be A:B in seconds (one may be left out) or steady"
            )
        bounds = (_seconds(spec, start), _seconds(spec, end))
    else:
        bounds = spec
    low, high = 0.0 if bounds[0] is None else bounds[0], bounds[1]
    for value in (low, high):
        if value is not None and not (math.isfinite(value) and 0 <= value < 9e9):
            raise SpecError(f"window {_text(bounds)!r}: {value:.15g} s must be >= 0 and finite")
    if high is not None and high <= low:
        raise SpecError(
            f"window {_text(bounds)!r}: ends at {high:.15g} s, must be after {low:.15g} s"
        )
    return bounds


def first_arrival(recording: Recording) -> int:
    """ns of the first arrival, refused ones included; 0 where nothing arrived."""
    arrivals = recording.requests.arrival_ns
    arrived = arrivals[arrivals >= 0]
    return int(arrived.min()) if len(arrived) else 0


def resolve(recording: Recording, spec: SpanSpec) -> tuple[int, int] | None:
    """Half-open [A, B) in ns of the run's clock, None for all of it.

    ``steady`` is from the start of the first blocked step to the last arrival or, where all had
    arrived before it (a saturated load), to the last admission of a request, after which nobody
    waits: filling and drain are left out. SpecError if no step was blocked, if the only blocked
    ones come after that, or if no step runs in the span.
    """
    spec = parse(spec)
    if spec is None:
        return None
    origin = first_arrival(recording)
    starts, ends = recording.column("start_ns"), recording.column("end_ns")
    last = int(ends.max(initial=origin))
    if spec == "steady":
        low, high = _steady(recording, origin)
    else:
        assert isinstance(spec, tuple)
        low = origin + round((spec[0] or 0) * 1e9)
        high = last if spec[1] is None else origin + round(spec[1] * 1e9)
    if not (np.minimum(ends, high) > np.maximum(starts, low)).any():
        raise SpecError(
            f"window {spec if isinstance(spec, str) else _text(spec)!r}: no step runs in it; "
            f"the last step ends at {(last - origin) / 1e9} s"
        )
    return low, high


def _steady(recording: Recording, origin: int) -> tuple[int, int]:
    blocked = np.flatnonzero(recording.column("limit") & BLOCKED)
    if not len(blocked):
        raise SpecError(
            "window steady: no step was blocked (the queue's head never waited for memory), "
            "so there is no steady part; give A:B in seconds"
        )
    low = int(recording.column("start_ns")[blocked].min())
    arrived = int(recording.requests.arrival_ns.max())
    high = arrived if arrived > low else int(recording.requests.admitted_ns.max())
    if high <= low:
        raise SpecError(
            f"window steady: the first blocked step starts at {(low - origin) / 1e9} s, "
            f"not before the last arrival at {(arrived - origin) / 1e9} s, "
            "nor is any request admitted after it"
        )
    return low, high


def _seconds(spec: str, text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise SpecError(f"window {spec!r}: {text!r} is not a number of seconds") from None


def _text(bounds: tuple[float | None, float | None]) -> str:
    return ":".join("" if value is None else f"{value:.15g}" for value in bounds)


__all__ = ["SpanSpec", "first_arrival", "parse", "resolve"]
