"""What a trace's reuse is like, apart from any capacity: when blocks come back, and which.

Percentiles are nearest rank, blocks counted one by one. Blocks, hits and uses are those of
`curve_runs`: a *use* is a request that touches the block, a *hit* one that looks it up after an
earlier use. All requests count, whatever the curve leaves out to warm up.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from pagedsim.analysis.curve_lru import Spans
from pagedsim.analysis.curve_runs import Runs
from pagedsim.protocols import Int64
from pagedsim.trace.trace import Trace

NS = 1e9
TOP = (0.001, 0.01, 0.1)


class Spread(msgspec.Struct, frozen=True):
    """Of a value over blocks or prompts."""

    mean: float
    p10: float
    p50: float
    p90: float
    p99: float
    max: float


class Times(msgspec.Struct, frozen=True):
    """`reuse_s`: seconds from a block's last use to its hit, over hits. `life_s`: from a block's
    first use to its last, over blocks used more than once. Both None without recorded arrivals or
    where nothing is reused. `reuse_requests`: the first in requests (1: by the next one).
    """

    reuse_s: Spread | None
    reuse_requests: Spread | None
    life_s: Spread | None


class Uses(msgspec.Struct, frozen=True):
    """Distinct blocks used `least` to `most` times, and their hits; bins without blocks are left
    out.
    """

    least: int
    most: int
    blocks: int
    hits: int


class Top(msgspec.Struct, frozen=True):
    """The share of all hits that the `blocks` (a share of all) with most hits have."""

    blocks: float
    hits: float


class Popularity(msgspec.Struct, frozen=True):
    """`once`: the share of distinct blocks used once."""

    once: float
    uses: tuple[Uses, ...]
    top: tuple[Top, ...]


def times(trace: Trace, runs: Runs, found: Spans) -> Times:
    """Reuse times and lives of blocks; O(runs log runs)."""
    between = found.request - found.last
    first, last, uses = _used(runs)
    again = uses > 1
    reuse_s = life_s = None
    if trace.timed:
        at = trace.arrival_ns
        reuse_s = spread((at[found.request] - at[found.last]) / NS, found.length)
        life_s = spread((at[last[again]] - at[first[again]]) / NS, runs.length[again])
    return Times(reuse_s, spread(between, found.length), life_s)


def popularity(runs: Runs) -> Popularity:
    """How uses and hits spread over distinct blocks; O(runs log runs)."""
    first, _, uses = _used(runs)
    row = _rows(runs)
    looked = np.arange(len(row)) - runs.rows[row] < runs.asked[row]
    hit = looked & (row > first[runs.run])
    hits = np.bincount(runs.run[hit], minlength=len(runs.length)) * runs.length
    bins = []
    least = most = 1
    while least <= uses.max(initial=0):
        there = (uses >= least) & (uses <= most)
        if there.any():
            total = int(runs.length[there].sum())
            bins.append(Uses(least, most, total, int(hits[there].sum())))
        least, most = most + 1, 2 * most
    once = int(runs.length[uses == 1].sum()) / max(1, runs.distinct)
    return Popularity(once, tuple(bins), _top(runs.length, hits))


def spread(values: Any, weights: Any = None) -> Spread | None:
    """Mean, percentiles and maximum of weighted values; None of nothing."""
    if not len(values):
        return None
    order = np.argsort(values, kind="stable")
    values = values[order]
    weights = np.ones(len(values), np.int64) if weights is None else weights[order]
    ends = np.cumsum(weights)
    total = int(ends[-1])
    ranks = [max(1, math.ceil(total * percent / 100)) for percent in (10, 50, 90, 99)]
    p10, p50, p90, p99 = (float(values[np.searchsorted(ends, rank)]) for rank in ranks)
    mean = float((values * weights).sum()) / total
    return Spread(mean, p10, p50, p90, p99, float(values[-1]))


def _top(blocks: Int64, hits: Int64) -> tuple[Top, ...]:
    if not hits.sum():
        return ()
    order = np.argsort(-hits / blocks, kind="stable")
    up_to = np.concatenate(([0], np.cumsum(blocks[order])))
    had = np.concatenate(([0], np.cumsum(hits[order])))
    return tuple(
        Top(share, float(np.interp(share * up_to[-1], up_to, had) / had[-1])) for share in TOP
    )


def _used(runs: Runs) -> tuple[Int64, Int64, Int64]:
    """Per run: first and last request, and how many."""
    row = _rows(runs)
    first = np.empty(len(runs.length), np.int64)
    first[runs.run[::-1]] = row[::-1]
    last = np.empty(len(runs.length), np.int64)
    last[runs.run] = row
    return first, last, np.bincount(runs.run, minlength=len(runs.length))


def _rows(runs: Runs) -> Int64:
    return np.repeat(np.arange(len(runs.asked)), np.diff(runs.rows))


__all__ = ["Popularity", "Spread", "Times", "Top", "Uses", "popularity", "spread", "times"]
