"""Colours stay apart for eyes of every kind; the matrices are Machado, Oliveira, Fernandes 2009."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from pagedsim.analysis.results import GROUP_TERMS, TERMS
from pagedsim.present.palette import (
    COLORS,
    DASHES,
    IDLE_DARK,
    ON_TERMS,
    RUN_COLORS,
    SEQUENCE_COLORS,
    line,
)

EYES = {
    "usual": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritan": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
WHITE, DARK = "#FFFFFF", "#15181D"


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ rgb.clip(0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) + 0.05 for c in (one, other))
    return high / low


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize(
    "colours",
    [
        list(COLORS.values()),
        [IDLE_DARK if term == "idle" else colour for term, colour in COLORS.items()],
        RUN_COLORS,
        SEQUENCE_COLORS,
    ],
    ids=["terms", "terms on dark", "runs", "sequences"],
)
def test_every_two_are_told_apart(colours: list[str], eye: str) -> None:
    seen = {colour: lab(EYES[eye] @ linear(colour)) for colour in colours}
    nearest = min(np.linalg.norm(seen[a] - seen[b]) for a, b in combinations(colours, 2))
    assert nearest > 20  # ten times a just noticeable difference


@pytest.mark.parametrize("terms", [TERMS, GROUP_TERMS])
def test_neighbours_in_a_stack_differ_in_grey(terms: tuple[str, ...]) -> None:
    greys = [lab(linear(COLORS[term]))[0] for term in terms]
    assert min(abs(a - b) for a, b in pairwise(greys)) > 10


def test_lines_and_numbers_are_legible() -> None:
    for colour in RUN_COLORS:
        assert contrast(colour, WHITE) > 2.8
        assert contrast(colour, DARK) > 2.8
    for term, ink in ON_TERMS.items():
        assert contrast(COLORS[term], ink) > 3.5


def test_many_runs_have_lines_of_their_own() -> None:
    assert len({line(index) for index in range(len(RUN_COLORS) * len(DASHES))}) == 24
