"""What sharing saves, beside Fig 15 and a closed form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pagedsim.analysis.experiments import fig15
from pagedsim.analysis.experiments.experiment import Bench
from pagedsim.analysis.experiments.fig15 import EXPERIMENT, PARALLEL, Settings, at_finish, drawn
from pagedsim.trace.samples import with_samples
from pagedsim.trace.trace import Trace

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "paper.md").read_text(encoding="utf-8")


def test_the_published_savings() -> None:
    """All hundred thousand requests, within a point; the replays of it are shorter here."""
    found = EXPERIMENT.measure(Settings(timed=300, beams=30), Bench())
    rows = {row.name: row for row in found.rows}
    hard = [row for row in found.rows if row.hard]
    assert [row.published for row in hard] == list(PARALLEL.values()) == [6.09, 8.53, 9.79]
    assert all(row.holds and row.tolerance == 1.0 for row in hard)
    shown = " | ".join(f"{row.ours:.2f}" for row in hard)
    assert f"| ours | {shown} |" in DOCS
    saved = [rows[f"saved, {beams} beams, over time"] for beams in (2, 4, 6)]
    assert [row.published for row in saved] == [None, None, None]
    # beams share what they have said as well, so more than samples do
    assert 9.79 < (saved[0].ours or 0) < (saved[1].ours or 0) < (saved[2].ours or 0) < 100


@pytest.mark.parametrize("samples", [1, 2, 5])
def test_it_is_what_the_lengths_say(samples: int) -> None:
    """Whole blocks of the prompt, n - 1 times, of n times the blocks at the end."""
    prompt, output = drawn("alpaca", Settings(requests=2_000, seed=4))
    whole, blocks = (prompt // 16).sum(), (-(-(prompt + output - 1) // 16)).sum()
    expected = 100 * whole * (samples - 1) / (blocks * samples)
    assert at_finish(prompt, output, samples) == pytest.approx(expected, rel=1e-12)


def test_over_time_it_is_the_sum_over_steps() -> None:
    """Of every step of every request, the prompt's included, in which nothing is forked yet."""
    prompt, output = np.array([40, 7, 16]), np.array([30, 9, 2])
    shared = held = 0
    for first, length in zip(prompt.tolist(), output.tolist(), strict=True):
        held += -(-first // 16) * 16
        for stored in range(first + 1, first + length):
            shared += 2 * (first // 16 * 16)
            held += 16 * (3 * -(-stored // 16) - 2 * (first // 16))
    trace = with_samples(Trace.build("t", [0, 0, 0], prompt, output), 3)
    assert fig15.over_time(trace) == pytest.approx(100 * shared / (held + shared), rel=1e-12)


def test_what_is_averaged_over_hardly_matters() -> None:
    """Closed forms over all steps of the hundred thousand: the rows of the page."""
    prompt, output = drawn("alpaca", Settings())
    whole, longest = prompt // 16, int(output.max())
    needed = np.array(
        [(-(-(prompt + step)[output > step] // 16)).sum() for step in range(longest)], np.int64
    )
    shared = np.array([whole[output > step].sum() for step in range(longest)], np.int64)
    partial = (prompt % 16 > 0).sum()
    rows = {
        "over all steps after the fork": shared[1:].sum() / needed[1:].sum(),
        "and a step more, with the prompt alone stored by all": shared.sum() / needed.sum(),
        "in which its last, partial block is shared too": (shared.sum() + partial) / needed.sum(),
    }
    for row, share in rows.items():
        shown = " | ".join(f"{100 * share * (n - 1) / n:.2f}" for n in PARALLEL)
        assert f"| {row} | {shown} |" in DOCS


def test_lengths_are_those_of_the_figure() -> None:
    prompt, output = drawn("alpaca", Settings())
    assert len(prompt) == len(output) == 100_000
    assert (prompt.min(), output.min()) == (6, 4)  # the figure begins at 6
    assert prompt.max() < 508
    assert prompt.mean() == pytest.approx(19.31, abs=0.3)
