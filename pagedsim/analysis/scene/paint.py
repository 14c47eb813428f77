"""What every slot is for in each frame of a lane: frames read back into pictures.

The page's script does the same; a browser test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pagedsim.analysis.scene.values import Frame, Lane
from pagedsim.protocols import Int64

FREE, CACHED, LOST, INTERNAL, RESERVED, LIVE, SHARED = range(7)
Kinds = npt.NDArray[np.int8]


@dataclass
class Held:
    """A holder as it stands: its extents, the slots of its positions, and what they are for."""

    extents: list[int] = field(default_factory=list)
    slots: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    room: int = 0
    lost: int = 0
    stored: int = 0
    done: bool = False


@dataclass
class Picture:
    """One frame. `kinds` is of the slots from the lane's `first` on; it is used again for the next.

    `held` is by holder. Both are those of the painter, valid until it goes on.
    """

    frame: Frame
    kinds: Kinds
    held: dict[int, Held]
    counts: list[int]  # slots of each kind

    def terms(self) -> list[int]:
        """The account, counted from the slots."""
        counts, free = self.counts, self.counts[FREE]
        external = counts[LOST] + (free if self.frame.blocked else 0)
        idle = 0 if self.frame.blocked else free
        live = counts[LIVE] + counts[SHARED]
        return [live, counts[RESERVED], counts[INTERNAL], external, counts[CACHED], idle]

    @property
    def lost(self) -> int:
        """Slots lost in rounding."""
        return self.counts[LOST]

    @property
    def ended(self) -> bool:
        """Whether some are done and still held."""
        return any(one.done for one in self.held.values())

    @property
    def saved(self) -> int:
        """Slots that sharing saves: tokens stored less slots that hold them."""
        stored = sum(held.stored for held in self.held.values() if not held.done)
        return stored - self.counts[LIVE] - self.counts[SHARED]


def pictures(lane: Lane) -> Iterator[Picture]:
    """Every frame of `lane`, in order. O(slots held) each, however large the pool."""
    held: dict[int, Held] = {}
    canvas = _Canvas(lane)
    for frame in lane.frames:
        _move(held, frame, lane)
        yield Picture(frame, canvas.kinds, held, canvas.paint(held, frame))


def slots(extents: list[int]) -> Int64:
    """int64: the slots of (start, length, …), in order."""
    if len(extents) == 2:
        return np.arange(extents[0], extents[0] + extents[1], dtype=np.int64)
    runs = np.array(extents, np.int64).reshape(-1, 2)
    ends = np.cumsum(runs[:, 1])
    jumps = runs[:, 0] - (ends - runs[:, 1])
    return np.repeat(jumps, runs[:, 1]) + np.arange(ends[-1] if len(ends) else 0)


def _move(held: dict[int, Held], frame: Frame, lane: Lane) -> None:
    for done in frame.done:
        held[done].done = True
    for one in held.values():
        one.stored += not one.done
    for gone in frame.gone:
        del held[gone]
    for change in frame.changes:
        one = held.setdefault(change.holder, Held())
        one.extents[2 * change.keep :] = change.extents
        one.slots = slots(one.extents) - lane.first
        one.room, one.lost = change.room, change.lost
    for holder, tokens in zip(frame.stored[::2], frame.stored[1::2], strict=True):
        held[holder].stored = tokens
    for index, one in held.items():
        assert one.stored <= one.room, f"holder {index} stores {one.stored} in {one.room}"


class _Canvas:
    """The kinds of all slots, of which a frame paints again what is held then or was before."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.kinds: Kinds = np.zeros(lane.capacity, np.int8)
        self._cached = np.zeros(lane.capacity, bool)
        self._kept = 0  # how many of these
        self._place = np.zeros(lane.capacity, np.int64)
        self._painted = np.zeros(0, np.int64)

    def paint(self, held: dict[int, Held], frame: Frame) -> list[int]:
        """Slots of each kind. What comes later wins: a slot that is live for anyone is live."""
        kinds, cached, first = self.kinds, self._cached, self.lane.first
        for extents, value in ((frame.dropped, False), (frame.kept, True)):
            where = slots(extents) - first
            cached[where] = kinds[where] = value  # FREE is 0, CACHED is 1
            self._kept += len(where) if value else -len(where)
        kinds[self._painted] = cached[self._painted]
        parts = self._parts(held, frame)
        for kind, found in parts.items():
            kinds[found] = kind
        live = parts[LIVE]
        kinds[live[~self._once(live)]] = SHARED
        self._painted = np.concatenate(list(parts.values()))
        once = self._painted[self._once(self._painted)]
        counts: list[int] = np.bincount(kinds[once], minlength=7).tolist()
        counts[CACHED] = self._kept - int(cached[once].sum())
        counts[FREE] = len(kinds) - len(once) - counts[CACHED]
        return counts

    def _once(self, found: Int64) -> npt.NDArray[np.bool_]:
        """Which of `found` to take so that each slot is there once."""
        at = np.arange(len(found))
        self._place[found] = at
        once: npt.NDArray[np.bool_] = self._place[found] == at
        return once

    def _parts(self, held: dict[int, Held], frame: Frame) -> dict[int, Int64]:
        """The slots of each kind that is held, as often as they are."""
        parts: dict[int, list[Int64]] = {LOST: [], INTERNAL: [], RESERVED: [], LIVE: []}
        ended = frame.shared > 0 and any(one.done for one in held.values())
        for index, one in held.items():
            stored = 0 if one.done else one.stored
            filled = 0 if one.done else min(one.room, max(self.lane.holders[index].final, stored))
            behind = LOST if one.lost else INTERNAL if one.done or ended else RESERVED
            parts[LIVE].append(one.slots[:stored])
            parts[RESERVED].append(one.slots[stored:filled])
            parts[INTERNAL].append(one.slots[filled : one.room])
            parts[behind].append(one.slots[one.room :])
        none = np.zeros(0, np.int64)
        return {kind: np.concatenate([none, *found]) for kind, found in parts.items()}


__all__ = [
    "CACHED",
    "FREE",
    "INTERNAL",
    "LIVE",
    "LOST",
    "RESERVED",
    "SHARED",
    "Held",
    "Kinds",
    "Picture",
    "pictures",
    "slots",
]
