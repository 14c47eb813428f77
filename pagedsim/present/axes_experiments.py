"""What fills the axes of an experiment: numbers of one unit, ours as bars, published as circles."""

from __future__ import annotations

from collections.abc import Sequence

from pagedsim.analysis.experiments.experiment import Row
from pagedsim.present.axes_style import SMALL, Axes, literal, plain_axes
from pagedsim.present.palette import FAINT, INK, line

NAME = 44  # characters of a row's name
LOG = 50.0  # a span of more than this goes on a logarithmic axis


def beside(axes: Axes, rows: Sequence[Row], unit: str) -> None:
    """A bar a row with its 95 % interval; a circle where something was published.

    The axis is logarithmic where the numbers span more than `LOG` times and all are above 0.
    """
    places = range(len(rows))
    ours = [(at, row.ours) for at, row in zip(places, rows, strict=True) if row.ours is not None]
    axes.barh(
        [at for at, _ in ours],
        [value for _, value in ours],
        height=0.6,
        color=line(2).color,
        label="ours",
    )
    for at, row in zip(places, rows, strict=True):
        if row.low is not None and row.high is not None:
            axes.plot((row.low, row.high), (at, at), color=INK, linewidth=1)
    known = [(row.published, at) for at, row in enumerate(rows) if row.published is not None]
    if known:
        x, y = zip(*known, strict=True)
        axes.plot(
            x,
            y,
            linestyle="none",
            marker="o",
            markersize=6,
            markerfacecolor="white",
            markeredgecolor=INK,
            label="published",
        )
    values = [value for row in rows for value in (row.ours, row.published) if value is not None]
    if values and min(values) > 0 and max(values) > LOG * min(values):
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=min(0, *values) if values else 0)
    axes.set_yticks(list(places), [literal(row.name[:NAME]) for row in rows], fontsize=SMALL)
    axes.invert_yaxis()
    axes.set_xlabel(unit, fontsize=SMALL, color=FAINT)
    plain_axes(axes, grid="x")


__all__ = ["LOG", "NAME", "beside"]
