"""Schedulers and step-time models with one mistake each."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from pagedsim.device.steptime import Affine, Constant
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.protocols import Load, Plan

PLANTED: dict[str, tuple[str, Callable[..., Any], set[str]]] = {}


def plant(kind: str, *laws: str, **given: Any) -> Callable[[type], type]:
    def note(part: type) -> type:
        PLANTED[part.__name__] = (kind, lambda: part(**given), set(laws))
        return part

    return note


class Plain(Vllm):
    """Without the promises of `steady`, so that only plans are judged."""

    steady = False


@plant("scheduler", "progress", "ends")
class Starves(Plain):
    """Whoever has an odd number never joins."""

    def _join(self, view: Any, plan: Plan, *more: Any) -> None:
        if view.waiting and view.waiting[0].id % 2 == 0:
            super()._join(view, plan, *more)


@plant("scheduler", "told")
class LosesARequest(Plain):
    """One that was admitted is not told of."""

    def plan(self, view: Any, /) -> Plan:
        plan = super().plan(view)
        del plan.admitted[1:]
        return plan


@plant("scheduler", "told")
class TellsTwice(Plain):
    """A request is in the list of admissions twice."""

    def plan(self, view: Any, /) -> Plan:
        plan = super().plan(view)
        plan.admitted += plan.admitted[:1]
        return plan


@plant("scheduler", "calls")
class AdmitsTwice(Plain):
    """A duplicated request."""

    def _join(self, view: Any, plan: Plan, *more: Any) -> None:
        super()._join(view, plan, *more)
        for seq in plan.admitted[:1]:
            view.admit(seq, seq.tokens)


@plant("scheduler", "slots")
class RunsWithoutSlots(Plain):
    """Tokens beyond what was asked for."""

    def plan(self, view: Any, /) -> Plan:
        plan = super().plan(view)
        for seq in plan.scheduled:
            plan.scheduled[seq] = seq.tokens - seq.computed
        return plan

    def __init__(self) -> None:
        super().__init__(max_batched_tokens=3)


class EachSample:
    """A view whose preemptions are noted, all that left."""

    def __init__(self, view: Any, left: list[Any]) -> None:
        self._view, self._left = view, left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def preempt(self, seq: Any, /) -> Any:
        left = self._view.preempt(seq)
        self._left += left
        return left


@plant("scheduler", "told")
class TellsOfEachSample(Plain):
    """Samples of a request are preempted together, and it tells of each."""

    def plan(self, view: Any, /) -> Plan:
        left: list[Any] = []
        plan = super().plan(EachSample(view, left))
        plan.preempted = left
        return plan


@plant("scheduler", "progress")
class WaitsForMore(Orca):
    """After its first request it takes two at a time: in a closed loop one may never come."""

    steady = False
    served = 0

    def plan(self, view: Any, /) -> Plan:
        self.served += len(view.waiting) > 0 and not view.running
        if self.served > 1 and not view.running and len(view.waiting) == 1:
            return Plan()
        return super().plan(view)


@plant("scheduler", "tokens", "slots")
class OneTokenTooMany(Orca):
    """More than is known."""

    steady = False

    def plan(self, view: Any, /) -> Plan:
        plan = super().plan(view)
        for seq in list(plan.scheduled)[:1]:
            plan.scheduled[seq] += 1
        return plan


@plant("scheduler", "slots")
class SchedulesThePreempted(Plain):
    """A victim that was scheduled already stays in the plan."""

    def plan(self, view: Any, /) -> Plan:
        plan = super().plan(view)
        for seq in plan.preempted:
            plan.scheduled[seq] = 1
        return plan


@plant("scheduler", "blocked")
class NeverBlocked(Plain):
    def plan(self, view: Any, /) -> Plan:
        plan = super().plan(view)
        plan.blocked = False
        return plan


@plant("scheduler", "blocked")
class AlwaysBlocked(Static):
    steady = False

    def plan(self, view: Any, /) -> Plan:
        plan = super().plan(view)
        plan.blocked = True
        return plan


@plant("scheduler", "determinism", "progress", "calls")
class CountsSchedulers(Plain):
    """Who shares a counter with all others of its kind."""

    turns = count()

    def plan(self, view: Any, /) -> Plan:
        self.max_seqs = 1 + next(self.turns) // 7 % 3
        return super().plan(view)


@plant("scheduler", "steady")
class SaysItIsSteady(Vllm):
    """A limit that changes with time, under a promise that nothing does."""

    def undisturbed(self, view: Any, /) -> bool:
        return False

    def plan(self, view: Any, /) -> Plan:
        if view.now_ns % 5 == 0 and len(view.running) > 1:
            plan = Plan()
            seq = view.running[0]
            if view.grow(seq, seq.computed + 1):
                plan.scheduled[seq] = 1
                return plan
        return super().plan(view)


class Wrong:
    def ns(self, load: Load) -> int:
        return 1 + load.sequences + load.context


@plant("steptime", "positive")
class TakesNoTime(Wrong):
    """For an empty load."""

    def ns(self, load: Load) -> int:
        return load.tokens


@plant("steptime", "positive")
class TakesAFloat(Wrong):
    def ns(self, load: Load) -> Any:
        return 1.5 * super().ns(load)


@plant("steptime", "pure")
class Warms(Wrong):
    """The first step takes longer."""

    def __init__(self) -> None:
        self.cold = 100

    def ns(self, load: Load) -> int:
        cold, self.cold = self.cold, 0
        return super().ns(load) + cold


@plant("steptime", "ramp")
class RampsFlat(Affine):
    """All steps of a jump at the price of the first."""

    def ramp(self, load: Load, steps: int) -> Any:
        return np.full(steps, self.ns(load), np.int64)


PLANTED["RampsFlat"] = ("steptime", lambda: RampsFlat(per_context_token_ns=3), {"ramp"})


@plant("steptime", "ramp", ms=1)
class RampsOneShort(Constant):
    def ramp(self, load: Load, steps: int) -> Any:
        return super().ramp(load, steps - 1)


@plant("steptime", "few", ms=1)
class FewIsAnother(Constant):
    def few(self, load: Load, steps: int) -> list[int]:
        return [self.ns(load) + at // 3 for at in range(steps)]


@plant("steptime", "calls")
class DividesByNothing(Wrong):
    def ns(self, load: Load) -> int:
        return 1 + load.tokens // load.sequences
