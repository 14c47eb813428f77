"""Recurrent states that are found again: steps end at blocks, hits at states; engines agree."""

from __future__ import annotations

from typing import Any

import pytest
from agreement import Fixed, Odd, Rising, expand
from grouped import check
from hypothesis import given
from hypothesis import strategies as st
from test_prefix_agrees import sharing_traces

from pagedsim.alloc.grouped import Grouped
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import BLOCKED
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import SpecError
from pagedsim.protocols import LayerGroup
from pagedsim.trace.trace import Trace

ENGINES = [FastEngine, ReferenceEngine]
MIXED = (LayerGroup("full", (0,), 4, 40), LayerGroup("state", (1,), 4, 25))


@st.composite
def runs(draw: st.DrawFn) -> tuple[Any, ...]:
    block = draw(st.sampled_from([1, 2, 3, 4]))
    groups = [LayerGroup("state", (0,), block, 5)]
    for at in range(draw(st.sampled_from([0, 1, 1, 2]))):
        kind, window = draw(st.sampled_from([("full", 0), ("sliding", 5), ("state", 0)]))
        size = block * draw(st.sampled_from([1, 1, 2]))
        groups.append(LayerGroup(kind, (at + 1,), size, 2 * size, window))
    most = max(one.block for one in groups)
    options = {
        "max_seqs": draw(st.sampled_from([2, 3, 8])),
        "max_batched_tokens": most * draw(st.sampled_from([1, 1, 2, 6])) + draw(st.integers(0, 3)),
        "full_input": draw(st.booleans()),
        "policy": draw(st.sampled_from(["fcfs", "priority"])),
        "watermark": draw(st.sampled_from([0.0, 0.0, 0.1])),
    }
    scheduler: Any = lambda: Vllm(**options)  # noqa: E731
    if draw(st.integers(0, 4)) == 4:
        scheduler = draw(st.sampled_from([Orca, Static]))
    max_len = draw(st.sampled_from([30, 70]))
    need = sum(2 if one.kind == "state" else -(-max_len // one.block) for one in groups)
    blocks = 2 + need * draw(st.sampled_from([8, 10, 12, 20, 30])) // 10
    evict = draw(st.sampled_from(["lru", "lru", "lfu"]))

    def make() -> Grouped:
        return Grouped(blocks, groups=tuple(groups), prefix=True, evict=evict)

    steptime = draw(st.sampled_from([Odd(), Rising(), Fixed(1), Fixed(10)]))
    return draw(sharing_traces()), make, scheduler, steptime, max_len


@given(run=runs())
def test_fast_equals_reference(run: tuple[Any, ...]) -> None:
    check(run)


def steps(run: Any, name: str) -> list[int]:
    """A column, a number a step."""
    return [step[name] for step in expand(run, Fixed(1).ns)]


def alike(arrivals: list[int], prompt: int, output: int) -> Trace:
    """Requests of one prompt, whose answers differ."""
    count = len(arrivals)
    return Trace.build(
        "t",
        arrivals,
        [prompt] * count,
        [output] * count,
        runs=(list(range(count + 1)), [0] * count, [prompt] * count),
        output_token=[1000 * (row + 1) for row in range(count)],
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_state_is_hit_a_step_after_it_was_named(engine: Any) -> None:
    """Prompts of 10, blocks of 4: the first step ends at token 8, where the second one hits.

    In that step the second is refused: the state is not there yet. The head is blocked by it.
    """
    pool = Grouped(40, groups=MIXED, prefix=True)
    made = engine(alike([0, 0], 10, 3), pool, Vllm(max_batched_tokens=20), Fixed(1), max_len=50)
    run = made.run()
    assert steps(run, "tokens") == [8, 4, 2, 2]
    assert [limit >= BLOCKED for limit in steps(run, "limit")] == [True, False, False, False]
    assert run.requests.hit.tolist() == [0, 8]
    assert run.requests.admitted_ns.tolist() == [0, 1]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_hit_ends_where_a_step_did(engine: Any) -> None:
    """A budget of 9 makes steps of 8, 8, 4 and 2 of 22 tokens: states at 8, 16 and 20 are kept.

    A prompt that shares 19 tokens hits 16: all blocks before 19, and the last state there.
    """
    lengths = [[22], [19, 6]]
    trace = Trace.build(
        "t",
        [0, 50],
        [22, 25],
        [1, 1],
        runs=([0, 1, 3], [0, 0, 500], [length for part in lengths for length in part]),
        output_token=[1000, 2000],
    )
    pool = Grouped(40, groups=MIXED, prefix=True)
    run = engine(trace, pool, Vllm(max_batched_tokens=9), Fixed(1), max_len=50).run()
    assert steps(run, "tokens") == [8, 8, 4, 2, 8, 1]
    assert run.requests.hit.tolist() == [0, 16]


@pytest.mark.parametrize("engine", ENGINES)
def test_whoever_decodes_keeps_a_state_a_block(engine: Any) -> None:
    """Two states are held in the steps that begin a block, else one; the others are cached."""
    pool = Grouped(99, groups=MIXED[1:], prefix=True)
    run = engine(alike([0], 3, 20), pool, Vllm(), Fixed(1), max_len=50).run()
    stored = [3 + step for step in range(20)]
    assert steps(run, "held") == [
        25 * (2 if tokens % 4 == 1 and tokens > 4 else 1) for tokens in stored
    ]
    assert steps(run, "live") == steps(run, "held")
    assert pool.usage().cached == 25 * (22 // 4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_batched_tokens": 3}, "max_batched_tokens is 3, must be >= 4 with prefix=on and"),
        ({"long_prefill": 2}, "long_prefill is 2, must be >= 4 with prefix=on and recurrent"),
        ({"chunked": False, "max_batched_tokens": 99}, "chunked=0 with prefix=on and recurrent"),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_steps_that_reach_no_state_are_refused(
    engine: Any, options: dict[str, Any], said: str
) -> None:
    pool = Grouped(40, groups=MIXED, prefix=True)
    with pytest.raises(SpecError, match=f"vllm: {said}"):
        engine(alike([0, 0], 10, 3), pool, Vllm(**options), Fixed(1), max_len=50).run()
