"""Which request goes on from which, and what else prompts share: found in the content.

Prompts are paths down a tree of chained blocks. Where `BRANCHES` or more go on from a block in ways
of their own, what leads there is no conversation but a prefix that sessions share::

    [system][system]──[a]──[a]                    turn 1 of a
                    │      └──[a]──[a]            turn 2: goes on from turn 1
                    ├─[b]──[b]──[b]
                    ├─[c]──[c]
                    └─[d]                         four ways: [system][system] is shared

A request goes on from the last one before it that holds the longest part of its path below that.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace.content import Blocks, blocks
from pagedsim.trace.trace import Trace

BRANCHES = 4


class Links(NamedTuple):
    """Of each row: `head`, full blocks at its start that are a shared prefix; `parent`, the row it
    goes on from (-1 = none); `shared`, full blocks of its prompt that the parent's prompt has too.
    """

    blocks: Blocks  # of `size` tokens
    size: int
    head: Int64
    parent: Int64
    shared: Int64


def links(trace: Trace) -> Links:
    """O(blocks log blocks). Recorded parents are kept, and found ones are added where a row has no
    session. Where several go on from one row they are turns after each other all the same.
    """
    size = int(trace.extra.get("block", 16))
    found = blocks(trace, size)
    full = trace.prompt // size
    rows, counts = found.rows.tolist(), full.tolist()
    again = _repeated(found.key)
    head = _heads(found, full) if again.any() else np.zeros(len(trace), np.int64)
    shares = np.maximum.reduceat(again, found.rows[:-1]).tolist() if len(trace) else []
    parent = np.full(len(trace), -1, np.int64)
    shared = np.zeros(len(trace), np.int64)
    root, last = list(range(len(trace))), list(range(len(trace)))
    holder: dict[int, int] = {}
    for row, (recorded, session, start) in enumerate(
        zip(trace.parent.tolist(), trace.session.tolist(), head.tolist(), strict=True)
    ):
        own = found.key[rows[row] : rows[row] + counts[row]].tolist() if shares[row] else []
        before = recorded if 0 <= recorded < row else -1
        if before < 0 and session < 0:
            before = _before(own, start, holder)
        if before >= 0:
            root[row] = root[before]
            before = last[root[row]]
            last[root[row]] = row
            parent[row] = before
            other = found.key[rows[before] : rows[before] + counts[before]]
            shared[row] = _alike(own, other)
        if own:
            repeated = again[rows[row] + start : rows[row] + counts[row]]
            holder.update(dict.fromkeys(itertools.compress(own[start:], repeated), row))
    return Links(found, size, head, parent, shared)


def _heads(found: Blocks, full: Int64) -> Int64:
    """Full blocks up to the deepest place of each row from which several go on."""
    counts = np.diff(found.rows)
    within = np.arange(len(found.key)) - np.repeat(found.rows[:-1], counts)
    whole = within < np.repeat(full, counts)
    above = np.where(within > 0, np.append(-1, found.key[:-1]), -1)
    first = np.unique(found.key[whole], return_index=True)[1]
    ways = np.bincount(above[whole][first] + 1, minlength=len(found.key) + 1)[1:]
    branching = whole & (ways[found.key] >= BRANCHES)
    head = np.zeros(len(full), np.int64)
    row = np.repeat(np.arange(len(full)), counts)
    np.maximum.at(head, row[branching], within[branching] + 1)
    return head


def _before(own: list[int], start: int, holder: dict[int, int]) -> int:
    """The last row that holds the most of `own` beyond `start`; -1 if none holds any."""
    low, high = start, len(own)  # chained keys: known ones are a prefix of all
    while low < high:
        middle = (low + high) // 2
        if own[middle] in holder:
            low = middle + 1
        else:
            high = middle
    return holder[own[low - 1]] if low > start else -1


def _repeated(key: Int64) -> np.ndarray:
    """Where a key is there more than once: only those can be found again."""
    return np.asarray(np.bincount(key, minlength=len(key))[key] > 1)


def _alike(own: list[int], other: Int64) -> int:
    """How many leading keys two rows have in common; equal keys have equal ones before them."""
    low, high = 0, min(len(own), len(other))
    while low < high:
        middle = (low + high) // 2
        if own[middle] == other[middle]:
            low = middle + 1
        else:
            high = middle
    return low


__all__ = ["BRANCHES", "Links", "links"]
