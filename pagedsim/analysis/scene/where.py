"""Where an allocator has what it holds and keeps, as extents: runs of consecutive slots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from pagedsim.errors import SpecError
from pagedsim.protocols import (
    Allocator,
    Int64,
    SupportsBlocks,
    SupportsGroups,
    SupportsKept,
    SupportsLost,
    SupportsSlots,
)


class Table(NamedTuple):
    """Where a sequence has its tokens. `shown` is what the allocator said: blocks, or slots."""

    shown: Any
    extents: list[int]  # start, length, …
    room: int
    lost: int  # slots at the end that never hold a token

    def continues(self, other: Table) -> bool:
        """Whether all that `other` shows is where it was."""
        return bool(np.array_equal(self.shown[: len(other.shown)], other.shown))

    @property
    def slots(self) -> int:
        return sum(self.extents[1::2])


class Places:
    """What one allocator shows. `first`: its first slot, after any that it never hands out.

    SpecError if it does not show where its slots are.
    """

    def __init__(self, allocator: Allocator, name: str) -> None:
        if not isinstance(allocator, SupportsSlots):
            raise SpecError(f"{name}: no map: {not_drawn(allocator)}")
        self._allocator, self._slots, self._name = allocator, allocator, name
        self._blocks = allocator if isinstance(allocator, SupportsBlocks) else None
        self._lost = allocator if isinstance(allocator, SupportsLost) else None
        self.block, self.first = 1, 0
        if self._blocks is not None:
            self.block = self._blocks.block
            self.first = self._blocks.blocks * self.block - allocator.capacity

    def of(self, seq: Any, old: Table | None) -> Table:
        """Its table; `old` itself if nothing about that has changed. O(blocks), or O(room)."""
        room = self._allocator.room(seq)
        shown = self._slots.slots(seq) if self._blocks is None else self._blocks.table(seq)
        if old is not None and old.room == room and np.array_equal(old.shown, shown):
            return old
        extents = runs(np.asarray(shown, np.int64) * self.block, self.block)
        more = self._lost.lost(seq) if self._lost is not None else ()
        return Table(shown, extents + runs(np.asarray(more, np.int64), 1), room, len(more))

    def cached(self, tables: Iterable[Table]) -> Int64:
        """int64: slots of cached content, sorted; `tables` are all there are. O(blocks).

        SpecError if there is some and it does not show where.
        """
        count = self._allocator.usage().cached
        if not count:
            return np.zeros(0, np.int64)
        if isinstance(self._allocator, SupportsKept):
            return np.sort(self._allocator.kept())
        if self._blocks is not None:  # what is in no table and not on the free list
            nowhere = np.ones(self._blocks.blocks, bool)
            nowhere[: self.first // self.block] = False
            nowhere[list(self._blocks.free_blocks())] = False
            for table in tables:
                nowhere[list(table.shown)] = False
            found = np.flatnonzero(nowhere)
            if len(found) * self.block == count:
                slots: Int64 = (found[:, None] * self.block + np.arange(self.block)).ravel()
                return slots
        raise SpecError(
            f"{self._name}: keeps {count} slots of content, but does not show where (SupportsKept)"
        )


def not_drawn(allocator: Allocator) -> str:
    """Why there is no map of one without slots, and what there is a map of instead."""
    if isinstance(allocator, SupportsGroups):
        return (
            "blocks of groups of layers, whose slots are bytes, are not drawn; a pool of tokens "
            "for all layers is: paged (groups=off)"
        )
    return "it does not show where its slots are (SupportsSlots)"


def runs(starts: Int64, length: int) -> list[int]:
    """(start, length, …) of pieces of equal `length`, those that touch joined."""
    if not len(starts):
        return []
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(starts) != length) + 1))
    counts = np.diff(np.concatenate((firsts, [len(starts)])))
    found: list[int] = np.stack((starts[firsts], counts * length), axis=1).ravel().tolist()
    return found


__all__ = ["Places", "Table", "not_drawn", "runs"]
