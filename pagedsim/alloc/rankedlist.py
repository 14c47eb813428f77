"""A list of free blocks that gives those with content away by rank, and the others before them.

It has the face of `FreeList`, which holds those without content here; so they leave in its order.
Blocks with content come in *runs*: blocks of one release, one after another, that a policy ranks
alike. The smallest rank leaves first, of equals the run that came first, and a run's blocks in
their order::

    front                                          back
    | FreeList: no content | runs: heap of (rank, serial, [blocks, at]) |

A block that is hit leaves from wherever it stands. It leaves a dead entry behind, as in `FreeList`:
`_in[block]` is the serial of the run in which it is alive.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from pagedsim.alloc.freelist import FEW, FreeList, shared_memory
from pagedsim.protocols import Int64

_NOWHERE = -1


class RankedList:
    """Ids 0 … ids-1, of which ``range(first, ids)`` are free at the start, without content."""

    def __init__(self, first: int, ids: int) -> None:
        self._plain = FreeList(first, ids)
        self._heap: list[tuple[Any, int, list[Any]]] = []  # (rank, serial, [blocks, how many left])
        self._in, self._all_in = shared_memory(ids, _NOWHERE)
        self._ranked = 0  # blocks in runs that are alive
        self._entries = 0  # those that left included
        self._serial = 0
        self._taken = 0  # blocks that ever left a run from its front

    def __len__(self) -> int:
        return len(self._plain) + self._ranked

    def take(self, blocks: int) -> list[int]:
        """The first `blocks` of the list, which must hold as many."""
        if blocks <= len(self._plain):
            return self._plain.take(blocks)
        taken: list[int] = self.take_many(blocks).tolist()
        return taken

    def take_many(self, blocks: int) -> Int64:
        """The same as an array. O(blocks + dead entries + runs · log runs)."""
        plain = min(blocks, len(self._plain))
        found = [np.array(self._plain.take(plain), np.int64)]
        blocks -= plain
        assert blocks <= self._ranked
        self._ranked -= blocks
        self._taken += blocks
        heap = self._heap
        while blocks:
            _, serial, run = heap[0]
            entries, at = run
            end = min(at + blocks + FEW, len(entries))
            places = np.flatnonzero(self._all_in[entries[at:end]] == serial)[:blocks]
            part = entries[at:end][places]
            self._all_in[part] = _NOWHERE
            found.append(part)
            blocks -= len(part)
            run[1] = end if blocks else at + int(places[-1]) + 1
            self._entries -= run[1] - at
            if run[1] == len(entries):
                heappop(heap)
        return np.concatenate(found)

    def mark(self, blocks: Int64) -> int:
        """As `FreeList.mark`: passed as soon as any block with content is taken."""
        return self._taken

    def passed(self, mark: int) -> bool:
        """Whether one was."""
        return self._taken != mark

    def remove(self, blocks: Int64) -> None:
        """`blocks`, which are free and have content, leave from where they stand."""
        self._all_in[blocks] = _NOWHERE
        self._ranked -= len(blocks)

    def ranked(self, blocks: Int64) -> Int64:
        """Those of `blocks` that are in runs."""
        found: Int64 = blocks[self._all_in[blocks] != _NOWHERE]
        return found

    def push_front(self, blocks: list[int]) -> None:
        """Blocks without content, the last of them to the very front."""
        self._plain.push_front(blocks)

    def push_back(self, blocks: Int64) -> None:
        """Blocks without content, behind the others that have none."""
        self._plain.push_back(blocks)

    def push_ranked(self, rank: Any, blocks: Int64) -> None:
        """A run of blocks with content, to leave in this order when `rank` is the smallest."""
        self._serial += 1
        self._all_in[blocks] = self._serial
        heappush(self._heap, (rank, self._serial, [blocks, 0]))
        self._ranked += len(blocks)
        self._entries += len(blocks)
        if self._entries > 2 * self._ranked + 1024:
            self._drop_dead()

    def in_order(self) -> tuple[int, ...]:
        """All of it, front first."""
        runs = [self._alive(serial, run).tolist() for _, serial, run in sorted(self._heap)]
        ranked = [block for run in runs for block in run]
        return (*self._plain.in_order(), *ranked)

    def _alive(self, serial: int, run: list[Any]) -> Int64:
        left: Int64 = run[0][run[1] :]
        alive: Int64 = left[self._all_in[left] == serial]
        return alive

    def _drop_dead(self) -> None:
        """O(entries), after as many came and left."""
        alive = [(rank, serial, self._alive(serial, run)) for rank, serial, run in self._heap]
        self._heap = [(rank, serial, [left, 0]) for rank, serial, left in alive if len(left)]
        heapify(self._heap)
        self._entries = self._ranked


__all__ = ["RankedList"]
