"""An ordered list of free blocks from the middle of which blocks can be taken.

Blocks come off the front, go back to either end, and a block that is hit leaves from wherever it
stands. Entries are not searched for: a block that left leaves a dead entry behind, which is
dropped when it comes to the front. `_at[block]` names the block's live entry, so an entry is live
if, and only if, it is the one named::

    front                                             back
    | stack[-1] … stack[0] | queue[head] … queue[tail-1] |
    _at    -2 - serial         its index                        -1: the block is not free

Few blocks are moved one by one, many as slices: the same memory is an `array` for the one and a
NumPy array for the other, because a single item of a NumPy array costs as much as ten of an
`array`, and a thousand items of an `array` as much as a hundred thousand of NumPy's.
"""

from __future__ import annotations

from array import array

import numpy as np

from pagedsim.protocols import Int64

FEW = 8  # up to so many are moved one by one
_NOWHERE = -1


def shared_memory(size: int, fill: int = 0) -> tuple[array[int], Int64]:
    """One memory twice: for single items, and for many at once."""
    items = array("q", (fill,)) * size
    return items, np.frombuffer(items, np.int64)


class FreeList:
    """Ids 0 … ids-1, of which ``range(first, ids)`` are free at the start, in that order."""

    def __init__(self, first: int, ids: int) -> None:
        self._at, self._all_at = shared_memory(ids, _NOWHERE)
        self._room(max(3 * ids, 64))
        self._all_at[first:] = self._range[: ids - first]
        self._all_queue[: ids - first] = self._range[first:ids]
        self._head, self._tail = 0, ids - first
        self._stack: list[tuple[int, int]] = []  # (block, serial)
        self._serial = 0
        self._free = ids - first
        self._past = 0  # entries of queues that were there before this one

    def __len__(self) -> int:
        return self._free

    def take(self, blocks: int) -> list[int]:
        """The first `blocks` of the list, which must hold as many. O(blocks + dead entries)."""
        assert blocks <= self._free
        self._free -= blocks
        taken: list[int] = []
        at, stack = self._at, self._stack
        while stack and len(taken) < blocks:
            block, serial = stack.pop()
            if at[block] == -2 - serial:
                at[block] = _NOWHERE
                taken.append(block)
        left = blocks - len(taken)
        queue, head = self._queue, self._head
        while left:
            block = queue[head]
            if at[block] == head:
                at[block] = _NOWHERE
                taken.append(block)
                left -= 1
            head += 1
        self._head = head
        return taken

    def take_many(self, blocks: int) -> Int64:
        """The same as an array."""
        return np.array(self.take(blocks), np.int64)

    def mark(self, blocks: Int64) -> int:
        """A mark that is `passed` before any of `blocks` is taken, those held now included.

        As long as it is not passed none of them was taken: those on the list stand behind it, and
        those that come to it later do. Blocks at the very front (of the stack) are none of them.
        """
        at = self._all_at[blocks]
        at = at[at >= 0]
        return self._past + (int(at.min()) if len(at) else self._tail)

    def passed(self, mark: int) -> bool:
        """Whether what stood at `mark`, or came later, may have been taken."""
        return self._past + self._head > mark

    def remove(self, blocks: Int64) -> None:
        """`blocks`, which are free, leave from where they stand."""
        self._all_at[blocks] = _NOWHERE
        self._free -= len(blocks)

    def push_back(self, blocks: Int64) -> None:
        """To the back, one after another."""
        tail, end = self._tail, self._tail + len(blocks)
        if end > len(self._queue):
            self._compact(len(blocks))
            tail, end = self._tail, self._tail + len(blocks)
        self._all_queue[tail:end] = blocks
        self._all_at[blocks] = self._range[tail:end]
        self._tail = end
        self._free += len(blocks)

    def push_front(self, blocks: list[int]) -> None:
        """To the front, one after another, so that the last of `blocks` is the new front."""
        for block in blocks:
            self._serial += 1
            self._at[block] = -2 - self._serial
            self._stack.append((block, self._serial))
        self._free += len(blocks)

    def in_order(self) -> tuple[int, ...]:
        """All of it, front first. O(entries)."""
        front = [block for block, serial in reversed(self._stack) if self._at[block] == -2 - serial]
        return (*front, *self._live().tolist())

    def _live(self) -> Int64:
        entries = self._all_queue[self._head : self._tail]
        live: Int64 = entries[self._all_at[entries] == self._range[self._head : self._tail]]
        return live

    def _compact(self, more: int) -> None:
        """Drop dead entries, and make room for `more`. O(entries), after as many were pushed."""
        live = self._live().copy()
        self._past += self._tail
        if 2 * (len(live) + more) > len(self._queue):
            self._room(2 * (len(live) + more))
        self._all_queue[: len(live)] = live
        self._all_at[live] = self._range[: len(live)]
        self._head, self._tail = 0, len(live)

    def _room(self, entries: int) -> None:
        self._queue, self._all_queue = shared_memory(entries)
        self._range = np.arange(entries)


__all__ = ["FEW", "FreeList", "shared_memory"]
