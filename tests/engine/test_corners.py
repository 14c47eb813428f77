"""Time 0, no look-up, the same moment, patience: exact, in both engines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pytest
import simpy
from agreement import Fixed, assert_equal
from hypothesis import example, given
from hypothesis import strategies as st

from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import ContractError
from pagedsim.protocols import Plan, fruitless_steps
from pagedsim.trace.trace import Trace

ENGINES = pytest.mark.parametrize("engine", [ReferenceEngine, FastEngine])


class InTurn:
    """All that run get their next token, then whoever fits joins; nobody is looked up."""

    def check(self, max_len: int, /) -> None:
        """Any length will do."""

    def plan(self, view: Any, /) -> Plan:
        plan = Plan()
        for seq in list(view.running):
            if seq in view.running:
                while not view.grow(seq, seq.tokens):
                    gone = view.preempt(view.running[-1])
                    plan.preempted.append(gone[0])
                    for each in gone:
                        plan.scheduled.pop(each, None)
                    if seq in gone:
                        break
                else:
                    plan.scheduled[seq] = seq.tokens - seq.computed
        while view.waiting and not plan.preempted:
            seq = view.waiting[0]
            if not view.admit(seq, seq.tokens):
                plan.blocked = True
                break
            plan.admitted.append(seq)
            plan.scheduled[seq] = seq.tokens - seq.computed
        return plan


def shared(rows: int, prompt: int, output: int, at: int = 0) -> Trace:
    """Requests of the same prompt."""
    return Trace.build(
        "t", [at * row for row in range(rows)], [prompt] * rows, [output] * rows,
        runs=(range(rows + 1), [0] * rows, [prompt] * rows),
        output_token=[1000 * (row + 1) for row in range(rows)],
    )  # fmt: skip


@given(
    st.integers(1, 5), st.integers(1, 9), st.integers(1, 9), st.integers(0, 4), st.integers(1, 3),
    st.integers(0, 9),
)  # fmt: skip
def test_who_is_never_looked_up_hits_all_the_same(
    rows: int, prompt: int, output: int, at: int, block: int, more: int
) -> None:
    trace = shared(rows, prompt, output, at)
    blocks = -(-(prompt + output) // block) + 2 + more
    runs = [
        engine(trace, PrefixPaged(blocks, block=block), InTurn(), Fixed(), max_len=99).run()
        for engine in (FastEngine, ReferenceEngine)
    ]
    assert_equal(*runs, Fixed().ns)


@ENGINES
def test_the_second_hits_what_the_first_computed(engine: Any) -> None:
    trace = shared(2, 9, 2, at=5)
    done = engine(trace, PrefixPaged(20, block=2), InTurn(), Fixed(), max_len=99).run()
    assert done.requests.hit.tolist() == [0, 8]


@ENGINES
@pytest.mark.parametrize("samples", [1, 2])
def test_what_was_admitted_at_0_stays_so(engine: Any, samples: int) -> None:
    """A request that is preempted and comes back was admitted when it first was."""
    trace = Trace.build(
        "t", [0, 0], [3, 3], [9, 9], columns={"samples": [1, samples]},
        sample_output=[9] * (1 + samples),
    )  # fmt: skip
    blocks = 4 + 11 * samples
    done = engine(trace, PrefixPaged(blocks, block=1), Orca(), Fixed(), max_len=99).run()
    assert done.requests.preemptions[1] > done.requests.preemptions[0] == 0
    assert done.requests.admitted_ns.tolist() == [0, 0]
    assert done.requests.hit.tolist() == [0, 0]
    assert done.requests.resumed_hit[1] > 0


@ENGINES
def test_the_hit_at_0_stays_when_its_sample_is_done(engine: Any) -> None:
    """Sample 0 hits two of its prompt's three at time 0 and ends; 1 stands for the row, resumed."""
    trace = Trace.build(
        "t", [0, 0], [1, 3], [5, 3], columns={"samples": [1, 3]}, sample_output=[5, 1, 3, 1],
        runs=([0, 1, 2], [0, 0], [1, 3]), output_token=[1000, 2000],
    )  # fmt: skip
    done = engine(trace, PrefixPaged(6, block=1), Orca(), Fixed(), max_len=40).run()
    assert done.requests.preemptions.tolist() == [0, 1]
    assert done.requests.hit.tolist() == [0, 1]


@ENGINES
@pytest.mark.parametrize("pool", [Paged, PrefixPaged])
def test_who_is_done_is_left_a_whole_block(engine: Any, pool: Any) -> None:
    """Sample 0 is done with its first token, and held; sample 1 copies the block they shared.

    The block of 4 is left to sample 0, which runs no longer, so nothing of it is live or will be.
    """
    trace = Trace.build(
        "t", [0], [1], [3], columns={"samples": [2]}, sample_output=[1, 3]
    )  # fmt: skip
    done = engine(trace, pool(9, block=4), Static(), Fixed(), max_len=40).run()
    assert done.column("held").tolist() == [4, 8, 8]
    assert done.column("live").tolist() == [1, 2, 3]
    assert done.column("internal").tolist() == [3, 4 + 1, 4 + 1]


