"""What the fast engine may not step over: a head that stirs, room taken ahead, a budget that ends.

Each is the smallest run in which taking many steps, or the whole batch, at once would go wrong.
"""

from __future__ import annotations

from typing import Any

import pytest
from agreement import Fixed, Odd, assert_equal
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import Recording
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import ContractError
from pagedsim.protocols import Plan, batched, fruitless_steps
from pagedsim.trace.trace import Trace

ODD = Odd()
ENGINES = pytest.mark.parametrize("engine", [ReferenceEngine, FastEngine])


def agree(trace: Trace, allocator: Any, scheduler: Any, price: Any = ODD) -> Recording:
    """Both engines' run, in every recorded number."""
    runs = [
        engine(trace, allocator(), scheduler(), price, max_len=99).run()
        for engine in (FastEngine, ReferenceEngine)
    ]
    assert_equal(*runs, price.ns)
    return runs[0]


def follower(prompt: int, output: int, more: int) -> Trace:
    """A request, and one whose prompt is its prompt, its output but a token, and `more` tokens."""
    return Trace.build(
        "t", [0, 1], [prompt, prompt + output - 1 + more], [output + 2, 2],
        runs=([0, 1, 4], [0, 0, 100, 200], [prompt, prompt, output - 1, more]),
        output_token=[100, 300],
    )  # fmt: skip


# With s tokens stored the first holds ceil(s / 3) blocks, and the second lacks 3 - floor(s / 3).
# With 3 blocks there is room for both where 3 divides s. 4 are stored when the second comes, and a
# scheduler that grows the batch first sees it a step earlier.
@pytest.mark.parametrize(("scheduler", "at"), [(Vllm, 20), (Orca, 30)])
def test_a_head_is_let_in_when_a_block_that_it_hits_is_filled(scheduler: Any, at: int) -> None:
    trace = follower(4, 4, 1)
    done = agree(trace, lambda: PrefixPaged(4, block=3), scheduler, Fixed(10))
    assert done.requests.admitted_ns.tolist() == [0, at]
    assert done.requests.hit.tolist() == [0, 6]


@given(
    st.integers(1, 6), st.integers(2, 9), st.integers(1, 4), st.integers(1, 4), st.integers(0, 3),
    st.sampled_from([Vllm, Orca, Static]),
)  # fmt: skip
def test_a_head_that_could_hit_more_is_looked_at(
    prompt: int, output: int, more: int, block: int, spare: int, scheduler: Any
) -> None:
    longest = prompt + output + max(1, more)
    blocks = -(-longest // block) + 1 + spare
    agree(follower(prompt, output, more), lambda: PrefixPaged(blocks, block=block), scheduler)


class Ahead:
    """At every `turn`-th plan who decodes takes `ahead` slots more, and may have to wait a step."""

    steady = True
    head_first = False

    def __init__(self, ahead: int, turn: int, *, waits: bool, first: int) -> None:
        self._ahead, self._turn, self._waits, self._first = ahead, turn, waits, first
        self._plans = 0

    def check(self, max_len: int, /) -> None:
        """Any length will do."""

    def undisturbed(self, view: Any, /) -> bool:
        return False

    def plan(self, view: Any, /) -> Plan:
        plan = Plan()
        new = view.waiting[0] if view.waiting else None
        if new is not None and view.admit(new, new.tokens + self._first):
            plan.admitted.append(new)
            plan.scheduled[new] = new.tokens
            self._plans += 1
            if self._plans % self._turn == 0:
                for seq in view.running[: 1 + self._plans % 2]:
                    assert seq is new or view.grow(seq, seq.tokens + self._ahead)
            if self._waits:
                return plan
        batch = batched(view)
        if batch is not None and batch.grow_all(dict(plan.scheduled)):
            plan.decoding = batch.decoding > 0
            return plan
        plan.scheduled.clear()  # in running order
        for seq in view.running:
            assert view.grow(seq, seq.tokens)
            plan.scheduled[seq] = seq.tokens - seq.computed
        return plan


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 14)), min_size=1, max_size=4),
    st.integers(1, 4), st.integers(0, 6), st.integers(0, 6), st.integers(1, 3), st.booleans(),
)  # fmt: skip
def test_who_has_room_ahead_gets_no_block_twice(
    sizes: list[tuple[int, int]], block: int, first: int, ahead: int, turn: int, waits: bool
) -> None:
    prompts, outputs = zip(*sizes, strict=True)
    trace = Trace.build("t", [12 * row for row in range(len(sizes))], prompts, outputs)
    agree(
        trace,
        lambda: Paged(200, block=block),
        lambda: Ahead(ahead, turn, waits=waits, first=first),
    )


def test_who_prefills_between_those_that_decode_has_its_turn_at_the_budget() -> None:
    """Three samples decode, the next is in its prompt, and nothing is left for the one behind.

    Of 5 tokens: 2 + 2 + 1 for two steps, in the second of which the first becomes three. Then
    3 + 2 + 0 until the second has its prompt; the third has to wait, though it decodes.
    """
    trace = Trace.build(
        "t", [0, 0, 0], [4, 12, 1], [9, 2, 9], columns={"samples": [3, 1, 1]},
        sample_output=[9, 9, 9, 2, 9],
    )  # fmt: skip
    done = agree(
        trace,
        lambda: Paged(99, block=1),
        lambda: Vllm(max_batched_tokens=5, long_prefill=2),
        Fixed(10),
    )
    assert done.requests.first_token_ns.tolist() == [20, 60, 10]


@ENGINES
@pytest.mark.parametrize("output", [1, 3])
def test_patience_is_counted_from_the_last_token(engine: Any, output: int) -> None:
    """One that comes first in all yields `output` tokens; then two take each other's blocks."""
    trace = Trace.build("t", [0, 0, 0], [1, 5, 5], [output, 1, 1], columns={"priority": [0, 1, 1]})
    scheduler = Vllm(policy="priority", long_prefill=1, full_input=False, max_batched_tokens=20)
    patience = fruitless_steps(20)
    with pytest.raises(ContractError, match=f"no token in {patience + 1} steps: ") as caught:
        engine(trace, Paged(6, block=1), scheduler, Fixed(1), max_len=20).run()
    assert str(caught.value).startswith(f"step {output + patience}: ")


@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=4), st.integers(1, 9), st.integers(1, 3),
)  # fmt: skip
def test_a_held_batch_whose_done_share_with_others(
    outputs: list[int], prompt: int, block: int
) -> None:
    rows = len(outputs)
    trace = Trace.build(
        "t", [0] * rows, [prompt] * rows, outputs,
        runs=(range(rows + 1), [0] * rows, [prompt] * rows),
        output_token=[1000 * (row + 1) for row in range(rows)],
    )  # fmt: skip
    agree(trace, lambda: PrefixPaged(200, block=block), Static)


@ENGINES
@pytest.mark.parametrize("others", [1, 3])
def test_a_beam_search_of_one_beam(engine: Any, others: int) -> None:
    """It is a request like others, also beside one of more beams."""
    trace = Trace.build(
        "t", [0, 0], [3, 4], [5, 6], columns={"samples": [1, others], "beam": [1, others > 1]},
        sample_output=[5] + [6] * others,
    )  # fmt: skip
    done = engine(trace, Paged(99, block=2), Orca(), Fixed(10), max_len=99).run()
    assert done.requests.generated.tolist() == [5, 6 * others]
    assert done.requests.finish_ns.tolist() == [50, 60]
