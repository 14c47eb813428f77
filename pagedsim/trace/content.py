"""Which blocks of a trace hold the same tokens: chained keys for all rows at once.

Two blocks have the same key if, and only if, they and all blocks before them in their prompts hold
the same tokens under the same salt. Keys are exact, not hashes: where a row goes on, its chain and
the next piece of a run are interned to an integer. A row whose chain nobody shares any more is
done: all its later keys are new. So the work is in what is shared, not in what there is. A key is
the place of its block in the trace, or of the first block that is the same: so what two rows share
has keys that follow each other, and a table by key is read in stretches::

    tokens     |---- run ----||-- run --||------- run -------|
    blocks     |--- 0 ---|--- 1 ---|--- 2 ---|--- 3 ---|- 4 -|      the last one may be partial
    pieces     |---------|----|----|-----|---|---------|-----|
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pagedsim.errors import SpecError
from pagedsim.protocols import Allocator, Int64, SupportsForesight
from pagedsim.trace.trace import Trace


class Blocks(NamedTuple):
    """Blocks of every row, in CSR form: row i's are ``rows[i] : rows[i + 1]`` of the others."""

    rows: Int64
    key: Int64  # a place in these columns: that of the first block with this key
    tokens: Int64  # of the block, below the block size in the last one of a row


