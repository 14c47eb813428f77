"""Where requests come from: refused before the run, then at their time, or as others finish."""

from __future__ import annotations

from array import array
from heapq import heappop, heappush

import numpy as np

from pagedsim.engine.recording import Refusal
from pagedsim.errors import SpecError
from pagedsim.protocols import Int64
from pagedsim.trace.trace import Trace


class Source:
    """Rows of a trace in order of arrival. All operations are O(1) a row.

    `end` is int64[rows], the tokens known when a request finishes; `final` (``end - 1``) are
    stored at its largest. `refused_ns` has the arrivals of the refused. With `concurrency` N, N are
    sent at `start_ns` and one more as one is done. `wide` is (slots that a row needs when alone,
    those there are) where more than one sequence counts.
    """

    def __init__(
        self,
        trace: Trace,
        longest: int,
        max_len: int,
        concurrency: int,
        start_ns: int = 0,
        wide: tuple[Int64, int] | None = None,
    ) -> None:
        self.end: Int64 = np.minimum(trace.prompt + trace.output, max_len)
        long_prompt = trace.prompt >= max_len
        too_large = ~long_prompt & (self.end - 1 > longest)
        never = long_prompt | too_large
        self.refused = [
            Refusal(row, "prompt", int(trace.prompt[row]), max_len - 1)
            if long_prompt[row]
            else Refusal(row, "capacity", int(self.end[row]) - 1, longest)
            for row in np.flatnonzero(never).tolist()
        ]
        if wide is not None:
            too_wide = ~never & (wide[0] > wide[1])
            for row in np.flatnonzero(too_wide).tolist():
                self.refused.append(Refusal(row, "capacity", int(wide[0][row]), wide[1]))
            self.refused.sort()
            never |= too_wide
        self.refused_ns = {row: int(trace.arrival_ns[row]) for row, *_ in self.refused}
        rows = np.flatnonzero(~never).astype(np.int64)
        self._rows = array("q", rows.tobytes())
        self._times = array("q", trace.arrival_ns[rows].tobytes())
        self._next = 0  # index of the first row that has not arrived
        self._sent = len(self._rows)  # with a concurrency: rows up to here may arrive
        if concurrency:
            self._times = array("q", [start_ns]) * len(self._rows)
            self._sent = min(concurrency, self._sent)

    def next_ns(self) -> int | None:
        """When the next request arrives; None if that waits for others, or none is left."""
        return self._times[self._next] if self._next < self._sent else None

    def arrived(self, now_ns: int) -> list[tuple[int, int]]:
        """Rows (row, arrival_ns) that have arrived by `now_ns`, each returned once."""
        first, times = self._next, self._times
        if first >= self._sent or times[first] > now_ns:
            return []
        found = []
        while first < self._sent and times[first] <= now_ns:
            found.append((self._rows[first], times[first]))
            first += 1
        self._next = first
        return found

    def done(self, requests: int, now_ns: int) -> None:
        """That many results were returned: under a concurrency as many requests are sent."""
        sent = min(self._sent + requests, len(self._rows))
        for at in range(self._sent, sent):
            self._times[at] = now_ns
        self._sent = sent

    def follow(self, row: int, now_ns: int) -> None:
        """`row` is done: the turns after it come, where they wait for that (`ClosedLoop`)."""


class ClosedLoop(Source):
    """Turns of sessions: none arrives before the answer to the turn before it, and a think time.

    `trace.parent` leads from every row to one without a parent. A heap holds the rows whose time
    is known, so each costs O(log rows), and those that wait for an answer nothing. Rows that
    arrive at one time come in order of row.
    """

    def __init__(
        self, trace: Trace, longest: int, max_len: int, wide: tuple[Int64, int] | None = None
    ) -> None:
        super().__init__(trace, longest, max_len, 0, wide=wide)
        self._recorded: list[int] = trace.arrival_ns.tolist()
        self._think: list[int] = np.maximum(trace.think_ns, 0).tolist()  # unknown: 0
        self._turns: dict[int, list[int]] = {}
        self._coming: list[tuple[int, int]] = []  # (arrival, row), a heap
        for row, parent in enumerate(trace.parent.tolist()):
            if parent >= 0:
                self._turns.setdefault(parent, []).append(row)
            elif row not in self.refused_ns:
                heappush(self._coming, (self._recorded[row], row))
        for row in [row for row in self.refused_ns if trace.parent[row] < 0]:
            self.follow(row, self._recorded[row])

    def next_ns(self) -> int | None:
        """When the next request arrives; None if that waits for others, or none is left."""
        return self._coming[0][0] if self._coming else None

    def arrived(self, now_ns: int) -> list[tuple[int, int]]:
        """Rows (row, arrival_ns) that have arrived by `now_ns`, each returned once."""
        rows, coming = [], self._coming
        while coming and coming[0][0] <= now_ns:
            at, row = heappop(coming)
            rows.append((row, at))
        return rows

    def follow(self, row: int, now_ns: int) -> None:
        """`row` is done: the turns after it come, and those after a refused one when it arrives."""
        done = [(row, now_ns)]
        while done:
            before, done_ns = done.pop()
            for turn in self._turns.get(before, ()):
                at = max(self._recorded[turn], done_ns + self._think[turn])
                if turn in self.refused_ns:
                    self.refused_ns[turn] = at
                    done.append((turn, at))
                else:
                    heappush(self._coming, (at, turn))


def source_of(
    trace: Trace,
    longest: int,
    max_len: int,
    concurrency: int,
    closed_loop: bool,
    start_ns: int,
    wide: tuple[Int64, int] | None = None,
) -> Source:
    """A closed loop, or a source of its own times or of a concurrency."""
    if not closed_loop:
        return Source(trace, longest, max_len, concurrency, start_ns, wide)
    if concurrency:
        raise SpecError("concurrency and closed_loop contradict each other: give one")
    return ClosedLoop(trace, longest, max_len, wide)


__all__ = ["ClosedLoop", "Source", "source_of"]
