"""A picture of a replay beside an engine's log: a set of axes a quantity, two lines in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pagedsim.analysis.logged import Logged, Side
from pagedsim.present.axes import lines_legend
from pagedsim.present.axes_style import SMALL, Axes, plain_axes, run_line
from pagedsim.present.figures import WIDTH
from pagedsim.present.logged import NAMES
from pagedsim.present.palette import FAINT, INK


def logged(found: Logged) -> Figure:
    """Each quantity over the log's time; `figures.save` writes it."""
    drawn = [(side, found.at_s) for side in found.sides]
    if found.cached is not None:
        drawn.append((found.cached.side, found.cached.at_s))
    figure = Figure(figsize=(WIDTH, 0.8 + 1.4 * len(drawn)), layout="constrained")
    every = figure.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (side, at_s) in zip(every, drawn, strict=True):
        _beside(axes, side, at_s, found.engine)
    every[-1].set_xlabel("s from the log's first line", fontsize=SMALL, color=FAINT)
    lines_legend(figure, every[0])
    style: dict[str, Any] = {"fontsize": 11, "fontweight": "bold", "color": INK}
    figure.suptitle(f"Replay beside {found.engine}'s log", x=0.01, ha="left", **style)
    return figure


def _beside(axes: Axes, side: Side, at_s: Sequence[float], engine: str) -> None:
    """Gaps where neither says anything."""
    scale = 100.0 if side.name in ("usage", "hit_rate") else 1.0
    for index, (name, values) in enumerate(((engine, side.engine), ("replay", side.replay))):
        drawn = [float("nan") if value is None else scale * value for value in values]
        style = run_line(index, 2)
        if not index:  # broad and pale below, so that it is seen where both are the same
            style |= {"linewidth": 4.0, "alpha": 0.45}
        axes.plot(at_s, drawn, label=name, **style)
    axes.set_ylabel(NAMES[side.name], fontsize=SMALL, color=FAINT)
    axes.margins(x=0)
    axes.set_ylim(bottom=0, top=None if axes.get_ylim()[1] > 1 else 1)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=scale == 1))
    plain_axes(axes, grid="y")


__all__ = ["logged"]
