"""Figures: what a run did with its memory, as pictures for a page, a slide or print.

Each function makes one matplotlib `Figure` out of results or reports; `overview` puts those of a
run or a comparison on one page, and `save` writes any of them. No figure keeps state in pyplot, so
they can be made side by side and closed by being forgotten. Colours are those of `present.palette`;
the same run has the same line in all figures that are made from the same list.

This file, `present.axes…`, which fill one set of axes each, and `figure_files` are the only ones on
matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from matplotlib.figure import Figure

from pagedsim.analysis.curve_result import Curves
from pagedsim.analysis.experiments.experiment import Outcome
from pagedsim.present import axes as draw
from pagedsim.present import axes_card as cards
from pagedsim.present import axes_rates as rates
from pagedsim.present import axes_slots as pools
from pagedsim.present.axes_experiments import beside
from pagedsim.present.axes_plan import AXES, of_bound
from pagedsim.present.axes_style import literal
from pagedsim.present.figure_files import save
from pagedsim.present.labels import labels
from pagedsim.present.memory_map import grid
from pagedsim.present.numbers import plain, requests
from pagedsim.present.palette import FAINT, INK

if TYPE_CHECKING:
    from pagedsim.analysis.plan_result import Plan
    from pagedsim.analysis.report import Report
    from pagedsim.analysis.results import Run
    from pagedsim.analysis.scene.values import Scene
    from pagedsim.device.device import Device

Drawn = TypeVar("Drawn")

WIDTH = 8.0  # inches
NAME = 36  # characters of a run's name
ACROSS = 3  # timelines side by side, where there are more than four


def memory(runs: Sequence[Run], *, title: str = "Where the memory went") -> Figure:
    """Stacked bars of the account, a bar a run: means over time, in % of the pool."""
    figure = _figure(draw.bars_height(len(runs)) + 0.75)
    _memory(figure, runs)
    return _titled(figure, title)


def shares(
    rows: Mapping[str, Mapping[str, float | None]], *, title: str = "", of: str = "the pool"
) -> Figure:
    """Stacked bars of any shares by term (live, reserved, internal, external, cached, idle).

    For results that are not a run's: published ones, means over seeds. A term that is left out is
    0; a row whose shares are None says that no step ran.
    """
    figure = _figure(draw.bars_height(len(rows)) + 0.75)
    draw.bars(figure.subplots(), list(zip(_names(rows), rows.values(), strict=True)), of=of)
    return _titled(figure, title)


def timeline(reports: Sequence[Report], *, title: str = "Memory over time") -> Figure:
    """Stacked areas of the account over time, a set of axes a run, all on one clock."""
    figure = _figure(_timelines_height(len(reports)) + 0.5)
    draw.terms_legend(figure, _timelines(figure, reports))
    return _titled(figure, title)


def batch(reports: Sequence[Report], *, title: str = "Batch and queue over time") -> Figure:
    """Running sequences, and requests that wait for their first admission, over time."""
    figure = _figure(4.6)
    _batch(figure, reports)
    return _titled(figure, title)


def latency(reports: Sequence[Report], *, title: str = "Latency of finished requests") -> Figure:
    """Distributions of the times to first token, per output token and end to end."""
    figure = _figure(3.4)
    draw.lines_legend(figure, _latency(figure, reports))
    return _titled(figure, title)


def hit_rates(
    found: Curves,
    smooth: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
    *,
    title: str = "",
) -> Figure:
    """Hit rate of a prefix cache against its capacity, with knees and the pool of a GPU.

    `smooth` has, by policy, (blocks, share of tokens hit) where more than `found` is known.
    """
    figure = _figure(4.4)
    axes = figure.subplots()
    rates.hit_rates(axes, found, smooth or {})
    draw.lines_legend(figure, axes)
    name = f"{plain(found.trace, 40)} · {requests(found.requests)}"
    return _titled(figure, title or f"Hit rate against capacity: {name}")


def against_rate(
    lines: Mapping[str, Sequence[tuple[float, float | None]]],
    *,
    label: str,
    bound: float | None = None,
    published: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    title: str = "Latency against request rate",
) -> Figure:
    """A latency against the rate of requests: (requests/s, value) of each of `lines`.

    `label` names the value with its unit. A value of None is left out: nothing finished there.
    `bound` is a level to stay below; `published` are points to compare with, by the same names.
    """
    figure = _figure(4.0)
    names = dict(zip(lines, _names(lines), strict=True))
    rates.against_rate(
        figure.subplots(),
        {names[name]: points for name, points in lines.items()},
        {names[name]: points for name, points in (published or {}).items()},
        label=label,
        bound=bound,
    )
    return _titled(figure, title)


def plan(found: Plan, names: Sequence[str]) -> Figure:
    """What the objective bounds, against what was sought: axes a bound, a line a candidate."""
    named = [
        (name, one)
        for name, one in zip(_names(names), found.answers, strict=True)
        if one.replays and not one.impossible
    ]
    bounds = found.objective.bounds
    figure = _figure(0.9 + 2.2 * len(bounds))
    every = figure.subplots(len(bounds), 1, sharex=True, squeeze=False)[:, 0]
    for at, (axes, bound) in enumerate(zip(every, bounds, strict=True)):
        of_bound(axes, bound, at, named, rates=found.find == "rate")
    every[-1].set_xlabel(AXES[found.find], fontsize=8, color=FAINT)
    if len(named) > 1:
        draw.lines_legend(figure, every[0])
    name = f"{plain(found.trace.name, 32)} · {requests(found.trace.requests)}"
    return _titled(figure, f"{name} · ◇ the last that holds")


def experiment(found: Outcome) -> Figure:
    """A published experiment: ours as bars, what was published as circles, a set of axes a unit."""
    units = dict.fromkeys(row.unit for row in found.rows)
    of = {unit: [row for row in found.rows if row.unit == unit] for unit in units}
    figure = _figure(sum(0.28 * len(rows) + 0.75 for rows in of.values()) + 0.4)
    ratios = [len(rows) + 2 for rows in of.values()]
    every = figure.subplots(len(of), 1, squeeze=False, height_ratios=ratios)[:, 0]
    for axes, (unit, rows) in zip(every, of.items(), strict=True):
        beside(axes, rows, unit)
    draw.lines_legend(figure, every[0])
    return _titled(figure, f"{found.name}: {found.title}")


def card(device: Device, *, length: int, batch: int) -> Figure:
    """A card's memory, estimated: weights, activations and the KV of `batch` requests of `length`.

    SpecError where the pool of `device` was stated and not estimated.
    """
    figure = _figure(1.9)
    axes = figure.subplots()
    said = cards.card(axes, device, length=length, batch=batch)
    draw.lines_legend(figure, axes)
    return _titled(figure, said)


def fits(
    devices: Mapping[str, Device],
    lengths: Sequence[int],
    *,
    title: str = "Requests that fit at once",
) -> Figure:
    """How many requests of each of `lengths` tokens a pool holds at once, a line a device."""
    figure = _figure(4.0)
    names = dict(zip(devices, _names(devices), strict=True))
    named = {names[name]: device for name, device in devices.items()}
    cards.fits(figure.subplots(), named, lengths)
    return _titled(figure, title)


def slots(scene: Scene, at_s: float, *, title: str = "") -> Figure:
    """The pools of a scene slot by slot, `at_s` seconds after the first arrival.

    Squares are those of the page (`memory_map.grid`). SpecError where no step has begun by then.
    """
    square, columns = grid(scene)
    rows = [-(-lane.capacity // (square * columns)) for lane in scene.lanes]
    figure = _figure(sum(0.09 * max(many, 6) + 0.4 for many in rows) + 0.7)
    every = figure.subplots(len(rows), 1, squeeze=False, height_ratios=[max(6, n) for n in rows])
    names = _names([lane.name for lane in scene.lanes])
    for axes, lane, name in zip(every[:, 0], scene.lanes, names, strict=True):
        pools.slots(axes, lane, name, round(at_s * 1e9), square=square, columns=columns)
    draw.terms_key(figure)
    return _titled(figure, title or f"The pool after {at_s:g} s")


def overview(reports: Sequence[Report]) -> Figure:
    """All of a run or a comparison on one page: memory, its course, batch, queue and latency."""
    reports = list(reports)
    runs = [report.run for report in reports]
    heights = (
        draw.bars_height(len(runs)) + 0.8,
        _timelines_height(len(runs)) + 0.5,
        4.6,
        3.4,
    )
    figure = _figure(sum(heights) + 0.6)
    parts: Any = figure.subfigures(4, 1, height_ratios=heights)
    _memory(parts[0], runs)
    _titled(parts[0], "Where the memory went, mean over time")
    _timelines(parts[1], reports)
    _titled(parts[1], "Memory over time")
    _batch(parts[2], reports)
    _titled(parts[2], "Batch and queue over time")
    _latency(parts[3], reports)
    _titled(parts[3], "Latency of finished requests")
    trace = reports[0].trace
    load = f"{plain(trace.name, 40)} · {requests(len(trace))} · {plain(trace.load, 60)}"
    figure.suptitle(literal(load), fontsize=9, color=FAINT, x=0.01, ha="left")
    return figure


def _memory(figure: Any, runs: Sequence[Run]) -> None:
    names = _names([run.name for run in runs])
    rows = list(zip(names, map(draw.account, runs), strict=True))
    draw.bars(figure.subplots(), rows, wastes=[run.memory.waste for run in runs])


def _timelines(figure: Any, reports: Sequence[Report]) -> Any:
    across = _across(len(reports))
    grid = figure.subplots(
        -(-len(reports) // across), across, sharex=True, sharey=True, squeeze=False
    )
    every = grid.flatten().tolist()
    draw.timelines(every, reports, _names([report.name for report in reports]), across)
    return every[0]


def _batch(figure: Any, reports: Sequence[Report]) -> None:
    upper, lower = figure.subplots(2, 1, sharex=True)
    draw.batch(upper, lower, reports, _names([report.name for report in reports]))
    draw.lines_legend(figure, upper)


def _latency(figure: Any, reports: Sequence[Report]) -> Any:
    every = figure.subplots(1, 3, sharey=True)
    draw.latency(every.tolist(), reports, _names([report.name for report in reports]))
    return every[0]


def _timelines_height(count: int) -> float:
    across = _across(count)
    return -(-count // across) * (1.5 if across == 1 else 1.35) + 0.3


def _across(count: int) -> int:
    return 1 if count <= 4 else ACROSS


def _names(names: Sequence[str] | Mapping[str, Any]) -> list[str]:
    """As they are shown: short, and texts only."""
    return [literal(name) for name in labels(list(names), NAME)]


def _figure(height: float) -> Figure:
    return Figure(figsize=(WIDTH, height), layout="constrained")


def _titled(figure: Drawn, title: str) -> Drawn:
    if title:
        anything: Any = figure
        style = {"fontsize": 11, "fontweight": "bold", "color": INK}
        anything.suptitle(literal(title), x=0.01, ha="left", **style)
    return figure


__all__ = [
    "against_rate",
    "batch",
    "card",
    "experiment",
    "fits",
    "hit_rates",
    "latency",
    "memory",
    "overview",
    "plan",
    "save",
    "shares",
    "slots",
    "timeline",
]
