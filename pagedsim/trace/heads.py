"""What sessions start with: shared system prompts, or a tree of shared prefixes.

Each prompt or node has token ids of its own, from 0 up; all other ids of a made trace lie above.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace.draws import stream
from pagedsim.trace.lengthmodels import tokens
from pagedsim.trace.recipe import Prefixes, Recipe, System

_SYSTEM = 3  # the purpose of the random stream


class Heads(NamedTuple):
    """Of each session `which` path it starts with (-1 = none) and that path's `tokens`.

    ``paths[which]`` is a list of runs; ids of all paths are below `above`.
    """

    which: Int64
    tokens: Int64
    paths: list[list[tuple[int, int]]]
    above: int


def heads(recipe: Recipe, seed: int, count: int) -> Heads:
    """Those of `count` sessions, or of requests where there are none."""
    if recipe.system is not None:
        return _system(recipe.system, seed, count)
    if recipe.prefixes is not None:
        return _tree(recipe.prefixes, seed, count)
    return Heads(np.full(count, -1, np.int64), np.zeros(count, np.int64), [], 0)


def _system(system: System, seed: int, count: int) -> Heads:
    """Ids are spaced by the longest prompt that is used."""
    rng = stream(seed, _SYSTEM)
    sizes = tokens(system.tokens, rng, system.prompts)
    weights = np.cumsum(np.arange(1, system.prompts + 1, dtype=np.float64) ** -system.skew)
    which = np.searchsorted(weights, rng.random(count) * weights[-1], "right")
    which = np.minimum(which, system.prompts - 1).astype(np.int64)
    which[rng.random(count) >= system.share] = -1
    lengths = np.where(which >= 0, sizes[which], 0)
    stride = int(lengths.max(initial=0))
    paths = [[(number * stride, size)] for number, size in enumerate(sizes.tolist())]
    return Heads(which, lengths, paths, stride * (int(which.max(initial=-1)) + 1))


def _tree(tree: Prefixes, seed: int, count: int) -> Heads:
    paths: list[list[tuple[int, int]]] = []
    above = 0
    for size, under in zip(tree.tokens, tree.under, strict=True):
        paths.append([*(paths[under - 1] if under else []), (above, size)])
        above += size
    upto = np.cumsum(tree.shares)
    which = np.searchsorted(upto, stream(seed, _SYSTEM).random(count), "right").astype(np.int64)
    which[which == len(paths)] = -1
    sizes = np.array([*(sum(size for _, size in path) for path in paths), 0], np.int64)
    return Heads(which, sizes[which], paths, above)


__all__ = ["Heads", "heads"]
