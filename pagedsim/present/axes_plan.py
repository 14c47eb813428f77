"""What fills one set of axes of a plan: what a bound is on, against the rate of requests."""

from __future__ import annotations

from collections.abc import Sequence

from pagedsim.analysis.plan_result import Answer
from pagedsim.analysis.plan_slo import TIMES, Bound
from pagedsim.present.axes_style import SMALL, Axes, plain_axes, run_line
from pagedsim.present.palette import FAINT

AXES = {  # what was sought, in words
    "rate": "requests/s",
    "kv-tokens": "tokens of KV in the pool",
    "max-len": "maximum length, tokens",
    "gpus": "servers",
    "batch": "requests outstanding",
}
ABOVE = 2.0  # times the bound are shown: what lies higher leaves the axes


def of_bound(
    axes: Axes, bound: Bound, at: int, named: Sequence[tuple[str, Answer]], *, rates: bool
) -> None:
    """A line a candidate through all its replays; ◇ is the last that holds.

    `at` is the bound's place in the objective; with `rates` they are against the rate, else
    against what was sought.
    """
    scale, unit = _scale(bound)
    highest = 0.0
    for index, (name, one) in enumerate(named):
        style = run_line(index, len(named))
        points = [
            (replay.rate if rates else replay.at, replay.values[at] or 0.0)
            for replay in one.replays
            if replay.at is not None and replay.values[at] is not None
        ]
        x = [value for value, _ in points]
        y = [value * scale for _, value in points]
        highest = max(highest, *y, 0.0)
        axes.plot(x, y, label=name, marker="o", markersize=3, **style)
        sought = one.rate if rates else one.found
        if one.passes is not None and sought is not None:
            knee = one.passes.values[at]
            if knee is not None:
                diamond = {"marker": "D", "markersize": 7, "markerfacecolor": "white", "zorder": 3}
                axes.plot(sought, knee * scale, **{**style, **diamond})
    axes.axhline(bound.value * scale, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.annotate(
        bound.text, (1, bound.value * scale), xycoords=("axes fraction", "data"),
        ha="right", va="bottom", fontsize=SMALL, color=FAINT,
    )  # fmt: skip
    axes.set_ylabel(f"{bound.name}{unit}", fontsize=SMALL, color=FAINT)
    axes.set_xlim(left=0)
    axes.set_ylim(
        0, max(min(highest, ABOVE * bound.value * scale), bound.value * scale) * 1.08 or 1
    )
    plain_axes(axes, grid="y")


def _scale(bound: Bound) -> tuple[float, str]:
    """Of the values, and the unit to show."""
    if bound.metric not in TIMES:
        return (100.0, ", % of requests") if bound.share else (1.0, "")
    return (1000.0, ", ms") if bound.value < 1 else (1.0, ", s")


__all__ = ["AXES", "of_bound"]
