"""LRU at all capacities in one pass: stack distances, a run of blocks at a time.

The *stack* is all blocks seen so far, the most recently touched on top. LRU of C blocks holds its
top C, whatever C: touching a block moves it to the top in caches of every size, and what a full
cache evicts for it was its lowest. (What a request evicts of its own blocks before it comes to
them it brings back.) So larger caches contain smaller ones, and the *depth* of a block, counted
from 1, is the smallest capacity that has it.

A request hits the longest run of cached blocks from its start, so a block is hit by the capacities
from the largest depth of the blocks up to it. Let `last` be the request that touched a block last.
Whoever touches a block touches those before it, so `last` never rises along a prompt: it falls into
*spans* of equal `last`, s, and those are the blocks of request s that nobody touched since::

    prompt   |---- last = 9 ----|-- last = 7 --|------ last = 2 ------|--- never ---|
    above    0 (or more)        N(7)           N(2)        N(s): blocks touched since request s

- Leaf first (the last block is touched first): of request s the first block of the span is the
  highest, so its i-th block has depth N(s) + i. This rises along the prompt, so every block of a
  prompt is hit from its own depth on.
- Root first: the first block of the span is the lowest of all that have this `last`, and nothing
  behind it counts without it. So the span is hit as a whole from N(s) + (blocks with last s) on:
  never sooner than leaf first.

N(s) comes from a Fenwick tree over requests that counts blocks by their `last`. O(r log n) for r
accesses to runs by n requests: the size of a block does not matter, only where prompts part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pagedsim.analysis.curve_runs import Runs, paths
from pagedsim.protocols import Int64


class Spans(NamedTuple):
    """Blocks of one request with equal `last`. `above`: N(s); `size`: blocks with this last.

    `start` is how many blocks of the request come before the `length` of the span.
    """

    request: Int64
    last: Int64
    start: Int64
    length: Int64
    above: Int64
    size: Int64


def spans(runs: Runs) -> Spans:
    """What every request finds of what was there before, in the order of requests."""
    path_of, asked_of, length, _ = paths(runs)
    requests = len(path_of)
    last = [-1] * len(length)
    size = [0] * requests  # blocks by their last request, and below as a Fenwick tree
    tree = [0] * (requests + 1)
    seen = 0
    out: list[int] = []
    for request, path in enumerate(path_of):
        asked = asked_of[request]
        at = index = 0
        runs_here = len(path)
        while index < runs_here and (before := last[path[index]]) >= 0:
            start, found = at, 0
            while index < runs_here and last[path[index]] == before:
                at += length[path[index]]
                index += 1
                if index <= asked:
                    found = at - start
            if found:
                above = 0
                if before < request - 1:
                    above, node = seen, before + 1
                    while node:
                        above -= tree[node]
                        node &= node - 1
                out += (request, before, start, found, above, size[before])
            moved = at - start
            size[before] -= moved
            node = before + 1
            while node <= requests:
                tree[node] -= moved
                node += node & -node
        for run in path[index:]:
            at += length[run]
            seen += length[run]
        for run in path:
            last[run] = request
        size[request] = at
        node = request + 1
        while node <= requests:
            tree[node] += at
            node += node & -node
    columns = np.array(out, np.int64).reshape(-1, 6).T
    return Spans(*(np.ascontiguousarray(column) for column in columns))


class Exact:
    """Hits of LRU at any capacity. `counted` are the requests whose hits count."""

    def __init__(self, runs: Runs, found: Spans, *, leaf: bool, counted: Int64) -> None:
        keep = np.isin(found.request, counted)
        request, _, start, length, above, size = (column[keep] for column in found)
        end = start + length
        tokens = np.minimum(end * runs.block, runs.prompt[request]) - start * runs.block
        lack = length * runs.block - tokens  # of a partial last block, which is the span's last
        share = 1 / runs.prompt[request]
        first = start == 0
        if leaf:
            ends = above + length
            self.blocks = _ramps(above, ends, np.ones_like(length))
            less, lesser = _steps(ends, lack), _steps(ends, lack * share)
            slope = _ramps(above, ends, runs.block * share)
            self.tokens: Callable[[Int64], Any] = lambda c: runs.block * self.blocks(c) - less(c)
            self.prompts: Callable[[Int64], Any] = lambda c: slope(c) - lesser(c)
            self.requests = _steps(above[first] + 1, np.ones(int(first.sum()), np.int64))
            bends = [above, ends - 1, ends]
        else:
            ends = above + size
            self.blocks = _steps(ends, length)
            self.tokens, self.prompts = _steps(ends, tokens), _steps(ends, tokens * share)
            self.requests = _steps(ends[first], np.ones(int(first.sum()), np.int64))
            bends = [ends - 1, ends]
        self.needed = int(ends.max(initial=0))  # the smallest capacity that hits all there is
        every = np.unique(np.concatenate(([1, max(1, self.needed)], *bends)))
        self.corners = every[every >= 1]  # where the hits stop being linear in the capacity


def _ramps(low: Int64, high: Int64, weight: Any) -> Callable[[Int64], Any]:
    """``c -> sum of weight · (min(c, high) - low where c > low)``."""
    up, down = _ramp(low, weight), _ramp(high, weight)
    return lambda c: up(c) - down(c)


def _ramp(low: Int64, weight: Any) -> Callable[[Int64], Any]:
    order = np.argsort(low, kind="stable")
    low, weight = low[order], weight[order]
    slope = np.concatenate((weight[:0], [0], np.cumsum(weight)))
    offset = np.concatenate((weight[:0], [0], np.cumsum(weight * low)))

    def value(capacity: Int64) -> Any:
        below = np.searchsorted(low, capacity, "left")
        return slope[below] * capacity - offset[below]

    return value


def _steps(at: Int64, weight: Any) -> Callable[[Int64], Any]:
    """``c -> sum of weight where c >= at``."""
    order = np.argsort(at, kind="stable")
    at = at[order]
    total = np.concatenate((weight[:0], [0], np.cumsum(weight[order])))
    return lambda c: total[np.searchsorted(at, c, "right")]


__all__ = ["Exact", "Spans", "spans"]
