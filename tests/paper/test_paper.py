"""The published experiment comes out as published, and docs/paper.md says what comes out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pagedsim.analysis import paper
from pagedsim.analysis.paper import (
    MAX,
    ORACLE,
    PAPER,
    POW2,
    SEEDS,
    VLLM,
    Figures,
    Line,
    Settings,
    System,
    cut,
    figures,
    lines,
    measure,
    replay,
    row,
    trace,
)
from pagedsim.analysis.report import report
from pagedsim.engine.recording import BLOCKED
from pagedsim.trace.draws import stream
from pagedsim.trace.lengthmodels import Histogram, tokens

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "paper.md").read_text(encoding="utf-8")
PROMPTS_PRICED = replace(PAPER, steptime=f"{PAPER.steptime},per_prefill_token_us=166.7")


def by_name(measured: list[Line]) -> dict[str, Line]:
    return {line.figure: line for line in measured}


def check(name: str, measured: list[Line]) -> dict[str, Line]:
    """Every number within its tolerance, and the table of docs/paper.md up to date."""
    assert [line for line in measured if not line.holds] == []
    assert row(name, measured) in DOCS.splitlines()
    return by_name(measured)


# The hard targets.


def test_orca_max_and_its_steady_part() -> None:
    """Exactly seven whenever the head is blocked; a queue may still empty in the first seconds."""
    runs = [replay(MAX, seed) for seed in SEEDS]
    check("Orca (Max)", lines(MAX, map(figures, runs)))
    steady = [
        report(run.recording, run.trace, name="steady", window="steady", steptime=run.steptime)
        for run in runs
    ]
    for part in steady:
        blocked = part.column("limit") >= BLOCKED
        assert (part.column("batch")[blocked] == 7).all()
        assert (part.column("external")[blocked] == 15_728 - 7 * 2_048).all()  # 8.85 %
        assert part.column("end_ns")[~blocked].max(initial=0) < 10 * 10**9
    always = [part for part in steady if part.blocked == 1.0]
    assert len(always) >= 2
    assert {part.batch.mean for part in always} == {7.0}
    assert {part.memory.external for part in always} == {1_392 / 15_728}
    found = by_name(lines(MAX, map(figures, steady)))
    assert round(found["batch"].ours.mean, 3) == 7.0
    assert round(found["external"].ours.mean, 2) == 8.85


@pytest.mark.parametrize("system", [POW2, ORACLE], ids=lambda system: system.name)
def test_orca(system: System) -> None:
    check(system.name, measure(system))


# The soft ones: docs/paper.md explains each bound.


def test_vllm_is_below_saturation() -> None:
    found = check("vLLM", measure(VLLM))
    assert 25 < found["batch"].ours.low < found["batch"].ours.high < 30.42
    assert found["token"].ours.high < 80
    assert found["reservation"].ours.mean + found["internal"].ours.mean < 2.09  # the paper's


def test_vllm_at_saturation_fills_the_memory() -> None:
    found = check("vLLM, 3 requests/s", measure(VLLM, replace(PAPER, rate=3.0)))
    assert all(abs(found[name].difference) < 1.1 for name in Figures._fields[:4])
    assert found["token"].ours.low > 95.5


def test_vllm_with_prompts_priced_comes_to_the_batch() -> None:
    found = check("vLLM, prompts priced", measure(VLLM, PROMPTS_PRICED))
    assert found["batch"].ours.low < 30.42 < found["batch"].ours.high


def test_the_papers_own_filter() -> None:
    measured = measure(ORACLE, replace(PAPER, filtered=True))
    assert row("Orca (Oracle), filtered", measured) in DOCS.splitlines()
    found = by_name(measured)
    assert all(found[name].holds for name in Figures._fields[:4])
    assert found["batch"].ours.mean == pytest.approx(14.3, abs=0.2)


# The load.


def test_an_hour_of_pairs_within_the_maximum() -> None:
    made = trace(0)
    assert (made.prompt + made.output).max() <= 2_048
    assert min(made.prompt.min(), made.output.min()) >= 1
    assert made.arrival_ns.max() < 3_600 * 10**9
    assert abs(len(made) - 7_200) < 5 * 7_200**0.5
    assert np.array_equal(made.prompt, trace(0).prompt)
    assert not np.array_equal(made.prompt[:99], trace(1).prompt[:99])


@pytest.mark.parametrize(
    ("column", "high", "mean"), [("prompt", 2_028, 161.4), ("output", 2_009, 338.0)]
)
def test_lengths_follow_the_histograms(column: str, high: int, mean: float) -> None:
    apart = Settings(max_len=10_000)  # no pair is drawn again
    drawn = np.concatenate([getattr(trace(seed, apart), column) for seed in range(20)])
    assert drawn.max() <= high
    assert drawn.mean() == pytest.approx(mean, abs=5 * drawn.std() / len(drawn) ** 0.5)
    # the tallest bar of each, read in Fig 11: 27.5 % of prompts, 4.0 % of outputs
    share = {"prompt": 21_948 / 79_738, "output": 3_151 / 79_706}[column]
    width = (high - 1) / 128
    assert np.mean(drawn < 1 + width) == pytest.approx(share, rel=0.03)


def test_the_filter_of_the_released_benchmark() -> None:
    made = trace(0, replace(PAPER, filtered=True))
    assert 4 <= made.prompt.min() < made.prompt.max() <= 1_024
    assert made.output.min() >= 4
    assert (made.prompt + made.output).max() <= 2_048


def test_a_cut_histogram_by_hand() -> None:
    # a quarter of the first bar is left, 0.5 to 1: weight 1; three quarters of the second, 1 to
    # 2.5: weight 4.5; none of the third
    left = cut(Histogram(lo=-1, hi=5, density=[4, 6, 8]), 1, 2)
    assert left.values == [0.5, 1.0, 2.5]
    assert left.percents == pytest.approx([0, 100 * 1 / 5.5, 100])


def test_a_cut_histogram_is_what_rejection_leaves() -> None:
    whole = Histogram(lo=1, hi=40, density=[5, 0, 3, 9, 1])
    plain = tokens(whole, stream(1), 200_000)
    plain = plain[(plain >= 4) & (plain <= 30)]
    short = tokens(cut(whole, 4, 30), stream(2), len(plain))
    counts = [np.bincount(column, minlength=31) for column in (plain, short)]
    assert len(counts[1]) == 31
    assert np.abs(counts[0] - counts[1]).max() < 6 * np.sqrt(2 * counts[0].max())


# The comparison.


def test_a_number_out_of_its_tolerance_does_not_hold() -> None:
    exact = MAX.published
    assert all(line.holds for line in lines(MAX, [exact]))
    for name, off in (("token", 2.51), ("external", -2.51), ("batch", 0.211)):
        moved = exact._replace(**{name: getattr(exact, name) + off})
        assert [line.figure for line in lines(MAX, [moved]) if not line.holds] == [name]
        assert all(line.holds for line in lines(replace(MAX, hard=False), [moved]))


def test_lines_are_means_over_runs() -> None:
    low, high = Figures(19, 12, 60, 9, 6.5), Figures(21, 14, 56, 9, 7.5)
    found = by_name(lines(MAX, [low, high]))
    assert found["token"].ours.mean == 20
    assert str(found["token"]) == "20.00 / 20.41 (−0.41)"
    assert str(found["batch"]) == "7.00 / 7.00 (0.00)"


@pytest.mark.parametrize("system", paper.SYSTEMS, ids=lambda system: system.name)
def test_published_shares_add_up(system: System) -> None:
    assert sum(system.published[:4]) == pytest.approx(100, abs=0.01)


def test_shares_add_up_in_a_short_run() -> None:
    short = Settings(seconds=60)
    for system in paper.SYSTEMS:
        run = replay(system, 3, short)
        assert sum(figures(run)[:4]) == pytest.approx(100)
        assert run.span is not None
        assert run.span.to_s == 60 - run.trace.arrival_ns[0] / 1e9
        assert len(run.finished) == len(run.trace)


def test_the_example_of_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", DOCS, re.DOTALL)
    assert found is not None
    exec(found[1], {})
    assert capsys.readouterr().out == found[2]
