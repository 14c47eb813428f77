"""The free list of a radix tree's pool: pages go as slices and come back as groups.

Pages have ids 1..n, at first in that order, and are taken from the front. A group that is given
back keeps its own order. It goes to the back, or in front of everything::

    back=True     take <-- | 1 2 3 ... n | <-- give          pages of one token
    back=False    take, give <--> | 1 2 3 ... n |            larger pages

Why arrays of 64-bit integers: a group of 100,000 pages moves as one copy of memory, and a single
page as one small slice.
"""

from __future__ import annotations

from array import array
from typing import TypeAlias

Pages: TypeAlias = "array[int]"


def no_pages() -> Pages:
    """An empty array of page ids."""
    return array("q")


class FreePages:
    """Free page ids, in order. `take` and `give` are O(pages moved), amortised."""

    def __init__(self, pages: int, *, back: bool) -> None:
        self._back = back
        self._ids = array("q", range(1, pages + 1))
        self._head = 0  # with `back`, the front; what lies before it is gone
        if not back:
            self._ids.reverse()  # held back to front: the front is the array's end

    def __len__(self) -> int:
        return len(self._ids) - self._head

    def take(self, pages: int) -> Pages:
        """The first `pages` ids, which must be there."""
        ids, head = self._ids, self._head
        assert 0 <= pages <= len(ids) - head
        if not self._back:
            cut = len(ids) - pages
            taken = ids[cut:]
            del ids[cut:]
            taken.reverse()
            return taken
        taken = ids[head : head + pages]
        self._head = head + pages
        if self._head > 4096 and 2 * self._head > len(ids):
            del ids[: self._head]
            self._head = 0
        return taken

    def give(self, group: Pages) -> None:
        """Give a group of ids back."""
        self._ids.extend(group if self._back else group[::-1])

    def ids(self) -> tuple[int, ...]:
        """All ids, front first; O(free pages)."""
        return tuple(self._ids[self._head :] if self._back else self._ids[::-1])


__all__ = ["FreePages", "Pages", "no_pages"]
