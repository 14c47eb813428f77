"""Groups of layers over one pool: the fast engine equals the reference in every recorded number.

And their account, in bytes, has no remainder: eight terms are the pool.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from agreement import Fixed, Odd
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from test_prefix_agrees import sharing_traces

from pagedsim.alloc.grouped import Grouped
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import BLOCKED, Recording, Requests
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import SpecError
from pagedsim.protocols import LayerGroup, Narrow
from pagedsim.trace.trace import Trace

KINDS = ["full", "full", "sliding", "sliding", "chunked", "state"]
TERMS = ("live", "reserved", "internal", "external", "cached")


@st.composite
def groups_of(draw: st.DrawFn, states: bool) -> tuple[LayerGroup, ...]:
    found = []
    block = draw(st.sampled_from([1, 2, 3, 4]))
    for at in range(draw(st.sampled_from([1, 2, 2, 3]))):
        kind = draw(st.sampled_from(KINDS if states else KINDS[:-1]))
        size = block * draw(st.sampled_from([1, 1, 1, 2]))
        window = draw(st.sampled_from([1, 2, 3, 5, 8, 13])) if kind in ("sliding", "chunked") else 0
        token = draw(st.sampled_from([1, 2, 5]))
        kept = draw(st.sampled_from([1, 1, 2]))
        narrow = ()
        if kind == "full":
            narrow = draw(st.sampled_from([(), (Narrow("sliding", 3, 2), Narrow("chunked", 4, 1))]))
            token += sum(part.token_bytes for part in narrow)
        found.append(LayerGroup(kind, (at,), size, token * size, window, kept, narrow))
    return tuple(found)


@st.composite
def parts(draw: st.DrawFn) -> tuple[Any, Any, int]:
    """Makers of an allocator and of a scheduler, and a maximum length."""
    max_len = draw(st.sampled_from([30, 70]))
    prefix = draw(st.booleans())
    groups = draw(groups_of(not prefix))
    kind = draw(st.sampled_from(["vllm", "vllm", "vllm", "orca", "static"]))
    max_seqs = draw(st.sampled_from([2, 3, 8]))
    watermark = draw(st.sampled_from([0.0, 0.0, 0.1]))
    flight = 0
    if kind == "static":
        scheduler: Any = lambda: Static(max_seqs=max_seqs)  # noqa: E731
    elif kind == "orca":
        scheduler = lambda: Orca(max_seqs=max_seqs, watermark=watermark)  # noqa: E731
    else:
        options: dict[str, Any] = {
            "max_seqs": max_seqs,
            "max_batched_tokens": draw(st.sampled_from([2, 5, 12, 80])),
            "long_prefill": draw(st.sampled_from([0, 0, 3])),
            "watermark": watermark,
            "full_input": draw(st.booleans()),
            "policy": draw(st.sampled_from(["fcfs", "fcfs", "priority"])),
        }
        flight = draw(st.sampled_from([0, options["max_batched_tokens"]]))
        scheduler = lambda: Vllm(**options)  # noqa: E731
    given = {
        "groups": groups,
        "prefix": prefix,
        "free_order": draw(st.sampled_from(["0.33", "0.33", "0.11"])),
        "in_flight": flight,
        "block_bytes": max(g.page_bytes for g in groups) + draw(st.sampled_from([0, 0, 7])),
    }
    blocks = 2 + sum(g.kept if g.kind == "state" else -(-max_len // g.block) for g in groups)
    blocks = max(2, blocks * draw(st.sampled_from([3, 5, 8, 10, 15])) // 10)
    if prefix:
        given["evict"] = draw(st.sampled_from(["lru", "lru", "lfu", "fifo", "slru", "mru"]))
    return (lambda: Grouped(blocks, **given)), scheduler, max_len


def run_both(trace: Trace, make: Any, scheduler: Any, steptime: Any, max_len: int) -> Any:
    runs = []
    for engine in (FastEngine, ReferenceEngine):
        made = engine(trace, make(), scheduler(), steptime, max_len=max_len)
        runs.append(made.run())
        assert made.allocator.usage().held == made.allocator.usage().shared == 0
        assert [count.gone for count in made.allocator.group_blocks()] == [0] * len(
            made.allocator.groups
        )
    return runs


def assert_equal(fast: Recording, reference: Recording) -> None:
    """Both have a window a step, so rows can be compared as they are."""
    for name in Requests.__dataclass_fields__:
        ours, theirs = getattr(fast.requests, name), getattr(reference.requests, name)
        assert ours.tolist() == theirs.tolist(), name
    for mine, other in zip(fast.windows.tolist(), reference.windows.tolist(), strict=False):
        assert mine == other
    assert len(fast.windows) == len(reference.windows)
    assert fast.grouped.tolist() == reference.grouped.tolist()
    assert (fast.refused, fast.free) == (reference.refused, reference.free)
    assert (fast.evicted, fast.capacity) == (reference.evicted, reference.capacity)


def idle(recording: Recording) -> Any:
    used = sum(recording.column(name) for name in TERMS) + recording.grouped.sum(axis=1)
    return recording.capacity - used


@st.composite
def runs(draw: st.DrawFn) -> tuple[Any, ...]:
    make, scheduler, max_len = draw(parts().filter(_made))
    return (
        draw(sharing_traces()),
        make,
        scheduler,
        draw(st.sampled_from([Odd(), Fixed(1)])),
        max_len,
    )


def _made(found: tuple[Any, Any, int]) -> bool:
    try:
        found[0]()
    except SpecError:
        return False
    return True


def check(run: tuple[Any, ...]) -> Recording:
    fast, reference = run_both(*run)
    assert_equal(fast, reference)
    left = idle(fast)
    assert (left >= 0).all()
    blocked = fast.column("limit") >= BLOCKED
    assert not left[blocked].any()
    assert not fast.column("external")[~blocked].any()
    assert (fast.windows >= 0).all()
    assert (fast.grouped >= 0).all()
    return reference


@given(run=runs())
def test_fast_equals_reference(run: tuple[Any, ...]) -> None:
    check(run)


SHARES = {
    "padding": 35, "outside": 20, "hits": 5, "preempted": 15, "blocked": 25, "shared": 8,
    "cached": 10, "internal": 20, "evicted": 5, "several": 40, "state": 1, "refused": 2,
}  # fmt: skip


def test_what_could_go_wrong_happens() -> None:
    """Or the property above would hold of nothing. Per cent of a sample, about half of what is."""
    tally: Counter[str] = Counter()
    count = 0

    @settings(
        max_examples=100,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(run=runs())
    def sample(run: tuple[Any, ...]) -> None:
        nonlocal count
        found, groups = check(run), run[1]().groups
        count += 1
        facts = {
            "padding": found.grouped[:, 0].any(),
            "outside": found.grouped[:, 1].any(),
            "hits": found.requests.hit.any(),
            "preempted": found.requests.preemptions.any(),
            "blocked": (found.column("limit") >= BLOCKED).any(),
            "shared": found.column("shared").any(),
            "cached": found.column("cached").any(),
            "internal": found.column("internal").any(),
            "evicted": bool(found.evicted),
            "several": len(groups) > 1,
            "state": any(group.kind == "state" for group in groups),
            "refused": bool(found.refused),
        }
        tally.update(name for name, fact in facts.items() if fact)

    sample()
    shares = {name: 100 * tally[name] / count for name in SHARES}
    assert {name: share for name, share in shares.items() if share < SHARES[name]} == {}


def uniform(rows: list[tuple[int, int, int]]) -> Trace:
    return Trace.build("t", *zip(*rows, strict=True))


def test_one_full_group_is_the_plain_pool() -> None:
    """A byte a token: all that is recorded is what `Paged` and `PrefixPaged` leave."""
    from agreement import expand

    from pagedsim.alloc.paged import Paged
    from pagedsim.alloc.prefix import PrefixPaged

    trace = uniform([(3 * at, 5 + at % 7, 9 + at % 5) for at in range(20)])
    for prefix, plain in ((False, Paged), (True, PrefixPaged)):
        group = LayerGroup("full", (0,), 4, 4)
        runs = [
            FastEngine(trace, make, Vllm(max_batched_tokens=16), Fixed(1), max_len=64).run()
            for make in (Grouped(13, groups=(group,), prefix=prefix), plain(13, block=4))
        ]
        grouped, alone = (expand(run, Fixed(1).ns) for run in runs)
        assert grouped == alone
        assert runs[0].free == runs[1].free
        assert not runs[0].grouped.any()


@pytest.mark.parametrize("make", [Static, Vllm])
def test_a_single_window_takes_constant_memory(make: Any) -> None:
    """Of 400 tokens a window of 8 keeps two or three blocks of 4 for ever."""
    group = LayerGroup("sliding", (0,), 4, 4, 8)
    trace = uniform([(0, 3, 400)])
    engine = FastEngine(
        trace, Grouped(5, groups=(group,), in_flight=4), make(), Fixed(1), max_len=500
    )
    run = engine.run()
    held = run.column("held")
    assert held.max() == 12
    assert set(held[20:].tolist()) <= {8, 12}
    assert run.requests.finish_ns.tolist() == [400]
    # stored after step j are 3 + j tokens; those before the window of the next were read last now
    steps = np.arange(len(run.windows))
    first_read = np.maximum(0, np.where(steps > 0, 2 + steps, 0) - 7)
    assert run.grouped[:, 1].tolist() == (first_read % 4).tolist()


def test_state_layers_take_a_block_whatever_the_length() -> None:
    """Beside one full group: the state is live, and its padding is what the block is wider."""
    groups = (LayerGroup("full", (0,), 4, 40), LayerGroup("state", (1,), 4, 25, kept=2))
    trace = uniform([(0, 4, 9), (0, 8, 3)])
    run = FastEngine(trace, Grouped(20, groups=groups), Vllm(), Fixed(1), max_len=50).run()
    assert run.grouped[:2].tolist() == [[4 * 15, 0]] * 2
    assert run.column("live")[0] == 4 * 25 + 12 * 10
    assert run.grouped[-1].tolist() == [2 * 15, 0]


def test_what_is_done_reads_no_more() -> None:
    """A member of a held batch shares a block with one that runs, whose window has left it."""
    group = LayerGroup("sliding", (0,), 4, 4, 4)
    counts, lengths, first = list(range(4)), [5, 5, 5], [0, 0, 0]
    trace = Trace.build("t", [0, 1, 1], [5, 5, 5], [1, 8, 1], runs=(counts, first, lengths))
    run = trace, lambda: Grouped(20, groups=(group,), prefix=True), Static, Fixed(1), 20
    assert check(run).column("shared").any()


@pytest.mark.parametrize("late", [0, 1, 3])
def test_windows_that_move_late_are_found(late: int) -> None:
    """Planted in the fast engine: it says that fewer tokens are stored than are."""
    group = LayerGroup("sliding", (0,), 2, 2, 5)
    trace, pool = uniform([(0, 3, 40), (2, 9, 20)]), 30
    runs = []
    for engine in (FastEngine, ReferenceEngine):
        made = engine(trace, Grouped(pool, groups=(group,)), Vllm(), Fixed(1), max_len=99)
        if engine is FastEngine and late:
            trim = made.state._trim
            made.state._trim = lambda seq, c, trim=trim: trim(seq, max(0, c - late))
        runs.append(made.run())
    if not late:
        assert_equal(*runs)
        return
    with pytest.raises(AssertionError):
        assert_equal(*runs)
