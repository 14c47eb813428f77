"""What kept a run from doing more, in a word: docs/plan.md has the rule.

Two questions are asked of what the run recorded. *Was it waiting?* Where bounds are broken, the
requests over them tell: most of their time before admission, or most of those slow between tokens
preempted. Where none is, the time in which requests were kept waiting. *For what?* What the step
was short of while they waited: memory, the sequence limit or the token budget; without waiting,
what the steps are bound by.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagedsim.analysis import integrals
from pagedsim.analysis.plan_slo import TIMES, Bound, Objective
from pagedsim.analysis.report import Report
from pagedsim.analysis.requests import times
from pagedsim.analysis.results import Compute
from pagedsim.analysis.stepwise import SupportsBounds
from pagedsim.engine.recording import BLOCKED
from pagedsim.protocols import Int64, Limit

WAITED = 0.1  # share of time from which on waiting is what binds, where no bound is broken

MEMORY, SEQUENCES, BUDGET = "memory", "sequences", "budget"
COMPUTE, BANDWIDTH, STEP = "compute", "bandwidth", "step time"
WORDS = (MEMORY, SEQUENCES, BUDGET, COMPUTE, BANDWIDTH, STEP)
_LIMITS = {MEMORY: Limit.MEMORY, SEQUENCES: Limit.MAX_SEQS, BUDGET: Limit.BUDGET}


def binds(
    report: Report, objective: Objective, broken: Sequence[str], compute: Compute | None
) -> str:
    """One of `WORDS`; "" where no step ran. `broken` are names of bounds, `compute` the run's."""
    limits = report.binds
    if limits.memory is None:
        return ""
    bounds = [bound for bound in objective.bounds if bound.name in broken]
    if bounds:
        waited = dict.fromkeys(_LIMITS, 0.0)
        for bound in bounds:
            for name, ns in _waiting(report, bound).items():
                waited[name] += ns
    else:
        shares = (limits.memory, limits.max_seqs or 0.0, limits.budget or 0.0)
        waited = dict(zip(_LIMITS, shares if sum(shares) >= WAITED else (0.0,) * 3, strict=True))
    longest = max(waited, key=lambda name: waited[name])
    if waited[longest]:
        return COMPUTE if longest == BUDGET and _full_steps_compute(report) else longest
    if compute is None:
        return STEP
    return COMPUTE if (compute.compute_bound or 0.0) >= 0.5 else BANDWIDTH


def _waiting(report: Report, bound: Bound) -> dict[str, float]:
    """ns that requests over a bound waited for each limit; empty where it is not for waiting."""
    rows, finished = report.recording.requests, report.finished
    if bound.metric not in TIMES:
        return {MEMORY: 1.0} if bound.metric.startswith("preempt") else {}
    found = times(rows, finished)
    if bound.metric == "tpot":
        several = finished[rows.longest[finished] > 1]
        over = several[found["tpot"] >= bound.value]
        preempted = np.count_nonzero(rows.preemptions[over])
        return {MEMORY: 1.0} if 2 * preempted > len(over) else {}
    above = found[bound.metric] >= bound.value
    whole = found["ttft" if bound.metric in ("ttft", "queue") else "e2e"][above].sum()
    if not whole or 2 * found["queue"][above].sum() < whole:
        return {}
    return _waited_for(report, finished[above])


def _waited_for(report: Report, rows: Int64) -> dict[str, float]:
    """ns between arrival and first admission of `rows`, by the limit of the step that ran then."""
    recording = report.recording
    start, end = recording.column("start_ns"), recording.column("end_ns")
    arrived, admitted = recording.requests.arrival_ns[rows], recording.requests.admitted_ns[rows]
    at = np.stack((start, end), axis=1).reshape(-1).astype(np.float64)
    limit = recording.column("limit") % BLOCKED
    waited = {}
    for name, of in _LIMITS.items():
        took = np.where(limit == of, end - start, 0)
        before = np.cumsum(took) - took
        reached = np.stack((before, before + took), axis=1).reshape(-1).astype(np.float64)
        spent = np.interp(admitted, at, reached) - np.interp(arrived, at, reached)
        waited[name] = float(spent.sum())
    return waited


def _full_steps_compute(report: Report) -> bool:
    """Whether most of the time with a full budget is bound by compute: more would not help."""
    model, timed = report.steptime, report.timed
    if not isinstance(model, SupportsBounds):
        return False
    full = timed.column("limit") % BLOCKED == Limit.BUDGET
    loads = [timed.column(name)[full] for name in ("tokens", "pairs", "context")]
    weights = timed.weights[full]
    arithmetic = integrals.total(weights[model.bounds(*loads)])
    return 2 * arithmetic >= integrals.total(weights)


__all__ = ["MEMORY", "WORDS", "binds"]
