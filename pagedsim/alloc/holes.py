"""A list of holes: the free extents of a linear space, and two ways to choose one.

A hole is ``[start, start + size)``. Holes are kept by address and by size; no two of them overlap
or touch, for an extent that comes back is joined with its neighbours at once::

    |xxxx|    hole    |xxxxxxx|  hole  |xx|        x: taken
         start        start + size

All numbers are slots.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort


class Holes(ABC):
    """Free extents, coalesced; a subclass says which of those that suffice is taken.

    Plain sorted lists, not a balanced tree: there is at most one hole more than there are
    running sequences, hundreds at most, where moving a list's tail costs less than a node.
    """

    def __init__(self, capacity: int) -> None:
        self._starts: list[int] = []
        self._sizes: dict[int, int] = {}
        self._by_size: list[tuple[int, int]] = []
        self._insert(0, capacity)

    def rounded(self, size: int) -> int:
        """Slots that a request for `size` costs: just those."""
        return size

    def largest(self) -> int:
        """Size of the largest hole, 0 if all is taken; O(1)."""
        return self._by_size[-1][0] if self._by_size else 0

    def take(self, size: int) -> int | None:
        """Cut `size` slots from the low end of a hole and return their start.

        None, with nothing changed, if no hole suffices, in O(1); else O(holes).
        """
        if size > self.largest():
            return None
        start = self._find(size)
        left = self._remove(start) - size
        if left:
            self._insert(start + size, left)
        return start

    def give(self, start: int, size: int) -> None:
        """Take back an extent as it was handed out, and join it with the holes it touches."""
        at = bisect_left(self._starts, start)
        end = start + size
        if at < len(self._starts):
            right = self._starts[at]
            assert end <= right, f"[{start}, {end}) overlaps the hole at {right}"
            if end == right:
                end += self._remove(right)
        if at:
            left = self._starts[at - 1]
            left_end = left + self._sizes[left]
            assert left_end <= start, f"[{start}, {end}) overlaps the hole [{left}, {left_end})"
            if left_end == start:
                self._remove(left)
                start = left
        self._insert(start, end - start)

    @abstractmethod
    def _find(self, size: int) -> int:
        """Start of the hole to cut; one that suffices exists."""

    def _insert(self, start: int, size: int) -> None:
        insort(self._starts, start)
        insort(self._by_size, (size, start))
        self._sizes[start] = size

    def _remove(self, start: int) -> int:
        size = self._sizes.pop(start)
        del self._starts[bisect_left(self._starts, start)]
        del self._by_size[bisect_left(self._by_size, (size, start))]
        return size


class FirstFit(Holes):
    """The hole at the lowest address; O(holes)."""

    def _find(self, size: int) -> int:
        return next(start for start in self._starts if self._sizes[start] >= size)


class BestFit(Holes):
    """The smallest hole that suffices, the lowest address among equals; O(log holes)."""

    def _find(self, size: int) -> int:
        return self._by_size[bisect_left(self._by_size, (size, 0))][1]


__all__ = ["BestFit", "FirstFit", "Holes"]
