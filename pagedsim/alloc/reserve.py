"""Reservation policies: how many slots a contiguous allocator asks for, and nothing else.

A policy is a callable on a sequence whose output length it may see; it answers in tokens, at
least the *final* number of stored tokens, ``min(prompt + output, max_len) - 1`` (the last token's
KV is never stored)::

    0        prompt            final   prompt + pow2(output)          max_len
    |  stored  |  yet to be stored |          |                          |
                                   exact      pow2 (capped at max_len)   max

They are the three Orca baselines of the PagedAttention paper (§6.1). Policies stand outside the
allocator, so that placement and size can be combined at will; a plain function is one too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from pagedsim.protocols import Foreseen

Reserve: TypeAlias = Callable[[Foreseen], int]


@runtime_checkable
class SupportsLongest(Protocol):
    """A policy that knows how long a sequence may be for its answer to fit an extent."""

    def longest(self, extent: int, /) -> int:
        """The largest t for which every sequence of final <= t is answered with <= `extent`.

        0 if there is none; never falls as `extent` grows.
        """
        ...


@dataclass(frozen=True, slots=True)
class Max:
    """The maximum length, whatever the request."""

    max_len: int

    def __call__(self, seq: Foreseen, /) -> int:
        """O(1)."""
        return self.max_len

    def longest(self, extent: int, /) -> int:
        """All or nothing."""
        return self.max_len - 1 if self.max_len <= extent else 0


@dataclass(frozen=True, slots=True)
class Pow2:
    """Prompt + (output rounded up to a power of two: 25 → 32, 1 → 1), at most `max_len`."""

    max_len: int

    def __call__(self, seq: Foreseen, /) -> int:
        """O(1)."""
        return min(seq.prompt + (1 << (seq.output - 1).bit_length()), self.max_len)

    def longest(self, extent: int, /) -> int:
        """The worst output for a final of t is the largest ``h + 1 <= t``, h a power of two.

        It is rounded to 2h and so asks for t + h slots in all. That rises from 2h + 1 (t = h + 1)
        to 3h (t = 2h), then jumps to 4h + 1: hence the two bounds. t = 1 asks for 2.
        """
        if self.max_len <= extent:
            return self.max_len - 1
        if extent < 3:
            return max(extent - 1, 0)
        h = 1 << ((extent - 1).bit_length() - 2)
        return min(extent - h, 2 * h)


@dataclass(frozen=True, slots=True)
class Exact:
    """All that will ever be stored, and no more: the oracle."""

    max_len: int

    def __call__(self, seq: Foreseen, /) -> int:
        """O(1)."""
        return min(seq.prompt + seq.output, self.max_len) - 1

    def longest(self, extent: int, /) -> int:
        """Whatever fits, and can occur at all."""
        return min(extent, self.max_len - 1)


__all__ = ["Exact", "Max", "Pow2", "Reserve", "SupportsLongest"]
