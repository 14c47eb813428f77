"""Figures show the numbers of the result, in its colours, whatever the runs are called."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import msgspec
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

from pagedsim import Report, compare
from pagedsim.analysis.curve import Lookups, curves
from pagedsim.analysis.results import TERMS
from pagedsim.errors import InputError, SpecError
from pagedsim.present import figures
from pagedsim.present.palette import TERM_COLORS, line
from pagedsim.trace import Trace, load

SPECS = ("contiguous:place=buddy,reserve=max", "paged:block=16")


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    trace = load("chat", limit=150)
    return compare(trace, SPECS, max_len=4096)


def texts(figure: Any) -> list[str]:
    return [each.get_text() for each in figure.findobj(mpl.text.Text) if each.get_text()]


def drawn(figure: Any) -> None:
    figure.savefig(io.BytesIO(), format="png", dpi=40)


def test_bars_are_as_long_as_the_shares(reports: Sequence[Report]) -> None:
    runs = [report.run for report in reports]
    figure = figures.memory(runs)
    (axes,) = figure.axes
    for term, bars in zip(TERMS, axes.containers, strict=True):
        for run, bar in zip(runs, bars, strict=True):
            assert bar.get_width() == pytest.approx(100 * getattr(run.memory, term))
            assert to_hex(bar.get_facecolor()) == TERM_COLORS[term].lower()
    for row, run in enumerate(runs):
        ends = [bars[row].get_x() + bars[row].get_width() for bars in axes.containers]
        assert max(ends) == pytest.approx(100)
        assert f"{100 * run.memory.waste:.1f}" in texts(figure)


def test_areas_are_stacked_to_the_whole_pool(reports: Sequence[Report]) -> None:
    figure = figures.timeline(reports)
    assert len(figure.axes) == 2
    for axes, report in zip(figure.axes, reports, strict=True):
        areas = [each for each in axes.collections if isinstance(each, PolyCollection)]
        colours = [to_hex(area.get_facecolor()[0]) for area in areas]
        assert colours == [colour.lower() for colour in TERM_COLORS.values()]
        tops = [area.get_paths()[0].vertices[:, 1].max() for area in areas]
        live = report.memory_spread["live"].max
        assert tops[0] == pytest.approx(100 * live)
        assert tops[-1] == pytest.approx(100)
        assert axes.get_xlim()[1] >= areas[0].get_paths()[0].vertices[:, 0].max()


def test_lines_reach_the_peaks(reports: Sequence[Report]) -> None:
    figure = figures.batch(reports)
    upper, lower = figure.axes
    for index, report in enumerate(reports):
        running, waiting = upper.lines[index], lower.lines[index]
        assert max(running.get_ydata()) == report.batch.peak
        assert running.get_color() == waiting.get_color() == line(index).color
        assert max(waiting.get_ydata()) > 0
    assert [text for text in texts(figure) if "sequences" in text] == ["running sequences"]


def test_latency_reads_as_the_percentiles(reports: Sequence[Report]) -> None:
    figure = figures.latency(reports)
    for axes, field, unit in zip(
        figure.axes, ("ttft_s", "tpot_s", "e2e_s"), (1, 1000, 1), strict=True
    ):
        for plotted, report in zip(axes.lines, reports, strict=True):
            stats = getattr(report.latency, field)
            x, y = plotted.get_xdata(), plotted.get_ydata()
            assert (np.diff(y) >= 0).all()
            for percent, value in ((50, stats.p50), (90, stats.p90), (99, stats.p99)):
                # of 150 requests each is a point, so the percentile is one of them
                assert min(x[y >= percent - 1e-9]) == pytest.approx(value * unit)


@pytest.mark.parametrize("count", [1, 4, 12])
def test_an_overview_of_any_number_of_runs(reports: Sequence[Report], count: int) -> None:
    figure = figures.overview([reports[index % 2] for index in range(count)])
    drawn(figure)
    said = " ".join(texts(figure))
    for unit in ("% of the pool", "s from the first arrival", "(s)", "(ms)", "sequences"):
        assert unit in said
    width, height = figure.get_size_inches()
    assert width == 8
    assert height < 30
    timelines = [axes for axes in figure.axes if len(axes.collections) == 6]
    assert len(timelines) == count


def test_names_are_no_mathematics_and_no_lines() -> None:
    trace = msgspec_free(load("chat", limit=20), "<b>$x^2$\n$\\frac")
    (report,) = compare(trace, ["paged"], max_len=4096)
    report = type(report)(
        name="a$b$\x1b[31m$\\bad{",
        recording=report.recording,
        trace=trace,
        steptime=report.steptime,
    )
    figure = figures.overview([report])
    drawn(figure)
    assert any("<b>" in text for text in texts(figure))


def msgspec_free(trace: Trace, name: str) -> Trace:
    from dataclasses import replace

    return replace(trace, name=name)


def test_a_run_of_nothing_is_drawn() -> None:
    trace = Trace.build("none", [0], [99], [1])
    (report,) = compare(trace, ["paged"], max_len=10)
    figure = figures.overview([report])
    drawn(figure)
    assert "no step ran" in texts(figure)


def test_published_shares_can_be_drawn_too() -> None:
    figure = figures.shares(
        {"ours": {"live": 0.2, "external": 0.8}, "published": {"live": 0.25, "external": 0.75}},
        title="t",
        of="slots",
    )
    drawn(figure)
    assert {"live", "external", "% of slots", "t"} <= set(texts(figure))
    assert "cached" not in texts(figure)


def test_hit_rates_have_their_knees_and_their_pool() -> None:
    lookups = Lookups(load("chat-shared", limit=200))
    found = curves(lookups, ["lru", "fifo"], [10, 100, 1000], 131072.0)
    found = msgspec.structs.replace(
        found, model="m$", gpu="g", pool=lookups.capacity(500, 131072.0)
    )
    figure = figures.hit_rates(found, {"lru": ([10, 1000], [0.1, 0.5])})
    drawn(figure)
    said = texts(figure)
    assert {
        "lru",
        "fifo",
        "GiB",
        "% of prompt tokens hit",
        "capacity in blocks of 16 tokens",
    } <= set(said)
    assert any(text.startswith("m\\$ on g: 500") for text in said)
    points = [each for each in figure.axes[0].lines if len(each.get_xdata()) == 3]
    rates = [100 * point.rates.tokens for point in found.curves[1].points]
    assert any(list(each.get_ydata()) == pytest.approx(rates) for each in points)


def test_latency_against_rate_leaves_out_what_is_not_known() -> None:
    figure = figures.against_rate(
        {"a": [(1, 0.5), (2, None), (3, 2.0)], "b": [(1, 1.0)]},
        label="seconds",
        bound=1.5,
        published={"b": [(1, 1.1)]},
    )
    drawn(figure)
    first, second, published, *_ = figure.axes[0].lines
    assert list(first.get_xdata()) == [1, 3]
    assert published.get_color() == second.get_color() != first.get_color()
    assert {"requests/s", "seconds", "b, published", "1.5"} <= set(texts(figure))


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "PNG"])
def test_the_same_figure_is_the_same_bytes(
    reports: Sequence[Report], tmp_path: Path, suffix: str
) -> None:
    for name in ("a", "b"):
        figures.save(figures.memory([r.run for r in reports]), tmp_path / f"{name}.{suffix}")
    first, second = (tmp_path / f"{name}.{suffix}" for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    if suffix == "svg":
        assert re.search(r">\s*paged:block=16\s*<", first.read_text())  # text stays text


def test_what_cannot_be_written_is_said(reports: Sequence[Report], tmp_path: Path) -> None:
    figure = figures.memory([reports[0].run])
    with pytest.raises(SpecError, match=r"x\.jpg: the name must end in \.pdf, \.png or \.svg"):
        figures.save(figure, "x.jpg")
    with pytest.raises(InputError, match="cannot be written"):
        figures.save(figure, tmp_path / "nowhere" / "x.png")
    assert not list(tmp_path.iterdir())
