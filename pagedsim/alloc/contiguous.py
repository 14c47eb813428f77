"""Contiguous pre-allocation: one extent of slots for the whole life of a sequence.

It is taken at admission and given back at release. Two choices, independent of each other: where
the extent lies (*place*: first fit, best fit, buddy system) and how large it is (*reserve*: a
policy of `pagedsim.alloc.reserve`)::

    start        tokens asked for      start + size     start + rounded(size)
    |   used so far    |   reserved, internal  |   lost (buddy)   |
    |<------------- room ---------------------->|
    |<------------------------ held ----------------------------->|

Prefixes are never shared, so nothing is ever cached.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Literal, Protocol, cast

import numpy as np

from pagedsim.alloc.buddy import Buddy
from pagedsim.alloc.holes import BestFit, FirstFit
from pagedsim.alloc.reserve import Exact, Max, Pow2, Reserve, SupportsLongest
from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import Foreseen, Int64, Sequence, Usage


class Space(Protocol):
    """A linear space of slots that hands out extents."""

    def rounded(self, size: int) -> int:
        """Slots that a request for `size` costs."""
        ...

    def take(self, size: int) -> int | None:
        """Start of an extent that is now taken; None = no room, nothing changed."""
        ...

    def give(self, start: int, size: int) -> None:
        """Take back what `take` returned for that size."""
        ...

    def largest(self) -> int:
        """Slots of the largest extent that `take` would grant."""
        ...


class Contiguous:
    """An extent a sequence, placed by `place`, as large as `reserve` says.

    A reservation of one's own is a function of the sequence (prompt, output, …) that answers in
    tokens. Unless it has the method `longest` (`SupportsLongest`), it promises to ask for no
    more than the largest extent for any sequence that itself would fit there; ContractError at
    the first that shows otherwise, for it would wait for ever.

    SpecError if place or reserve is unknown, or if not even the shortest sequence is certain to
    get an extent.
    """

    def __init__(
        self,
        capacity: int,
        *,
        max_len: int,
        place: Literal["first", "best", "buddy"] = "first",
        reserve: Literal["max", "pow2", "exact"] | Reserve = "max",
    ) -> None:
        name = reserve if isinstance(reserve, str) else getattr(reserve, "__name__", repr(reserve))
        self._spec = f"contiguous:place={place},reserve={name}"
        if capacity < 1:
            raise SpecError(f"{self._spec}: capacity is {capacity}, must be >= 1")
        if max_len < 2:
            raise SpecError(f"{self._spec}: max_len is {max_len}, must be >= 2 (prompt + output)")
        self.capacity = capacity
        self._max_len = max_len
        self._space = _space(place, capacity)
        self._reserve = _policy(reserve, max_len)
        self._largest = self._space.largest()
        self.longest = self._longest()
        self._extents: dict[Sequence, tuple[int, int]] = {}
        self._held = 0
        self._lost = 0

    def cached(self, seq: Sequence, /) -> int:
        """Nothing is ever reusable."""
        return 0

    def admit(self, seq: Sequence, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        """Take the extent that the reservation policy asks for.

        Refused, with nothing changed, if no hole is large enough or if fewer than `spare` slots
        would be free afterwards, wherever they lie. ContractError if `seq` holds an extent, if
        the policy asks for less than ``max(tokens, whole)``, or for more than the largest extent
        on behalf of a sequence that `longest` promises to hold. Costs one search for a hole.
        """
        if seq in self._extents:
            raise ContractError(f"{self._spec}: request {seq.id} is admitted twice")
        size = self._size(cast(Foreseen, seq), max(tokens, whole))
        held = self._space.rounded(size)
        if self.capacity - self._held - held < spare:
            return False
        start = self._space.take(size)
        if start is None:
            return False
        self._extents[seq] = (start, size)
        self._held += held
        self._lost += held - size
        return True

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        """True within the extent, False beyond: it never moves or grows. O(1)."""
        return tokens <= self._extent(seq)[1]

    def release(self, seq: Sequence, /) -> None:
        """Give the extent back; ContractError if there is none."""
        start, size = self._extent(seq)
        del self._extents[seq]
        self._space.give(start, size)
        held = self._space.rounded(size)
        self._held -= held
        self._lost -= held - size

    def room(self, seq: Sequence, /) -> int:
        """What was asked for; a buddy's rounding is *lost*, not room. O(1)."""
        return self._extent(seq)[1]

    def usage(self) -> Usage:
        """O(1)."""
        return Usage(held=self._held, lost=self._lost)

    def slots(self, seq: Sequence, /) -> Int64:
        """int64[room]: consecutive slots; O(room)."""
        start, size = self._extent(seq)
        return np.arange(start, start + size, dtype=np.int64)

    def lost(self, seq: Sequence, /) -> Int64:
        """int64: the slots of a buddy's rounding, right behind its room; O(them)."""
        start, size = self._extent(seq)
        return np.arange(start + size, start + self._space.rounded(size), dtype=np.int64)

    def largest_hole(self) -> int:
        """The largest reservation that would be granted now, 0 if none."""
        return self._space.largest()

    def _extent(self, seq: Sequence) -> tuple[int, int]:
        try:
            return self._extents[seq]
        except KeyError:
            raise ContractError(f"{self._spec}: request {seq.id} holds nothing") from None

    def _size(self, seq: Foreseen, least: int) -> int:
        """What the policy asks for, which must be enough, and possible."""
        size = self._reserve(seq)
        if size < least:
            raise ContractError(
                f"{self._spec}: reserves {size} slots for request {seq.id}, which needs {least}"
            )
        final = min(seq.prompt + seq.output, self._max_len) - 1
        if size > self._largest and final <= self.longest:
            raise ContractError(
                f"{self._spec}: reserves {size} slots for request {seq.id}, which stores {final};"
                f" the largest extent of {self.capacity} is {self._largest}"
            )
        return size

    def _longest(self) -> int:
        """Stored tokens up to which every sequence gets an extent when all is free."""
        policy, extent = self._reserve, self._largest
        if not isinstance(policy, SupportsLongest):
            return extent
        longest = policy.longest(extent)
        if longest < 1:
            needed = bisect_left(range(self._max_len), 1, key=policy.longest)
            raise SpecError(
                f"{self._spec}: max_len {self._max_len} needs one extent of {needed} slots, the"
                f" largest of {self.capacity} is {extent}; lower --max-len, give it more slots"
                " (--kv-tokens), or choose another place or reserve"
            )
        return longest


def _space(place: str, capacity: int) -> Space:
    if place == "first":
        return FirstFit(capacity)
    if place == "best":
        return BestFit(capacity)
    if place == "buddy":
        return Buddy(capacity)
    raise SpecError(f"contiguous: place is {place!r}, must be first, best or buddy")


def _policy(reserve: str | Reserve, max_len: int) -> Reserve:
    if callable(reserve):
        return reserve
    if reserve == "max":
        return Max(max_len)
    if reserve == "pow2":
        return Pow2(max_len)
    if reserve == "exact":
        return Exact(max_len)
    raise SpecError(f"contiguous: reserve is {reserve!r}, must be max, pow2 or exact")


__all__ = ["Contiguous", "Space"]
