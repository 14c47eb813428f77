"""The replays of one search: each value is tried once, and all are kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pagedsim.analysis.plan_result import Replay
from pagedsim.analysis.plan_slo import TIMES, Bound, Objective
from pagedsim.errors import PagedsimError


class Impossible(PagedsimError):
    """An objective that nothing meets."""


class Trials:
    """What holds at which value of what is sought; `replay` runs one value.

    A value at which more requests are refused than `refused` does not hold, whatever the latencies
    of the others.
    """

    def __init__(
        self, objective: Objective, replay: Callable[[float], Replay], *, harder_up: bool = True
    ) -> None:
        self.objective, self._replay, self._harder_up = objective, replay, harder_up
        self.refused: int | None = None
        self.replays: dict[float, Replay] = {}
        self.saturated: Replay | None = None
        self.lone: Replay | None = None

    def holds(self, x: float) -> bool:
        """Whether the objective does at value `x`."""
        if x not in self.replays:
            self.replays[x] = self._replay(x)
        return self._held(self.replays[x])

    def _held(self, replay: Replay) -> bool:
        return replay.holds and (self.refused is None or replay.refused <= self.refused)

    @property
    def failed(self) -> int:
        """How many values did not hold."""
        return sum(not self._held(replay) for replay in self.replays.values())

    def broken(self, replay: Replay) -> str:
        """What does not hold in a replay, with its values."""
        pairs = zip(self.objective.bounds, replay.values, strict=True)
        said = [
            f"{bound.text}: it is {shown(bound, value)}"
            for bound, value in pairs
            if not bound.holds(value)
        ]
        if not said:
            said.append(f"{replay.refused} requests are refused, {self.refused} would do")
        return "; ".join(said)

    def seen(self) -> dict[str, Any]:
        """What there is to say, as fields of `Answer`, whatever was found."""
        every = [self.replays[x] for x in sorted(self.replays)]
        holding = [x for x, replay in self.replays.items() if self._held(replay)]
        failing = [x for x, replay in self.replays.items() if not self._held(replay)]
        if not self._harder_up:
            holding, failing = [-x for x in holding], [-x for x in failing]
        return {
            "saturated": self.saturated,
            "replays": tuple(every),
            "runs": len(every) + (self.saturated is not None) + (self.lone is not None),
            "monotone": max(holding, default=-math.inf) <= min(failing, default=math.inf),
        }


def shown(bound: Bound, value: float | None) -> str:
    """A value as a bound writes it, for messages."""
    if value is None:
        return "not known, for no request that finished has one"
    if bound.metric not in TIMES:
        return f"{100 * value:.4g} %" if bound.share else f"{value:g}"
    return f"{value:.4g} s" if value >= 1 else f"{1000 * value:.4g} ms"


__all__ = ["Impossible", "Trials", "shown"]
