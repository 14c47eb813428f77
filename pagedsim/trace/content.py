"""Which blocks of a trace hold the same tokens: chained keys for all rows at once.

Two blocks have the same key if, and only if, they and all blocks before them in their prompts hold
the same tokens under the same salt. Keys are exact, not hashes: a key is the place of its block in
the trace, or of the first block that is the same. So what two rows share has keys that follow each
other, and a row's keys are a few *stretches* of integers that count up. Who had which tokens first
is found for all block sizes in `trace.firsts`, whose parts are cut into blocks here::

    tokens     |-------------- row 0 --------------|------------ row 1 -----------|
    parts      |--------- 0 had them first --------|------ 0 did ----|--- its own |
    blocks     |--- 0 ---|--- 1 ---|--- 2 ---|- 3 -|--- 0 ---|--- 5 ---|--- 6 ----|
                                       the last block of a row may be partial
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pagedsim.errors import SpecError
from pagedsim.protocols import Allocator, Int64, SupportsForesight
from pagedsim.trace.firsts import Runs, parts
from pagedsim.trace.trace import Trace

_NONE = np.zeros(0, np.int64)


class Blocks(NamedTuple):
    """Blocks of every row, in CSR form: row i's are ``rows[i] : rows[i + 1]`` of the others."""

    rows: Int64
    key: Int64  # a place in these columns: that of the first block with this key
    tokens: Int64  # of the block, below the block size in the last one of a row


class Stretches(NamedTuple):
    """The same keys as stretches, because there are few: within one, keys follow each other.

    Stretch j begins at block ``place[j]`` with ``key[j]``, and ends where the next or its row does;
    row i's are ``first[i] : first[i + 1]``, one at least. `rows` is that of `Blocks`.
    """

    rows: Int64
    first: Int64
    place: Int64
    key: Int64


def blocks(trace: Trace, size: int, *, outputs: bool = False) -> Blocks:
    """The prompts' blocks of `size` tokens; with `outputs`, those of prompt and output together.

    O(b) for b blocks, and what `stretches` takes.
    """
    runs = _runs_of(trace, outputs)
    rows, _, place, key = stretches(trace.salt, runs, size)
    counts = np.diff(rows)
    tokens = np.full(rows[-1], size, np.int64)
    tokens[rows[1:] - 1] = np.diff(runs.rows) - size * (counts - 1)
    lengths = np.diff(np.append(place, rows[-1]))
    return Blocks(rows, np.arange(rows[-1]) + np.repeat(key - place, lengths), tokens)


