"""Knee, rates and distributions by plain loops; sizes; refusals; what a public trace comes to."""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from pathlib import Path

import msgspec
import numpy as np
import pytest
from curve_cases import Case, Key, cases
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.analysis.curve import POLICIES, Lookups, curve, knee, usual
from pagedsim.analysis.curve_facts import Spread, spread
from pagedsim.analysis.curve_lru import spans
from pagedsim.analysis.curve_result import Curves
from pagedsim.analysis.curve_runs import runs
from pagedsim.errors import SpecError
from pagedsim.trace import Trace, load
from pagedsim.trace.content import blocks

SIZES = st.integers(1, 4)
TOUCHES = st.sampled_from(["leaf", "root"])


@given(cases(), SIZES, TOUCHES)
def test_the_knee_is_looked_for_everywhere(case: Case, block: int, touch: str) -> None:
    """The corners of the exact curve give what all capacities give."""
    lookups = Lookups(case.trace, block=block, touch=touch)
    found = lookups.curve("lru", [1], None)
    at = np.arange(1, max(1, lookups.needed) + 1)
    tokens = lookups.hits("lru", at).tokens
    best = knee(at, tokens)
    assert (found.knee is None) == (best is None)
    if found.knee is not None and best is not None:
        assert above(at, tokens, found.knee.capacity.blocks) == pytest.approx(
            above(at, tokens, int(at[best]))
        )
    for part in found.enough:
        goal = part.part * tokens[-1]
        assert part.capacity.blocks == at[np.flatnonzero(tokens >= goal)[0]]
    assert len(found.enough) == (3 if tokens[-1] else 0)


def above(at: np.ndarray, values: np.ndarray, capacity: int) -> float:
    """How far the curve is above its chord."""
    rise = (values[capacity - 1] - values[0]) / (values[-1] - values[0])
    return float(rise - math.log(capacity) / math.log(at[-1]))


def test_the_knee_of_a_line_in_logs_is_none() -> None:
    at = np.array([1, 10, 100, 1000])
    assert knee(at, np.array([0, 1, 2, 3])) is None
    assert knee(at, np.array([0, 2, 2, 3])) == 1
    assert knee(at, np.array([0, 0, 0, 3])) is None
    assert knee(at, np.array([5, 5, 5, 5])) is None
    assert knee(at[:2], np.array([0, 1])) is None


@given(cases(), SIZES, st.sampled_from(["all", "full", "outputs"]))
def test_distributions_by_a_plain_loop(case: Case, block: int, count: str) -> None:
    found = curve(case.trace, block=block, count=count)
    uses: dict[Key, list[int]] = defaultdict(list)
    hits: dict[Key, int] = defaultdict(int)
    between: list[int] = []
    gaps: list[float] = []
    shares: list[float] = []
    at = case.trace.arrival_ns.tolist()
    for row, request in enumerate(case.requests(block, count)):
        share = 0
        for key, tokens in zip(request.looked, request.tokens, strict=True):
            if key in uses:
                hits[key] += 1
                share += tokens
                between.append(row - uses[key][-1])
                gaps.append((at[row] - at[uses[key][-1]]) / 1e9)
        for key in request.touched:
            uses[key].append(row)
        shares.append(share / request.prompt)
    assert found.distinct.blocks == len(uses)
    assert same(found.prompts, shares)
    assert same(found.times.reuse_s, gaps)
    assert same(found.times.reuse_requests, between)
    lives = [(at[rows[-1]] - at[rows[0]]) / 1e9 for rows in uses.values() if len(rows) > 1]
    assert same(found.times.life_s, lives)
    popular = found.popularity
    assert popular.once == sum(len(rows) == 1 for rows in uses.values()) / max(1, len(uses))
    for least, most, many, hit in map(msgspec.structs.astuple, popular.uses):
        inside = [key for key, rows in uses.items() if least <= len(rows) <= most]
        assert (many, hit) == (len(inside), sum(hits[key] for key in inside))
    assert sum(part.blocks for part in popular.uses) == len(uses)
    ordered = sorted((hits[key] for key in uses), reverse=True)
    for top in popular.top:
        whole, part = divmod(top.blocks * len(uses), 1)
        had = sum(ordered[: int(whole)]) + part * ordered[int(whole)]
        assert top.hits == pytest.approx(had / sum(ordered))


def same(found: Spread | None, values: list[int] | list[float]) -> bool:
    if found is None:
        return not values
    ordered = sorted(values)
    ranks = [ordered[max(1, math.ceil(len(ordered) * p / 100)) - 1] for p in (10, 50, 90, 99)]
    mean = pytest.approx(sum(ordered) / len(ordered))
    return msgspec.structs.astuple(found) == (mean, *ranks, ordered[-1])


def test_spread_counts_by_weight() -> None:
    assert spread(np.array([3, 1]), np.array([1, 9])) == Spread(1.2, 1, 1, 1, 3, 3)
    assert spread(np.array([])) is None


