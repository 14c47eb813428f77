"""Both engines give the same run over a radix tree: jumps see what single steps see.

The schedulers here try the queue after the running, and weigh its head by all that it knows, so
that what eviction does to the head's hit cannot let it in.
"""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.alloc.evict import POLICIES
from pagedsim.alloc.radix import Radix
from pagedsim.alloc.radix_check import check
from pagedsim.analysis.simulate import engine_of
from pagedsim.engine.schedulers import Static, Vllm
from pagedsim.trace import Trace, load

_FILE = Path(__file__).resolve().parents[1] / "engine" / "agreement.py"
_SPEC = importlib.util.spec_from_file_location("engine_agreement", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
agreement = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(agreement)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    known: list[list[tuple[int, int]]] = [[(0, 9)], [(0, 4), (50, 7)]]
    rows, runs, output, first, salt, arrival = [0], [], [], [], [], []
    for row in range(draw(st.integers(2, 10))):
        base = draw(st.sampled_from(known[-4:]))
        prompt = base[: draw(st.sampled_from([len(base), 1]))]
        if draw(st.booleans()):
            prompt = [*prompt, (draw(st.sampled_from([0, 50, 100 * row])), draw(st.integers(1, 8)))]
        output.append(draw(st.integers(1, 20)))
        first.append(draw(st.sampled_from([900, 2000 + 1000 * row])))
        known += prompt, [*prompt, (first[-1], output[-1])]
        runs += prompt
        rows.append(len(runs))
        salt.append(draw(st.sampled_from([0, 0, 1])))
        arrival.append(draw(st.integers(0, 60)))
    token, length = zip(*runs, strict=True)
    return Trace.build(
        "drawn",
        sorted(arrival),
        [sum(length[at:to]) for at, to in pairwise(rows)],
        output,
        runs=(rows, token, length),
        output_token=first,
        columns={"salt": salt},
    )


def both(trace: Trace, capacity: int, make: Any, max_len: int, price: Any, **about: Any) -> Any:
    """The run of each engine, held to be equal; the reference's."""
    runs = []
    for name in ("fast", "reference"):
        allocator = Radix(capacity, **about)
        run = engine_of(name)(trace, allocator, make(), price, max_len=max_len).run()
        usage = allocator.usage()
        assert usage.held == usage.shared == 0
        check(allocator.tree, [], 0)
        runs.append((run, usage))
    agreement.assert_equal(runs[0][0], runs[1][0], price.ns)
    assert runs[0][1] == runs[1][1]
    return runs[1][0]


@given(
    trace=traces(),
    page=st.sampled_from([1, 1, 2, 3, 4]),
    capacity=st.integers(20, 100),
    evict=st.sampled_from(sorted(POLICIES)),
    budget=st.sampled_from([4, 16, 64]),
    seqs=st.sampled_from([8, 3, 1]),
    watermark=st.sampled_from([0.0, 0.05, 0.3]),
    max_len=st.sampled_from([400, 40]),
    odd=st.booleans(),
    static=st.sampled_from([False, False, False, True]),
)
def test_the_engines_agree(
    trace: Trace,
    page: int,
    capacity: int,
    evict: str,
    budget: int,
    seqs: int,
    watermark: float,
    max_len: int,
    odd: bool,
    static: bool,
) -> None:
    def make() -> Any:
        if static:
            return Static(max_seqs=seqs)
        return Vllm(max_seqs=seqs, max_batched_tokens=budget, watermark=watermark)

    price = agreement.Odd() if odd else agreement.Fixed()
    both(trace, capacity, make, max_len, price, page=page, evict=evict)


@pytest.mark.parametrize(("page", "hit"), [(1, 20_000), (16, 19_000)])
def test_a_recorded_trace_hits_and_is_preempted(golden: Path, page: int, hit: int) -> None:
    trace = load(golden / "trace_shared300.json")
    run = both(trace, 900, Vllm, 800, agreement.Fixed(), page=page)
    assert run.requests.hit.sum() > hit
    assert run.requests.preemptions.sum() > 0
    assert run.requests.resumed_hit.sum() > 0
