"""An ordered list of free blocks from the middle of which blocks can be taken.

Blocks come off the front, go back to either end, and a block that is hit leaves from wherever it
stands. Entries are not searched for: a block that left leaves a dead entry behind, which is
dropped when it comes to the front. `_at[block]` is the position of its live entry, so an entry is
live if, and only if, it says so::

    front                                                     back
    | stack[-1] … stack[0] | queue[head], queue[head + 1], … |
    position   -n … -1       0 + dropped …                        positions never come twice

Why not a linked list: a release and an admission move slices, and a list takes and gives those at
its ends in one go.
"""

from __future__ import annotations

from collections.abc import Iterable

_NOWHERE = -(1 << 62)


class FreeList:
    """Ids 0 … ids-1, of which ``range(first, ids)`` are free at the start, in that order."""

    def __init__(self, first: int, ids: int) -> None:
        self._stack: list[int] = []
        self._queue = list(range(first, ids))
        self._head = 0  # entries of the queue before it are gone
        self._dropped = 0  # entries cut off the queue's list
        self._at = [_NOWHERE] * first + list(range(ids - first))
        self._free = ids - first
        self._serial = 0  # of entries that were ever pushed in front
        self._serials: list[int] = []  # beside the stack

    def __len__(self) -> int:
        return self._free

    def __contains__(self, block: int) -> bool:
        return self._at[block] != _NOWHERE

    def take(self, blocks: int) -> list[int]:
        """The first `blocks` of the list, which must hold as many. O(blocks + dead entries)."""
        assert blocks <= self._free
        taken: list[int] = []
        at, stack, serials = self._at, self._stack, self._serials
        while stack and len(taken) < blocks:
            block, serial = stack.pop(), serials.pop()
            if at[block] == -serial:
                at[block] = _NOWHERE
                taken.append(block)
        queue, head = self._queue, self._head
        while len(taken) < blocks:
            block = queue[head]
            if at[block] == head + self._dropped:
                at[block] = _NOWHERE
                taken.append(block)
            head += 1
        self._head = head
        if head > 4096 and 2 * head > len(queue):
            del queue[:head]
            self._dropped += head
            self._head = 0
        self._free -= blocks
        return taken

    def remove(self, block: int) -> None:
        """`block`, which is free, leaves from where it stands. O(1)."""
        assert self._at[block] != _NOWHERE
        self._at[block] = _NOWHERE
        self._free -= 1

    def push_back(self, blocks: Iterable[int]) -> None:
        """To the back, one after another."""
        for block in blocks:
            self._at[block] = self._dropped + len(self._queue)
            self._queue.append(block)
            self._free += 1

    def push_front(self, blocks: Iterable[int]) -> None:
        """To the front, one after another, so that the last of `blocks` is the new front."""
        for block in blocks:
            self._serial += 1
            self._at[block] = -self._serial
            self._stack.append(block)
            self._serials.append(self._serial)
            self._free += 1

    def in_order(self) -> tuple[int, ...]:
        """All of it, front first. O(entries)."""
        at = self._at
        front = [
            block
            for block, serial in zip(reversed(self._stack), reversed(self._serials), strict=True)
            if at[block] == -serial
        ]
        first = self._head + self._dropped
        back = [
            block for place, block in enumerate(self._queue[self._head :], first)
            if at[block] == place
        ]  # fmt: skip
        return tuple(front + back)


__all__ = ["FreeList"]
