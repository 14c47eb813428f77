"""What fills one set of axes: bars, areas over time, lines, distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator

from pagedsim.analysis.outline import Outline, outline, quantiles, queue
from pagedsim.analysis.requests import times
from pagedsim.analysis.results import GROUP_TERMS
from pagedsim.present.axes_style import SMALL, Axes, plain_axes, powers, run_line
from pagedsim.present.numbers import per_cent
from pagedsim.present.palette import COLORS, FAINT, INK, ON_TERMS, TERM_COLORS

if TYPE_CHECKING:
    from pagedsim.analysis.report import Report
    from pagedsim.analysis.results import Run

LATENCIES = {
    "ttft": "time to first token (s)",
    "tpot": "time per output token (ms)",
    "e2e": "end to end (s)",
}
_TERMS_LEGEND: dict[str, Any] = {
    **{"ncols": 6, "fontsize": SMALL, "frameon": False},
    **{"handlelength": 1, "handleheight": 1, "columnspacing": 1.3},
}
_LABELLED = 0.045  # of the width of a bar: a share below that has no number in it


def account(run: Run) -> dict[str, float | None]:
    """The shares of a run."""
    return {term: getattr(run.memory, term) for term in run.memory.terms}


def bars_height(rows: int) -> float:
    """Inches that `rows` bars need."""
    return 0.75 + 0.36 * rows


def bars(
    axes: Axes,
    rows: Sequence[tuple[str, Mapping[str, float | None]]],
    *,
    wastes: Sequence[float | None] = (),
    of: str = "the pool",
) -> None:
    """Horizontal stacked bars with a number in each part that has room for it.

    `wastes` stand at their ends, one a row, under a heading.
    """
    names, accounts = [name for name, _ in rows], [shares for _, shares in rows]
    left = [0.0] * len(rows)
    places = range(len(rows))
    for term in GROUP_TERMS:
        widths = [shares.get(term) or 0.0 for shares in accounts]
        if not any(widths) and not any(term in shares for shares in accounts):
            continue
        axes.barh(
            places,
            [100 * width for width in widths],
            left=[100 * at for at in left],
            height=0.72 if len(rows) > 1 else 0.5,
            color=COLORS[term],
            edgecolor="white",
            linewidth=0.6,
            label=term,
        )
        for place, width in enumerate(widths):
            if width >= _LABELLED:
                middle = 100 * (left[place] + width / 2)
                style = {"color": ON_TERMS[term], "fontsize": SMALL - 0.5}
                axes.text(middle, place, per_cent(width), ha="center", va="center", **style)
            left[place] += width
    for place, shares in enumerate(accounts):
        if all(share is None for share in shares.values()):
            axes.text(1, place, "no step ran", va="center", fontsize=SMALL, color=FAINT)
    axes.set_yticks(places, names, fontsize=SMALL)
    axes.invert_yaxis()
    ends = {"fontsize": SMALL, "color": INK, "ha": "right"}
    for place, waste in enumerate(wastes):
        axes.text(108, place, per_cent(waste), va="center", fontweight="bold", **ends)
    if wastes:
        at = {"xycoords": ("data", "axes fraction"), "va": "bottom"}
        axes.annotate("waste", (108, 1.02), **at, **ends)
    axes.set_xlim(0, 100)
    axes.set_xlabel(f"% of {of}", fontsize=SMALL, color=FAINT)
    plain_axes(axes, grid="x")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, **_TERMS_LEGEND)


def terms_legend(figure: Any, axes: Axes) -> None:
    """What the colours of the areas mean, below all axes of `figure`."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower left", **_TERMS_LEGEND)


def terms_key(figure: Any) -> None:
    """The same where no axes have areas to name."""
    patches = [Patch(color=color, label=term) for term, color in TERM_COLORS.items()]
    figure.legend(handles=patches, loc="outside lower left", **_TERMS_LEGEND)


