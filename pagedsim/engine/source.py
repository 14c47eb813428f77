"""Where requests come from: refused before the run, then at their time, or as others finish."""

from __future__ import annotations

import numpy as np

from pagedsim.engine.recording import Refusal
from pagedsim.protocols import Int64
from pagedsim.trace.trace import Trace


class Source:
    """Rows of a trace in order of arrival. All operations are O(1) a row.

    `end` is int64[rows], the tokens known when a request finishes; `final` (``end - 1``) are
    stored at its largest. With `concurrency` N, N are sent at `start_ns` and one more as one is
    done.
    """

    def __init__(
        self, trace: Trace, longest: int, max_len: int, concurrency: int, start_ns: int = 0
    ) -> None:
        self.end: Int64 = np.minimum(trace.prompt + trace.output, max_len)
        long_prompt = trace.prompt >= max_len
        too_large = ~long_prompt & (self.end - 1 > longest)
        self.refused = [
            Refusal(row, "prompt", int(trace.prompt[row]), max_len - 1)
            if long_prompt[row]
            else Refusal(row, "capacity", int(self.end[row]) - 1, longest)
            for row in np.flatnonzero(long_prompt | too_large).tolist()
        ]
        self._rows: list[int] = np.flatnonzero(~(long_prompt | too_large)).tolist()
        self._times: list[int] = trace.arrival_ns[self._rows].tolist()
        self._next = 0  # index of the first row that has not arrived
        self._sent = len(self._rows)  # with a concurrency: rows up to here may arrive
        if concurrency:
            self._times = [start_ns] * len(self._rows)
            self._sent = min(concurrency, self._sent)

    def next_ns(self) -> int | None:
        """When the next request arrives; None if that waits for others, or none is left."""
        return self._times[self._next] if self._next < self._sent else None

    def arrived(self, now_ns: int) -> list[tuple[int, int]]:
        """Rows (row, arrival_ns) that have arrived by `now_ns`, each returned once."""
        first, times = self._next, self._times
        if first >= self._sent or times[first] > now_ns:
            return []
        at = first
        while at < self._sent and times[at] <= now_ns:
            at += 1
        self._next = at
        return list(zip(self._rows[first:at], times[first:at], strict=True))

    def done(self, requests: int, now_ns: int) -> None:
        """That many results were returned: under a concurrency as many requests are sent."""
        sent = min(self._sent + requests, len(self._rows))
        for at in range(self._sent, sent):
            self._times[at] = now_ns
        self._sent = sent


__all__ = ["Source"]
