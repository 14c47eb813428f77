"""Content keys against token-by-token comparison, and the statistics of known traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_cases import tokens, traces

from pagedsim.trace import Trace, load, stats
from pagedsim.trace.content import blocks


@given(traces(content=True), st.integers(1, 6), st.booleans())
def test_keys_are_equal_where_prefixes_are(trace: Trace, size: int, outputs: bool) -> None:
    found = blocks(trace, size, outputs=outputs)
    keys: dict[tuple[int, ...], int] = {}
    for row in range(len(trace)):
        ids = tokens(trace, row)
        if outputs:
            start = int(trace.output_token[row])
            ids += range(start, start + int(trace.output[row]))
        at = range(int(found.rows[row]), int(found.rows[row + 1]))
        assert len(at) == -(-len(ids) // size)
        for index, block in enumerate(at):
            prefix = (int(trace.salt[row]), *ids[: (index + 1) * size])
            assert keys.setdefault(prefix, block) == found.key[block]  # the first's place
            assert found.tokens[block] == len(ids[index * size : (index + 1) * size])


@given(traces(content=True), st.integers(1, 6))
def test_reuse_by_a_plain_loop(trace: Trace, size: int) -> None:
    known: set[tuple[int, ...]] = set()
    answers: set[tuple[int, ...]] = set()
    blocks_hit = tokens_hit = full_hit = full = answered = total = 0
    for row in range(len(trace)):
        ids = tokens(trace, row)
        salt = int(trace.salt[row])
        prefixes = [(salt, *ids[:end]) for end in range(size, len(ids) + size, size)]
        hits = [prefix in known for prefix in prefixes]
        sizes = [min(size, len(ids) - index * size) for index in range(len(prefixes))]
        wholes = [length == size for length in sizes]
        blocks_hit += sum(hits)
        tokens_hit += sum(length for length, hit in zip(sizes, hits, strict=True) if hit)
        full_hit += sum(hit and whole for hit, whole in zip(hits, wholes, strict=True))
        full += sum(wholes)
        total += len(hits)
        answered += sum(p in answers for p, whole in zip(prefixes, wholes, strict=True) if whole)
        known.update(prefixes)
        start = int(trace.output_token[row])
        ids += range(start, start + int(trace.output[row]) - 1)
        answers.update((salt, *ids[:end]) for end in range(size, len(ids) + 1, size))
    found = stats.reuse(trace, size)
    assert found.blocks == blocks_hit / total
    assert found.tokens == tokens_hit / trace.prompt.sum()
    assert found.full_blocks == (full_hit / full if full else 0)
    assert found.with_outputs == (answered / full if full else 0)


def test_shared_mooncake_ideal_reuse(shared: Path) -> None:
    trace = load(shared / "traces/mooncake/conversation_trace.jsonl")
    found = stats.reuse(trace, 512)
    assert round(found.blocks, 4) == 0.3664
    assert round(found.tokens, 4) == 0.3736
    assert round(found.full_blocks, 4) == 0.3819


def test_lengths_by_nearest_rank() -> None:
    found = stats.lengths(np.arange(1, 101))
    assert (found.least, found.most, found.mean, found.total) == (1, 100, 50.5, 5050)
    assert found.percentiles == {p: p for p in stats.PERCENTS}
    assert stats.nearest_rank(np.array([7]), 99) == 7
    assert stats.nearest_rank(np.array([3, 1, 2]), 50) == 2


def test_burst() -> None:
    even = Trace.build("", np.arange(100) * 10**9, np.ones(100, int), np.ones(100, int))
    found = stats.burst(even)
    assert found is not None
    assert (found.cv, found.peak) == (0, 1)
    assert stats.burst(even.head(2)) is None
    at_once = Trace.build("", np.zeros(100, int), np.ones(100, int), np.ones(100, int))
    assert stats.burst(at_once) is None


def test_summary_of_lengths_alone() -> None:
    trace = Trace.build("x", [0, 0], [3, 5], [1, 2], timed=False)
    found = stats.summary(trace)
    assert (found["rate_per_s"], found["burst"], found["sessions"]) == (None, None, None)
    assert found["prompt"]["total"] == 8
    assert found["reuse"]["block"] == 16


@pytest.mark.parametrize("name", ["agent", "chat-shared"])
def test_sessions(name: str) -> None:
    found = stats.sessions(load(name))
    assert found is not None
    assert found.turns_mean > 2
    assert found.think_s_median is not None
