"""How many turns sessions have and how long is between them, though a trace ends amid sessions.

A pause is seen only if it ends before the trace does, so long ones are seen too rarely. They are
estimated as lifetimes are that are truncated from the right (Lynden-Bell 1971), and the chance of a
further turn from how many would have been seen by then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace.draws import Float64
from pagedsim.trace.fit.shapes import coarse, quantiles
from pagedsim.trace.lengthmodels import Chances, Model
from pagedsim.trace.trace import Trace

_ALONE = 100  # turns of a number that is given a chance of its own
_SURE = 0.99  # the most that a chance can be


class Pauses(NamedTuple):
    """A recipe's turns: how many, the think time, and the pace of answers that it leaves out."""

    turns: Model
    think_s: Model
    token_ms: float
    wait_ms: float


def pauses(trace: Trace, parent: Int64) -> Pauses | None:
    """None where no request goes on from another.

    The pace is fitted by least squares to recorded think times; without them it is 0, and a pause
    goes from arrival to arrival.
    """
    later = np.flatnonzero(parent >= 0)
    if not len(later):
        return None
    before = parent[later]
    gap = (trace.arrival_ns[later] - trace.arrival_ns[before]) / 1e9
    wait_s, token_s = _pace(trace, later, before, gap)
    spent = wait_s + token_s * trace.output
    pause = np.maximum(0.0, gap - spent[before])
    left = np.maximum(0.0, trace.arrival_ns[-1] / 1e9 - trace.arrival_ns / 1e9 - spent)
    goes_on = np.zeros(len(trace), bool)
    goes_on[before] = True
    at, upto = _lifetimes(pause, np.maximum(left[before], pause))
    even = (np.arange(len(later)) + 0.5) / len(later)
    think = at[np.minimum(np.searchsorted(upto, even), len(at) - 1)]
    seen = np.interp(left, at, upto, left=0.0) if trace.timed else np.ones(len(trace))
    count = _turns(_numbers(parent), goes_on, seen)
    pace = coarse(1000 * token_s), coarse(1000 * wait_s)
    return Pauses(count, quantiles(think), *pace)


def _pace(trace: Trace, later: Int64, before: Int64, gap: Float64) -> tuple[float, float]:
    """(s, s a token) of answers, as think times leave them."""
    known = trace.think_ns[later] >= 0
    if not known.any():
        return 0.0, 0.0
    spent = gap[known] - trace.think_ns[later][known] / 1e9
    output = trace.output[before][known].astype(np.float64)
    around = output - output.mean()
    square = float((around**2).sum())
    slope = max(0.0, float((around * spent).sum()) / square) if square else 0.0
    return max(0.0, float(spent.mean() - slope * output.mean())), slope


def _lifetimes(pause: Float64, limit: Float64) -> tuple[Float64, Float64]:
    """Different pauses, and the share of all, seen or not, that are no longer.

    Each was seen because it is up to its `limit`. Among those up to u whose limit is not below u,
    those of just u are as frequent as among all up to u. One is added to these, so that a
    single one at the end does not decide.
    """
    at, ends = np.unique(pause, return_counts=True)
    up_to = np.searchsorted(np.sort(pause), at, "right")
    over = np.searchsorted(np.sort(limit), at, "left")  # their limits are below, so they are too
    below = 1 - ends / (up_to - over + 1)
    share = np.append(np.cumprod(below[:0:-1])[::-1], 1.0)
    return at, share.astype(np.float64)


def _numbers(parent: Int64) -> Int64:
    """Each row's number in its session, from 0."""
    number = np.zeros(len(parent), np.int64)
    for row, before in enumerate(parent.tolist()):
        if before >= 0:
            number[row] = number[before] + 1
    return number


def _turns(number: Int64, goes_on: np.ndarray, seen: Float64) -> Model:
    """The chance of a further turn after each, those that few reach taken together."""
    chances = []
    alone = np.append(np.bincount(number), 0)
    single = int(np.argmax(alone < _ALONE))
    for turn in range(single + 1):
        rows = number == turn if turn < single else number >= turn
        asked = float(seen[rows].sum())
        chances.append(coarse(min(_SURE, float(goes_on[rows].sum()) / asked)) if asked else 0.0)
    return Chances(chances=chances)


__all__ = ["Pauses", "pauses"]
