"""How all axes look: faint rules, small letters, lines by run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from matplotlib.ticker import FuncFormatter, NullFormatter

from pagedsim.present.numbers import plain
from pagedsim.present.palette import FAINT, RULE, line

Axes: TypeAlias = Any  # of matplotlib, whose annotations are narrower than what it takes

SMALL = 8  # points
_DASH = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1, 1.4)), "dashdot": (0, (5, 1.5, 1, 1.5))}


def literal(text: str) -> str:
    """`text` on one line; what matplotlib would read as mathematics (``$…$``) stays text."""
    return plain(text, 200).replace("$", r"\$")


def plain_axes(axes: Any, grid: str = "") -> None:
    """No box; faint ticks, and faint lines where they help to read a value."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(RULE)
    axes.tick_params(labelsize=SMALL, colors=FAINT, labelcolor=FAINT, width=0.6)
    axes.set_axisbelow(True)
    if grid:
        axes.grid(axis=grid, color=RULE, linewidth=0.6)


def powers(axis: Any, written: Callable[[float], str]) -> None:
    """A logarithmic axis with its powers of ten written out, and nothing between them."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: written(value)))
    axis.set_minor_formatter(NullFormatter())


def run_line(index: int, lines: int) -> dict[str, Any]:
    """Thinner where there are many."""
    color, dash = line(index)
    width = 1.5 if lines <= 4 else 1.1
    return {"color": color, "linestyle": _DASH[dash], "linewidth": width}


__all__ = ["SMALL", "Axes", "literal", "plain_axes", "powers", "run_line"]
