"""Distances of traces, against their definitions worked out another way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pagedsim.analysis.distances import distances, spread
from pagedsim.analysis.simulate import Setup
from pagedsim.cli import app
from pagedsim.trace import Trace, load

SAMPLES = st.lists(st.integers(0, 12), min_size=1, max_size=12)


@given(SAMPLES, SAMPLES)
def test_distances_by_their_definitions(a: list[int], b: list[int]) -> None:
    found = spread("x", "tokens", np.array(a), np.array(b))

    def upto(values: list[int], limit: int) -> float:
        return sum(value <= limit for value in values) / len(values)

    apart = [abs(upto(a, at) - upto(b, at)) for at in range(13)]
    assert found.ks == pytest.approx(max(apart))
    assert found.at is not None
    assert (found.upto_a, found.upto_b) == (upto(a, int(found.at)), upto(b, int(found.at)))
    # Wasserstein: sorted samples of one size, each value repeated, moved one onto the other
    left, right = sorted(a * len(b)), sorted(b * len(a))
    moved = sum(abs(x - y) for x, y in zip(left, right, strict=True)) / len(left)
    mean = sum(a) / len(a)
    assert found.wasserstein == (pytest.approx(moved / mean) if mean else None)
    other = spread("x", "tokens", np.array(b), np.array(a))
    assert other.ks == pytest.approx(found.ks)


def test_chance_stays_below_the_noise() -> None:
    rng = np.random.default_rng(3)
    found = [spread("x", "", rng.random(80), rng.random(120)) for _ in range(200)]
    above = sum(each.ks > each.noise for each in found)  # type: ignore[operator]
    assert 1 <= above <= 22  # 10 of 200 are expected


def test_a_trace_is_like_itself() -> None:
    trace = load("chat-shared", limit=300)
    found = distances(trace, trace, Setup().resolved())
    assert found.poor == ()
    assert found.hits is not None
    assert found.hits.largest == 0
    assert all(each.ks == each.wasserstein == 0 for each in found.spreads)
    assert all(one.error == 0 for one in found.singles)
    assert len(found.spreads) == 5
    assert {one.name for one in found.singles} >= {"ideal reuse", "mean batch", "prefix hit rate"}


def changed(trace: Trace, what: str) -> Trace:
    if what == "prompt":
        fresh = Trace.build("b", trace.arrival_ns, trace.prompt * 2, trace.output)
        return replace(fresh, session=trace.session, parent=trace.parent)
    if what == "output":
        return replace(trace, output=trace.output * 3)
    if what == "gap":
        return replace(trace, arrival_ns=trace.arrival_ns // 10**11 * 10**11)
    return replace(trace, arrival_ns=trace.arrival_ns * 3)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("prompt", ["prompt: ", "ideal reuse: ", "hit-rate curve: "]),
        ("output", ["output: ", "mean batch: "]),
        ("gap", ["gap: ", "busiest 10 s: "]),
        ("rate", ["gap: ", "rate: ", "turn to turn: "]),
    ],
)
def test_what_differs_is_said_in_words(what: str, said: list[str]) -> None:
    trace = load("chat-shared", limit=400)
    found = distances(trace, changed(trace, what), Setup().resolved())
    for start in said:
        assert any(words.startswith(start) for words in found.poor), (start, found.poor)
    if what in ("gap", "rate"):
        assert not any(words.startswith(("prompt: ", "output: ")) for words in found.poor)


def test_traces_without_times() -> None:
    trace = load("chat", limit=100)
    lengths = replace(trace, timed=False, arrival_ns=np.zeros(100, np.int64))
    found = distances(trace, lengths, Setup().resolved())
    assert "gap: only a has any" in found.poor
    assert "mean batch" not in {one.name for one in found.singles}
    at_once = replace(trace, arrival_ns=np.zeros(100, np.int64))
    assert distances(lengths, at_once, Setup().resolved()).poor == ()


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner(env={"COLUMNS": "80"})

    def ran(*words: str) -> Any:
        return runner.invoke(app, ["trace", "compare", *words])

    shown = ran("chat-shared", "code", "--limit", "200", "--json", "d.json")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())
    assert "poor: output: " in shown.stdout
    found = json.loads(Path("d.json").read_bytes())
    assert found["schema"] == "pagedsim.distances/1"
    assert len(found["hits"]["a"]) == len(found["hits"]["blocks"])
    for words, said in (
        (("-", "-"), "standard input can be one of the traces"),
        (("chat", "none.csv"), "none.csv"),
        (("chat", "code", "--gpu", "abacus"), "abacus"),
    ):
        assert ran(*words).exit_code == 2
        assert said in ran(*words).stderr
