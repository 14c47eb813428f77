"""What fills one set of axes: hit rates against capacity, latency against the rate of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pagedsim.present.axes_style import SMALL, Axes, literal, plain_axes, powers, run_line
from pagedsim.present.numbers import count, per_cent
from pagedsim.present.palette import FAINT, RULE

if TYPE_CHECKING:
    from pagedsim.analysis.curve_result import Curves


def hit_rates(
    axes: Axes, found: Curves, smooth: Mapping[str, tuple[Sequence[float], Sequence[float]]]
) -> None:
    """Lines over a logarithmic capacity, their knees, what no cache can pass, and a GPU's pool.

    What says which is which goes below (`lines_legend`): anywhere inside it could cover a line.
    """
    for index, one in enumerate(found.curves):
        blocks = [point.capacity.blocks for point in one.points]
        rates = [100 * point.rates.tokens for point in one.points]
        style = run_line(index, len(found.curves))
        marks = {**style, "linestyle": "none", "marker": "o", "markersize": 3.5}
        if one.policy in smooth:
            at, share = smooth[one.policy]
            axes.plot(at, [100 * value for value in share], label=one.policy, **style)
            axes.plot(blocks, rates, **marks)
        else:
            axes.plot(blocks, rates, label=one.policy, **{**marks, **style, "marker": "o"})
        if one.knee is not None:
            knee = (one.knee.capacity.blocks, 100 * one.knee.rates.tokens)
            axes.plot(*knee, marker="D", markersize=7, markerfacecolor="white", **{**style})
    ideal = 100 * found.ideal.tokens
    axes.axhline(ideal, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    note = {"fontsize": SMALL, "color": FAINT, "va": "bottom"}
    left = min((point.capacity.blocks for point in found.curves[0].points), default=1)
    axes.text(left, ideal, f" without limits: {per_cent(found.ideal.tokens)} %", **note)
    if found.pool is not None:
        axes.axvline(found.pool.blocks, color=FAINT, linewidth=0.8, linestyle=(0, (1, 2)))
        name = literal(f"{found.model} on {found.gpu}: {count(found.pool.blocks)} ")
        axes.text(found.pool.blocks, 1, name, rotation=90, ha="right", **note)
    axes.set_xscale("log")
    axes.set_ylim(0, max(ideal * 1.1, 1))
    axes.set_ylabel("% of prompt tokens hit", fontsize=SMALL, color=FAINT)
    axes.set_xlabel(f"capacity in blocks of {found.block:,} tokens", fontsize=SMALL, color=FAINT)
    powers(axes.xaxis, lambda value: count(round(value)))
    plain_axes(axes, grid="both")
    if (token := found.kv_bytes_per_token) is not None:
        gib = found.block * token / (1 << 30)
        second = axes.secondary_xaxis("top", functions=(lambda x: x * gib, lambda x: x / gib))
        second.set_xlabel("GiB", fontsize=SMALL, color=FAINT)
        second.tick_params(labelsize=SMALL, colors=FAINT)
        second.spines["top"].set_color(RULE)
        powers(second.xaxis, lambda value: f"{value:g}")
    if any(one.knee is not None for one in found.curves):
        hollow = {"marker": "D", "markersize": 7, "markerfacecolor": "white", "linestyle": "none"}
        axes.plot([], [], color=FAINT, label="knee", **hollow)


def against_rate(
    axes: Axes,
    lines: Mapping[str, Sequence[tuple[float, float | None]]],
    published: Mapping[str, Sequence[tuple[float, float]]],
    *,
    label: str,
    bound: float | None,
) -> None:
    """Lines with a mark at each rate; published points are hollow."""
    for index, (name, points) in enumerate(lines.items()):
        style = run_line(index, len(lines))
        known = [(rate, value) for rate, value in points if value is not None]
        axes.plot(
            [rate for rate, _ in known],
            [value for _, value in known],
            label=name,
            marker="o",
            markersize=4,
            **style,
        )
        if name in published:
            hollow = {
                "marker": "o",
                "markersize": 6,
                "markerfacecolor": "none",
                "linestyle": "none",
            }
            x, y = zip(*published[name], strict=True)
            axes.plot(x, y, color=style["color"], label=f"{name}, published", **hollow)
    if bound is not None:
        axes.axhline(bound, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.annotate(
            f"{bound:g}", (1, bound), xycoords=("axes fraction", "data"),
            ha="right", va="bottom", fontsize=SMALL, color=FAINT,
        )  # fmt: skip
    axes.set_xlabel("requests/s", fontsize=SMALL, color=FAINT)
    axes.set_ylabel(label, fontsize=SMALL, color=FAINT)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    plain_axes(axes, grid="y")
    axes.legend(loc="upper left", fontsize=SMALL, frameon=False)


__all__ = ["against_rate", "hit_rates"]
