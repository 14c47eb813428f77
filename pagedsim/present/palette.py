"""One colour for one thing, in the terminal, in figures and in pages.

The six terms and the lines of runs stay apart under the common kinds of colour blindness (the tests
simulate them), neighbours in a stack differ in lightness for print in grey, and lines keep 2.9 : 1
against white and against the dark page. Beyond six runs the dash changes as well.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedsim.analysis.results import GROUP_TERMS

TERM_COLORS = {
    "live": "#007A5E",
    "reserved": "#F5B83D",
    "internal": "#D55E00",
    "external": "#8A4F9E",
    "cached": "#56B4E9",
    "idle": "#E4E7EB",
}
GROUP_COLORS = {"padding": "#662200", "outside": "#8866FF"}  # of groups of layers besides
COLORS = {**TERM_COLORS, **GROUP_COLORS}
IDLE_DARK = "#343A43"  # idle is the ground that the others stand on
ON_TERMS = {  # the colour of a text on each
    term: "#16191D" if term in ("reserved", "cached", "idle") else "#FFFFFF" for term in GROUP_TERMS
}
RUN_COLORS = ("#8D1AFB", "#E27C16", "#30A88C", "#D2003F", "#8F87F7", "#A23995")
SEQUENCE_COLORS = (  # in the map, where every kind of waste has its own colour too
    *("#6644FF", "#44CC88", "#991166", "#DD88BB"),
    *("#116600", "#BB88FF", "#77AA33", "#6633AA"),
)
DASHES = ("solid", "dash", "dot", "dashdot")
INK, FAINT, RULE = "#16191D", "#5B6470", "#D5DAE0"

MEANING = {
    "live": "hold a token of a running request",
    "reserved": "empty now, filled later",
    "internal": "held, and never to be filled",
    "external": "free while the queue is blocked",
    "cached": "nobody's, content kept for reuse",
    "idle": "free, and nobody is blocked",
    "padding": "lost by narrow groups' blocks",
    "outside": "tokens no layer will read again",
}


class Line(NamedTuple):
    """How the line of a run is drawn; `dash` is one of `DASHES`."""

    color: str
    dash: str


def line(index: int) -> Line:
    """Of run `index`, 0 first; 24 are different."""
    return Line(RUN_COLORS[index % len(RUN_COLORS)], DASHES[index // len(RUN_COLORS) % len(DASHES)])


__all__ = [
    "COLORS",
    "DASHES",
    "FAINT",
    "GROUP_COLORS",
    "IDLE_DARK",
    "INK",
    "MEANING",
    "ON_TERMS",
    "RULE",
    "RUN_COLORS",
    "SEQUENCE_COLORS",
    "TERM_COLORS",
    "Line",
    "line",
]
