"""`--figure` of a published experiment: a bar for ours, a circle for what was published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pagedsim.analysis.experiments.catalogue import FIELD, PAPERS, find
from pagedsim.analysis.experiments.experiment import Bench, Outcome, Row
from pagedsim.present import figures


def outcome(*rows: Row) -> Outcome:
    return Outcome(
        name="n", title="t", source="s", quick=False, settings={}, rows=rows, claims=(), notes=()
    )


def test_bars_and_circles_stand_at_the_numbers() -> None:
    found = outcome(
        Row(name="both", unit="x", published=2.0, ours=3.0, low=2.5, high=3.5),
        Row(name="ours alone", unit="x", ours=4.0),
        Row(name="absent", unit="x", published=5.0, ours=None),
        Row(name="other unit", unit="%", published=50.0, ours=60.0),
    )
    figure: Any = figures.experiment(found)
    first, second = figure.axes
    assert [bar.get_width() for bar in first.patches] == [3.0, 4.0]
    interval, circles = first.lines
    assert list(interval.get_xdata()) == [2.5, 3.5]
    assert list(circles.get_xdata()) == [2.0, 5.0]
    assert list(circles.get_ydata()) == [0, 2]
    assert [bar.get_width() for bar in second.patches] == [60.0]
    assert [axes.get_xlabel() for axes in (first, second)] == ["x", "%"]


def test_numbers_far_apart_are_on_a_logarithmic_axis() -> None:
    wide = figures.experiment(outcome(Row(name="a", ours=1.0), Row(name="b", ours=100.0)))
    near = figures.experiment(outcome(Row(name="a", ours=0.0), Row(name="b", ours=100.0)))
    assert [figure.axes[0].get_xscale() for figure in (wide, near)] == ["log", "linear"]


def test_every_quick_experiment_can_be_drawn(tmp_path: Path) -> None:
    for name, among in (("table1", PAPERS), ("jenga", PAPERS), ("vllm-39734", FIELD)):
        figures.save(
            figures.experiment(find(name, among).run(Bench(quick=True))), tmp_path / f"{name}.png"
        )
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000
