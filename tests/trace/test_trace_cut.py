"""Cutting and mixing: conversations stay whole, and what it did is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pagedsim.cli import app
from pagedsim.errors import InputError, SpecError
from pagedsim.trace import Trace, cut, load, stats
from tests.trace.trace_cases import tokens, traces


def groups(trace: Trace) -> list[set[int]]:
    """Conversations by a plain closure: rows that share a session or are linked by a parent."""
    near = {row: {row} for row in range(len(trace))}
    for a in range(len(trace)):
        for b in range(len(trace)):
            session = trace.session[a] >= 0 and trace.session[a] == trace.session[b]
            if session or trace.parent[a] == b:
                near[a].add(b)
                near[b].add(a)
    found: list[set[int]] = []
    for row in range(len(trace)):
        if any(row in group for group in found):
            continue
        group, edge = {row}, [row]
        while edge:
            for other in near[edge.pop()] - group:
                group.add(other)
                edge.append(other)
        found.append(group)
    return found


def rows_of(part: Trace, whole: Trace) -> set[int]:
    """The rows of a part, by their number in `think_ns` (see `numbered`)."""
    return {int(row) for row in part.think_ns}


def numbered(trace: Trace) -> Trace:
    """The same trace with each row's number as its think time."""
    from dataclasses import replace

    return replace(trace, think_ns=np.arange(len(trace)))


@given(traces())
def test_conversations(trace: Trace) -> None:
    own = cut.conversations(trace).tolist()
    expected = groups(trace)
    assert [{row for row, label in enumerate(own) if label == n} for n in range(len(expected))] == (
        expected
    )


@given(traces(), st.data())
def test_conversations_stay_whole(trace: Trace, data: st.DataObject) -> None:
    trace = numbered(trace)
    whole = groups(trace)
    ways: list[Any] = [
        lambda: cut.head(trace, requests=data.draw(st.integers(1, 12))),
        lambda: cut.head(trace, seconds=data.draw(st.sampled_from((1e-9, 5e-9, 1e5)))),
        lambda: cut.sample(trace, data.draw(st.sampled_from((0.3, 1.0)))),
        lambda: cut.keep(trace, prompt=cut.Bounds(None, data.draw(st.integers(1, 9)))),
        lambda: cut.keep(trace, turns=cut.Bounds(2)),
    ]
    way = data.draw(st.integers(0, len(ways) - 1))
    try:
        part = ways[way]()
    except InputError:
        return
    taken = rows_of(part, trace)
    for group in whole:
        assert group <= taken or not group & taken
    for row, old in enumerate(part.think_ns.tolist()):
        assert part.arrival_ns[row] == trace.arrival_ns[old]
        assert tokens(part, row) == tokens(trace, old)
        before = int(trace.parent[old])
        if before >= 0:
            assert part.think_ns[part.parent[row]] == before
    if way == 3:
        good = [g for g in whole if max(trace.prompt[list(g)]) <= part.prompt.max()]
        assert taken <= set().union(*good)
    if way == 4:
        assert taken == set().union(*(g for g in whole if len(g) >= 2))


def test_head_takes_as_many_as_fit() -> None:
    trace = Trace.build("t", [0, 1, 2, 3], [1] * 4, [1] * 4, session=[0, 1, 0, 2])
    assert len(cut.head(trace, requests=4)) == 4
    assert cut.head(trace, requests=3).session.tolist() == [0, 1, 0]
    assert cut.head(trace, requests=2).session.tolist() == [0, 0]
    with pytest.raises(InputError, match="the first conversation has 2 requests, more than 1"):
        cut.head(trace, requests=1)


def test_sample_is_repeatable_and_about_as_large() -> None:
    trace = load("chat")
    one, again, other = (cut.sample(trace, 0.25, seed=s) for s in (1, 1, 2))
    assert one.arrival_ns.tolist() == again.arrival_ns.tolist() != other.arrival_ns.tolist()
    assert 0.2 < len(one) / len(trace) < 0.3
    with pytest.raises(SpecError, match=r"share is 0, must be in \(0, 1\]"):
        cut.sample(trace, 0)


