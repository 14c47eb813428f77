"""What requests leave behind: a row of int64 each, so that none is kept once it is done."""

from __future__ import annotations

from struct import Struct

import numpy as np

from pagedsim.engine.groups import Group
from pagedsim.engine.recording import Recorder, Recording, Requests, Status
from pagedsim.engine.request import Request
from pagedsim.engine.source import Source
from pagedsim.protocols import Allocator, SupportsBlocks, evicted
from pagedsim.trace.trace import Trace

_TIMES = ("arrival_ns", "admitted_ns", "first_token_ns", "finish_ns")
_COUNTS = ("hit", "resumed_hit", "preemptions", "recomputed", "generated", "longest")


class Outcomes:
    """A row for each of the trace; times are -1 and counts 0 until it is done."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._rows = np.zeros((len(trace), len(_TIMES) + len(_COUNTS)), np.int64)
        self._rows[:, : len(_TIMES)] = -1
        self._size = 8 * self._rows.shape[1]
        self._memory = self._rows.reshape(-1).data.cast("B")
        self._pack_into = Struct(f"={self._rows.shape[1]}q").pack_into

    def add(self, seq: Request) -> None:
        """A request that is done. O(1)."""
        generated = seq.tokens - seq.prompt
        self._pack_into(
            self._memory, self._size * seq.id,
            seq.arrival_ns, seq.admitted_ns, seq.first_token_ns, seq.finish_ns,
            seq.hit, seq.resumed_hit, seq.preemptions, seq.recomputed, generated, generated,
        )  # fmt: skip

    def add_group(self, group: Group) -> None:
        """A request of several samples: what its group says. O(samples)."""
        self._pack_into(
            self._memory, self._size * group.id,
            group.arrival_ns, group.admitted_ns, group.first_token_ns, group.finish_ns,
            group.hit, group.resumed_hit, group.preemptions, group.recomputed,
            group.generated, group.longest,
        )  # fmt: skip

    def columns(self, refused_ns: dict[int, int], max_len: int) -> Requests:
        """All of them, without a copy. `refused_ns`: when the refused ones arrived, by row."""
        trace, refused = self._trace, list(refused_ns)
        self._rows[refused, 0] = list(refused_ns.values())
        status = np.full(len(trace), Status.FINISHED, np.int64)
        status[trace.prompt + trace.output > max_len] = Status.TRUNCATED
        status[refused] = Status.REFUSED
        found = {name: self._rows[:, at] for at, name in enumerate((*_TIMES, *_COUNTS))}
        return Requests(status=status, **found)


def recorded(
    recorder: Recorder, outcomes: Outcomes, source: Source, allocator: Allocator, max_len: int
) -> Recording:
    """All that a run leaves behind, once it is over."""
    blocks = allocator if isinstance(allocator, SupportsBlocks) else None
    return Recording(
        capacity=allocator.capacity,
        max_len=max_len,
        **recorder.tables(),
        requests=outcomes.columns(source.refused_ns, max_len),
        refused=tuple(source.refused),
        free=() if blocks is None else tuple(blocks.free_blocks()),
        evicted=evicted(allocator),
    )


__all__ = ["Outcomes", "recorded"]
