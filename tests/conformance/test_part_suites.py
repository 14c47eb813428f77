"""The suites of schedulers, step times and eviction: what ships passes, planted mistakes do not."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from planted_evictions import CACHES, Mixed
from planted_evictions import POLICIES as PLANTED_POLICIES
from planted_parts import PLANTED

from pagedsim.alloc.evict import BLOCK_POLICIES, POLICIES
from pagedsim.alloc.grouped import Grouped
from pagedsim.device.device import make_device
from pagedsim.device.roofline import Roofline
from pagedsim.device.steptable import Table
from pagedsim.device.steptime import Affine, Constant
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.protocols import LayerGroup, SupportsSteady, schedule
from pagedsim.testing import (
    SUITES,
    check_eviction,
    check_scheduler,
    check_steptime,
    eviction_suite,
    eviction_tests,
    explore,
    loads,
    profile,
    rejects,
    steptimes,
)
from pagedsim.testing.laws import Judge
from pagedsim.testing.scheduler import LAWS, Judged

GRID = [(s, p, c, 1e-6 * (3 + s + 2 * p + c)) for s in (1, 8) for p in (0, 900) for c in (0, 9000)]
SCHEDULERS = [
    Vllm,
    partial(Vllm, max_batched_tokens=5, long_prefill=2, policy="priority"),
    partial(Vllm, max_seqs=2, watermark=0.1, full_input=False, max_batched_tokens=9),
    Orca,
    partial(Orca, max_seqs=2, watermark=0.1),
    Static,
]
STEPTIMES = [
    partial(Constant, ms=2),
    partial(Affine, base_ms=26.24, per_seq_ms=0.419, per_context_token_ns=0.7),
    partial(Table, GRID),
    partial(Roofline, make_device("llama-3.1-8b", "a100-80gb")),
]


@pytest.mark.parametrize("make", SCHEDULERS)
def test_shipped_schedulers(make: Any) -> None:
    check_scheduler(make)


@pytest.mark.parametrize("make", STEPTIMES)
def test_shipped_steptimes(make: Any) -> None:
    check_steptime(make)


@pytest.mark.parametrize("name", BLOCK_POLICIES)
def test_shipped_eviction(name: str) -> None:
    found = check_eviction(BLOCK_POLICIES[name])
    assert bool(found.checked["goes"]) == (name != "optimal")


def one_full_group(blocks: int, *, block: int = 16, evict: Any = "lru") -> Grouped:
    """A prefix cache of one group, a byte a token."""
    group = LayerGroup("full", (0,), block, block)
    return Grouped(blocks, groups=(group,), prefix=True, evict=evict)


@pytest.mark.parametrize("make", [POLICIES["lfu"], POLICIES["fifo"], Mixed])
def test_blocks_of_a_group_go_by_rank(make: Any) -> None:
    findings = explore(eviction_suite(make, cache=one_full_group), profile("dev"))
    assert not findings.broken
    assert findings.checked["goes"]


TestLru = eviction_tests(POLICIES["lru"], settings(max_examples=20, derandomize=True))


@given(model=steptimes(), load=loads())
def test_drawn_models_price_drawn_loads(model: Any, load: Any) -> None:
    assert model.ns(load) >= 1


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_mistake_is_found(planted: str) -> None:
    kind, make, laws = PLANTED[planted]
    broken = rejects(SUITES[kind](make), profile("ci"))
    assert broken is not None, "nothing was found"
    assert broken.law in laws, broken


@pytest.mark.parametrize("planted", PLANTED_POLICIES)
def test_a_planted_policy_is_found(planted: str) -> None:
    make, laws = PLANTED_POLICIES[planted]
    broken = rejects(SUITES["eviction"](make), profile("ci"))
    assert broken is not None, "nothing was found"
    assert broken.law in laws, broken


def test_what_tells_caches_apart_is_sound() -> None:
    check_eviction(Mixed)


@pytest.mark.parametrize("planted", CACHES)
def test_a_cache_that_evicts_the_wrong_block_is_found(planted: str) -> None:
    broken = rejects(eviction_suite(Mixed, cache=CACHES[planted]), profile("ci"))
    assert broken is not None, "nothing was found"
    assert broken.law == "goes", broken


@pytest.mark.parametrize("make", [Vllm, Orca, Static])
def test_an_engine_takes_a_witness_for_the_scheduler(make: Any) -> None:
    """What an engine asks of a scheduler it hears from its witness, but whether it is steady."""
    inner = make()
    outer = Judged(inner, Judge(LAWS), [])
    asked = [each for each in vars(schedule).values() if getattr(each, "_is_runtime_protocol", 0)]
    offered = [each for each in asked if isinstance(inner, each) and each is not SupportsSteady]
    assert offered
    for protocol in offered:
        assert isinstance(outer, protocol), protocol
        for name in protocol.__protocol_attrs__ if hasattr(protocol, "__protocol_attrs__") else ():
            assert getattr(outer, name) == getattr(inner, name)
