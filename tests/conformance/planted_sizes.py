"""Allocators of blocks whose size is written down inside, as a third party's may be.

Their constructors take a capacity, or a capacity and a longest sequence, and say nothing of blocks.
Each mistake takes a sequence of two blocks or three to be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pagedsim.protocols import Usage


class Sound:
    """Blocks of `size` slots, counted and not numbered."""

    size = 16

    def __init__(self, capacity: int) -> None:
        self.capacity = self.longest = capacity // self.size * self.size
        self._free = capacity // self.size
        self._held: dict[Any, int] = {}

    def cached(self, seq: Any, /) -> int:
        return 0

    def admit(self, seq: Any, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        if seq in self._held:
            raise ValueError("twice")
        if self.blocks(max(tokens, whole)) + self.blocks(spare) > self._free:
            return False
        self._held[seq] = 0
        return self.grow(seq, tokens)

    def grow(self, seq: Any, tokens: int, /) -> bool:
        more = self.blocks(tokens) - self._held[seq]
        if more > self._free:
            return False
        self.take(seq, max(0, more))
        return True

    def take(self, seq: Any, blocks: int) -> None:
        self._held[seq] += blocks
        self._free -= blocks

    def release(self, seq: Any, /) -> None:
        self._free += self._held.pop(seq)

    def room(self, seq: Any, /) -> int:
        return self._held[seq] * self.size

    def usage(self) -> Usage:
        return Usage(self.capacity - self._free * self.size)

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.size)


class Bounded(Sound):
    """The same, for sequences of at most `max_len` tokens."""

    def __init__(self, capacity: int, *, max_len: int) -> None:
        super().__init__(capacity)
        self.longest = min(self.longest, max_len)


class TakesOneToGrow(Sound):
    """Growth by two blocks or more at once is granted, and takes one."""

    def grow(self, seq: Any, tokens: int, /) -> bool:
        more = self.blocks(tokens) - self._held[seq]
        if more < 2 or not self._held[seq]:
            return super().grow(seq, tokens)
        if more > self._free:
            return False
        self.take(seq, 1)
        return True


class TakesBeforeItRefuses(Sound):
    """Growth takes what there is before it finds that more is needed."""

    def grow(self, seq: Any, tokens: int, /) -> bool:
        more = self.blocks(tokens) - self._held[seq]
        self.take(seq, max(0, min(more, self._free)))
        return more <= self._free or self.room(seq) >= tokens


class LosesTheThird(Sound):
    """Of a sequence of three blocks or more one does not come back."""

    def release(self, seq: Any, /) -> None:
        if self._held[seq] > 2:
            self._held[seq] -= 1
        super().release(seq)


class BoundedTakesOne(Bounded, TakesOneToGrow):
    """TakesOneToGrow, with a longest sequence."""


MISTAKES: dict[str, tuple[type[Sound], set[str]]] = {
    "TakesOneToGrow": (TakesOneToGrow, {"enough"}),
    "TakesBeforeItRefuses": (TakesBeforeItRefuses, {"refusal", "determinism"}),
    "LosesTheThird": (LosesTheThird, {"empty", "longest"}),
    "BoundedTakesOne": (BoundedTakesOne, {"enough"}),
}


def of_size(kind: type[Sound], size: int) -> Callable[..., Any]:
    """`kind` with blocks of `size`."""
    return type(kind.__name__, (kind,), {"size": size})