@given(traces(), st.integers(0, 10**6))
def test_shift(trace: Trace, micros: int) -> None:
    there = cut.shift(trace, micros / 1e6)
    assert (there.arrival_ns - trace.arrival_ns == micros * 1000).all()
    assert (cut.shift(there, -micros / 1e6).arrival_ns == trace.arrival_ns).all()
    assert cut.shift(there).arrival_ns[0] == 0
    with pytest.raises(SpecError, match="cannot arrive before 0"):
        cut.shift(trace, -4e9)


@given(traces(), traces(), st.booleans())
def test_merge(one: Trace, two: Trace, same: bool) -> None:
    one, two = numbered(one), numbered(two)
    if one.timed != two.timed:
        with pytest.raises(InputError, match="has no arrivals, others have"):
            cut.merge([one, two])
        return
    merged = cut.merge([one, two], same_content=same)
    assert len(merged) == len(one) + len(two)
    assert (np.diff(merged.arrival_ns) >= 0).all()
    assert len(groups(merged)) == len(groups(one)) + len(groups(two))
    if not same:
        apart = [len(np.unique(stats.blocks(t, 1).key)) for t in (one, two)]
        assert len(np.unique(stats.blocks(merged, 1).key)) == sum(apart)
    for column in ("prompt", "output", "samples", "priority"):
        both = [*getattr(one, column).tolist(), *getattr(two, column).tolist()]
        assert sorted(getattr(merged, column).tolist()) == sorted(both)


def test_merging_the_parts_gives_the_whole() -> None:
    trace = load("chat-shared", limit=60)
    own = cut.conversations(trace)
    parts = [trace.take(np.flatnonzero(own % 2 == n)) for n in (0, 1)]
    merged = cut.merge(parts, same_content=True)
    assert stats.reuse(merged, 16) == stats.reuse(trace, 16)
    assert merged.arrival_ns.tolist() == trace.arrival_ns.tolist()
    apart = stats.reuse(cut.merge(parts), 16)
    assert apart.tokens < stats.reuse(trace, 16).tokens


def test_the_commands(tmp_path: Path) -> None:
    out = tmp_path / "o.jsonl"
    runner = CliRunner(env={"COLUMNS": "80"})
    for words, said in (
        ("head chat-shared --requests 100", "whole conversations, up to 100 in all"),
        ("head chat-shared --seconds 60", "conversations of 60 s"),
        ("sample chat-shared --share 0.1 --seed 4", "0.1 of the conversations, seed 4"),
        ("shift chat --seconds 5", "by 5 s"),
        ("shift chat", "by -0.053 s"),
        ("merge chat code", "of 2 traces"),
        ("filter chat-shared --prompt :900 --turns 2:", "prompt :900, turns 2:"),
        ("filter chat --seconds 10:20.5 --output 5:", "output 5:, seconds 10:20.5"),
    ):
        result = runner.invoke(app, ["trace", *words.split(), "--out", str(out)])
        assert result.exit_code == 0, result.stderr
        assert said in " ".join(result.stdout.split())
        assert "with outputs" in result.stdout
        assert max(map(len, result.stdout.splitlines())) <= 80
        assert load(out).notes[-1].endswith(said)
    facts = json.loads(
        runner.invoke(
            app, ["trace", "sample", "chat", "--share", "0.5", "--out", str(out), "--json", "-"]
        ).stdout
    )
    assert facts["before"][0]["requests"] == 2000
    assert facts["after"]["requests"] == len(load(out))
    for words, message in (
        ("head chat", "give --requests N or --seconds X"),
        ("head chat --requests 1 --seconds 1", "give --requests N or --seconds X"),
        ("sample chat --share 2", "--share is 2, must be a number > 0 and <= 1"),
        ("merge chat", "merge needs two traces or more"),
        ("filter chat", "give one of --prompt A:B"),
        ("filter chat --prompt 5", "--prompt is 5, must be A:B, A: or :B"),
        ("filter chat --prompt 9:5", "--prompt is 9:5: 9 is more than 5"),
        ("filter chat --prompt 999999:", "no conversation is left"),
        ("shift chat --seconds -1", "cannot arrive before 0"),
        ("shift chat --seconds x", "--seconds is x, must be a number"),
    ):
        wrong = runner.invoke(app, ["trace", *words.split(), "--out", str(tmp_path / "n.jsonl")])
        assert (wrong.exit_code, message in wrong.stderr) == (2, True), wrong.stderr
    assert not (tmp_path / "n.jsonl").exists()