def timelines(
    every: Sequence[Axes], reports: Sequence[Report], names: Sequence[str], across: int
) -> None:
    """Stacked areas, one set of axes a run; those that are left over are taken away."""
    last = 0.0
    for index, (axes, report, name) in enumerate(zip(every, reports, names, strict=False)):
        thinned = outline(report.recording)
        seconds = _seconds(thinned)
        last = max(last, *seconds, 0.0) if seconds else last
        whole = report.recording.capacity
        terms = thinned.columns[:-1]  # and the batch
        levels = [100 * thinned.column(term) / whole for term in terms]
        colours = [COLORS[term] for term in terms]
        axes.stackplot(seconds, *levels, colors=colours, labels=terms, linewidth=0)
        axes.set_title(name, fontsize=SMALL, loc="left", pad=3, color=INK)
        axes.set_ylim(0, 100)
        axes.set_yticks([0, 50, 100])
        plain_axes(axes)
        if index % across == 0:
            axes.set_ylabel("% of the pool", fontsize=SMALL, color=FAINT)
        if index + across >= len(reports):
            axes.set_xlabel("s from the first arrival", fontsize=SMALL, color=FAINT)
            axes.tick_params(labelbottom=True)
    for axes in every[len(reports) :]:
        axes.remove()
    if last:
        every[0].set_xlim(0, last)


def batch(upper: Axes, lower: Axes, reports: Sequence[Report], names: Sequence[str]) -> None:
    """Running sequences above, requests that wait for their first admission below."""
    for index, (report, name) in enumerate(zip(reports, names, strict=True)):
        running, waiting = outline(report.recording), queue(report.recording)
        style = run_line(index, len(reports))
        upper.plot(_seconds(running), running.column("batch"), label=name, **style)
        lower.plot(_seconds(waiting), waiting.column("queue"), drawstyle="steps-post", **style)
    upper.set_ylabel("running sequences", fontsize=SMALL, color=FAINT)
    lower.set_ylabel("waiting requests", fontsize=SMALL, color=FAINT)
    lower.set_xlabel("s from the first arrival", fontsize=SMALL, color=FAINT)
    for axes in (upper, lower):
        plain_axes(axes, grid="y")
        axes.set_ylim(bottom=0)
        axes.margins(x=0)
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))


def latency(every: Sequence[Axes], reports: Sequence[Report], names: Sequence[str]) -> None:
    """Share of requests that took no longer, for each of `LATENCIES`; times logarithmic."""
    for axes, (key, label) in zip(every, LATENCIES.items(), strict=True):
        for index, (report, name) in enumerate(zip(reports, names, strict=True)):
            values = times(report.recording.requests, report.finished)[key]
            share, ranks = quantiles(values * (1000 if key == "tpot" else 1))
            above = [100 * part for part in share]
            axes.plot(
                ranks, above, label=name, drawstyle="steps-post", **run_line(index, len(reports))
            )
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
        axes.set_xlabel(label, fontsize=SMALL, color=FAINT)
        axes.set_ylim(0, 100)
        plain_axes(axes, grid="both")
        powers(axes.xaxis, lambda value: f"{value:g}")
    every[0].set_ylabel("% of requests, at most", fontsize=SMALL, color=FAINT)


def lines_legend(figure: Any, axes: Axes) -> None:
    """One legend below for all axes of `figure`, unless there is one line only."""
    handles, names = axes.get_legend_handles_labels()
    if len(names) > 1:
        longest = max(map(len, names))
        columns = next((n for n, most in ((6, 10), (4, 20), (3, 28)) if longest <= most), 2)
        figure.legend(
            handles, names, loc="outside lower left", ncols=columns, fontsize=SMALL,
            frameon=False, handlelength=2.2, columnspacing=1.5,
        )  # fmt: skip


def _seconds(thinned: Outline) -> list[float]:
    return [at / 10**9 for at in thinned.at_ns.tolist()]


__all__ = [
    "LATENCIES",
    "account",
    "bars",
    "bars_height",
    "batch",
    "latency",
    "lines_legend",
    "terms_key",
    "terms_legend",
    "timelines",
]