def blocks(trace: Trace, size: int, *, outputs: bool = False) -> Blocks:
    """The prompts' blocks of `size` tokens; with `outputs`, those of prompt and output together.

    O(b + s log s) for b blocks, s of them shared; a few array operations a block of the longest
    shared prefix.
    """
    if size < 1:
        raise SpecError(f"block is {size}, must be >= 1")
    runs = _with_outputs(trace) if outputs else (trace.run_rows, trace.run_token, trace.run_length)
    row_at, run_at, run_token = _joined(*runs)
    lengths = np.diff(row_at)
    counts = -(-lengths // size)
    rows = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    tokens = np.full(rows[-1], size, np.int64)
    tokens[rows[1:] - 1] = lengths - size * (counts - 1)
    keys = np.arange(rows[-1])
    active = np.arange(len(trace))
    chain = _intern(trace.salt)
    level = 0
    while len(active):
        begin = row_at[active] + level * size
        left = run_at[np.searchsorted(run_at, begin, "right")] - begin
        alike = max(1, int(left.min()) // size)  # chains that are equal stay so for these blocks
        end = begin + tokens[rows[active] + level]
        chain, used = _extend(chain, begin, end, run_at, run_token)
        places = rows[active] + level
        first = np.full(used, rows[-1])
        np.minimum.at(first, chain, places)
        shared = np.bincount(chain)[chain] > 1
        active, chain, places = active[shared], chain[shared], places[shared]
        ahead = np.arange(alike)
        keys[places[:, None] + ahead] = first[chain][:, None] + ahead
        level += alike
        go_on = counts[active] > level
        active, chain = active[go_on], chain[go_on]
    return Blocks(rows, keys, tokens)


class Content:
    """What the rows of a trace hold, as sequences ask for it: prompt and output laid end to end.

    Keys are worked out for the whole trace when a block size is first asked for.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._keys: dict[int, tuple[Int64, list[int], list[int]]] = {}

    def runs(self, row: int) -> list[tuple[int, int]]:
        """(first token id, length) of each run; the output is the last. O(runs)."""
        trace = self._trace
        part = slice(int(trace.run_rows[row]), int(trace.run_rows[row + 1]))
        pairs = zip(trace.run_token[part].tolist(), trace.run_length[part].tolist(), strict=True)
        return [*pairs, (int(trace.output_token[row]), int(trace.output[row]))]

    def keys(self, row: int, size: int) -> Int64:
        """Keys of the row's full blocks of `size` tokens, read-only."""
        if size not in self._keys:
            trace = self._trace
            rows, key, _ = blocks(trace, size, outputs=True)
            key.setflags(write=False)
            ends = rows[:-1] + (trace.prompt + trace.output) // size
            self._keys[size] = (key, rows.tolist(), ends.tolist())
        key, starts, full = self._keys[size]
        return key[starts[row] : full[row]]


class LookUps:
    """A `Future`: what the rows that are not `refused` will look up of their `prompt` tokens.

    `first`: row i's content is in row ``first[i]`` of `content`; without it in row i.
    """

    def __init__(
        self,
        content: Content,
        prompt: Int64,
        refused: Iterable[int],
        first: Sequence[int] | None = None,
    ) -> None:
        self._content, self._prompt = content, prompt
        self._refused = list(refused)
        self._first = range(len(prompt)) if first is None else first

    def looked_up(self, block: int, /) -> tuple[Int64, Int64]:
        """O(blocks)."""
        counts = (self._prompt - 1) // block
        counts[self._refused] = 0
        parts = [
            self._content.keys(self._first[row], block)[:count]
            for row, count in enumerate(counts.tolist())
        ]
        rows = np.concatenate(([0], np.cumsum(counts)))
        return rows, np.concatenate(parts) if parts else rows[:0]


def foresee(
    allocator: Allocator,
    content: Content,
    prompt: Int64,
    refused: Iterable[int],
    first: Sequence[int] | None = None,
) -> None:
    """Tell an allocator that asks for it what will be looked up (see `LookUps`)."""
    if isinstance(allocator, SupportsForesight) and allocator.foresees:
        allocator.foresee(LookUps(content, prompt, refused, first))


def _extend(
    chain: Int64, begin: Int64, end: Int64, run_at: Int64, run_token: Int64
) -> tuple[Int64, int]:
    """Each chain with the tokens ``begin : end`` appended, and how many integers that took."""
    chain = chain.copy()
    at = begin.copy()
    todo = np.arange(len(chain))
    used = 0
    while len(todo):
        run = np.searchsorted(run_at, at[todo], "right") - 1
        stop = np.minimum(end[todo], run_at[run + 1])
        first = _intern(run_token[run] + at[todo] - run_at[run])
        length = stop - at[todo]
        pair = first * (int(length.max()) + 1) + length
        dense = _intern(chain[todo] * (int(pair.max()) + 1) + pair)
        chain[todo] = used + dense
        used += int(dense.max()) + 1
        at[todo] = stop
        todo = todo[stop < end[todo]]
    return chain, used


def _joined(rows: Int64, token: Int64, length: Int64) -> tuple[Int64, Int64, Int64]:
    """(where rows start, where runs start, first ids), rows laid end to end.

    A run that merely goes on where the one above it ended is joined to it, so that equal tokens
    are equal runs.
    """
    at = np.concatenate(([0], np.cumsum(length)))
    starts = np.ones(len(token), bool)
    starts[1:] = token[1:] != token[:-1] + length[:-1]
    starts[rows[:-1]] = True
    return at[rows], np.append(at[:-1][starts], at[-1]), token[starts]


def _with_outputs(trace: Trace) -> tuple[Int64, Int64, Int64]:
    rows = trace.run_rows + np.arange(len(trace) + 1)
    last = rows[1:] - 1
    prompt = np.ones(rows[-1], bool)
    prompt[last] = False
    columns = []
    for runs, own in ((trace.run_token, trace.output_token), (trace.run_length, trace.output)):
        column = np.empty(rows[-1], np.int64)
        column[prompt] = runs
        column[last] = own
        columns.append(column)
    return rows, columns[0], columns[1]


def _intern(values: Int64) -> Int64:
    """Dense integers from 0 up, equal where the values are."""
    dense: Int64 = np.unique(values, return_inverse=True)[1].astype(np.int64).reshape(-1)
    return dense


__all__ = ["Blocks", "Content", "LookUps", "blocks", "foresee"]
