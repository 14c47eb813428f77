"""With a prefix cache too, the fast engine equals the reference in everything that is recorded."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from agreement import Fixed, Odd, Rising, assert_equal
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pagedsim.alloc.evict import BLOCK_POLICIES
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import Recording
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.engine.state import State
from pagedsim.errors import ContractError
from pagedsim.trace.trace import Trace


@st.composite
def sharing_traces(draw: st.DrawFn) -> Trace:
    """Content from few tokens, outputs included, so that much of it is equal."""
    rows = draw(st.integers(2, 12))
    run = st.tuples(st.sampled_from([0, 0, 0, 100, 103]), st.integers(1, 14))
    prompts = [draw(st.lists(run, min_size=1, max_size=3)) for _ in range(rows)]
    output = draw(st.lists(st.integers(1, 20), min_size=rows, max_size=rows))
    follow = st.sampled_from([0, 1, 2])
    starts = []
    for runs in prompts:
        first, length = runs[-1]
        goes_on, fresh, restarts = first + length, 1000 + 100 * len(starts), 0
        starts.append((goes_on, fresh, restarts)[draw(follow)])
    arrivals = draw(st.lists(st.integers(0, 60), min_size=rows, max_size=rows))
    if draw(st.booleans()):
        arrivals = [arrival // 20 * 20 for arrival in arrivals]
    flat = [run for runs in prompts for run in runs]
    counts = [0]
    for runs in prompts:
        counts.append(counts[-1] + len(runs))
    return Trace.build(
        "t",
        arrivals,
        [sum(length for _, length in runs) for runs in prompts],
        output,
        runs=(counts, [first for first, _ in flat], [length for _, length in flat]),
        output_token=starts,
        columns={
            "salt": draw(st.lists(st.sampled_from([0, 0, 0, 1]), min_size=rows, max_size=rows)),
            "priority": draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows)),
        },
    )


@st.composite
def setups(draw: st.DrawFn) -> tuple[Any, Any, int]:
    max_len = draw(st.sampled_from([30, 70]))
    block = draw(st.sampled_from([1, 2, 3, 4]))
    need = -(-max_len // block)
    blocks = need + draw(st.integers(-need // 2, need // 2)) + 2
    order = draw(st.sampled_from(["0.33", "0.11"]))
    kind = draw(st.sampled_from(["vllm", "vllm", "vllm", "orca", "static"]))
    max_seqs = draw(st.sampled_from([2, 3, 8]))
    watermark = draw(st.sampled_from([0.0, 0.0, 0.1]))
    if kind == "static":
        make: Any = lambda: Static(max_seqs=max_seqs)  # noqa: E731
    elif kind == "orca":
        make = lambda: Orca(max_seqs=max_seqs, watermark=watermark)  # noqa: E731
    else:
        options: dict[str, Any] = {
            "max_seqs": max_seqs,
            "max_batched_tokens": draw(st.sampled_from([2, 5, 12, 80])),
            "long_prefill": draw(st.sampled_from([0, 0, 3])),
            "watermark": watermark,
            "full_input": draw(st.booleans()),
            "policy": draw(st.sampled_from(["fcfs", "fcfs", "priority"])),
        }
        # else equals can preempt each other for ever (test_rules_vllm.py)
        options["full_input"] |= options["policy"] == "priority"
        make = lambda: Vllm(**options)  # noqa: E731
    evict = draw(st.sampled_from(["", "", "", *sorted(BLOCK_POLICIES)]))
    given: dict[str, Any] = {"block": block, "free_order": order}
    if evict:
        return lambda: RankedPaged(blocks, evict=evict, **given), make, max_len
    return lambda: PrefixPaged(blocks, **given), make, max_len


def both(
    trace: Trace, allocator: Any, scheduler: Any, steptime: Any, max_len: int
) -> tuple[Recording, Recording]:
    fast, reference = (
        engine(trace, allocator(), scheduler(), steptime, max_len=max_len).run()
        for engine in (FastEngine, ReferenceEngine)
    )
    return fast, reference


steptimes = st.sampled_from([Odd(), Rising(), Fixed(1), Fixed(10)])


@given(sharing_traces(), setups(), steptimes)
def test_fast_equals_reference(trace: Trace, setup: Any, steptime: Any) -> None:
    fast, reference = both(trace, *setup[:2], steptime, setup[2])
    assert_equal(fast, reference, steptime.ns)


@given(sharing_traces(), setups(), steptimes)
def test_ranked_by_last_use_is_the_free_list(trace: Trace, setup: Any, steptime: Any) -> None:
    """Where what has no key goes to the front: else it mixes with what has one."""
    make, scheduler, max_len = setup
    like = make()
    plain, ranked = (
        FastEngine(trace, allocator, scheduler(), steptime, max_len=max_len).run()
        for allocator in (
            PrefixPaged(like.blocks, block=like.block),
            RankedPaged(like.blocks, block=like.block, evict="lru"),
        )
    )
    assert (plain.windows == ranked.windows).all()
    assert (plain.starts == ranked.starts).all()
    assert (plain.requests.hit == ranked.requests.hit).all()
    assert plain.free == ranked.free


def test_what_could_go_wrong_happens() -> None:
    """The sample is not vacuous: hits, shared slots, evictions, preemptions and jumps all occur."""
    seen: Counter[str] = Counter()

    @settings(
        max_examples=300,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(sharing_traces(), setups(), steptimes)
    def sample(trace: Trace, setup: Any, steptime: Any) -> None:
        fast, reference = both(trace, *setup[:2], steptime, setup[2])
        requests = reference.requests
        cached = reference.column("cached")
        seen["hits"] += bool(requests.hit.any())
        seen["hits of the preempted"] += bool(requests.resumed_hit.any())
        seen["shared"] += bool(reference.column("shared").any())
        seen["evictions"] += bool((cached[1:] < cached[:-1]).any())
        seen["preemptions"] += bool(requests.preemptions.any())
        seen["jumps"] += bool((fast.column("steps") > 1).any())
        seen["jumps while blocked"] += bool(
            ((fast.column("steps") > 1) & (fast.column("limit") >= 4)).any()
        )

    sample()
    for what in ("hits", "shared", "evictions", "jumps"):
        assert seen[what] >= 60, (what, seen)
    for what in ("preemptions", "hits of the preempted", "jumps while blocked"):
        assert seen[what] >= 12, (what, seen)


# Planted mistakes, each of which the property must find.


def _head_never_stirs(patch: pytest.MonkeyPatch) -> None:
    """A jump passes the step in which a block is filled that the blocked head could hit."""
    patch.setattr(State, "head_stirs", lambda self: False)


def _no_fill(patch: pytest.MonkeyPatch) -> None:
    """Blocks that decoding fills get their key a step late, when the next one starts."""
    patch.setattr(PrefixPaged, "fill", lambda self, seqs: None)


def _cached_stays(patch: pytest.MonkeyPatch) -> None:
    """In a jump, what is taken from the cache is not taken from its account."""
    was = State.grow_decoding

    def grow(self: State, steps: int) -> Any:
        found = was(self, steps)
        return found and (*found[:2], 0)

    patch.setattr(State, "grow_decoding", grow)


def _full_blocks_only_when_exceeded(patch: pytest.MonkeyPatch) -> None:
    """A chunk that ends with its last block full does not ask."""
    was = State.grow

    def grow(self: State, seq: Any, tokens: int) -> bool:
        return True if tokens <= self.room(seq) else was(self, seq, tokens)

    patch.setattr(State, "grow", grow)


def _stale_hit(patch: pytest.MonkeyPatch) -> None:
    """What was looked up stays true for ever."""
    was = State.cached

    def cached(self: State, seq: Any) -> int:
        if self.__dict__.get("_seen", (None, 0))[0] is not seq:
            self.__dict__["_seen"] = (seq, was(self, seq))
        return self.__dict__["_seen"][1]

    patch.setattr(State, "cached", cached)


@pytest.mark.parametrize(
    "plant",
    [
        _head_never_stirs,
        _no_fill,
        _cached_stays,
        _full_blocks_only_when_exceeded,
        _stale_hit,
    ],
)
def test_a_planted_mistake_is_found(plant: Any) -> None:
    @settings(
        max_examples=600,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(sharing_traces(), setups(), steptimes)
    def search(trace: Trace, setup: Any, steptime: Any) -> None:
        assert_equal(*both(trace, *setup[:2], steptime, setup[2]), steptime.ns)

    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises((AssertionError, ContractError, KeyError, IndexError)):
            search()
