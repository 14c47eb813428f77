"""How far windows have left the tokens of those that decode behind, kept without touching them.

All that decode move together (`engine.batch`), so nobody need be visited either for the first
token that the next one of each still reads (`Narrow.first_read`)::

    computed     0 ........ W - 1 ..................
    first read   0 ........ 0 1 2 3 4 ..............   sliding: moves from W - 1 computed on
    computed     0 ........ W ......... 2 W ........
    first read   0 ........ W ......... 2 W ........   chunked: moves where a chunk is full

Those whose window moves are counted, with a sum; the others wait at the tick at which it will.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from pagedsim.protocols import Narrow

FOR_EVER: Final = 1 << 62


class Reach:
    """Σ first read over the sequences that decode, for windows of one kind and size."""

    def __init__(self, kind: str, window: int) -> None:
        self._part = Narrow(kind, window, 0)
        self._chunk = window if kind == "chunked" else 0
        self.moving = 0  # how many move on by a token a step
        self._sum = 0  # of all but what the clock moves
        self._waiting: dict[int, int] = {}  # by the tick at which they move: how many
        self._ticks: list[int] = []  # a heap; those that are not in `_waiting` are stale

    def enter(self, base: int, tick: int) -> None:
        """A sequence decodes, with ``base + tick`` tokens computed. O(log waiting)."""
        self._put(base, tick, 1)

    def leave(self, base: int, tick: int) -> None:
        """One that has entered with the same `base` decodes no more."""
        self._put(base, tick, -1)

    def first_reads(self, tick: int) -> int:
        """Σ first read at that tick, none before those asked for so far."""
        self._upto(tick)
        return self._sum + self.moving * tick

    def steps(self, tick: int) -> int:
        """Steps, that at `tick` included, for which it grows by `moving` a step; at least one."""
        self._upto(tick)
        ticks = self._ticks
        while ticks and ticks[0] not in self._waiting:
            heappop(ticks)
        if not ticks:
            return FOR_EVER
        return ticks[0] - tick + (0 if self._chunk else 1)

    def _put(self, base: int, tick: int, count: int) -> None:
        self._upto(tick)
        computed = base + tick
        if self._chunk:
            read = self._part.first_read(computed)
            self._sum += count * read
            self._wait(read + self._chunk - base, count)
        elif computed >= self._part.window - 1:
            self.moving += count
            self._sum += count * (base - self._part.window + 1)
        else:
            self._wait(self._part.window - 1 - base, count)

    def _wait(self, tick: int, count: int) -> None:
        there = self._waiting.get(tick, 0)
        if not there:
            heappush(self._ticks, tick)
        if there + count:
            self._waiting[tick] = there + count
        else:
            del self._waiting[tick]

    def _upto(self, tick: int) -> None:
        """Let those move whose tick has come."""
        ticks = self._ticks
        while ticks and ticks[0] <= tick:
            at = heappop(ticks)
            count = self._waiting.pop(at, 0)
            if not count:
                continue
            if self._chunk:
                self._sum += count * self._chunk
                self._wait(at + self._chunk, count)
            else:
                self.moving += count
                self._sum -= count * at


__all__ = ["FOR_EVER", "Reach"]
