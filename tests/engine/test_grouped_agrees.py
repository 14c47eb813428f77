"""Groups of layers over one pool: the fast engine equals the reference in every recorded number.

And their account, in bytes, has no remainder: eight terms are the pool.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from agreement import Fixed, assert_equal, expand
from grouped import check, families, runs
from hypothesis import HealthCheck, Phase, given, settings

from pagedsim.alloc.grouped import Grouped
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import BLOCKED
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Static, Vllm
from pagedsim.protocols import LayerGroup
from pagedsim.trace.trace import Trace


@given(run=runs())
def test_fast_equals_reference(run: tuple[Any, ...]) -> None:
    check(run)


@given(run=families())
def test_windows_that_leave_shared_blocks(run: tuple[Any, ...]) -> None:
    check(run)


SHARES = {
    "padding": 35, "outside": 20, "hits": 5, "preempted": 15, "blocked": 20, "shared": 5,
    "cached": 10, "internal": 20, "evicted": 5, "several": 40, "state": 1, "refused": 2,
    "jumps": 25, "starts": 15, "moves": 15,
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
        (fast, found), groups = check(run), run[1]().groups
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
            "states hit": any(group.kind == "state" for group in groups)
            and found.requests.hit.any(),
            "refused": bool(found.refused),
            "jumps": len(fast.windows) < len(found.windows),
            "starts": len(fast.starts),
            "moves": fast.grouped[:, 3].any(),
        }
        tally.update(name for name, fact in facts.items() if fact)

    sample()
    shares = {name: 100 * tally[name] / count for name in SHARES}
    assert {name: share for name, share in shares.items() if share < SHARES[name]} == {}


def uniform(rows: list[tuple[int, int, int]]) -> Trace:
    return Trace.build("t", *zip(*rows, strict=True))


def test_one_full_group_is_the_plain_pool() -> None:
    """A byte a token: all that is recorded is what `Paged` and `PrefixPaged` leave."""
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
        assert grouped == [step | {"padding": 0, "outside": 0} for step in alone]
        assert runs[0].free == runs[1].free
        assert not runs[0].grouped[:, :2].any()
        assert len(runs[0].windows) <= len(runs[1].windows)


@pytest.mark.parametrize("make", [Static, Vllm])
def test_a_single_window_takes_constant_memory(make: Any) -> None:
    """Of 400 tokens a window of 8 keeps two or three blocks of 4 for ever."""
    group = LayerGroup("sliding", (0,), 4, 4, 8)
    trace = uniform([(0, 3, 400)])
    engine = FastEngine(
        trace, Grouped(5, groups=(group,), in_flight=4), make(), Fixed(1), max_len=500
    )
    run = engine.run()
    assert len(run.windows) < 60
    steps = expand(run, Fixed(1).ns)
    held = [step["held"] for step in steps]
    assert max(held) == 12
    assert set(held[20:]) <= {8, 12}
    assert run.requests.finish_ns.tolist() == [400]
    # stored after step j are 3 + j tokens; those before the window of the next were read last now
    number = np.arange(len(steps))
    first_read = np.maximum(0, np.where(number > 0, 2 + number, 0) - 7)
    assert [step["outside"] for step in steps] == (first_read % 4).tolist()


def test_state_layers_take_a_block_whatever_the_length() -> None:
    """Beside one full group: the state is live, and its padding is what the block is wider."""
    groups = (LayerGroup("full", (0,), 4, 40), LayerGroup("state", (1,), 4, 25, kept=2))
    trace = uniform([(0, 4, 9), (0, 8, 3)])
    run = FastEngine(trace, Grouped(20, groups=groups), Vllm(), Fixed(1), max_len=50).run()
    assert run.grouped[0, :2].tolist() == [4 * 15, 0]
    assert run.column("live")[0] == 4 * 25 + 12 * 10
    assert run.grouped[-1, :2].tolist() == [2 * 15, 0]


def test_what_is_done_reads_no_more() -> None:
    """A member of a held batch shares a block with one that runs, whose window has left it."""
    group = LayerGroup("sliding", (0,), 4, 4, 4)
    counts, lengths, first = list(range(4)), [5, 5, 5], [0, 0, 0]
    trace = Trace.build("t", [0, 1, 1], [5, 5, 5], [1, 8, 1], runs=(counts, first, lengths))
    run = trace, lambda: Grouped(20, groups=(group,), prefix=True), Static, Fixed(1), 20
    assert check(run)[0].column("shared").any()


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
        assert_equal(*runs, Fixed(1).ns)
        return
    with pytest.raises(AssertionError):
        assert_equal(*runs, Fixed(1).ns)


@pytest.mark.parametrize("engine", [FastEngine, ReferenceEngine])
@pytest.mark.parametrize(("window", "block", "budget", "blocks"), [(5, 4, 3, 3), (3, 4, 5, 3)])
def test_a_chunk_that_begins_inside_of_a_block_counts_that_block(
    engine: Any, window: int, block: int, budget: int, blocks: int
) -> None:
    """Chunks of 5, blocks of 4, three tokens a step: as the chunk of 15 … 19 grows from 18 stored
    to 21, it lies in 12 … 23, three blocks; `ceil((5 + 3) / 4)` are two. One less, and it would be
    preempted there each time.
    """
    group = LayerGroup("chunked", (0,), block, block, window)
    trace = Trace.build("t", [0], [60], [3])
    for count, generated in ((blocks, 0), (blocks + 1, 3)):
        pool = Grouped(count, groups=(group,), in_flight=budget)
        scheduler = Vllm(max_batched_tokens=budget)
        recording = engine(trace, pool, scheduler, Fixed(1), max_len=99).run()
        assert [row[:3] for row in recording.refused] == [(0, "capacity", 62)][generated:]
        assert recording.requests.generated.tolist() == [generated]
