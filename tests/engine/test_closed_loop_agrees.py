"""In a closed loop too, the fast engine equals the reference in everything that is recorded.

Random sessions in small pools, and mistakes planted in the fast engine that they find.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from sessions import Case, sessions

from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import Recording
from pagedsim.engine.source import ClosedLoop


def fixed(most: int) -> Any:
    return settings(
        max_examples=most,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )


@given(case=sessions())
def test_fast_equals_reference(case: Case) -> None:
    _, reference = case.check()
    told_apart(case, reference)


def told_apart(case: Case, recording: Recording) -> None:
    """The rule, from the results alone."""
    found, trace = recording.requests, case.trace
    refused = {refusal.row for refusal in recording.refused}
    for row, parent in enumerate(trace.parent.tolist()):
        due = int(trace.arrival_ns[row])
        if parent >= 0:
            done = found.arrival_ns if parent in refused else found.finish_ns
            due = max(due, int(done[parent]) + max(0, int(trace.think_ns[row])))
        assert found.arrival_ns[row] == due
        assert row in refused or found.admitted_ns[row] >= due


@given(case=sessions())
def test_observers_see_the_same(case: Case) -> None:
    case.check(watched=True)


def test_what_could_go_wrong_happens() -> None:
    seen: Tally[str] = Tally()

    @fixed(300)
    @given(case=sessions())
    def sample(case: Case) -> None:
        fast, reference = case.check()
        found, parent = reference.requests, case.trace.parent
        later = parent >= 0
        moved = found.arrival_ns > case.trace.arrival_ns
        refused = {refusal.row for refusal in reference.refused}
        ran = sorted(set(range(len(parent))) - refused)
        facts = {
            "moved": moved.any(),
            "not moved": (later & ~moved).any(),
            "after a refused one": any(row in refused for row in parent[ran].tolist()),
            "preempted": found.preemptions.any(),
            "answers hit": (found.hit[later] > 0).any(),
            "ties": len(set(found.arrival_ns[ran].tolist())) < len(ran),
            "jumps": (fast.column("steps") > 1).any(),
            "waits": (found.admitted_ns > found.arrival_ns).any(),
            "idles": (fast.column("start_ns")[1:] > fast.column("end_ns")[:-1]).any(),
            "beside others": (reference.column("batch") > 1).any(),
            type(case.scheduler()).__name__: True,
        }
        seen.update(name for name, fact in facts.items() if fact)

    sample()
    least = {
        **dict.fromkeys(("moved", "not moved", "jumps", "waits", "idles", "ties"), 40),
        **dict.fromkeys(("answers hit", "beside others"), 40),
        **dict.fromkeys(("after a refused one", "preempted"), 8),
        **dict.fromkeys(("Static", "Orca", "ShortestFirst", "Vllm"), 8),
    }
    assert {name: seen[name] for name in least if seen[name] < least[name]} == {}


# Mistakes planted in the fast engine.


def _the_recorded_arrival_stays(patch: pytest.MonkeyPatch) -> None:
    """A turn comes when it is due, with the arrival of the file."""
    was = ClosedLoop.arrived
    patch.setattr(
        ClosedLoop,
        "arrived",
        lambda self, now_ns: [(row, self._recorded[row]) for row, _ in was(self, now_ns)],
    )


def _after(patch: pytest.MonkeyPatch, change: Callable[[Any], None]) -> None:
    was = ClosedLoop.__init__

    def init(self: Any, *given: Any) -> None:
        was(self, *given)
        change(self)

    patch.setattr(ClosedLoop, "__init__", init)


def _no_think_time(patch: pytest.MonkeyPatch) -> None:
    _after(patch, lambda self: self._think.__setitem__(slice(None), [0] * len(self._think)))


def _the_refused_are_never_done(patch: pytest.MonkeyPatch) -> None:
    _after(patch, lambda self: [self._turns.pop(row, None) for row in self.refused_ns] and None)


def _the_refused_are_done_at_once(patch: pytest.MonkeyPatch) -> None:
    """With the turn before them, not when they arrive."""
    was = ClosedLoop.follow

    def follow(self: Any, row: int, now_ns: int) -> None:
        was(self, row, now_ns)
        for turn in self._turns.get(row, ()):
            if turn in self.refused_ns:
                self.refused_ns[turn] = now_ns

    patch.setattr(ClosedLoop, "follow", follow)


def _the_recorded_arrival_does_not_count(patch: pytest.MonkeyPatch) -> None:
    _after(patch, lambda self: self._recorded.__setitem__(slice(None), [0] * len(self._recorded)))


def _equal_times_as_they_became_known(patch: pytest.MonkeyPatch) -> None:
    was = ClosedLoop.arrived

    def arrived(self: Any, now_ns: int) -> list[tuple[int, int]]:
        return sorted(was(self, now_ns), key=lambda each: (each[1], -each[0]))

    patch.setattr(ClosedLoop, "arrived", arrived)


def _a_jump_looks_at_recorded_arrivals_alone(patch: pytest.MonkeyPatch) -> None:
    was = FastEngine._horizon

    def horizon(self: Any) -> float:
        coming = self.source._coming
        turn = bool(coming) and self.trace.parent[coming[0][1]] >= 0
        due = coming[0][0] <= self.state.now_ns if turn else False
        return was(self) if not turn or due else self.env.peek() - self.state.now_ns

    patch.setattr(FastEngine, "_horizon", horizon)


def _a_held_batch_returns_each_result_at_once(patch: pytest.MonkeyPatch) -> None:
    """Turns follow as members of a static batch are done."""
    was = FastEngine._complete

    def complete(self: Any, *given: Any) -> None:
        before = len(self._done)
        was(self, *given)
        for seq in self._done[before:]:
            self.source.follow(seq.id, self.state.now_ns)
            self.source._turns.pop(seq.id, None)

    patch.setattr(FastEngine, "_complete", complete)


PLANTS = [
    _the_recorded_arrival_stays,
    _no_think_time,
    _the_refused_are_never_done,
    _the_refused_are_done_at_once,
    _the_recorded_arrival_does_not_count,
    _equal_times_as_they_became_known,
    _a_jump_looks_at_recorded_arrivals_alone,
    _a_held_batch_returns_each_result_at_once,
]


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_mistake_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    @fixed(400)
    @given(case=sessions())
    def search(case: Case) -> None:
        case.check()

    with pytest.raises(AssertionError):
        search()
