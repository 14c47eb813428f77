"""The highest rate of requests at which an objective holds.

All requests at time 0 first, which says how many the server can finish a second when it is never
short of work; then a bisection from there (`plan_search`), every value of which is a replay of the
whole trace.
"""

from __future__ import annotations

from pagedsim.analysis.plan_load import Offered
from pagedsim.analysis.plan_result import Replay
from pagedsim.analysis.plan_run import Runner
from pagedsim.analysis.plan_search import Bracket, bracket, digits
from pagedsim.analysis.plan_trials import Impossible, Trials

NEAR = 0.8  # of what a server finishes a second at most: where the search begins
LOWEST = 1e-4  # of it: a rate at which every request is alone, or never will be
CURVE = (0.2, 0.4, 0.6, 0.8, 0.9, 1.1, 1.25)  # of the rate that holds, for a picture


class Rates(Trials):
    """Replays at one rate after another."""

    def __init__(self, load: Offered, runner: Runner) -> None:
        super().__init__(runner.objective, self._at)
        self._load, self._runner = load, runner

    def _at(self, x: float) -> Replay:
        load = self._load
        return self._runner(load.at(x), at=x, rate=load.rate(x), options=load.options(x))

    def holds(self, x: float) -> bool:
        """Whether the objective does at value `x`. Impossible, if it does not for one alone."""
        held = super().holds(x)
        if self.lone is None and self.failed == len(self.replays) == 2:
            self.lone = self._runner.lone(self._load.trace)
            if not self.lone.holds:
                said = self.broken(self.lone)
                raise Impossible(f"{said} with one request at a time, at any rate")
        return held

    def search(self, tolerance: float, *, curve: bool = False) -> Bracket:
        """Impossible where no rate is low enough; (None, None) where none is too high.

        With `curve` rates around the answer are tried as well.
        """
        load = self._load
        self.saturated = full = self._runner.saturated(load.trace)
        if not full.finished:
            raise Impossible(f"all {full.refused} requests are refused: {self._runner.room()}")
        if full.holds:
            return Bracket(None, None)
        assert full.requests_per_s is not None
        top = full.requests_per_s / load.per
        found = bracket(
            self.holds, top * NEAR, tolerance=tolerance, least=top * LOWEST, snap=digits
        )
        if found.passes is None:
            lowest = min(self.replays)
            raise Impossible(
                f"{self.broken(self.replays[lowest])} at the lowest rate tried, "
                f"{load.rate(lowest):.4g} requests/s, although a request alone is within: "
                "requests that arrive at the same time stay together at any rate"
            )
        if curve:
            for share in CURVE:
                self.holds(digits(found.passes * share))
        return found


__all__ = ["LOWEST", "NEAR", "Rates"]