@ENGINES
@pytest.mark.parametrize("arrival", [0, 7])
def test_patience_ends_at_the_step_that_is_told(engine: Any, arrival: int) -> None:
    """Two that arrive together take each other's blocks; the count begins when they come."""
    trace = Trace.build("t", [arrival] * 2, [5, 5], [1, 1])
    scheduler = Vllm(policy="priority", long_prefill=1, full_input=False, max_batched_tokens=20)
    patience = fruitless_steps(20)
    with pytest.raises(ContractError, match=f"no token in {patience + 1} steps: ") as caught:
        engine(trace, Paged(6, block=1), scheduler, Fixed(1), max_len=20).run()
    assert str(caught.value).startswith(f"step {patience}: ")


class FirstByItself(Vllm):
    """Asks for the first of the batch, then for all of it."""

    def plan(self, view: Any, /) -> Plan:
        if view.running:
            view.grow(view.running[0], view.running[0].tokens)
        return super().plan(view)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20)), min_size=1, max_size=4),
    st.integers(1, 5), st.integers(0, 12),
)  # fmt: skip
@example([(6, 9), (6, 9)], 3, 9)
def test_who_asked_by_itself_is_given_no_second_block(
    rows: list[tuple[int, int]], block: int, more: int
) -> None:
    prompts, outputs = zip(*rows, strict=True)
    trace = Trace.build("t", list(range(len(rows))), prompts, outputs)
    blocks = 1 + more + max(-(-sum(row) // block) for row in rows)
    runs = [
        engine(trace, Paged(blocks, block=block), FirstByItself(), Fixed(), max_len=99).run()
        for engine in (FastEngine, ReferenceEngine)
    ]
    assert_equal(*runs, Fixed().ns)


@given(st.lists(st.integers(0, 90), min_size=1, max_size=4), st.integers(1, 20))
@example([50, 30], 7)
def test_an_idle_engine_lets_others_go_first(gaps: list[int], period: int) -> None:
    """Whoever shares its clock has done all that is due before a step that is planned."""
    env = simpy.Environment()
    ticks: list[int] = []
    lags: list[int] = []

    def other() -> Iterator[Any]:
        while True:
            ticks.append(int(env.now))
            yield env.timeout(period)

    class Lag(Numbers):
        def scheduled(self, step: int, plan: Plan, view: Any, /) -> None:
            lags.append(view.now_ns - ticks[-1])

    env.process(other())
    trace = Trace.build("t", list(accumulate(gaps)), [3] * len(gaps), [1] * len(gaps))
    FastEngine(
        trace, Paged(9, block=2), Vllm(), Fixed(), max_len=20, env=env, observers=[Lag()]
    ).run()
    assert len(lags) == len(set(accumulate(gaps)))
    assert all(0 <= lag <= period for lag in lags)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=5), st.integers(1, 3), st.booleans())
def test_who_ends_together_is_released_in_order(prompts: list[int], block: int, keep: bool) -> None:
    """The one that came last ends with the first, and the free list says in which order."""
    trace = Trace.build(
        "t", list(range(len(prompts))), prompts, [9 - row for row in range(len(prompts))]
    )
    pool = PrefixPaged if keep else Paged
    runs = [
        engine(trace, pool(60, block=block), Vllm(), Fixed(), max_len=99).run()
        for engine in (FastEngine, ReferenceEngine)
    ]
    assert_equal(*runs, Fixed().ns)


@ENGINES
def test_the_future_is_told_to_who_asks(engine: Any) -> None:
    trace = shared(4, 9, 3)
    allocator = RankedPaged(9, block=2, evict="optimal")
    done = engine(trace, allocator, Vllm(), Fixed(), max_len=99).run()
    assert done.requests.generated.tolist() == [3] * 4


class Numbers:
    """Notes the numbers of the steps that it is shown."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []

    def scheduled(self, step: int, plan: Plan, view: Any, /) -> None:
        self.begun.append(step)

    def finished(self, step: int, done: Any, /) -> None:
        self.ended.append(step)


@ENGINES
@pytest.mark.parametrize("scheduler", [Vllm, Orca, InTurn])
def test_observers_are_shown_each_step_once_in_order(engine: Any, scheduler: Any) -> None:
    """A request of a prompt and m tokens takes m steps; the second comes when the first is done."""
    trace = Trace.build("t", [0, 100], [5, 3], [30, 20])
    numbers = Numbers()
    run = engine(trace, Paged(60, block=2), scheduler(), Fixed(), max_len=99, observers=[numbers])
    run.run()
    assert numbers.begun == numbers.ended == list(range(50))


@pytest.mark.parametrize("samples", [1, 2])
def test_who_ends_together_is_released_in_running_order_after_a_preemption(samples: int) -> None:
    """The last two end at the same tick; one of them was to end then before it was preempted too,
    when it stood elsewhere in the batch."""
    outputs = [1, 1, 2, 2, 2, 3, *([1] * (samples - 1)), 3]
    trace = Trace.build(
        "t", [0] * 7, [1] * 7, [1, 1, 2, 2, 2, 3, 3],
        columns={"samples": [1, 1, 1, 1, 1, samples, 1]},
        sample_output=outputs if samples > 1 else None,
    )  # fmt: skip
    free = []
    for engine in (ReferenceEngine, FastEngine):
        pool = Paged(7, block=1)
        recording = engine(trace, pool, Orca(), Fixed(1), max_len=20).run()
        assert recording.requests.preemptions.tolist() == [0, 0, 0, 0, 0, 1, 1]
        free.append(pool.free_blocks())
    assert free[0] == free[1]
