"""When a key will be looked up next: what the clairvoyant policy knows and no engine does.

A request looks up the full blocks of its prompt, but for its last token's, which it computes
whatever is kept; so what is there of that block until then is of no use to anybody. Requests are
taken to come in the order of the trace: the next look-up of a key is that of the first row that has
it and was not admitted yet. A row that was preempted and comes back is not foreseen.
"""

from __future__ import annotations

import numpy as np

from pagedsim.protocols import Future, Int64

NEVER = 1 << 62


class Foresight:
    """The next row of every key, as rows are admitted. O(b log b) once, for b look-ups."""

    def __init__(self, future: Future, block: int) -> None:
        rows, keys = future.looked_up(block)
        self._computed = computed = future.computed(block)
        ends = computed >= 0  # rows that compute a key too; it follows those that they look up
        keys = np.insert(keys, rows[1:][ends], computed[ends])
        rows = rows + np.concatenate(([0], np.cumsum(ends)))
        row_of = np.repeat(np.arange(len(rows) - 1), np.diff(rows))
        order = np.argsort(keys, kind="stable")
        again = keys[order][1:] == keys[order][:-1]
        self._rows, self._keys = rows, keys
        self._after = np.full(len(keys), NEVER)  # of a place, the next row with its key
        self._after[order[:-1][again]] = row_of[order[1:][again]]
        self._next = np.full(int(keys.max(initial=-1)) + 1, NEVER)
        first = order[np.concatenate(([True], ~again))] if len(order) else order
        self._next[keys[first]] = row_of[first]
        self._come = np.zeros(len(rows), bool)

    def next_use(self, keys: Int64) -> Int64:
        """The row that looks up each of `keys` next; NEVER if none does, or one makes it anew."""
        found = np.full(len(keys), NEVER)
        known = keys < len(self._next)
        found[known] = self._next[keys[known]]
        known = found != NEVER
        anew = self._computed[found[known]] == keys[known]
        found[np.flatnonzero(known)[anew]] = NEVER
        return found

    def admitted(self, row: int) -> None:
        """Row `row` has looked up or computes its keys; the first time counts."""
        if self._come[row]:
            return
        self._come[row] = True
        part = slice(int(self._rows[row]), int(self._rows[row + 1]))
        keys, after = self._keys[part], self._after[part].copy()
        depth = np.arange(len(keys))  # a key stands at one depth, whatever the row
        while (gone := (after != NEVER) & self._come[np.minimum(after, len(self._come) - 1)]).any():
            after[gone] = self._after[self._rows[after[gone]] + depth[gone]]
        mine = self._next[keys] == row
        self._next[keys[mine]] = after[mine]


__all__ = ["NEVER", "Foresight"]