def stretches(salt: Int64, runs: Runs, size: int) -> Stretches:
    """The keys of all rows at blocks of `size` tokens.

    O(p log p) for the p parts that rows are in, and what `firsts.parts` takes.
    """
    if size < 1:
        raise SpecError(f"block is {size}, must be >= 1")
    lengths = np.diff(runs.rows)
    rows = np.concatenate(([0], np.cumsum(-(-lengths // size)))).astype(np.int64)
    row, end, owner, twin = parts(salt, runs)
    first = np.searchsorted(row, np.arange(len(rows)))  # part of each row
    begin = np.concatenate(([0], end[:-1] // size))
    begin[first[:-1]] = 0
    until = end // size
    last = first[1:] - 1
    own = owner[last] == np.arange(len(lengths))
    until[last[own]] = -(-lengths[own] // size)
    place, key, count = rows[row] + begin, rows[owner] + begin, until - begin
    twins = _partial_twins(rows, lengths, size, np.flatnonzero(~own), twin)
    row, place, key, count = (
        np.concatenate(both) for both in zip((row, place, key, count), twins, strict=True)
    )
    order = np.lexsort((place, row))
    order = order[count[order] > 0]
    row, place, key = row[order], place[order], key[order]
    begins = np.ones(len(place), bool)
    begins[1:] = (np.diff(key - place) != 0) | (np.diff(row) != 0)
    starts = np.searchsorted(row[begins], np.arange(len(rows))).astype(np.int64)
    return Stretches(rows, starts, place[begins], key[begins])


def _partial_twins(
    rows: Int64, lengths: Int64, size: int, within: Int64, twin: dict[int, int]
) -> tuple[Int64, Int64, Int64, Int64]:
    """Row, place, key and count of last blocks that are not full, of the rows `within`.

    Those end where another row had all their tokens first; such a block is that of its `twin`.
    """
    within = within[lengths[within] % size > 0]
    at = lengths[within] // size
    like = np.array([twin.get(row, row) for row in within.tolist()], np.int64)
    return within, rows[within] + at, rows[like] + at, np.ones_like(at)


class Content:
    """What the rows of a trace hold, as sequences ask for it: prompt and output laid end to end.

    Stretches of keys are worked out for the whole trace when a block size is first asked for, a
    row's keys when they are: all of them at once would be the largest thing in memory.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._lists: dict[int, tuple[list[int], ...]] = {}  # of `Stretches`, and full blocks
        self._last: dict[int, tuple[int, Int64]] = {}  # by size: most often asked for again

    def runs(self, row: int) -> list[tuple[int, int]]:
        """(first token id, length) of each run; the output is the last. O(runs)."""
        trace = self._trace
        part = slice(int(trace.run_rows[row]), int(trace.run_rows[row + 1]))
        pairs = zip(trace.run_token[part].tolist(), trace.run_length[part].tolist(), strict=True)
        return [*pairs, (int(trace.output_token[row]), int(trace.output[row]))]

    def stretches(self, row: int, size: int) -> list[tuple[int, int]]:
        """Keys of the row's full blocks of `size` tokens as (first, how many). O(stretches)."""
        if size not in self._lists:
            trace = self._trace
            rows, first, place, key = stretches(trace.salt, _runs_of(trace, True), size)
            ends = rows[:-1] + (trace.prompt + trace.output) // size
            columns = (first, np.append(place, rows[-1]), key, ends)
            self._lists[size] = tuple(column.tolist() for column in columns)
        starts, places, firsts, full = self._lists[size]
        found = []
        for at in range(starts[row], starts[row + 1]):
            count = min(places[at + 1], full[row]) - places[at]
            if count > 0:
                found.append((firsts[at], count))
        return found

    def keys(self, row: int, size: int) -> Int64:
        """Those keys one by one, read-only. O(blocks); O(1) for the last row that was asked for."""
        if size in self._last and self._last[size][0] == row:
            return self._last[size][1]
        pieces = [np.arange(first, first + count) for first, count in self.stretches(row, size)]
        keys = np.concatenate(pieces) if len(pieces) > 1 else pieces[0] if pieces else _NONE
        keys.setflags(write=False)
        self._last[size] = (row, keys)
        return keys


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

    def computed(self, block: int, /) -> Int64:
        """O(rows that end a block)."""
        keys = np.full(len(self._prompt), -1)
        ends = self._prompt % block == 0
        ends[self._refused] = False
        for row in np.flatnonzero(ends).tolist():
            last = int(self._prompt[row]) // block - 1
            keys[row] = self._content.keys(self._first[row], block)[last]
        return keys


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


def _runs_of(trace: Trace, outputs: bool) -> Runs:
    """Of the prompts, or of prompts and outputs."""
    rows, token, length = (
        _with_outputs(trace) if outputs else (trace.run_rows, trace.run_token, trace.run_length)
    )
    at = np.concatenate(([0], np.cumsum(length)))
    starts = np.ones(len(token), bool)
    starts[1:] = token[1:] != token[:-1] + length[:-1]
    starts[rows[:-1]] = True
    return Runs(at[rows], np.append(at[:-1][starts], at[-1]), token[starts])


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


__all__ = ["Blocks", "Content", "LookUps", "blocks", "foresee"]
