"""A buddy system over any capacity.

The capacity is cut into *chunks*, the powers of two that it is the sum of, largest first (13 is
8 + 4 + 1). A chunk is split into halves, called buddies, and halves of halves, as small as is
wanted; two free buddies are joined again at once::

    0               8       12 13
    |     8         |   4   |1|       chunks of a capacity of 13
    |   4   |   4   |   4   |1|       the first one split once ...
    | 2 | 2 |   4   |   4   |1|       ... and its lower half once more

All numbers are slots; a free block of *order* k has 2^k of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort


class Buddy:
    """Free blocks by order, each order sorted by address.

    The buddy of a block is ``start ^ size``, with no look-up of its chunk: a chunk starts at a
    multiple of twice its size, and what would be its own buddy lies in a smaller chunk or past
    the end, so it is never a free block of that size, and chunks are never joined.
    """

    def __init__(self, capacity: int) -> None:
        self._free: list[list[int]] = [[] for _ in range(capacity.bit_length())]
        start = 0
        for order in reversed(range(len(self._free))):
            if capacity >> order & 1:
                self._free[order].append(start)
                start += 1 << order

    def rounded(self, size: int) -> int:
        """Slots that a request for `size` costs: the next power of two."""
        return 1 << (size - 1).bit_length()

    def largest(self) -> int:
        """Size of the largest free block, 0 if all is taken; O(orders)."""
        return next((1 << k for k in reversed(range(len(self._free))) if self._free[k]), 0)

    def take(self, size: int) -> int | None:
        """Take the lowest of the smallest free blocks that suffice; keep the lower half of a split.

        Returns its start; None, with nothing changed, if there is none. O(orders + free blocks).
        """
        wanted = self.rounded(size).bit_length() - 1
        order = next((k for k in range(wanted, len(self._free)) if self._free[k]), None)
        if order is None:
            return None
        start = self._free[order].pop(0)
        for smaller in reversed(range(wanted, order)):
            self._free[smaller].append(start + (1 << smaller))  # the only one: it was empty
        return start

    def give(self, start: int, size: int) -> None:
        """Take back a block by the size it was asked for, and join buddies as far as they go."""
        order = self.rounded(size).bit_length() - 1
        while self._discard(order, start ^ (1 << order)):
            start &= ~(1 << order)
            order += 1
        insort(self._free[order], start)

    def _discard(self, order: int, start: int) -> bool:
        """Remove a free block; False if there is none such."""
        free = self._free[order]
        at = bisect_left(free, start)
        if at == len(free) or free[at] != start:
            return False
        del free[at]
        return True


__all__ = ["Buddy"]
