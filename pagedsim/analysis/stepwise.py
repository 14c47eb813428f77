"""What no sum over windows can tell: percentiles over time, and what bounds each step.

One pass over the steps, a chunk in memory at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from pagedsim.analysis import integrals, results
from pagedsim.analysis.results import Spread
from pagedsim.analysis.tally import Tally
from pagedsim.analysis.timed import Timed
from pagedsim.protocols import Int64, StepTime

Mask: TypeAlias = npt.NDArray[np.bool_]
PERCENTS = (0, 50, 90, 99, 100)


@runtime_checkable
class SupportsBounds(Protocol):
    """A step-time model that knows what a step is bound by; columns of loads in, a row a step."""

    ridge: float  # FLOPs a byte at which the device's compute and bandwidth balance

    def bounds(self, tokens: Int64, pairs: Int64, context: Int64, /) -> Mask:
        """True where a step is bound by compute, False where by bandwidth."""
        ...

    def intensities(
        self, tokens: Int64, pairs: Int64, context: Int64, /
    ) -> npt.NDArray[np.float64]:
        """FLOPs a byte of each."""
        ...


def by_step(
    timed: Timed, names: Sequence[str], steptime: StepTime | None
) -> tuple[dict[str, Spread], results.Compute | None]:
    """The spread over time of each column as a share of the capacity (none where no step ran).

    And what bounds the steps, if the step-time model is a `SupportsBounds`. Neither depends on how
    steps are cut into windows and chunks.
    """
    model = steptime if isinstance(steptime, SupportsBounds) else None
    if not names and model is None:
        return {}, None
    tallies = {name: Tally() for name in names}
    by_compute, intensity = 0, integrals.Floats()
    for steps in timed.steps():
        weights = timed.inside(steps)
        for name, tally in tallies.items():
            tally.add(steps.column(name), weights)
        if model is not None:
            loads = [steps.column(name) for name in ("tokens", "pairs", "context")]
            by_compute += integrals.total(weights[model.bounds(*loads)])
            intensity.add(model.intensities(*loads) * weights)
    capacity = timed.capacity
    found = {name: spread_of(tally.ranks(PERCENTS), capacity) for name, tally in tallies.items()}
    spreads = {name: spread for name, spread in found.items() if spread is not None}
    if model is None:
        return spreads, None
    busy = timed.busy_ns
    return spreads, results.Compute(
        compute_bound=integrals.share(by_compute, busy),
        bandwidth_bound=integrals.share(busy - by_compute, busy),
        intensity=intensity.sum() / busy if busy else None,
        ridge=model.ridge,
    )


def spread_of(ranks: Sequence[int], unit: int = 1) -> Spread | None:
    """Values at `PERCENTS`, in `unit`s; None where there are none."""
    return Spread(*(value / unit for value in ranks)) if ranks else None


__all__ = ["PERCENTS", "SupportsBounds", "by_step", "spread_of"]
