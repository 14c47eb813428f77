"""With samples and beams too, the fast engine equals the reference in everything recorded."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from agreement import assert_equal
from cases import Endless
from forked import forking_traces
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from play import Watch
from plugins import TakingTurns
from test_prefix_agrees import setups, steptimes

from pagedsim.alloc.paged import Paged
from pagedsim.engine.batch import Batch
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.forks import Forks, ForkState
from pagedsim.engine.groups import Group
from pagedsim.engine.recording import Recording
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.errors import ContractError
from pagedsim.trace.samples import outputs


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    """A trace, parts for each engine, and how requests are sent."""
    make, scheduler, max_len = draw(setups())
    prefix = draw(st.booleans())
    turns = draw(st.sampled_from([False] * 7 + [True]))
    trace = draw(forking_traces(beams=not turns))
    loop = draw(st.sampled_from(["open", "open", "sent", "turns"]))
    if loop == "turns":
        parent = [draw(st.integers(-1, row - 1)) for row in range(len(trace))]
        think = [draw(st.integers(-1, 20)) for _ in parent]
        trace = replace(trace, parent=np.array(parent), think_ns=np.array(think))

    def allocator() -> Any:
        pool = make()
        return pool if prefix else Paged(pool.blocks, block=pool.block)

    def planner() -> Any:
        made = TakingTurns(part=3, max_seqs=9) if turns else scheduler()
        if not turns:
            made.max_seqs = max(4, made.max_seqs)
        return made

    return {
        "trace": trace,
        "allocator": allocator,
        "scheduler": planner,
        "steptime": draw(steptimes),
        "max_len": max_len,
        "sent": {"sent": {"concurrency": 2}, "turns": {"closed_loop": True}}.get(loop, {}),
    }


def both(run: dict[str, Any], *, watched: bool = False) -> list[Any]:
    """What both engines recorded, which is equal; rejects a run in which both go on for ever."""
    trace = run["trace"]
    found: list[Any] = []
    for engine in (FastEngine, ReferenceEngine):
        allocator = run["allocator"]()
        watch = Watch([allocator])
        windows = iter(range(300 + 8 * int(trace.prompt.sum() + outputs(trace).sum())))

        def progress(_: int, windows: Any = windows) -> None:
            if next(windows, None) is None:
                raise Endless

        made = engine(
            trace,
            allocator,
            run["scheduler"](),
            run["steptime"],
            max_len=run["max_len"],
            **run["sent"],
            observers=[watch] if watched else [],
            progress=progress,
        )
        try:
            recording = made.run()
        except Endless:
            found.append(None)
            continue
        usage = allocator.usage()
        assert (usage.held, usage.shared, allocator._tails) == (0, 0, {})
        found.append((recording, watch.steps))
    if None in found:
        assert found == [None, None]
        reject()
    assert_equal(found[0][0], found[1][0], run["steptime"].ns)
    return found


@given(run=runs())
def test_fast_equals_reference(run: dict[str, Any]) -> None:
    both(run)


@given(run=runs())
def test_observers_see_the_same(run: dict[str, Any]) -> None:
    """Every plan, every table, every release."""
    fast, reference = both(run, watched=True)
    assert fast[1] == reference[1]


def marks(run: dict[str, Any], fast: Recording, reference: Recording) -> Counter[str]:
    trace, requests = run["trace"], reference.requests
    several = trace.samples > 1
    jumps = fast.column("steps") > 1
    together = fast.column("sequences") > 1
    facts = {
        "shared": reference.column("shared").any(),
        "preempted": requests.preemptions[several].any(),
        "recomputed": requests.recomputed[several].any(),
        "hits": requests.hit[several].any(),
        "resumed hits": requests.resumed_hit[several].any(),
        "beams": (requests.generated[trace.beam == 1] > 0).any(),
        "beams that die": trace.forks is not None,
        "preempted beams": requests.preemptions[trace.beam == 1].any(),
        "jumps while shared": (jumps & together & (fast.column("shared") > 0)).any(),
        "jumps while blocked": (jumps & (fast.column("limit") >= 4)).any(),
        "refused": len(reference.refused),
        "wide": any(r.bound == fast.capacity and several[r.row] for r in reference.refused),
        "truncated": (requests.status[several] == 1).any(),
        "lengths": trace.sample_output is not None
        and (trace.sample_output != np.repeat(trace.output, trace.samples)).any(),
    }
    return Counter(name for name, fact in facts.items() if fact)


SAMPLE = settings(
    max_examples=200,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_what_could_go_wrong_happens() -> None:
    seen: Counter[str] = Counter()

    @SAMPLE
    @given(run=runs())
    def sample(run: dict[str, Any]) -> None:
        (fast, _), (reference, _) = both(run)
        seen.update(marks(run, fast, reference))

    sample()
    many = ("shared", "beams", "beams that die", "jumps while shared", "lengths", "wide", "hits")
    for what in many:
        assert seen[what] >= 35, (what, seen)
    for what in ("preempted", "recomputed", "truncated"):
        assert seen[what] >= 8, (what, seen)
    for what in ("jumps while blocked", "resumed hits"):
        assert seen[what] >= 3, (what, seen)
    assert seen["preempted beams"], seen


# Planted mistakes, each of which the property must find.


def _nobody_refits(patch: pytest.MonkeyPatch) -> None:
    """What the last to hold a block may fill is not noted."""
    patch.setattr(ForkState, "refit", lambda self, group: None)


def _no_places_pledged(patch: pytest.MonkeyPatch) -> None:
    """Samples need no place before they fork."""
    none = property(lambda self: 0, lambda self, value: None)
    patch.setattr(ForkState, "pledged", none, raising=False)


def _at_the_end(patch: pytest.MonkeyPatch) -> None:
    """Samples join the batch behind all others."""
    was = Batch.insert

    def insert(self: Batch, seq: Any) -> None:
        self._rank += 1
        seq.rank = self._rank
        was(self, seq)

    patch.setattr(Batch, "insert", insert)


def _only_the_prompt_is_common(patch: pytest.MonkeyPatch) -> None:
    """Beams that are preempted compute all but the prompt apart."""
    was = Group.rejoin

    def rejoin(self: Group) -> None:
        was(self)
        if not self.split:
            self.common = self.left[0].known = self.prompt

    patch.setattr(Group, "rejoin", rejoin)


def _the_prompt_is_enough(patch: pytest.MonkeyPatch) -> None:
    """Readmitted where what is common fits, whatever else is known."""
    patch.setattr("pagedsim.engine.forks.slots_of", lambda alike, known, block: 0)


def _samples_leave_as_one(patch: pytest.MonkeyPatch) -> None:
    """Who is preempted with others is taken to stand behind all that have grown."""
    was = ForkState.width
    patch.setattr(
        ForkState, "width", lambda self, seq: 1 if seq in self.running else was(self, seq)
    )


def _beams_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    was = Forks.arrive

    def arrive(self: Forks, seq: Any, now: int) -> Any:
        seq.group.beam, beam = False, seq.group.beam
        found = was(self, seq, now)
        seq.group.beam = beam
        return found

    patch.setattr(Forks, "arrive", arrive)


@pytest.mark.parametrize(
    "plant",
    [
        _nobody_refits,
        _no_places_pledged,
        _at_the_end,
        _only_the_prompt_is_common,
        _the_prompt_is_enough,
        _samples_leave_as_one,
        _beams_do_not_wait,
    ],
)
def test_a_planted_mistake_is_found(plant: Any) -> None:
    @settings(SAMPLE, max_examples=1000)
    @given(run=runs())
    def search(run: dict[str, Any]) -> None:
        both(run)

    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises((AssertionError, ContractError, IndexError, KeyError, ValueError)):
            search()
