"""A request on the device, with counters that no step touches (see `engine.batch`)."""

from __future__ import annotations

from typing import Final

from pagedsim.protocols import Int64
from pagedsim.trace.content import Content


class Clock:
    """How many decode steps were taken."""

    __slots__ = ("tick",)

    def __init__(self) -> None:
        self.tick = 0


STOPPED: Final = Clock()  # for those that do not decode; it never moves
NEVER: Final = -1  # a tick that does not come


class Request:
    """A request on the device, a `Foreseen` sequence to plug-ins; ordered by `rank` in a batch."""

    __slots__ = (
        "admitted_ns",
        "arrival_ns",
        "base",
        "clock",
        "content",
        "end",
        "final",
        "finish_ns",
        "first_token_ns",
        "given",
        "hit",
        "id",
        "known",
        "last",
        "output",
        "peak",
        "place",
        "preemptions",
        "priority",
        "prompt",
        "rank",
        "recomputed",
        "resumed_hit",
        "salt",
        "spill",
    )

    def __init__(
        self,
        row: int,
        prompt: int,
        output: int,
        priority: int,
        salt: int,
        end: int,
        arrival_ns: int,
        content: Content,
    ) -> None:
        self.id = row
        self.prompt = self.known = prompt
        self.output = output
        self.priority = priority
        self.salt = salt
        self.content = content
        self.arrival_ns = arrival_ns
        self.end = end  # tokens known when it finishes
        self.final = end - 1  # tokens stored at its largest
        self.clock = STOPPED
        self.base = self.peak = self.rank = self.given = self.spill = self.place = 0
        self.last = NEVER
        self.admitted_ns = self.first_token_ns = self.finish_ns = -1
        self.hit = self.resumed_hit = self.preemptions = self.recomputed = 0

    def runs(self) -> list[tuple[int, int]]:
        return self.content.runs(self.id)

    def keys(self, block: int) -> Int64:
        return self.content.keys(self.id, block)

    def stretches(self, block: int) -> list[tuple[int, int]]:
        return self.content.stretches(self.id, block)

    @property
    def computed(self) -> int:
        return self.base + self.clock.tick

    @property
    def tokens(self) -> int:
        return self.known if self.clock is STOPPED else self.base + self.clock.tick + 1

    @property
    def decoding(self) -> bool:
        """Whether it wants exactly one token."""
        return self.clock is not STOPPED


__all__ = ["NEVER", "STOPPED", "Clock", "Request"]
