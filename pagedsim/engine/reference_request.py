"""A request as the reference engine follows it, and the columns that all of them leave."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import numpy as np

from pagedsim.engine.recording import Requests, Status
from pagedsim.protocols import Int64
from pagedsim.trace.content import Content
from pagedsim.trace.trace import Trace


class Request:
    """A request and how far it has come; a `Foreseen` sequence to plug-ins."""

    def __init__(self, trace: Trace, content: Content, row: int, max_len: int) -> None:
        self.id = row
        self.prompt = int(trace.prompt[row])
        self.output = int(trace.output[row])
        self.priority = int(trace.priority[row])
        self.salt = int(trace.salt[row])
        self.arrival_ns = int(trace.arrival_ns[row])
        self._content = content
        self.end = min(self.prompt + self.output, max_len)  # tokens known when it finishes
        self.tokens = self.prompt
        self.computed = 0
        self.peak = 0  # most that was ever computed
        self.admitted_ns = self.first_token_ns = self.finish_ns = -1
        self.hit = self.resumed_hit = self.preemptions = self.recomputed = 0

    def runs(self) -> list[tuple[int, int]]:
        return self._content.runs(self.id)

    def keys(self, block: int) -> Int64:
        return self._content.keys(self.id, block)

    @property
    def final(self) -> int:
        """Tokens stored at its largest: the last one's KV never is."""
        return self.end - 1


def results(rows: Sequence[Request], refused: Container[int], max_len: int) -> Requests:
    """The columns of `rows`; `refused` are ids."""

    def column(value: Callable[[Request], int]) -> Int64:
        return np.array([value(request) for request in rows], np.int64)

    def status(request: Request) -> int:
        if request.id in refused:
            return Status.REFUSED
        if request.prompt + request.output > max_len:
            return Status.TRUNCATED
        return Status.FINISHED

    return Requests(
        arrival_ns=column(lambda r: r.arrival_ns),
        admitted_ns=column(lambda r: r.admitted_ns),
        first_token_ns=column(lambda r: r.first_token_ns),
        finish_ns=column(lambda r: r.finish_ns),
        generated=column(lambda r: r.tokens - r.prompt),
        hit=column(lambda r: r.hit),
        resumed_hit=column(lambda r: r.resumed_hit),
        preemptions=column(lambda r: r.preemptions),
        recomputed=column(lambda r: r.recomputed),
        status=column(status),
    )


__all__ = ["Request", "results"]
