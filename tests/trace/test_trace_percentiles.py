"""Traces from a slide: what is stated comes out, contradictions are refused by their place."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pagedsim.cli import app
from pagedsim.errors import SpecError
from pagedsim.trace import load
from pagedsim.trace.make import make
from pagedsim.trace.percentiles import EXAMPLE, recipe_of


def test_the_example() -> None:
    recipe, notes = recipe_of(EXAMPLE, requests=20_000)
    trace = make(recipe)
    assert np.percentile(trace.prompt, 50) == pytest.approx(900, rel=0.03)
    assert np.percentile(trace.prompt, 99) == pytest.approx(6000, rel=0.06)
    assert trace.output.mean() == pytest.approx(210, rel=0.03)
    assert len(trace) / (trace.arrival_ns[-1] / 1e9) == pytest.approx(5, rel=0.03)
    assert notes == (
        "prompt: lognormal through p50 and p99",
        "output: lognormal of that mean, cv 1, an assumption",
    )


@pytest.mark.parametrize(
    ("said", "percentiles", "mean"),
    [
        ("p50=900 mean=1300", {50: 900}, 1300),
        ("p99=6000 mean=900", {99: 6000}, 900),
        ("p10=90 mean=900", {10: 90}, 900),
        ("p25=100 p50=110 p75=400 p95=450", {25: 100, 50: 110, 75: 400, 95: 450}, None),
        ("median=900 p90=900 p99=901", {50: 900, 90: 900, 99: 901}, None),
        ("mean=50 cv=0.2", {50: 49}, 50),
        ("p90=50 cv=0.5", {90: 50}, None),
        ("p50=80 p90=80", {50: 80, 90: 80}, 80),
        ("p50=80 p90=300 p99=900 min=70 max=1000", {0: 70, 50: 80, 90: 300, 99: 900}, None),
    ],
)
def test_what_is_stated_comes_out(
    said: str, percentiles: dict[int, int], mean: float | None
) -> None:
    recipe, _ = recipe_of(f"prompt {said}, output mean=9, rate=600/min", requests=20_000)
    trace = make(recipe)
    for percent, value in percentiles.items():
        assert np.percentile(trace.prompt, percent) == pytest.approx(value, rel=0.06)
    if mean is not None:
        assert trace.prompt.mean() == pytest.approx(mean, rel=0.06)
    assert recipe.arrivals.rate == pytest.approx(10)


@given(
    st.lists(st.integers(1, 98), min_size=3, max_size=6, unique=True),
    st.lists(st.integers(1, 10**6), min_size=6, max_size=6),
)
def test_any_rising_percentiles(percents: list[int], values: list[int]) -> None:
    """Drawn by rank, each stands where it was stated; all values rise."""
    pairs = list(zip(sorted(percents), sorted(values), strict=False))
    said = " ".join(f"p{percent}={value}" for percent, value in pairs)
    recipe, _ = recipe_of(f"output mean=9, prompt {said}, rate=1/h cv=3", requests=5)
    model = recipe.prompt
    held = dict(zip(model.percents, model.values, strict=True))  # type: ignore[union-attr]
    for percent, value in pairs:
        assert held[percent] == pytest.approx(value)
    model.check()
    assert recipe.arrivals.words(0).startswith("gamma 0.000277778/s, cv 3")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prompt p50=9 p99=6", "column 14: prompt p99=6 contradicts p50=9 in column 8: it must be"),
        ("prompt p99=6 p50=9", "column 8: prompt p99=6 contradicts p50=9 in column 14"),
        ("prompt min=9 p50=6", "column 14: prompt p50=6 contradicts min=9"),
        ("prompt max=9 p50=60", "column 8: prompt max=9 contradicts p50=60"),
        (
            "prompt p50=900 mean=100",
            "column 16: prompt mean=100 contradicts the rest: it must be >=",
        ),
        ("prompt mean=100 min=5 max=70", "column 8: prompt mean=100 contradicts the rest: it must"),
        ("prompt p50=900 mean=800", "column 8: prompt p50=900 is out of reach"),
        ("prompt p10=105 mean=100", "column 8: prompt p10=105 is out of reach"),
        ("prompt p90=900 mean=100", "column 8: prompt p90=900 is out of reach"),
        ("prompt p50=9 p90=20 cv=2", "column 21: prompt cv=2 is one number too many"),
        ("prompt p50=9 p50=20", "column 14: p50 is there twice"),
        ("prompt median=9 p50=20", "column 17: p50 is there twice"),
        ("prompt min=9", "column 8: prompt needs a mean or a percentile"),
        ("prompt", "column 1: prompt has no number"),
        ("prompt p50", "column 8: p50 is not KEY=NUMBER"),
        ("prompt p0=5", "column 8: p0=5 is not KEY=NUMBER"),
        ("prompt p100=5", "column 8: p100=5 is not KEY=NUMBER"),
        ("prompt mean=0.2", "column 8: mean=0.2: must be at least 1 token"),
        ("prompt p50=many", "column 8: p50=many: must be a number > 0"),
        ("prompt p50=-4", "column 8: p50=-4: must be a number > 0"),
        ("prompt p50=nan", "column 8: p50=nan: must be a number > 0"),
        ("promt p50=9", "column 1: promt is no part; there are prompt, output, rate, total"),
        ("prompt mean=9, prompt mean=8", "column 16: prompt is there twice"),
        ("prompt mean=9,, ", "nothing stands between commas"),
        ("total max=9", "says nothing of prompt"),
    ],
)
def test_contradictions_have_a_place(text: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        recipe_of(f"{text}, output mean=9, rate=1/s", requests=9)
    assert str(caught.value).startswith("--from-percentiles: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        ("rate=5", "has no unit: rate=5/s, /min or /h"),
        ("rate=5/d", "has no unit"),
        ("rate=x/s", "must be a number"),
        ("rate cv=2", "cv of what rate?"),
        ("prompt mean=4", "prompt is there twice"),
    ],
)
def test_rates(rate: str, said: str) -> None:
    with pytest.raises(SpecError, match=re.escape(said)):
        recipe_of(f"prompt mean=9, output mean=9, {rate}", requests=9)
    with pytest.raises(SpecError, match="gives no rate"):
        recipe_of("prompt mean=9, output mean=9", requests=9)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner(env={"COLUMNS": "80"})
    words = ["trace", "make", "--from-percentiles", f"{EXAMPLE}, total max=7000", "-o", "t.jsonl"]
    ran = runner.invoke(app, [*words, "--requests", "50", "--seed", "3"])
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert all(len(line) <= 80 for line in ran.stdout.splitlines())
    trace = load("t.jsonl")
    assert len(trace) == 50
    assert (trace.prompt + trace.output).max() <= 7000
    assert "prompt: lognormal through p50 and p99" in trace.notes
    for wrong in (["chat", *words[2:4]], []):  # both, and neither
        ran = runner.invoke(app, ["trace", "make", "-o", "no.jsonl", *wrong])
        assert ran.exit_code == 2
        assert "give either a recipe or --from-percentiles 'prompt" in ran.stderr
        assert not Path("no.jsonl").exists()
