"""Random runs over groups of layers, and what must hold of both engines' recordings of one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from agreement import Fixed, Odd, Rising, assert_equal, expand
from cases import Endless
from hypothesis import reject
from hypothesis import strategies as st
from plugins import Generous, NoMore, ShortestFirst, TakingTurns
from test_prefix_agrees import sharing_traces

from pagedsim.alloc.grouped import Grouped
from pagedsim.analysis import series
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import BLOCKED, Recording
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import SpecError
from pagedsim.protocols import LayerGroup, Narrow
from pagedsim.trace.trace import Trace

SCHEDULERS = ["vllm"] * 6 + ["orca", "orca", "static", "static", "turns", "shortest", "generous"]
KINDS = ["full", "full", "sliding", "sliding", "chunked", "state"]
TERMS = ("live", "reserved", "internal", "external", "cached", "padding", "outside")


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
    groups = draw(groups_of(True))
    kind = draw(st.sampled_from(SCHEDULERS[: -1 if prefix else None]))  # tokens ahead have no key
    max_seqs = draw(st.sampled_from([2, 3, 8]))
    watermark = draw(st.sampled_from([0.0, 0.0, 0.1]))
    flight = 0
    if kind == "static":
        scheduler: Any = lambda: Static(max_seqs=max_seqs)  # noqa: E731
    elif kind == "orca":
        scheduler = lambda: Orca(max_seqs=max_seqs, watermark=watermark)  # noqa: E731
    elif kind == "turns":
        scheduler = lambda: TakingTurns(part=2, max_seqs=max_seqs)  # noqa: E731
    elif kind == "shortest":
        scheduler = lambda: ShortestFirst(max_seqs=max_seqs)  # noqa: E731
    elif kind == "generous":
        scheduler = lambda: Generous(max_seqs=max_seqs)  # noqa: E731
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
        states = [one.block for one in groups if prefix and one.kind == "state"]
        least = math.lcm(*states) if states else 0
        options["max_batched_tokens"] = max(least, options["max_batched_tokens"])
        options["long_prefill"] = options["long_prefill"] and max(least, options["long_prefill"])
        flight = draw(st.sampled_from([0, options["max_batched_tokens"]]))
        scheduler = lambda: Vllm(**options)  # noqa: E731
    given = {
        "groups": groups,
        "prefix": prefix,
        "free_order": draw(st.sampled_from(["0.33", "0.33", "0.11"])),
        "in_flight": flight,
        "block_bytes": max(g.page_bytes for g in groups) + draw(st.sampled_from([0, 0, 7])),
    }
    if prefix:
        given["evict"] = draw(st.sampled_from(["lru", "lru", "lfu", "fifo", "slru", "mru"]))
    blocks = 2 + sum(g.kept if g.kind == "state" else -(-max_len // g.block) for g in groups)
    blocks = max(2, blocks * draw(st.sampled_from([3, 5, 8, 10, 15])) // 10)
    plain = draw(st.sampled_from([False] * 7 + [True]))
    make = lambda: Grouped(blocks, **given)  # noqa: E731
    return (lambda: NoMore(make()) if plain else make()), scheduler, max_len


def run_both(trace: Trace, make: Any, scheduler: Any, steptime: Any, max_len: int) -> Any:
    """What both engines recorded; rejects a run in which both go on for ever."""
    runs: list[Any] = []
    for engine in (FastEngine, ReferenceEngine):
        windows = iter(range(300 + 8 * int(trace.prompt.sum() + trace.output.sum())))

        def progress(_: int, windows: Any = windows) -> None:
            if next(windows, None) is None:
                raise Endless

        made = engine(trace, make(), scheduler(), steptime, max_len=max_len, progress=progress)
        try:
            runs.append(made.run())
        except Endless:
            runs.append(None)
            continue
        assert made.allocator.usage().held == made.allocator.usage().shared == 0
        assert [count.gone for count in made.allocator.group_blocks()] == [0] * len(
            made.allocator.groups
        )
    if None in runs:
        assert runs == [None, None]
        reject()
    return runs


@st.composite
def runs(draw: st.DrawFn) -> tuple[Any, ...]:
    make, scheduler, max_len = draw(parts().filter(_made))
    return (
        draw(sharing_traces()),
        make,
        scheduler,
        draw(st.sampled_from([Odd(), Rising(), Fixed(1), Fixed(10)])),
        max_len,
    )


@st.composite
def families(draw: st.DrawFn) -> tuple[Any, ...]:
    """Requests that begin alike and run beside each other, so that windows leave shared blocks."""
    rows = draw(st.integers(2, 5))
    alike = draw(st.lists(st.integers(1, 40), min_size=rows, max_size=rows))
    own = draw(st.lists(st.integers(1, 6), min_size=rows, max_size=rows))
    arrivals = draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows))
    output = draw(st.lists(st.integers(5, 40), min_size=rows, max_size=rows))
    firsts = [first for row in range(rows) for first in (0, 1000 * (row + 1))]
    lengths = [length for pair in zip(alike, own, strict=True) for length in pair]
    trace = Trace.build(
        "family", arrivals, [sum(pair) for pair in zip(alike, own, strict=True)], output,
        runs=(list(range(0, 2 * rows + 1, 2)), firsts, lengths),
    )  # fmt: skip
    size = draw(st.sampled_from([1, 2, 4, 8]))
    window = draw(st.sampled_from([3, 9, 20]))
    kinds: dict[str, LayerGroup] = {
        "sliding": LayerGroup("sliding", (0,), size, 2 * size, window),
        "chunked": LayerGroup("chunked", (1,), size, size, window),
        "narrow": LayerGroup(
            "full", (2,), size, 5 * size,
            narrow=(Narrow("sliding", window, 2), Narrow("chunked", 7, 1)),
        ),
        "full": LayerGroup("full", (3,), 2 * size, 2 * size),
    }  # fmt: skip
    named = draw(st.lists(st.sampled_from([*kinds, "narrow"]), min_size=1, max_size=3))
    groups = tuple(kinds[name] for name in named)
    blocks = draw(st.sampled_from([200, 400, 1500]))
    scheduler = draw(st.sampled_from([Vllm, Vllm, Orca]))
    steptime = draw(st.sampled_from([Fixed(1), Odd(), Rising()]))
    return trace, (lambda: Grouped(blocks, groups=groups, prefix=True)), scheduler, steptime, 100


def _made(found: tuple[Any, Any, int]) -> bool:
    try:
        found[0]()
    except SpecError:
        return False
    return True


def check(run: tuple[Any, ...]) -> tuple[Recording, Recording]:
    steptime = run[3]
    fast, reference = run_both(*run)
    assert_equal(fast, reference, steptime.ns)
    for step in expand(fast, steptime.ns):
        assert min(step.values()) >= 0, step
        left = fast.capacity - sum(step[name] for name in TERMS)
        assert left >= 0
        assert not (left if step["limit"] >= BLOCKED else step["external"])
    rows = np.concatenate(list(series.steps(fast, steptime)))
    assert np.array_equal(rows, series.rows_of(reference)), "as a report has the steps"
    return fast, reference
