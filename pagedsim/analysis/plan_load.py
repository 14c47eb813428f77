"""The load that a plan turns up and down: a trace whose arrivals can be had at any rate.

Recorded arrivals are scaled in time, generated ones drawn anew from the same seed, in both cases as
``pagedsim replay`` does it, so that any replay of a plan can be run again by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from pagedsim.errors import SpecError
from pagedsim.trace import arrivals
from pagedsim.trace.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Offered:
    """`trace` at value `x` of an option: ``--rate-scale x``, or ``--rate x`` with `generated`.

    `per` is the rate in requests/s of x = 1, `wanted` the x that was asked for; both are 0 for a
    load without a rate (`untimed`).
    """

    trace: Trace
    generated: bool
    wanted: float
    per: float
    seed: int = 0

    def at(self, x: float) -> Trace:
        """The trace's requests at value `x`."""
        if self.generated:
            return arrivals.poisson(self.trace, x, self.seed)
        return arrivals.scale(self.trace, x)

    def options(self, x: float) -> tuple[str, ...]:
        """What makes ``pagedsim replay`` offer the same."""
        return ("--rate" if self.generated else "--rate-scale", f"{x!r}")

    def rate(self, x: float) -> float:
        """Requests a second at value `x`."""
        return x * self.per


def recorded(trace: Trace, scale: float = 1.0) -> Offered:
    """The trace's own arrivals, `scale` times as fast; SpecError where they have no rate."""
    if not trace.timed:
        raise SpecError(f"{trace.name} has lengths but no arrival times: give --rate R")
    if not len(trace):
        raise SpecError(f"{trace.name} has no requests: there is nothing to plan for")
    span = int(trace.arrival_ns[-1]) - int(trace.arrival_ns[0])
    if span <= 0:
        raise SpecError(
            f"{trace.name}: all requests arrive at one time, so there is no rate to scale: "
            "give --rate R"
        )
    return Offered(trace=trace, generated=False, wanted=scale, per=len(trace) * 1e9 / span)


def generated(trace: Trace, rate: float, seed: int) -> Offered:
    """Poisson arrivals at `rate` requests/s."""
    if not len(trace):
        raise SpecError(f"{trace.name} has no requests: there is nothing to plan for")
    return Offered(trace=trace, generated=True, wanted=rate, per=1.0, seed=seed)


def untimed(trace: Trace) -> Offered:
    """For a search in which no arrivals count."""
    return Offered(trace=trace, generated=False, wanted=0.0, per=0.0)


__all__ = ["Offered", "generated", "recorded", "untimed"]