def test_a_trace_without_content_has_no_hits() -> None:
    found = curve(Trace.build("fresh", [0, 1], [40, 50], [1, 1]), policies=POLICIES)
    assert found.ideal.blocks == found.ideal.tokens == 0
    for one in found.curves:
        assert one.knee is None
        assert one.enough == ()
        assert [point.capacity.blocks for point in one.points] == [1]
        assert one.points[0].hit_blocks == 0


def test_prompts_below_a_block_and_no_requests() -> None:
    short = Trace.build("short", [0, 1], [3, 3], [1, 1], runs=([0, 1, 2], [0, 0], [3, 3]))
    assert curve(short, count="full").blocks == 0
    assert curve(short, count="full", policies=POLICIES).distinct.blocks == 0
    assert curve(short).ideal.tokens == 0.5
    none = Trace.build("none", [], [], [], runs=([0], [], []))
    assert curve(none, policies=POLICIES).requests == 0


def test_capacities_in_tokens_and_gib() -> None:
    short = Trace.build("short", [0, 1], [3, 3], [1, 1], runs=([0, 1, 2], [0, 0], [3, 3]))
    point = curve(short, block=2, capacities=[4, 1, 4], kv_bytes_per_token=1 << 28).curves[0].points
    assert [(p.capacity.blocks, p.capacity.tokens, p.capacity.gib) for p in point] == [
        (1, 2, 0.5),
        (4, 8, 2.0),
    ]
    assert [p.hit_tokens for p in point] == [2, 3]


def test_replays_say_how_far_they_are() -> None:
    trace = load("chat-shared", limit=60)
    lookups = Lookups(trace)
    told: list[int] = []
    lookups.progress = told.append
    capacities = [1, 40, 300]
    for policy in POLICIES:
        lookups.curve(policy, capacities, None)
    assert told == [60] * 3 * 3  # LRU is not replayed, and the knee of the others is a point


def test_usual_capacities() -> None:
    assert usual(0) == usual(1) == [1]
    assert usual(7) == [1, 2, 5, 7]
    assert usual(5000) == [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"block": 0}, "block is 0, must be >= 1"),
        ({"capacities": [4, 0]}, "capacity is 0, must be >= 1"),
        ({"policies": ["mru"]}, "policy is mru, must be lru, fifo, lfu or optimal"),
        ({"touch": "middle"}, "touch is middle, must be leaf or root"),
        ({"count": "some"}, "count is some, must be all, full or outputs"),
        ({"warmup": 1.0}, "warmup is 1, must be >= 0 and < 1"),
        (
            {"policies": ["lfu"], "touch": "root"},
            "policy lfu with touch root is not there; there are lru and fifo",
        ),
    ],
)
def test_refusals(given: dict, says: str) -> None:
    with pytest.raises(SpecError) as error:
        curve(Trace.build("two", [0, 1], [40, 50], [1, 1]), **given)
    assert str(error.value) == says


def test_results_can_be_written_and_read() -> None:
    found = curve(load("chat-shared"), policies=POLICIES)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Curves) == found


@pytest.fixture(scope="module")
def mooncake(shared: Path) -> Trace:
    return load(shared / "traces" / "mooncake" / "conversation_trace.jsonl")


def test_mooncake_as_published(mooncake: Trace) -> None:
    found = curve(mooncake, block=512, capacities=[10_000, 20_000])
    assert found.blocks == 288_500
    assert round(found.ideal.blocks, 4) == 0.3664
    assert round(found.ideal.tokens, 4) == 0.3736
    assert [round(p.rates.blocks, 4) for p in found.curves[0].points] == [0.2116, 0.2878]
    root = curve(mooncake, block=512, capacities=[10_000, 20_000], touch="root")
    assert [round(p.rates.blocks, 4) for p in root.curves[0].points] == [0.2112, 0.2875]
    assert round(curve(mooncake, block=512, count="full").ideal.blocks, 4) == 0.3819


def test_work_does_not_grow_with_smaller_blocks(mooncake: Trace) -> None:
    """Runs, and what the one pass found of them, at 512 and at 16 tokens a block."""
    for block, touched in ((512, 288_500), (16, 9_055_233)):
        parts = runs(mooncake, block)
        assert int(parts.asked_blocks.sum()) == touched
        assert len(parts.run) == 37_454
        assert len(spans(parts).request) == 16_708


def test_the_whole_curve_holds_what_one_replay_of_the_cache_hits(mooncake: Trace) -> None:
    """At 10,000 blocks, against a cache alone, one block after the other."""
    lookups = Lookups(mooncake, block=512)
    every = lookups.hits("lru", np.arange(1, lookups.runs.distinct + 1)).blocks
    rows, key, _ = (column.tolist() for column in blocks(mooncake, 512))
    hits = 0
    cached: OrderedDict[int, None] = OrderedDict()
    for row in range(len(rows) - 1):
        path = key[rows[row] : rows[row + 1]]
        for block in path:
            if block not in cached:
                break
            hits += 1
        for block in reversed(path):
            if block in cached:
                cached.move_to_end(block)
            else:
                if len(cached) == 10_000:
                    cached.popitem(last=False)
                cached[block] = None
    assert every[10_000 - 1] == hits
