"""A moment of a scene is drawn square by square, as the scene says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from pagedsim import make_device
from pagedsim.analysis.scene.make import make_scene
from pagedsim.analysis.scene.teaching import ALLOCATORS, teaching
from pagedsim.analysis.scene.values import Scene
from pagedsim.analysis.simulate import Setup
from pagedsim.errors import SpecError
from pagedsim.present import figures
from pagedsim.present.memory_map import grid
from pagedsim.present.palette import TERM_COLORS
from pagedsim.trace import load


@pytest.fixture(scope="module")
def small() -> Scene:
    trace, setup = teaching()
    return make_scene(trace, ALLOCATORS, setup)


def squares(axes: Any) -> Any:
    (image,) = axes.images
    return np.asarray(image.get_array()).reshape(-1, 3)


@pytest.mark.parametrize("at", [0.0, 1.25, 3.0, 4.7])
def test_every_slot_has_the_colour_of_its_term(small: Scene, at: float) -> None:
    """The account of the frame, which was held to the allocator's own, is counted from colours."""
    for lane, axes in zip(small.lanes, figures.slots(small, at).axes, strict=True):
        frame = [frame for frame in lane.frames if frame.start_ns <= at * 1e9][-1]
        drawn = squares(axes)[: lane.capacity]
        assert grid(small)[0] == 1
        for term, count in zip(TERM_COLORS, frame.terms, strict=True):
            same = np.isclose(drawn, to_rgb(TERM_COLORS[term])).all(axis=1)
            assert same.sum() == count, (lane.name, at, term)
        assert axes.get_title("right").startswith(f"{frame.running} run, {frame.waiting} wait")


def test_larger_squares_are_means_and_lose_nothing() -> None:
    device = make_device("llama-3.1-8b", "a100-80gb", kv_tokens=8_000)
    setup = Setup(device=device, max_len=2048).resolved()
    allocators = ["contiguous:place=best,reserve=pow2", "paged:block=16"]
    scene = make_scene(load("chat", limit=60), allocators, setup, seconds=6)
    square, _ = grid(scene)
    assert square == 16
    for lane, axes in zip(scene.lanes, figures.slots(scene, 5.0).axes, strict=True):
        assert lane.capacity % 16 == 0
        frame = [frame for frame in lane.frames if frame.start_ns <= 5e9][-1]
        of = dict(zip(TERM_COLORS, frame.terms, strict=True))
        want = sum(np.array(to_rgb(TERM_COLORS[term])) * many for term, many in of.items())
        drawn = squares(axes)[: lane.capacity // 16]
        assert drawn.sum(axis=0) * 16 == pytest.approx(want)


def test_before_the_first_step_there_is_nothing_to_draw(small: Scene) -> None:
    with pytest.raises(SpecError, match=r"no step has begun -1 s after the first arrival"):
        figures.slots(small, -1.0)
    assert figures.slots(small, 1e6).get_suptitle() == "The pool after 1e+06 s"
