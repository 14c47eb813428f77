"""The pool split evenly into n fixed *places*, as llama.cpp's server does with its slots.

A sequence takes one place whole for its life, however short it is::

    0         size       2·size                n·size    pool
    |  place 0  |  place 1  |       …            |  unused  |

llama.cpp calls a place a slot; here a slot is room for one token's KV, as everywhere.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import Int64, Sequence, Usage


class Slots:
    """`n` places of ``capacity // n`` slots; the lowest free one is taken.

    The remainder of the division is outside `capacity`, which is what can be handed out.
    SpecError unless ``1 <= n <= capacity``.
    """

    def __init__(self, capacity: int, *, n: int) -> None:
        if not 1 <= n <= capacity:
            raise SpecError(f"slots:n={n}: n must be >= 1 and <= {capacity}, the slots of the pool")
        self.longest = capacity // n
        self.capacity = n * self.longest
        self._free = list(range(n))
        self._places: dict[Sequence, int] = {}

    def cached(self, seq: Sequence, /) -> int:
        """Nothing is ever reusable."""
        return 0

    def admit(self, seq: Sequence, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        """Take the lowest free place; O(log n).

        Refused, with nothing changed, if a place is too small for ``max(tokens, whole)``, if none
        is free, or if fewer than `spare` slots would be free afterwards. ContractError if `seq`
        holds a place.
        """
        if seq in self._places:
            raise ContractError(f"slots: request {seq.id} is admitted twice")
        left = len(self._free) - 1
        if max(tokens, whole) > self.longest or left < 0 or left * self.longest < spare:
            return False
        self._places[seq] = heappop(self._free)
        return True

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        """True within the place, False beyond; O(1)."""
        return tokens <= self.room(seq)

    def release(self, seq: Sequence, /) -> None:
        """Give the place back, O(log n); ContractError if there is none."""
        heappush(self._free, self._place(seq))
        del self._places[seq]

    def room(self, seq: Sequence, /) -> int:
        """The size of the place; O(1)."""
        self._place(seq)
        return self.longest

    def usage(self) -> Usage:
        """O(1)."""
        return Usage(held=len(self._places) * self.longest)

    def slots(self, seq: Sequence, /) -> Int64:
        """int64[room]: consecutive slots; O(room)."""
        start = self._place(seq) * self.longest
        return np.arange(start, start + self.longest, dtype=np.int64)

    def largest_hole(self) -> int:
        """The size of a place if one is free, else 0; free neighbours are never joined."""
        return self.longest if self._free else 0

    def _place(self, seq: Sequence) -> int:
        try:
            return self._places[seq]
        except KeyError:
            raise ContractError(f"slots: request {seq.id} holds nothing") from None


__all__ = ["Slots"]
