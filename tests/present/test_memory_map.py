"""The memory map as a file: texts, colours, grid, and its place in a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import NASTY, Page
from typer.testing import CliRunner

from pagedsim.analysis.report import result
from pagedsim.analysis.scene.glimpse import FAR, FRAMES, glimpse
from pagedsim.analysis.scene.make import make_scene
from pagedsim.analysis.scene.paint import pictures
from pagedsim.analysis.scene.teaching import ALLOCATORS, teaching
from pagedsim.analysis.scene.values import Change, Frame, Holder, Lane, Scene
from pagedsim.analysis.simulate import Setup, device_info, run
from pagedsim.cli import app
from pagedsim.device.device import make_device
from pagedsim.present import memory_map, page
from pagedsim.present.palette import SEQUENCE_COLORS
from pagedsim.trace import Trace, load


@pytest.fixture(scope="module")
def first() -> Scene:
    trace, setup = teaching()
    return make_scene(trace, ALLOCATORS, setup)


def small(**more: Any) -> tuple[Trace, Setup]:
    """A short trace over a small pool."""
    given: dict[str, Any] = {"kv_tokens": 9000, **more}
    limit = given.pop("limit", 40)
    setup = Setup(device=make_device("llama-3.1-8b", "a100-80gb", **given), max_len=4096)
    return load("chat-shared", limit=limit), setup.resolved()


def lane(capacity: int, block: int, frames: list[Frame], holders: int = 0) -> Lane:
    made = [
        Holder(request=row, prompt=1, output=1, final=1, arrival_ns=0) for row in range(holders)
    ]
    return Lane(name="x", capacity=capacity, first=0, block=block, holders=made, frames=frames)


def scene(*lanes: Lane) -> Scene:
    return Scene(trace="t", requests=1, load="", from_ns=0, to_ns=1, cut=False, lanes=list(lanes))


def test_the_same_scene_makes_the_same_page(first: Scene) -> None:
    assert memory_map.page(first) == memory_map.page(first)


def test_texts_of_the_input_stay_texts() -> None:
    trace, setup = teaching()
    named = replace(trace, name=NASTY, load=f"{NASTY} load")
    made = make_scene(named, ALLOCATORS, replace(setup, notes=(NASTY,)))
    read = Page(memory_map.page(made, command=f"pagedsim map '{NASTY}'"))
    assert not read.of("img")
    for element in read.elements:
        assert not [name for name in element if name.startswith("on")], element
    assert [each.text for each in read.of("h1")] == [NASTY]
    assert [each.text for each in read.of("code")] == [f"pagedsim map '{NASTY}'"]
    (data,) = [each for each in read.of("script") if each.get("id") == "map-data"]
    assert "<" not in data.text


@given(st.integers(1, 1 << 22), st.sampled_from([1, 8, 16, 64, 256]), st.integers(1, 1 << 22))
def test_squares_are_few_and_hold_whole_blocks(one: int, block: int, other: int) -> None:
    square, columns = memory_map.grid(scene(lane(one, block, []), lane(other, 1, [])))
    most = max(one, other)
    assert -(-most // square) <= memory_map.SQUARES
    assert (square == 1) == (most <= memory_map.SQUARES)
    assert square == 1 or square % block == 0
    assert square == 1 or most > (square - block) * memory_map.SQUARES  # no larger than needed
    assert columns in (32, 64)


def test_colours_are_shared_late_and_by_few(first: Scene) -> None:
    """Of the first scene, where seven hold slots at most, nobody shares one with whom it meets."""
    count = len(SEQUENCE_COLORS)
    colors = memory_map.colors(first, count)
    assert set(colors) == set(range(14))
    for each in first.lanes:
        for picture in pictures(each):
            now = {colors[each.holders[index].request] for index in picture.held}
            assert len(now) == len(picture.held)
    frames = [Frame(start_ns=at, terms=[], changes=[Change(holder=at, room=1)]) for at in range(20)]
    given = memory_map.colors(scene(lane(99, 1, frames, 20)), count)
    assert [given[row] for row in range(20)] == [row % count for row in range(20)]
    two = [
        Frame(start_ns=0, terms=[], changes=[Change(holder=0, room=1), Change(holder=1, room=1)]),
        Frame(start_ns=1, terms=[], gone=[0], changes=[Change(holder=2, room=1)]),
    ]
    assert memory_map.colors(scene(lane(9, 1, two, 3)), 2) == {0: 0, 1: 1, 2: 0}


def test_a_report_begins_where_it_gets_tight() -> None:
    trace, setup = small()
    specs = ("contiguous:place=first,reserve=max", "paged:prefix=on")
    reports = [run(trace, spec, setup) for spec in specs]
    made, why = glimpse(reports, trace, specs, setup)
    assert made is not None
    assert "first time" in why
    blocked = [frame for one in made.lanes for frame in one.frames if frame.blocked]
    assert blocked
    early = min(frame.start_ns for frame in blocked)
    assert made.from_ns < early
    before = {frame.start_ns for frame in made.lanes[0].frames if frame.start_ns < early}
    assert 1 <= len(before) <= 400
    page_ = page.page(
        result(reports, device_info(setup.device), trace),  # type: ignore[arg-type]
        reports,
        memory_map.section(made, why),
    )
    read = Page(page_)
    said = [each.text for each in read.of("p") if why in each.text]
    assert len(said) == 1
    assert len(read.of("canvas")) == 3
    assert len(page_) < 6_000_000


def test_a_report_without_a_refusal_shows_the_beginning() -> None:
    trace, setup = small(kv_tokens=400_000)
    made, why = glimpse([run(trace, "paged", setup)], trace, ["paged"], setup)
    assert made is not None
    assert (made.from_ns, why) == (0, "how the run begins")


def test_a_late_refusal_is_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    trace, setup = small()
    spec = "contiguous:place=first,reserve=max"
    reports = [run(trace, spec, setup)]
    assert FAR > 1000
    monkeypatch.setattr("pagedsim.analysis.scene.glimpse.FAR", -1)
    made, why = glimpse(reports, trace, [spec], setup)
    assert made is not None
    assert (made.from_ns, why) == (0, "how the run begins")


def test_many_allocators_share_what_a_report_holds() -> None:
    trace, setup = small(limit=200)
    specs = [f"paged:block={block}" for block in range(9, 21)]
    reports = [run(trace, spec, setup) for spec in specs]
    made, why = glimpse(reports, trace, specs, setup)
    assert made is not None
    assert max(len(each.frames) for each in made.lanes) <= FRAMES // 12
    text = page.page(
        result(reports, device_info(setup.device), trace),  # type: ignore[arg-type]
        reports,
        memory_map.section(made, why),
    )
    assert len(text.encode()) < 6_000_000


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("arrived_at,prompt_tokens,output_tokens\n0,9,3\n")
    out = tmp_path / "r.html"
    words = ["replay", trace, "--kv-tokens", "8m", "--max-len", 99, "--report", out, "-q"]
    ran = CliRunner().invoke(app, [*map(str, words)])
    assert ran.exit_code == 0, ran.stderr
    said = [each.text for each in Page(out.read_text()).of("p") if "no map" in each.text]
    assert len(said) == 1
    assert "at most 4,194,304" in said[0]
