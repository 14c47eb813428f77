"""What a trace is like: rates, lengths, burstiness, sessions, and how much of it could be reused.

*Ideal reuse* is what a prefix cache without limits would hit: requests one after another in order
of arrival, a hit being the longest run of known blocks from the start of the prompt.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace.content import blocks
from pagedsim.trace.trace import Trace

PERCENTS = (1, 5, 25, 50, 75, 90, 95, 99)


class Lengths(NamedTuple):
    """Of one column. `percentiles` are nearest rank, by percent."""

    total: int
    mean: float
    least: int
    most: int
    percentiles: dict[int, int]


class Reuse(NamedTuple):
    """Shares that an unlimited cache would hit.

    `blocks` of all blocks, the partial last one of a prompt counted like any other; `tokens` of
    all prompt tokens, by those blocks; `full_blocks` of full blocks only, as engines cache;
    `with_outputs`, the same where answers are cached too.
    """

    block: int
    blocks: float
    tokens: float
    full_blocks: float
    with_outputs: float


class Burst(NamedTuple):
    """`cv`: coefficient of variation of the gaps (1 = Poisson). `peak`: arrivals in the busiest
    `window_s` over their mean.
    """

    cv: float
    peak: float
    window_s: float


class Sessions(NamedTuple):
    """Of rows that belong to one: how many, their turns, and known think times."""

    sessions: int
    turns_mean: float
    turns_most: int
    think_s_median: float | None


def nearest_rank(values: Int64, percent: float) -> int:
    """The smallest value that at least `percent` of all do not exceed."""
    ordered = np.sort(values)
    return int(ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)])


def lengths(values: Int64) -> Lengths:
    """Sum, mean, ends and percentiles."""
    ordered = np.sort(values)
    ranks = {p: int(ordered[max(0, math.ceil(p / 100 * len(ordered)) - 1)]) for p in PERCENTS}
    total = sum(ordered.tolist())
    return Lengths(total, total / len(ordered), int(ordered[0]), int(ordered[-1]), ranks)


def burst(trace: Trace, window_s: float = 10.0) -> Burst | None:
    """None where all arrive at once or there are fewer than three."""
    if len(trace) < 3 or not trace.timed or trace.arrival_ns[0] == trace.arrival_ns[-1]:
        return None
    gaps = np.diff(trace.arrival_ns).astype(np.float64)
    since = trace.arrival_ns - trace.arrival_ns[0]
    window = since // int(window_s * 1e9)
    counts = np.unique(window, return_counts=True)[1]
    mean = len(trace) / (int(window[-1]) + 1)
    return Burst(float(gaps.std() / gaps.mean()), float(counts.max() / mean), window_s)


def reuse(trace: Trace, block: int) -> Reuse:
    """Ideal reuse with blocks of `block` tokens; O(blocks log blocks)."""
    prompts = blocks(trace, block)
    known = _seen(prompts.key)
    full = prompts.tokens == block
    hits = prompts.tokens[known]
    whole = blocks(trace, block, outputs=True)
    stored = trace.prompt + trace.output - 1  # the last token's KV is never stored
    counts = np.diff(whole.rows)
    within = np.arange(whole.rows[-1]) - np.repeat(whole.rows[:-1], counts)
    cached = within < np.repeat(stored // block, counts)
    asked = within < np.repeat(trace.prompt // block, counts)
    earlier = np.zeros(len(cached), bool)
    earlier[cached] = _seen(whole.key[cached])
    hit = asked & earlier
    return Reuse(
        block,
        _share(int(known.sum()), len(known)),
        _share(int(hits.sum()), int(trace.prompt.sum())),
        _share(int((known & full).sum()), int(full.sum())),
        _share(int(hit.sum()), int(asked.sum())),
    )


def sessions(trace: Trace) -> Sessions | None:
    """None for a trace without sessions."""
    own = trace.session[trace.session >= 0]
    if not len(own):
        return None
    turns = np.unique(own, return_counts=True)[1]
    known = trace.think_ns[trace.think_ns >= 0]
    think = nearest_rank(known, 50) / 1e9 if len(known) else None
    return Sessions(len(turns), float(turns.mean()), int(turns.max()), think)


def summary(trace: Trace, block: int | None = None) -> dict[str, Any]:
    """Everything above as plain values, for JSON. `block` is the trace's own if it has one."""
    size = block or int(trace.extra.get("block", 16))
    span_s = int(trace.arrival_ns[-1] - trace.arrival_ns[0]) / 1e9 if len(trace) else 0.0
    parts = {
        "prompt": lengths(trace.prompt),
        "output": lengths(trace.output),
        "burst": burst(trace),
        "reuse": reuse(trace, size),
        "sessions": sessions(trace),
    }
    return {
        "name": trace.name,
        "format": trace.format,
        "load": trace.load,
        "timed": trace.timed,
        "sha256": trace.sha256,
        "requests": len(trace),
        "dropped": trace.dropped,
        "notes": list(trace.notes),
        "span_s": span_s,
        "rate_per_s": len(trace) / span_s if span_s else None,
        "samples": int(trace.samples.sum()),
        "salts": len(np.unique(trace.salt[trace.salt > 0])),
        "priorities": len(np.unique(trace.priority)),
        **{key: part._asdict() if part else None for key, part in parts.items()},
    }


def _seen(keys: Int64) -> np.ndarray:
    """Where a key was there before; keys of one row differ, so earlier means an earlier row."""
    where = np.arange(len(keys))
    first = np.empty(int(keys.max(initial=-1)) + 1, np.int64)
    first[keys[::-1]] = where[::-1]  # of equal keys the last assignment stays, so the first row's
    before: np.ndarray = first[keys] < where
    return before


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


__all__ = [
    "PERCENTS",
    "Burst",
    "Lengths",
    "Reuse",
    "Sessions",
    "burst",
    "lengths",
    "nearest_rank",
    "reuse",
    "sessions",
    "summary",
]
