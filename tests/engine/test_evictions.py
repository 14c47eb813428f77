"""Evictions are counted: closed forms, and both engines alike (`test_prefix_agrees`)."""

from __future__ import annotations

from typing import Any

import pytest
from agreement import Fixed
from hypothesis import assume, given
from test_prefix_agrees import setups, sharing_traces

from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.radix import Radix
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Vllm
from pagedsim.trace.trace import Trace

ENGINES = [FastEngine, ReferenceEngine]


@pytest.mark.parametrize("engine", ENGINES)
@given(trace=sharing_traces(), setup=setups())
def test_what_was_stored_is_cached_or_evicted(engine: Any, trace: Trace, setup: Any) -> None:
    """Without preemptions: full blocks stored, less those hit, less those cached at the end."""
    make, scheduler, max_len = setup
    pool = make()
    run = engine(trace, pool, scheduler(), Fixed(1), max_len=max_len).run()
    assume(not run.requests.preemptions.any())
    refused = {refusal.row for refusal in run.refused}
    stored = 0
    for row in range(len(trace)):
        if row not in refused:
            final = min(int(trace.prompt[row] + trace.output[row]), max_len) - 1
            stored += final // pool.block - int(run.requests.hit[row]) // pool.block
    assert run.evicted == stored * pool.block - pool.usage().cached


@pytest.mark.parametrize("engine", ENGINES)
def test_a_tree_counts_the_slots_of_nodes_it_drops(engine: Any) -> None:
    """10 slots; requests of 4 + 1, 6 + 1 and 5 + 1 tokens store 4, 6 and 5: the third evicts.

    The first stays idle with 4 slots, the second with 6: all ten. The third needs 5, so the first
    and then the second go.
    """
    trace = Trace.build("t", [0, 100, 200], [4, 6, 5], [1, 1, 1])
    run = engine(trace, Radix(10), Vllm(), Fixed(1), max_len=20).run()
    assert run.evicted == 10


@pytest.mark.parametrize("engine", ENGINES)
def test_blocks_by_hand(engine: Any) -> None:
    """3 blocks of 2: 4 + 1 tokens cache 2, then 6 + 1 take the free one and both of those."""
    trace = Trace.build("t", [0, 100], [4, 6], [1, 1])
    run = engine(trace, PrefixPaged(4, block=2), Vllm(), Fixed(1), max_len=20).run()
    assert run.evicted == 4


def test_who_keeps_nothing_counts_nothing() -> None:
    trace = Trace.build("t", [0], [4], [1])
    assert FastEngine(trace, Paged(4), Vllm(), Fixed(1), max_len=20).run().evicted is None
