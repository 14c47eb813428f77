"""Where something stops holding: two values side by side, one of which holds and one does not.

From a start the values grow (or shrink) by a factor, which is squared every time, until the answer
changes; the two last ones are then halved in their logarithm until they are close::

    easier   |--------passes----------|--fails--|-------------------|   harder
    start          x 1.5                x 1.5^2        x 1.5^4

What holds need not be monotone: a search sees only what it tried. Both ends were tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

FIRST = 1.5  # factor of the first move away from the start


class Bracket(NamedTuple):
    """The closest values found of which one holds and one does not; None beyond the limits."""

    passes: float | None
    fails: float | None


def bracket(
    holds: Callable[[float], bool],
    start: float,
    *,
    tolerance: float,
    harder_up: bool = True,
    least: float = 0.0,
    most: float = math.inf,
    snap: Callable[[float], float] = float,
) -> Bracket:
    """The ends between which `holds` changes, the larger at most (1 + `tolerance`) the smaller.

    `harder_up`: larger values are harder. Only values from `least` to `most`, made by `snap` (to
    whole blocks, say), are tried; values that `snap` leaves no room between are close enough.
    O(log(distance) + log(1 / tolerance)) calls.
    """

    def limited(value: float) -> float:
        return snap(min(max(value, least), most))

    at = limited(start)
    held = holds(at)
    up = held == harder_up
    factor, end = FIRST, most if up else least
    while True:
        moved = limited(at * factor if up else at / factor)
        if moved == at and (math.isinf(end) or at in (0, limited(end))):
            return Bracket(at, None) if held else Bracket(None, at)
        if moved != at and holds(moved) != held:
            break
        at, factor = moved, factor**2  # what `snap` takes back is tried again from further away
    passes, fails = (at, moved) if held else (moved, at)
    while max(passes, fails) > (1 + tolerance) * min(passes, fails):
        middle = snap(math.sqrt(passes * fails))
        if middle in (passes, fails):
            middle = snap((passes + fails) / 2)
        if middle in (passes, fails) or not min(passes, fails) < middle < max(passes, fails):
            break
        if holds(middle):
            passes = middle
        else:
            fails = middle
    return Bracket(passes, fails)


def digits(value: float) -> float:
    """`value` to five digits that matter, so that it can be typed."""
    return float(f"{value:.5g}")


__all__ = ["FIRST", "Bracket", "bracket", "digits"]
