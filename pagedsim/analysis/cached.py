"""Blocks that a prefix cache holds, by an engine's KV-cache events and by a replay."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import Protocol

import numpy as np

from pagedsim.analysis.logged import Cached, aligned, side
from pagedsim.analysis.report import Report
from pagedsim.device.kvevents import KvEvents
from pagedsim.errors import InputError
from pagedsim.protocols import Int64, Plan, Sequence, View
from pagedsim.trace.draws import Float64

_POINTS = 1000
_SECOND = 10**9


class _Keys(Protocol):
    def keys_cached(self) -> int: ...


class KeysSeen:
    """An observer that notes how many blocks have a key right after every step's allocations."""

    def __init__(self, allocator: _Keys) -> None:
        self._allocator = allocator
        self._at: list[int] = [-1]
        self._keys: list[int] = [0]

    def scheduled(self, _: int, __: Plan, view: View, /) -> None:
        """Note the keys of a step where they are not those of the one before."""
        keys = self._allocator.keys_cached()
        if keys != self._keys[-1]:
            self._at.append(view.now_ns)
            self._keys.append(keys)

    def finished(self, _: int, __: SequenceOf[Sequence], /) -> None:
        """Nothing: blocks that are released keep their keys."""

    def sample(self, at: Int64) -> Float64:
        """Keys at times of the replay; 0 before it."""
        place = np.searchsorted(np.array(self._at), at, "right") - 1
        return np.array(self._keys, np.float64)[np.maximum(0, place)]


def cached(events: KvEvents, seen: KeysSeen, report: Report, *, offset_s: float) -> Cached:
    """Compare at up to 1,000 batches, evenly. `offset_s` is the log's, for `at_s` alone."""
    if not len(report.recording.rows):
        raise InputError(f"{report.trace.name}: no step of it ran, so there is nothing to compare")
    count = len(events.at_ns)
    places = np.unique(np.linspace(0, count - 1, min(count, _POINTS)).round().astype(np.int64))
    at, blocks = events.at_ns[places], events.blocks[places].astype(np.float64)
    shift = aligned(at, blocks, seen.sample, report)
    at_ns = at - shift + round(offset_s * _SECOND)
    found = side("cached_blocks", at_ns, blocks, seen.sample(at - shift))
    assert found is not None
    return Cached(
        batches=count,
        stored=events.stored,
        removed=events.removed,
        cleared=events.cleared,
        elsewhere=events.elsewhere,
        damaged=events.damaged,
        named=events.named,
        offset_s=shift / _SECOND,
        at_s=tuple((at_ns / _SECOND).tolist()),
        side=found,
    )


__all__ = ["KeysSeen", "cached"]
