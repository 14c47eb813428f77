"""The memory map in a real browser: quiet, playable, and slot for slot what the scene says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browsers import asked, opened, press, screen, until
from pages import NASTY
from typer.testing import CliRunner

from pagedsim.analysis.results import TERMS
from pagedsim.cli import app

TRACE = "arrived_at,prompt_tokens,output_tokens\n" + "".join(
    f"{at / 50},{100 + 37 * at % 900},{1 + 53 * at % 60}\n" for at in range(24)
)
LEFT, RIGHT, HOME, END, ESCAPE = "\ue012", "\ue014", "\ue011", "\ue010", "\ue00c"


def made(folder: Path, *words: object) -> tuple[Path, dict[str, Any]]:
    page, file = folder / "map.html", folder / "scene.json"
    args = ["map", *words, "--out", page, "--json", file, "-q"]
    ran = CliRunner().invoke(app, [*map(str, args)])
    assert ran.exit_code == 0, ran.stderr
    return page, json.loads(file.read_text())


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The built-in scene."""
    return made(tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Of a trace whose name wants to be an element: three allocators, a prefix cache among them."""
    folder = tmp_path_factory.mktemp("traced")
    trace = folder / f"{NASTY}.csv"
    trace.write_text(TRACE)
    specs = ("contiguous:place=buddy,reserve=pow2", "paged:prefix=on", "radix:page=4")
    given = [word for spec in specs for word in ("--allocator", spec)]
    return made(folder, trace, *given, "--kv-tokens", 6000, "--max-len", 2000, "--seconds", 1)


def act(browser: Any, script: str) -> Any:
    return browser.execute_script(script)


def shown(browser: Any) -> list[dict[str, int]]:
    """The account that stands under each pool."""
    found: list[dict[str, int]] = act(
        browser,
        "return [...document.querySelectorAll('.map-lane')].map((lane) => Object.fromEntries("
        "[...lane.querySelectorAll('[data-term]')].map((cell) =>"
        " [cell.dataset.term, Number(cell.textContent.replaceAll(',', ''))])))",
    )
    return found


def clock(browser: Any) -> float:
    return float(act(browser, "return document.querySelector('[data-clock]').textContent"))


def at_ns(scene: dict[str, Any], ns: int) -> list[dict[str, int]]:
    """What the file says of each lane at a time."""
    found = []
    for lane in scene["lanes"]:
        begun = [frame for frame in lane["frames"] if frame["start_ns"] <= ns]
        terms = begun[-1]["terms"] if begun else [0, 0, 0, 0, 0, lane["capacity"]]
        found.append(dict(zip(TERMS, terms, strict=True)))
    return found


def ticks(scene: dict[str, Any]) -> list[int]:
    return sorted({frame["start_ns"] for lane in scene["lanes"] for frame in lane["frames"]})


def test_it_opens_without_a_word_and_without_a_request(browser: Any, first: Any) -> None:
    opened(browser, first[0])
    assert until(
        lambda: act(browser, "return document.querySelector('.map-pool canvas').width > 99")
    )
    assert browser.get_log("browser") == []
    outside = [url for url in asked(browser) if not url.startswith(("data:", "chrome"))]
    assert outside == [first[0].as_uri()]


@pytest.mark.parametrize("which", ["first", "traced"])
def test_every_frame_is_counted_as_the_file_has_it(
    browser: Any, which: str, request: pytest.FixtureRequest
) -> None:
    """The page's script paints every slot of every frame; so does Python."""
    page, scene = request.getfixturevalue(which)
    opened(browser, page)
    counted = act(
        browser,
        "const scene = JSON.parse(document.getElementById('map-data').textContent).scene;"
        "return scene.lanes.map((lane) => { const state = new LaneState(lane);"
        " return lane.frames.map((_, at) => { state.seek(at); return state.count(); }); })",
    )
    assert counted == [[frame["terms"] for frame in lane["frames"]] for lane in scene["lanes"]]
    back = act(  # and so it does going back, by copies
        browser,
        "const scene = JSON.parse(document.getElementById('map-data').textContent).scene;"
        "return scene.lanes.map((lane) => { const state = new LaneState(lane); state.every = 8;"
        " const order = lane.frames.map((_, at) => (at * 37) % lane.frames.length);"
        " return order.map((at) => { state.seek(at); return [at, state.count()]; }); })",
    )
    for lane, found in zip(scene["lanes"], back, strict=True):
        for at, terms in found:
            assert terms == lane["frames"][at]["terms"]


def test_slots_are_of_whom_the_file_says(browser: Any, first: Any) -> None:
    """Owners of live slots, against Python's pictures."""
    from pagedsim.analysis.scene.make import make_scene
    from pagedsim.analysis.scene.paint import pictures
    from pagedsim.analysis.scene.teaching import ALLOCATORS, teaching

    trace, setup = teaching()
    opened(browser, first[0])
    for number, lane in enumerate(make_scene(trace, ALLOCATORS, setup).lanes):
        found = act(
            browser,
            "const scene = JSON.parse(document.getElementById('map-data').textContent).scene;"
            f"const state = new LaneState(scene.lanes[{number}]);"
            "return state.lane.frames.map((_, at) => { state.seek(at);"
            " return [[...state.kinds], [...state.owners]]; })",
        )
        for (kinds, owners), picture in zip(found, pictures(lane), strict=True):
            assert kinds == picture.kinds.tolist()
            for index, held in picture.held.items():
                alone = [slot for slot in held.slots.tolist() if kinds[slot] not in (1, 6)]
                assert {owners[slot] for slot in alone} <= {index}


def test_controls_move_the_clock_and_the_numbers(browser: Any, first: Any) -> None:
    page, scene = first
    opened(browser, page)
    times = ticks(scene)

    def holds(tick: int) -> bool:
        right = clock(browser) == pytest.approx(times[tick] / 1e9, abs=1e-3)
        return right and shown(browser) == at_ns(scene, times[tick])

    assert holds(0)
    act(browser, "document.querySelector('[data-do=step]').click()")
    assert holds(1)
    act(browser, "document.querySelector('[data-do=back]').click()")
    assert holds(0)
    browser.find_element("css selector", ".map-strip").click()  # its middle
    middle = act(browser, "return Number(document.querySelector('.map-strip').ariaValueNow)")
    assert 30 < middle < 70
    assert holds(middle)
    press(browser, END)
    assert holds(len(times) - 1)
    press(browser, LEFT)
    assert holds(len(times) - 2)
    press(browser, HOME)
    press(browser, RIGHT)
    press(browser, RIGHT)
    assert holds(2)
    press(browser, "n")
    said = act(browser, "return document.querySelector('.map-said').textContent")
    assert "Request 3 is refused for now: 58 slots are free" in said
    assert holds(times.index(300_000_000))
    act(browser, "document.querySelector('.map-speed select').value = '30'")
    press(browser, " ")
    assert until(lambda: clock(browser) > 1)
    press(browser, " ")
    stopped = clock(browser)
    word = "return document.querySelector('.map-word').textContent"
    assert act(browser, word) == "Play"
    assert shown(browser) == at_ns(scene, round(stopped * 1e9))
    press(browser, HOME)
    press(browser, " ")  # to the end, where it stops by itself
    assert until(lambda: act(browser, word) == "Play")
    assert holds(len(times) - 1)
    assert browser.get_log("browser") == []


def test_a_sequence_is_shown_whole(browser: Any, first: Any) -> None:
    page, scene = first
    opened(browser, page)
    for _ in range(21):
        act(browser, "document.querySelector('[data-do=step]').click()")
    act(browser, 'document.querySelector(\'.map-lane[data-lane="1"] [data-request="4"]\').focus()')
    press(browser, " ")
    box = "return document.querySelector('.map-chosen')"
    text = act(browser, f"{box}.textContent")
    assert "Prompt 34 tokens, output 40; stores 73" in text
    assert "It waits." in text  # where it is refused
    assert "51 of 73 tokens stored" in text
    table = act(
        browser,
        "return [...document.querySelectorAll('.map-chosen li')]"
        ".map((li) => [li.textContent, li.title])",
    )
    frames = [frame for frame in scene["lanes"][1]["frames"] if frame["start_ns"] <= 2_100_000_000]
    holder = next(at for at, one in enumerate(scene["lanes"][1]["holders"]) if one["request"] == 4)
    extents: list[int] = []
    for change in (each for frame in frames for each in frame.get("changes", [])):
        if change["holder"] == holder:
            extents[2 * change.get("keep", 0) :] = change.get("extents", [])
    blocks = [
        slot // 8
        for start, length in zip(extents[::2], extents[1::2], strict=True)
        for slot in range(start, start + length, 8)
    ]
    assert [int(block) for block, _ in table] == blocks
    assert [bool(title) for _, title in table] == [True, True] + [False] * 5
    press(browser, ESCAPE)
    assert act(browser, f"{box}.hidden")
    # By a click on the pool: its first slot is shared, so a second click finds another.
    canvas = browser.find_element("css selector", ".map-lane[data-lane='1'] canvas")
    from selenium.webdriver import ActionChains

    act(browser, "document.querySelector('.map-lanes').scrollIntoView({block: 'center'})")
    there = ActionChains(browser).move_to_element_with_offset(
        canvas, -canvas.size["width"] // 2 + 5, -canvas.size["height"] // 2 + 5
    )
    there.click().perform()
    one = act(browser, f"{box}.querySelector('h2').textContent")
    there.click().perform()
    assert act(browser, f"{box}.querySelector('h2').textContent") != one
    under = act(browser, "return document.querySelectorAll('[data-under]')[1].textContent")
    assert under.startswith("block 0, slot 0: live, requests ")


def test_an_element_in_a_name_stays_text(browser: Any, traced: Any) -> None:
    opened(browser, traced[0])
    act(browser, "document.querySelector('.map-events').open = true")
    assert NASTY in browser.title
    assert NASTY in act(browser, "return document.querySelector('h1').textContent")
    assert act(browser, "return document.images.length") == 0
    assert until(lambda: act(browser, "return document.querySelectorAll('.map-events li').length"))
    assert browser.title != "owned"
    assert browser.get_log("browser") == []


def test_events_lead_to_their_time(browser: Any, traced: Any) -> None:
    page, scene = traced
    opened(browser, page)
    act(browser, "document.querySelector('.map-events summary').click()")
    jumps = "document.querySelectorAll('.map-jump')"
    assert until(lambda: act(browser, f"return {jumps}.length"))
    said = [
        (frame["start_ns"], each["text"])
        for lane in scene["lanes"]
        for frame in lane["frames"]
        for each in frame.get("said", [])
        if not each.get("again")
    ]
    assert act(browser, f"return {jumps}.length") == len(said)
    at = len(said) // 2
    act(browser, f"{jumps}[{at}].click()")
    assert clock(browser) == pytest.approx(sorted(ns for ns, _ in said)[at] / 1e9, abs=1e-3)
    assert shown(browser) == at_ns(scene, sorted(ns for ns, _ in said)[at])


@pytest.mark.parametrize("width", [360, 400, 1280])
def test_nothing_is_wider_than_the_screen(browser: Any, traced: Any, width: int) -> None:
    opened(browser, traced[0])
    screen(browser, width)
    act(browser, "document.querySelector('.map-events').open = true")
    act(browser, "document.querySelector('.map-chip')?.click()")
    wide = "return document.documentElement.scrollWidth"
    assert until(lambda: act(browser, wide) <= width)
    pools = "return [...document.querySelectorAll('.map-pool canvas')].map((c) => c.clientWidth)"
    assert until(lambda: all(width * 0.25 < w <= width for w in act(browser, pools)))
    small = (
        "return Math.min(...[...document.querySelectorAll('button, p, li, dt, dd')]"
        ".filter((each) => each.offsetParent)"
        ".map((each) => parseFloat(getComputedStyle(each).fontSize)))"
    )
    assert act(browser, small) >= 11


def test_a_dark_screen_is_dark_and_paper_is_not(browser: Any, first: Any) -> None:
    corner = (
        "const c = document.querySelector('.map-pool canvas');"
        "return [...c.getContext('2d').getImageData(c.width - 9, c.height - 9, 1, 1).data]"
    )
    opened(browser, first[0], prefers_color_scheme="dark")
    assert until(lambda: act(browser, corner)[:3] == [0x34, 0x3A, 0x43])  # idle
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    assert until(lambda: act(browser, corner)[:3] == [0xE4, 0xE7, 0xEB])
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
