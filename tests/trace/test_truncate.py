"""Prompts cut to a length: against lists of tokens, and what a prefix cache makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim import simulate
from pagedsim.errors import SpecError
from pagedsim.trace import Trace
from pagedsim.trace.truncate import truncated

RUNS = st.lists(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=4), max_size=5
)


def made(rows: list[list[tuple[int, int]]]) -> Trace:
    flat = [run for runs in rows for run in runs]
    at = [sum(map(len, rows[:row])) for row in range(len(rows) + 1)]
    prompts = [sum(length for _, length in runs) for runs in rows]
    runs = (at, [token for token, _ in flat], [length for _, length in flat])
    return Trace.build(
        "t", range(len(rows)), prompts, [1 + row for row in range(len(rows))], runs=runs
    )


def tokens(trace: Trace) -> list[list[int]]:
    found = []
    for row in range(len(trace)):
        part = slice(trace.run_rows[row], trace.run_rows[row + 1])
        runs = zip(trace.run_token[part].tolist(), trace.run_length[part].tolist(), strict=True)
        found.append([first + at for first, length in runs for at in range(length)])
    return found


@given(rows=RUNS, most=st.integers(1, 30), how=st.sampled_from(["last", "middle"]))
def test_what_is_kept(rows: Any, most: int, how: str) -> None:
    whole = made(rows)
    cut = truncated(whole, f"{how}:{most}")
    front = 0 if how == "last" else (most + 1) // 2
    wanted = [
        each if len(each) <= most else each[:front] + each[len(each) - (most - front) :]
        for each in tokens(whole)
    ]
    assert tokens(cut) == wanted
    assert cut.prompt.tolist() == [len(each) for each in wanted]
    assert (cut.run_length > 0).all()
    for same in ("arrival_ns", "output", "output_token", "session", "parent", "salt"):
        assert getattr(cut, same).tolist() == getattr(whole, same).tolist()
    touched = sum(len(each) > most for each in tokens(whole))
    lost = sum(max(0, len(each) - most) for each in tokens(whole))
    assert f"{touched} of {len(rows)} prompts cut, {lost} tokens" in cut.notes[-1]


def test_hits_change_as_they_would() -> None:
    """A shared beginning of 64: kept by its middle's absence, lost with what is not the last."""
    rows = [[(0, 64), (1000 * at, 64)] for at in range(1, 6)]
    hits = {}
    for how in ("", "middle:96", "last:64"):
        trace = truncated(made(rows), how) if how else made(rows)
        run = simulate(trace, "paged:prefix=on", max_len=4096, concurrency=1).run
        hits[how] = run.prefix.hit_tokens
    assert hits == {"": 4 * 64, "middle:96": 4 * 48, "last:64": 0}


@pytest.mark.parametrize(
    "text",
    ["", "last", "last:", "last:0", "last:-3", "first:9", "middle:1e3", "last:٣", "last:9" * 9],
)
def test_what_is_no_truncation(text: str) -> None:
    with pytest.raises(SpecError, match="truncate is"):
        truncated(made([[(0, 5)]]), text)
