"""From hash ids of prompt blocks to runs of virtual token ids.

Two conventions exist for a prompt of n tokens in blocks of b::

    ceil    ids: ceil(n / b)     the last one names the rest, n - b·(ids - 1) tokens
    floor   ids: floor(n / b)    full blocks only; the rest, n mod b tokens, is new

Block id h stands for the run (b·h, b). A file follows one convention in all its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace.lines import flatten
from pagedsim.trace.source import Source


class Runs(NamedTuple):
    """Content in the columns that `Trace.build` takes."""

    rows: Int64
    token: Int64
    length: Int64


def content(
    source: Source,
    prompt: tuple[str, Int64],
    ids: tuple[str, Sequence[list[int]]],
    block: int,
    line: Callable[[int], int | None],
    *,
    floor: bool = False,
) -> Runs:
    """The runs of every row. `floor` is the convention that errors speak of if neither holds.

    Ids are made dense first where ``b·h`` would not fit. Raises InputError for a row whose count
    of ids fits neither convention of the file.
    """
    lengths = prompt[1]
    counts = np.fromiter(map(len, ids[1]), np.int64, len(lengths))
    conventions = {False: -(-lengths // block), True: lengths // block}
    if not (counts == conventions[floor]).all():
        if not (counts == conventions[not floor]).all():
            row = int(np.flatnonzero(counts != conventions[floor])[0])
            text = f"{ids[0]} has {counts[row]} ids, {prompt[0]} {lengths[row]} needs"
            need = f"{text} {conventions[floor][row]} (blocks of {block})"
            raise source.error(need, line(row))
        floor = not floor
    flat = flatten(ids[1])
    assert flat is not None, "ids are checked when read"
    if len(flat) and int(flat.max()) >= 2**61 // block:
        flat = np.unique(flat, return_inverse=True)[1].astype(np.int64)
    if not floor:
        rows = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        length = np.full(len(flat), block, np.int64)
        length[rows[1:] - 1] = lengths - block * (counts - 1)
        return Runs(rows, flat * block, length)
    rest = lengths - block * counts
    rows = np.concatenate(([0], np.cumsum(counts + (rest > 0)))).astype(np.int64)
    length = np.full(rows[-1], block, np.int64)
    token = np.zeros(rows[-1], np.int64)
    ends = rows[1:][rest > 0] - 1
    tails = rest[rest > 0]
    length[ends] = tails
    named = np.ones(rows[-1], bool)
    named[ends] = False
    token[named] = flat * block
    above = block * (int(flat.max(initial=-1)) + 1)
    token[ends] = above + np.cumsum(tails) - tails
    return Runs(rows, token, length)


__all__ = ["Runs", "content"]
