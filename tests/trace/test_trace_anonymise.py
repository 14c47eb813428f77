"""A trace that tells less: what is equal stays equal, and nothing else stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pagedsim.cli import app
from pagedsim.errors import SpecError
from pagedsim.trace import Trace, load, own, stats
from pagedsim.trace.anonymise import anonymise
from tests.trace.trace_cases import tokens, traces


def everything(trace: Trace) -> list[list[int]]:
    """Tokens of every prompt and output."""
    rows = range(len(trace))
    outputs = (
        range(int(trace.output_token[r]), int(trace.output_token[r] + trace.output[r]))
        for r in rows
    )
    return [*(tokens(trace, row) for row in rows), *map(list, outputs)]


@given(traces())
def test_what_is_equal_stays_equal(trace: Trace) -> None:
    told = anonymise(trace)
    before, after = (
        [token for part in everything(each) for token in part] for each in (trace, told)
    )
    assert len(before) == len(after)
    assert len(set(zip(before, after, strict=True))) == len(set(before)) == len(set(after))
    for block in (1, 3):
        assert stats.reuse(told, block) == stats.reuse(trace, block)
    for column in ("arrival_ns", "prompt", "output", "parent", "think_ns", "priority", "samples"):
        assert getattr(told, column).tolist() == getattr(trace, column).tolist()
    for column, none in (("session", -1), ("salt", 0)):
        pairs = list(
            zip(getattr(trace, column).tolist(), getattr(told, column).tolist(), strict=True)
        )
        assert len(set(pairs)) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
        assert all((a == none) == (b == none) for a, b in pairs)


@given(traces())
def test_nothing_else_stays(trace: Trace) -> None:
    """Whatever its ids and names are, what is told of a trace is the same."""
    from dataclasses import replace

    other = replace(
        trace,
        name="secret",
        notes=("secret",),
        run_token=trace.run_token + 1000,
        output_token=trace.output_token + 1000,
        session=np.where(trace.session < 0, -1, 5 + 3 * trace.session),
        salt=np.where(trace.salt == 0, 0, 7 * trace.salt),
        extra={"secret": 1},
        load="secret",
        dropped=9,
        sha256="secret",
    )
    assert (
        own.dump(anonymise(other)).partition(b"\n")[2]
        == own.dump(anonymise(trace)).partition(b"\n")[2]
    )
    assert b"secret" not in own.dump(anonymise(other))


@given(traces(), st.integers(1, 7))
def test_rounded_lengths(trace: Trace, step: int) -> None:
    told = anonymise(trace, round_to=step)
    for column in ("prompt", "output"):
        old, new = getattr(trace, column), getattr(told, column)
        assert (new % step == 0).all()
        assert (new >= step).all()
        assert (np.abs(new - old) <= np.maximum(step / 2, step - old)).all()
    whole = anonymise(trace)
    for row in range(len(trace)):
        least = int(min(told.prompt[row], trace.prompt[row]))
        assert tokens(told, row)[:least] == tokens(whole, row)[:least]


@given(traces(), st.integers(0, 99))
def test_jitter(trace: Trace, seed: int) -> None:
    told = anonymise(trace, jitter_s=1e-8, seed=seed)
    assert own.dump(told) == own.dump(anonymise(trace, jitter_s=1e-8, seed=seed))
    assert (np.diff(told.arrival_ns) >= 0).all()
    shift = np.abs(np.sort(told.arrival_ns) - np.sort(trace.arrival_ns))
    assert shift.max() <= 20  # 10 ns, and all later by up to 10 ns where one would be before 0
    for row, parent in enumerate(told.parent.tolist()):
        if 0 <= parent < row:
            assert told.arrival_ns[parent] <= told.arrival_ns[row]
    if trace.timed:
        assert "to about 1e-08 s" in told.notes[0]


def test_jitter_that_nobody_can_take_back() -> None:
    trace = load("chat", limit=50)
    one, other = (anonymise(trace, jitter_s=1.0) for _ in range(2))
    assert one.arrival_ns.tolist() != other.arrival_ns.tolist()
    for options, message in (({"round_to": 0}, "round is 0"), ({"jitter_s": -1.0}, "jitter is -1")):
        with pytest.raises(SpecError, match=message):
            anonymise(trace, **options)  # type: ignore[arg-type]


def test_the_command(tmp_path: object) -> None:
    out = f"{tmp_path}/o.jsonl"
    words = ["trace", "anonymise", "chat-shared", "--round", "16", "--jitter", "2", "--out", out]
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, words)
    assert result.exit_code == 0, result.stderr
    said = " ".join(result.stdout.split())
    assert (
        "a reader can still learn when requests came (to about 2 s), how long they were (to" in said
    )
    assert load(out).name == "anonymous"
