"""Blocks that always come together, as one: the prefix tree of a trace with its chains collapsed.

A *run* is a longest stretch of blocks that every request touches together and looks up together.
A request's blocks are a path from the root of the prefix tree, so it is a row of runs::

    request 0   |------- run 0 -------|--- run 1 ---|              what nobody else has is one run
    request 1   |------- run 0 -------|---- run 2 ----|-- run 3 --|
    request 2   |------- run 0 -------|---- run 2 ----|- run 4 -|

The requests that touch a block are among those that touch the block before it. So they are the
same requests where there are equally many, and runs are found by counting. Nothing is lost: the
policies of `curve_replay` and `curve_lru` keep of a run its first blocks, so a number a run says
which.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace.content import blocks
from pagedsim.trace.trace import Trace


class Runs(NamedTuple):
    """Request i touches the runs ``run[rows[i] : rows[i + 1]]``, and looks up the first `asked[i]`.

    `length` (blocks) and `depth` (blocks before it in any prompt) are per run; `asked_blocks` and
    `prompt` (tokens) per request.
    """

    block: int
    rows: Int64
    run: Int64
    asked: Int64
    asked_blocks: Int64
    prompt: Int64
    length: Int64
    depth: Int64

    @property
    def distinct(self) -> int:
        """Different blocks touched."""
        return int(self.length.sum())


class Paths(NamedTuple):
    """`Runs` as Python lists, which a loop reads several times as fast."""

    paths: list[list[int]]
    asked: list[int]
    length: list[int]
    depth: list[int]


def runs(trace: Trace, block: int, *, partial: bool = True, outputs: bool = False) -> Runs:
    """The runs of a trace; O(blocks) in NumPy.

    Prompts count in blocks of `block` tokens, the partial last one too if `partial`. With
    `outputs` a request touches the full blocks of its prompt and output together, without the
    last token, whose KV is never stored, and looks up the full blocks of its prompt.
    """
    found = blocks(trace, block, outputs=outputs)
    counts = np.diff(found.rows)
    touched = counts
    if outputs:
        touched = (trace.prompt + trace.output - 1) // block
    elif not partial:
        touched = trace.prompt // block
    key, rows = found.key, found.rows
    if not np.array_equal(touched, counts):
        key = key[_within(counts) < np.repeat(touched, counts)]
        rows = np.concatenate(([0], np.cumsum(touched))).astype(np.int64)
    asked_blocks = trace.prompt // block if outputs else touched
    uses = np.bincount(key)[key] if len(key) else key
    starts = np.ones(len(key), bool)
    starts[1:] = uses[1:] != uses[:-1]
    if outputs:
        looked = np.bincount(key[_within(touched) < np.repeat(asked_blocks, touched)])
        looked = np.pad(looked, (0, max(0, int(key.max(initial=-1)) + 1 - len(looked))))[key]
        starts[1:] |= looked[1:] != looked[:-1]
    starts[rows[:-1][touched > 0]] = True
    at = np.flatnonzero(starts)
    _, where, run = np.unique(key[at], return_index=True, return_inverse=True)
    run_rows = np.searchsorted(at, rows).astype(np.int64)
    asked = np.searchsorted(at, rows[:-1] + asked_blocks) - run_rows[:-1]
    length = np.diff(np.append(at, len(key)))
    depth = at - np.repeat(rows[:-1], np.diff(run_rows))
    return Runs(
        block,
        run_rows,
        run.astype(np.int64).reshape(-1),
        asked.astype(np.int64),
        asked_blocks.astype(np.int64),
        trace.prompt,
        length[where],
        depth[where],
    )


def paths(runs: Runs) -> Paths:
    """Python lists for the replays."""
    flat, rows = runs.run.tolist(), runs.rows.tolist()
    each = [flat[a:b] for a, b in pairwise(rows)]
    return Paths(each, runs.asked.tolist(), runs.length.tolist(), runs.depth.tolist())


def _within(counts: Int64) -> Int64:
    """0, 1, …, count - 1 for every count."""
    ends = np.cumsum(counts)
    where: Int64 = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
    return where


__all__ = ["Paths", "Runs", "paths", "runs"]
