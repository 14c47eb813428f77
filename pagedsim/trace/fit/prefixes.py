"""The tree of prefixes that sessions share, with how many start with each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace.fit.links import BRANCHES, Links
from pagedsim.trace.fit.shapes import coarse
from pagedsim.trace.recipe import Prefixes

_NODES = 200


class Shared(NamedTuple):
    """`tree` (None where nothing is shared), and the tokens of it that each root starts with.

    `left_out`: prefixes of sessions that a recipe has no room for.
    """

    tree: Prefixes | None
    tokens: Int64
    left_out: int


def prefixes(found: Links, roots: Int64) -> Shared:
    """Of the rows `roots`, which start sessions. Sizes are coarse in blocks. O(blocks).

    Kept are prefixes of `BRANCHES` sessions or more, at most 200 of them, those first whose reuse
    is largest; a session whose prefix is not kept starts with the longest part of it that is.
    """
    key, rows, head = found.blocks.key, found.blocks.rows, found.head
    ends = {int(key[rows[row] + head[row] - 1]) for row in roots.tolist() if head[row]}
    paths = [_path(key[rows[row] : rows[row] + head[row]], ends) for row in roots.tolist()]
    passing: dict[int, int] = {}
    depth: dict[int, int] = {}
    above: dict[int, int] = {}
    for path in paths:
        for at, (end, blocks) in enumerate(path):
            passing[end] = passing.get(end, 0) + 1
            depth[end] = blocks
            above[end] = path[at - 1][0] if at else -1
    saved = {end: (passing[end] - 1) * depth[end] for end in passing if passing[end] >= BRANCHES}
    kept = sorted(sorted(saved, key=lambda end: -saved[end])[:_NODES], key=lambda end: depth[end])
    number = {end: node for node, end in enumerate(kept, 1)}
    starts = [_nearest(path, number) for path in paths]
    tokens = np.array([depth[end] * found.size if end >= 0 else 0 for end in starts], np.int64)
    if not kept:
        return Shared(None, tokens, len(ends))
    sizes, under = [], []
    for end in kept:
        up = above[end]
        while up >= 0 and up not in number:
            up = above[up]
        under.append(number.get(up, 0))
        blocks = depth[end] - (depth[up] if up >= 0 else 0)
        sizes.append(found.size * max(1, round(coarse(blocks))))
    exactly = np.bincount([number.get(end, 0) for end in starts], minlength=len(kept) + 1)[1:]
    shares = [coarse(count, up=-1) / coarse(len(roots), up=1) for count in exactly.tolist()]
    tree = Prefixes(tokens=sizes, under=under, shares=[round(share, 4) for share in shares])
    return Shared(tree, tokens, len(passing) - len(kept))


def _path(keys: Int64, ends: set[int]) -> list[tuple[int, int]]:
    """(key, blocks up to it) of the places of a prefix at which some session's prefix ends."""
    return [(key, blocks) for blocks, key in enumerate(keys.tolist(), 1) if key in ends]


def _nearest(path: list[tuple[int, int]], number: dict[int, int]) -> int:
    return next((end for end, _ in reversed(path) if end in number), -1)


__all__ = ["Shared", "prefixes"]
