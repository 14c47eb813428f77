"""Hit rate of a prefix cache against its capacity: `curve`, or `Lookups` to ask several times.

No time and no batch: requests come one after another in order of arrival, each looks up its
blocks, then touches them (docs/curve.md). Capacities are blocks.

LRU is exact at every capacity from one pass (`curve_lru`); other policies are replayed at each
capacity asked for (`curve_replay`). Both work on runs of blocks (`curve_runs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pagedsim.analysis import curve_facts as facts
from pagedsim.analysis import curve_replay as replay
from pagedsim.analysis.curve_lru import Exact, spans
from pagedsim.analysis.curve_result import Capacity, Curve, Curves, Enough, Point, Rates
from pagedsim.analysis.curve_runs import Paths, paths, runs
from pagedsim.errors import SpecError
from pagedsim.protocols import Int64
from pagedsim.trace.trace import Trace

POLICIES = ("lru", "fifo", "lfu", "optimal")
TOUCHES = ("leaf", "root")
COUNTS = ("all", "full", "outputs")
PARTS = (0.5, 0.9, 0.99)  # of the ideal hits, for which `Curve.enough` states a capacity
GIB = 1 << 30


class Hits(NamedTuple):
    """Of counted requests, an entry a capacity: blocks and tokens hit, the sum over prompts of
    the share of their tokens hit, and requests with any hit.
    """

    blocks: Int64
    tokens: Int64
    prompts: Any
    requests: Int64


class Lookups:
    """A trace's look-ups, ready to be counted at any capacity. The arguments are `curve`'s.

    `progress`, where it is set, is called with the requests of each replay as it is done.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        block: int = 16,
        touch: str = "leaf",
        count: str = "all",
        warmup: float = 0.0,
    ) -> None:
        _among("touch", touch, TOUCHES)
        _among("count", count, COUNTS)
        if not 0 <= warmup < 1:
            raise SpecError(f"warmup is {warmup:g}, must be >= 0 and < 1")
        self.progress: Callable[[int], None] | None = None
        self.trace, self.block, self.touch, self.count = trace, block, touch, count
        self.runs = runs(trace, block, partial=count == "all", outputs=count == "outputs")
        self.spans = spans(self.runs)
        self.counted = np.arange(int(len(trace) * warmup), len(trace))
        self.exact = Exact(self.runs, self.spans, leaf=touch == "leaf", counted=self.counted)
        self.blocks = int(self.runs.asked_blocks[self.counted].sum())
        self.tokens = int(trace.prompt[self.counted].sum())

    @property
    def needed(self) -> int:
        """The smallest capacity with which LRU has all ideal hits; 0 where there are none."""
        return self.exact.needed

    @cached_property
    def ideal(self) -> Hits:
        """What a cache without limits hits, as arrays of one."""
        return self._lru(np.array([max(1, self.needed)], np.int64))

    @cached_property
    def _paths(self) -> Paths:
        return paths(self.runs)

    def hits(self, policy: str, capacities: Sequence[int] | Int64) -> Hits:
        """Under `policy` at these capacities. LRU costs a search each, others a replay each."""
        _among("policy", policy, POLICIES)
        at = np.asarray(capacities, np.int64)
        if len(at) and at.min() < 1:
            raise SpecError(f"capacity is {at.min()}, must be >= 1")
        if policy == "lru":
            return self._lru(at)
        leaf = self.touch == "leaf"
        if policy == "lfu" and not leaf:
            raise SpecError("policy lfu with touch root is not there; there are lru and fifo")
        rows = []
        for capacity in at.tolist():
            if policy == "fifo":
                found = replay.fifo(self._paths, capacity, leaf=leaf)
            else:
                found = (replay.lfu if policy == "lfu" else replay.optimal)(self._paths, capacity)
            rows.append(self._sums(np.array(found, np.int64)))
            if self.progress is not None:
                self.progress(len(found))
        return Hits(*(np.array(column) for column in zip(*rows, strict=True)))

    def request_tokens(self, blocks: Int64) -> Int64:
        """Tokens that every request hits with its first `blocks` blocks."""
        found: Int64 = np.minimum(blocks * self.block, self.trace.prompt)
        return found

    def curve(self, policy: str, capacities: Sequence[int], token_bytes: float | None) -> Curve:
        """The curve through `capacities`, which rise, with its knee."""
        points = self.points(policy, capacities, token_bytes)
        if policy == "lru":
            at = self.exact.corners
            tokens = self._lru(at).tokens
        else:
            at = np.array(capacities, np.int64)
            tokens = np.array([point.hit_tokens for point in points], np.int64)
        where = knee(at, tokens)
        found = None
        if where is not None and policy == "lru":
            found = self.points(policy, [int(at[where])], token_bytes)[0]
        elif where is not None:
            found = points[where]
        enough = []
        for part in PARTS:
            goal = part * int(self.ideal.tokens[0])
            if goal and (reached := self._reached(policy, at, tokens, goal)):
                enough.append(Enough(part, self.capacity(reached, token_bytes)))
        return Curve(policy, policy == "lru", tuple(points), found, tuple(enough))

    def points(
        self, policy: str, capacities: Sequence[int], token_bytes: float | None
    ) -> list[Point]:
        """A point a capacity."""
        found = self.hits(policy, capacities)
        most = int(self.ideal.tokens[0])
        return [
            Point(
                self.capacity(capacity, token_bytes),
                int(found.blocks[i]),
                int(found.tokens[i]),
                self.rates(found, i),
                int(found.tokens[i]) / most if most else 0.0,
            )
            for i, capacity in enumerate(capacities)
        ]

    def rates(self, hits: Hits, index: int) -> Rates:
        """Of the `index`-th capacity."""
        requests = max(1, len(self.counted))
        return Rates(
            int(hits.blocks[index]) / max(1, self.blocks),
            int(hits.tokens[index]) / max(1, self.tokens),
            float(hits.prompts[index]) / requests,
            int(hits.requests[index]) / requests,
        )

    def capacity(self, blocks: int, token_bytes: float | None) -> Capacity:
        """`blocks` in tokens and GiB."""
        tokens = blocks * self.block
        return Capacity(blocks, tokens, None if token_bytes is None else tokens * token_bytes / GIB)

    def _lru(self, at: Int64) -> Hits:
        exact = self.exact
        return Hits(exact.blocks(at), exact.tokens(at), exact.prompts(at), exact.requests(at))

    def _sums(self, blocks: Int64) -> tuple[int, int, float, int]:
        tokens = self.request_tokens(blocks)[self.counted]
        shares = tokens / self.trace.prompt[self.counted]
        blocks = blocks[self.counted]
        return int(blocks.sum()), int(tokens.sum()), float(shares.sum()), int((blocks > 0).sum())

    def _reached(self, policy: str, at: Int64, tokens: Int64, goal: float) -> int | None:
        """The smallest capacity with `goal` hit tokens; for LRU between corners too."""
        above = np.flatnonzero(tokens >= goal)
        if not len(above):
            return None
        high = int(at[above[0]])
        low = int(at[above[0] - 1]) if above[0] else 0
        while policy == "lru" and high - low > 1:
            middle = (low + high) // 2
            if self.exact.tokens(np.array([middle]))[0] >= goal:
                high = middle
            else:
                low = middle
        return high


