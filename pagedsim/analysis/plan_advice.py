"""Which one change would let a candidate take the most: a race, then a plan for its winner.

At the lowest rate that failed every change of `whatif_changes` that takes no more GPUs is replayed.
Those with which the objective holds go on at a rate `FASTER` times as high, and so on until at most
one is left::

    rate   fails        x FASTER        x FASTER^2
           14 changes   4 that held     1 that held  ->  its own highest rate

Of those that went out together, or if none ever held, the one furthest within the objective wins:
that with the smallest largest value / bound. What serves fewer requests is out at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pagedsim.analysis.plan_load import Offered
from pagedsim.analysis.plan_rate import Rates
from pagedsim.analysis.plan_result import Advice, Replay
from pagedsim.analysis.plan_run import Runner
from pagedsim.analysis.plan_search import digits
from pagedsim.analysis.plan_slo import Objective
from pagedsim.analysis.plan_trials import Impossible
from pagedsim.analysis.whatif_changes import Change, changes

MORE_GPUS = "tensor parallel"  # the kind of change that takes another number of GPUs
FASTER = 1.3
ROUNDS = 8  # then those left are told apart by the last one


def advice(
    load: Offered, runner: Runner, passes: Replay, fails: Replay, tolerance: float
) -> Advice | None:
    """The best change and its rate; None where none gets further within than the candidate."""
    possible = [
        change
        for change in changes(runner.configuration, load.trace)
        if change.possible and change.kind != MORE_GPUS
    ]
    best, runs = _race(load, runner, fails, possible)
    if best is None:
        return None
    again = Rates(load, _on(runner, best))
    try:
        found = again.search(tolerance)
    except Impossible:
        return None
    assert passes.at is not None
    return Advice(
        change=best.text,
        kind=best.kind,
        rate=None if found.passes is None else load.rate(found.passes),
        gain=None if found.passes is None else found.passes / passes.at - 1,
        tried=len(possible),
        runs=runs + again.seen()["runs"],
    )


def _race(
    load: Offered, runner: Runner, fails: Replay, every: Sequence[Change]
) -> tuple[Change | None, int]:
    """The winner, and how many replays it took."""
    assert fails.at is not None
    x, runs, going = fails.at, 0, list(every)
    served = fails.refused + fails.truncated
    best: Change | None = None
    limit = worst(runner.objective, fails)
    for _ in range(ROUNDS):
        trace, options = load.at(x), load.options(x)
        through: list[Change] = []
        out: list[tuple[float, Change]] = []
        for change in going:
            replay = _on(runner, change)(trace, at=x, rate=load.rate(x), options=options)
            runs += 1
            if replay.refused + replay.truncated > served:
                continue
            if replay.holds:
                through.append(change)
            else:
                out.append((worst(runner.objective, replay), change))
        closest = min(out, key=lambda lost: lost[0], default=None)
        if through:
            best = through[0]
        elif closest is not None and closest[0] < limit:
            best = closest[1]
        if len(through) < 2:
            break
        going, limit, x = through, math.inf, digits(x * FASTER)
    return best, runs


def _on(runner: Runner, change: Change) -> Runner:
    assert change.configuration is not None
    return runner.on(change.configuration)


def worst(objective: Objective, replay: Replay) -> float:
    """The largest value / bound of a replay: up to 1 where it holds."""
    shares = []
    for bound, value in zip(objective.bounds, replay.values, strict=True):
        if value is None:
            shares.append(math.inf)
        elif bound.value:
            shares.append(value / bound.value)
        else:
            shares.append(math.inf if value else 0.0)
    return max(shares)


__all__ = ["advice", "worst"]
