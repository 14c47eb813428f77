"""The fast engine equals the reference engine in everything that is recorded.

The property is held by random runs (`cases`); a fixed sample of them shows that what could go
wrong does happen in a good share; and mistakes planted in the fast engine are each found.
"""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import replace
from typing import Any

import pytest
import simpy
from agreement import Fixed, Odd, Rising, assert_equal
from cases import Case, Endless, cases, examples, marks
from hypothesis import HealthCheck, Phase, given, settings
from play import Kept, Watch
from plugins import Counter, Shared, ShortestFirst, TakingTurns

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.paged import Paged
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import ContractError
from pagedsim.protocols import Plan, SupportsBlocks, SupportsHoles, SupportsRank, SupportsSlots
from pagedsim.protocols import SupportsSteady as Steady
from pagedsim.trace.trace import Trace


@given(case=cases())
@examples
def test_fast_equals_reference(case: Case) -> None:
    try:
        case.check()
    except Endless:
        return  # both


SAMPLE = settings(
    max_examples=300,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

SHARES = {
    # per cent of the sample, at least; about half of what it is
    "blocked": 35,
    "preempted": 25,
    "preempted twice": 12,
    "starts": 25,
    "internal starts": 15,
    "jumps": 35,
    "jumps of 16": 5,
    "jumps of many": 8,
    "jumps while blocked": 15,
    "waits": 50,
    "ties": 40,
    "arrives on a step": 20,
    "idles": 6,
    "left out of a step": 6,
    "limit budget": 8,
    "limit max_seqs": 8,
    "truncated": 5,
    "refused": 5,
    "foreign": 12,
    "concurrency": 8,
    "hits": 1,
    "cached": 1,
    "Vllm": 30,
    **dict.fromkeys(("Orca", "Static", "ShortestFirst", "TakingTurns"), 2),
    **dict.fromkeys(("Contiguous", "Slots", "Counter", "Shared"), 1),
    "Paged": 30,
}


def test_what_could_go_wrong_happens() -> None:
    """Or the property above would hold of nothing."""
    tally: Tally[str] = Tally()
    runs = 0

    @SAMPLE
    @given(case=cases())
    def sample(case: Case) -> None:
        nonlocal runs
        try:
            recordings = case.check()
        except Endless:
            return
        runs += 1
        tally.update(marks(case, *recordings))

    sample()
    short = {name: 100 * tally[name] / runs for name in SHARES}
    assert {name: share for name, share in short.items() if share < SHARES[name]} == {}


def test_plug_ins_lack_what_is_optional() -> None:
    """Else they would not show that it is optional."""
    for allocator in (Counter(9), Shared(9)):
        for protocol in (SupportsBlocks, SupportsSlots, SupportsHoles):
            assert not isinstance(allocator, protocol)
    for scheduler in (ShortestFirst(), TakingTurns()):
        for protocol in (SupportsRank, Steady):
            assert not isinstance(scheduler, protocol)


# Single runs that chance seldom draws.


def run_both(
    rows: list[tuple[int, int, int]], make: Any, scheduler: Any, steptime: Any, **more: Any
) -> Any:
    trace = Trace.build("t", *zip(*rows, strict=True))
    runs = [
        engine(trace, make(), scheduler(), steptime, **more).run()
        for engine in (FastEngine, ReferenceEngine)
    ]
    assert_equal(*runs, steptime.ns)
    return runs[0]


def test_a_refusal_does_not_make_rooms_uneven() -> None:
    """Or every block start after it would ask for the room of each that is due."""
    rows = [(i, 3 + i % 5, 40) for i in range(12)]
    trace = Trace.build("t", *zip(*rows, strict=True))
    engine = FastEngine(trace, Paged(30, block=4), Vllm(), Fixed(2), max_len=99)
    assert engine.run().requests.preemptions.any()
    assert not engine.state.batch.uneven


@pytest.mark.parametrize("steptime", [Odd(), Rising(), Fixed(7)], ids=repr)
def test_one_jump_of_thousands(steptime: Any) -> None:
    """Three blocks start within 9,000 steps: a window for the prompt, and one for the rest."""
    fast = run_both([(0, 5, 9001)], lambda: Paged(5, block=3000), Vllm, steptime, max_len=20_000)
    assert fast.column("steps").tolist() == [1, 9000]
    # room for 3,000: the step that stores token 3,001 is step 2,996, so 2,995 after the window's
    assert fast.starts[:, 1].tolist() == [2995, 5995, 8995]
    assert fast.starts[:, 4].tolist() == [0, 0, 12_000 - 9005]


def test_arrivals_behind_a_blocked_head_do_not_end_a_jump() -> None:
    """500 arrivals meet a head that stays blocked: no window more for them.

    188 blocks of 16. Row 0 ends with 2,909 tokens in 182 of them; row 1 wants all 188.
    """
    rows = [(0, 10, 2900), (1, 3000, 1), *((i, 1, 1) for i in range(2, 502))]
    fast = run_both(rows, lambda: Paged(189), Vllm, Fixed(1), max_len=4000)
    assert fast.column("steps")[:3].tolist() == [1, 2899, 1]


def test_arrivals_end_a_jump_where_the_queue_is_empty() -> None:
    rows = [(0, 1, 1000), *((10 * i + i % 2, 1, 1) for i in range(1, 90))]
    fast = run_both(rows, lambda: Paged(301), Vllm, Fixed(10), max_len=2000)
    queue = fast.requests.admitted_ns - fast.requests.arrival_ns
    assert queue.max() == 9  # odd ones come 1 ns after a step began


def test_many_block_starts_at_once() -> None:
    """Sixty sequences of the same length start blocks together, in running order."""
    rows = [(0, 16, 100)] * 60
    run_both(rows, lambda: Paged(60 * 8 + 1), Vllm, Rising(), max_len=200)
    run_both(rows, lambda: Paged(60 * 3 + 1), Vllm, Rising(), max_len=200)
    run_both(rows, lambda: Paged(60 * 3 + 1), Orca, Rising(), max_len=200)


def test_an_environment_that_is_not_at_zero() -> None:
    """A run may begin later; what others do in the environment changes nothing."""
    rows = [(1000, 5, 50), (1000, 9, 30), (1077, 3, 40)]
    trace = Trace.build("t", *zip(*rows, strict=True))
    env = simpy.Environment(initial_time=900)
    seen = []

    def other() -> Any:
        while True:
            seen.append(env.now)
            yield env.timeout(13)

    env.process(other())
    fast = FastEngine(trace, Paged(9, block=8), Vllm(), Odd(), max_len=100, env=env).run()
    reference = ReferenceEngine(trace, Paged(9, block=8), Vllm(), Odd(), max_len=100).run()
    assert_equal(fast, reference, Odd().ns)
    assert seen[:3] == [900, 913, 926]
    assert env.now == fast.column("end_ns")[-1]
    assert seen[-1] > env.now - 14


def test_two_engines_in_one_environment() -> None:
    """Each bounds the other's jumps, and neither changes the other's numbers."""
    env = simpy.Environment()
    engines, alone = [], []
    for shift in (0, 3):
        rows = [(shift, 5, 60), (7 + shift, 9, 45), (80, 3, 40)]
        trace = Trace.build("t", *zip(*rows, strict=True))
        more = {"max_len": 100}
        engines.append(FastEngine(trace, Paged(12, block=8), Vllm(), Odd(), env=env, **more))
        alone.append(ReferenceEngine(trace, Paged(12, block=8), Vllm(), Odd(), **more).run())
    processes = [env.process(engine._process()) for engine in engines]
    env.run(until=env.all_of(processes))
    for engine, reference in zip(engines, alone, strict=True):
        assert_equal(engine.recording(), reference, Odd().ns)


def test_runs_do_not_touch_each_other() -> None:
    """No module state: two runs in one process give equal results, whatever ran between."""
    rows = tuple((i, 5 + i % 3, 30, 0) for i in range(8))
    case = Case(rows, 99, (Paged, {"blocks": 12, "block": 8}), (Vllm, {}), "odd")
    first, _ = case.check()
    Case(rows[:3], 40, (Contiguous, {"capacity": 90, "max_len": 40}), (Static, {}), "ten").check()
    assert_equal(case.check()[0], first, Odd().ns)


@given(case=cases(short=True))
@examples
def test_observers_see_the_same(case: Case) -> None:
    """Every step once, jumps included: who is given what in which order, and every block table."""
    seen = []
    for engine in (FastEngine, ReferenceEngine):
        made: list[Any] = []
        watch = Watch(made)
        parts = case.allocator
        kept = replace(case, allocator=(Kept(parts[0], made), parts[1]))
        try:
            kept.run(engine, observers=[watch])
        except Endless:
            return
        seen.append(watch.steps)
    for ours, theirs in zip(*seen, strict=False):
        assert ours == theirs
    assert len(seen[0]) == len(seen[1])


@pytest.mark.parametrize("engine", [FastEngine, ReferenceEngine])
def test_nothing_to_do(engine: Any) -> None:
    """No rows, or none that can run: an empty recording, at once."""
    empty = engine(Trace.build("t", [], [], []), Paged(9), Vllm(), Odd(), max_len=9).run()
    assert (len(empty.windows), len(empty.requests.status), empty.refused) == (0, 0, ())
    refused = engine(Trace.build("t", [7], [1], [1]), Paged(9), Vllm(), Odd(), max_len=1).run()
    assert [tuple(refusal) for refusal in refused.refused] == [(0, "prompt", 1, 0)]
    assert refused.free == tuple(range(1, 9))


class Idler(Vllm):
    """Never admits anybody."""

    def plan(self, view: Any, /) -> Plan:
        return Plan()

    def undisturbed(self, view: Any, /) -> bool:
        return False


@pytest.mark.parametrize("engine", [FastEngine, ReferenceEngine])
def test_broken_contracts_are_said(engine: Any) -> None:
    """Who schedules nothing while somebody waits, and time that stands still."""
    trace = Trace.build("t", [0], [4], [4])
    with pytest.raises(ContractError, match=r"step 0: nothing was scheduled while 1 requests wait"):
        engine(trace, Paged(9), Idler(), Odd(), max_len=99).run()
    with pytest.raises(ContractError, match=r"takes 0 ns, must be >= 1"):
        engine(trace, Paged(9), Vllm(), Fixed(0), max_len=99).run()