def curve(
    trace: Trace,
    *,
    block: int = 16,
    policies: Sequence[str] = ("lru",),
    capacities: Sequence[int] | None = None,
    touch: str = "leaf",
    count: str = "all",
    warmup: float = 0.0,
    kv_bytes_per_token: float | None = None,
) -> Curves:
    """The curves of `policies` over a cache of blocks of `block` tokens.

    `capacities` (in blocks) are those of the points, by default `usual(lookups.needed)`. `touch`
    is the order in which a prompt's blocks are touched: "leaf" (the last one first, as engines
    release them) or "root"; the optimum has no order. `count`: "all" blocks of prompts, the
    partial last one too, only "full" ones, or "outputs": full ones, with answers cached too. The
    first `warmup` (a share) of the requests fill the cache and are not counted. Raises SpecError.

    O(blocks) in NumPy; LRU O(r log n) for r runs of n requests, whatever the capacities; others
    O(r log r) a capacity.
    """
    lookups = Lookups(trace, block=block, touch=touch, count=count, warmup=warmup)
    return curves(lookups, policies, capacities, kv_bytes_per_token)


def curves(
    lookups: Lookups,
    policies: Sequence[str],
    capacities: Sequence[int] | None = None,
    kv_bytes_per_token: float | None = None,
) -> Curves:
    """As `curve`, of look-ups that are there already."""
    for policy in policies:
        _among("policy", policy, POLICIES)
    at = usual(lookups.needed) if capacities is None else sorted(set(capacities))
    if not at or not policies:
        raise SpecError(f"{'policies' if at else 'capacities'} must not be empty")
    trace, parts, found = lookups.trace, lookups.runs, lookups.spans
    blocks = np.zeros(len(trace), np.int64)
    np.maximum.at(blocks, found.request, found.start + found.length)
    shares = lookups.request_tokens(blocks)[lookups.counted] / trace.prompt[lookups.counted]
    return Curves(
        trace=trace.name,
        sha256=trace.sha256,
        notes=trace.notes,
        requests=len(trace),
        counted=len(lookups.counted),
        block=lookups.block,
        touch=lookups.touch,
        count=lookups.count,
        blocks=lookups.blocks,
        prompt_tokens=lookups.tokens,
        distinct=lookups.capacity(parts.distinct, kv_bytes_per_token),
        kv_bytes_per_token=kv_bytes_per_token,
        ideal=lookups.rates(lookups.ideal, 0),
        prompts=facts.spread(shares),
        curves=tuple(lookups.curve(policy, at, kv_bytes_per_token) for policy in policies),
        times=facts.times(trace, parts, found),
        popularity=facts.popularity(parts),
    )


def usual(needed: int) -> list[int]:
    """1, 2, 5, 10, 20, 50, … over the three decades below `needed`, and `needed` itself."""
    top = max(1, needed)
    steps = [digit * 10**power for power in range(len(str(top))) for digit in (1, 2, 5)]
    return [*(step for step in steps if top <= step * 1000 and step < top), top]


def knee(capacities: Int64, values: Int64) -> int | None:
    """Which point lies furthest above the chord from the first to the last, capacities in logs.

    With x = log(capacity / first) / log(last / first) and y = (value - value of the first) / rise,
    the point where y - x is largest; None if no point is above the chord. For LRU these are the
    corners of the exact curve, and that is enough: between two of them it is a line, and a line
    minus a logarithm is convex, so it is largest at an end.
    """
    if len(capacities) < 3 or values[-1] <= values[0]:
        return None
    x = np.log(capacities / capacities[0]) / np.log(capacities[-1] / capacities[0])
    above = (values - values[0]) / (values[-1] - values[0]) - x
    best = int(above.argmax())
    return best if above[best] > 1e-9 else None


def _among(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise SpecError(f"{name} is {value}, must be {', '.join(known[:-1])} or {known[-1]}")


__all__ = [
    "COUNTS",
    "POLICIES",
    "TOUCHES",
    "Hits",
    "Lookups",
    "curve",
    "curves",
    "knee",
    "usual",
]
