"""``--closed-loop`` on the bundled trace of conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from command import pagedsim, refused, results

from pagedsim.trace import load

pytestmark = pytest.mark.usefixtures("folder")

# A turn takes seconds, so that the recorded arrivals of those after it have long passed.
_BUSY = (
    *("chat-shared", "--allocator", "paged:prefix=on", "--limit", 250),
    *("--steptime", "constant:ms=60", "--kv-tokens", 400_000),
)


def _run(*more: object) -> dict[str, Any]:
    found: dict[str, Any] = results("replay", *_BUSY, *more)
    return found


def test_a_closed_loop_differs_from_an_open_one() -> None:
    """Open, a turn may come before the answer that it quotes, and then does not hit it."""
    opened, closed = _run(), _run("--closed-loop")
    assert opened["trace"]["load"] == "Poisson 1.2/s, seed 3"
    assert closed["trace"]["load"] == "Poisson 1.2/s, seed 3, closed loop"
    ((ours,), (theirs,)) = closed["runs"], opened["runs"]
    assert ours["provenance"]["specs"]["closed_loop"] is True
    assert theirs["provenance"]["specs"]["closed_loop"] is None
    assert ours["finished"] == theirs["finished"] == 250
    assert ours["makespan_s"] > theirs["makespan_s"]
    assert ours["batch"]["peak"] < theirs["batch"]["peak"]
    for run in (ours, theirs):
        assert run["prefix"]["prompt_tokens"] == int(load("chat-shared").prompt[:250].sum())
        assert 0.5 < run["prefix"]["hit_rate"] < 1
    assert ours["prefix"]["hit_rate"] > theirs["prefix"]["hit_rate"]


def test_both_engines_say_the_same() -> None:
    fast, reference = (_run("--closed-loop", "--engine", name) for name in ("fast", "reference"))
    for run in (*fast["runs"], *reference["runs"]):
        del run["provenance"]["specs"]["engine"]
    assert fast == reference


def test_think_times_are_not_scaled(folder: Path) -> None:
    """With all recorded arrivals at about 0, each turn comes its think time after the answer."""
    said = pagedsim(
        "replay", *_BUSY, "--rate-scale", 1e6, "--closed-loop", "--requests", "r.parquet"
    )
    assert said.code == 0, said.err
    (line,) = (line for line in said.out.splitlines() if line.startswith("Load: "))
    assert line.strip() == "Load: Poisson 1.2/s, seed 3, rate x1e+06, closed loop"
    assert any(line.startswith("prefix hits") for line in said.out.splitlines())
    trace = load("chat-shared").head(250)
    found = pl.read_parquet(folder / "r.parquet")
    later = np.flatnonzero(trace.parent >= 0)
    assert len(later) > 100
    due = found["finish_ns"].to_numpy()[trace.parent[later]] + trace.think_ns[later]
    assert found["arrival_ns"].to_numpy()[later].tolist() == due.tolist()


def test_what_it_contradicts() -> None:
    said = refused("replay", "chat-shared", "--closed-loop", "--concurrency", 4)
    assert said == "error: --concurrency and --closed-loop contradict each other: give one"
    said = refused("compare", "t.csv", "--closed-loop", "--json", "o.json")
    assert said.startswith("error: t has no sessions (no request has a parent)")
    said = refused("replay", "chat-shared", "--limit", 1, "--closed-loop")
    assert "has no sessions" in said


def test_help_says_it() -> None:
    assert "--closed-loop" in pagedsim("replay", "--help").out
