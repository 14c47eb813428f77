"""Whether a trace can run under a setup, and what has to be said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pagedsim.errors import InputError, SpecError
from pagedsim.trace import Trace

if TYPE_CHECKING:
    from pagedsim.analysis.simulate import Setup


def runnable(trace: Trace, setup: Setup) -> None:
    """SpecError for a trace without times under a load that needs them."""
    if not trace.timed and not setup.concurrency:
        raise SpecError(
            f"{trace.name} has lengths but no arrival times: give --rate R, --arrivals saturate "
            "or --concurrency N"
        )


def in_closed_loop(trace: Trace, setup: Setup) -> tuple[Trace, Setup]:
    """With the load model's name, and with a note where think times are unknown."""
    later = trace.parent >= 0
    if not later.any():
        raise SpecError(
            f"{trace.name} has no sessions (no request has a parent): a closed loop has nothing to "
            "wait for"
        )
    _descended(trace)
    if unknown := int((trace.think_ns[later] < 0).sum()):
        said = f"{unknown} of {int(later.sum())} think times are unknown: taken as 0"
        setup = replace(setup, notes=(*setup.notes, said))
    return replace(trace, load=f"{trace.load}, closed loop"), setup


def _descended(trace: Trace) -> None:
    """InputError unless every row has a first ancestor. O(rows · log rows)."""
    rows = len(trace)
    if (most := int(trace.parent.max())) >= rows:
        row = int(trace.parent.argmax())
        raise InputError(f"{trace.name}: row {row}: parent is {most}, must be below {rows}")
    above = np.append(np.maximum(trace.parent, -1), -1)  # the last entry answers for parent -1
    for _ in range(rows.bit_length()):
        above = above[above]  # twice as far
    if (above >= 0).any():
        row = int(np.flatnonzero(above >= 0)[0])
        raise InputError(f"{trace.name}: row {row}: its parents lead back to itself")


__all__ = ["in_closed_loop", "runnable"]
