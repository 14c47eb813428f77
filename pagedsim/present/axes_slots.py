"""What fills one set of axes: a pool at one moment of a scene, its slots in rows by address."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import to_rgb

from pagedsim.analysis.results import TERMS
from pagedsim.analysis.scene.paint import (
    CACHED,
    FREE,
    INTERNAL,
    LIVE,
    LOST,
    RESERVED,
    SHARED,
    Picture,
    pictures,
)
from pagedsim.analysis.scene.values import Lane
from pagedsim.errors import SpecError
from pagedsim.present.axes_style import SMALL, Axes, literal
from pagedsim.present.numbers import per_cent
from pagedsim.present.palette import FAINT, INK, RULE, TERM_COLORS

_TERM = {
    CACHED: "cached",
    INTERNAL: "internal",
    LIVE: "live",
    LOST: "external",
    RESERVED: "reserved",
    SHARED: "live",
}


def slots(axes: Axes, lane: Lane, name: str, at_ns: int, *, square: int, columns: int) -> None:
    """Squares of `square` slots, `columns` a row; one that holds several kinds has their mean.

    The moment is the last step that has begun at `at_ns`; SpecError if none has.
    """
    picture = _at(lane, at_ns)
    kinds = np.array([to_rgb("white")] * (max(_TERM) + 1))
    for kind, term in _TERM.items():
        kinds[kind] = to_rgb(TERM_COLORS[term])
    kinds[FREE] = to_rgb(TERM_COLORS["external" if picture.frame.blocked else "idle"])
    colours = kinds[picture.kinds]
    missing = -len(colours) % square
    padded = np.vstack([colours, np.repeat(colours[-1:], missing, axis=0)])
    squares = padded.reshape(-1, square, 3).mean(axis=1)
    rows = -(-len(squares) // columns)
    grid = np.ones((rows * columns, 3))
    grid[: len(squares)] = squares
    axes.imshow(grid.reshape(rows, columns, 3), aspect="auto", interpolation="nearest")
    axes.set_xticks(np.arange(columns + 1) - 0.5, labels=[""] * (columns + 1))
    axes.set_yticks(np.arange(rows + 1) - 0.5, labels=[""] * (rows + 1))
    axes.grid(color="white", linewidth=0.4)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_color(RULE)
    terms = dict(zip(TERMS, picture.terms(), strict=True))
    wasted = sum(terms[term] for term in ("reserved", "internal", "external"))
    axes.set_title(literal(name), loc="left", fontsize=SMALL, color=INK, pad=3)
    axes.set_title(
        f"{picture.frame.running} run, {picture.frame.waiting} wait · "
        f"live {per_cent(terms['live'] / lane.capacity)} %, "
        f"waste {per_cent(wasted / lane.capacity)} %",
        loc="right", fontsize=SMALL, color=FAINT, pad=3,
    )  # fmt: skip


def _at(lane: Lane, at_ns: int) -> Picture:
    """The picture of the last frame that starts at `at_ns` or before."""
    last = sum(frame.start_ns <= at_ns for frame in lane.frames) - 1
    if last < 0:
        raise SpecError(f"{lane.name}: no step has begun {at_ns / 1e9:g} s after the first arrival")
    for index, picture in enumerate(pictures(lane)):
        if index == last:
            return picture
    raise AssertionError("unreachable: frames are pictures")


__all__ = ["slots"]
