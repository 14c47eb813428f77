"""Curves drawn with characters: values over a logarithmic axis, as lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pagedsim.protocols import Int64

ROWS, LEFT, COLUMNS, TICKS = 12, 6, 72, 5  # rows above the axis; cells of labels; the rest


def steps(first: int, last: int) -> Int64:
    """The whole numbers that the columns stand for, evenly spaced in logarithms."""
    found: Int64 = np.round(np.geomspace(first, last, COLUMNS)).astype(np.int64)
    return found


def plot(
    marks: Mapping[str, Sequence[float]], top: float, ticks: Sequence[str], *, ascii_only: bool
) -> list[str]:
    """Lines of at most 79 cells: a value a column for each mark, which is one character, the axis
    from 0 to `top` > 0 in per cent, `ticks` below. Marks that come first lie on top.
    """
    cells = [[" "] * COLUMNS for _ in range(ROWS + 1)]
    for mark, values in reversed(list(marks.items())):
        for column, value in enumerate(values):
            cells[ROWS - round(ROWS * min(1.0, value / top))][column] = mark
    side, corner, rule = "|+-" if ascii_only else "│└─"
    lines = []
    for row, line in enumerate(cells):
        label = f"{100 * top * (1 - row / ROWS):.1f}" if row % 3 == 0 else ""
        lines.append(f"{label:>{LEFT}}{side}{''.join(line)}".rstrip())
    lines.append(" " * LEFT + corner + rule * COLUMNS)
    axis = ""
    for index, tick in enumerate(ticks):
        column = round(index * COLUMNS / (len(ticks) - 1))
        at = column - len(tick) if index == len(ticks) - 1 else column
        axis = axis.ljust(at) + tick + " "
    lines.append(" " * (LEFT + 1) + axis.rstrip())
    return lines


def places() -> list[int]:
    """The columns below which the ticks of `plot` stand."""
    return [round(index * (COLUMNS - 1) / TICKS) for index in range(TICKS + 1)]


__all__ = ["places", "plot", "steps"]
