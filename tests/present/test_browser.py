"""The HTML report in a real browser: it opens quietly, its numbers are right, its keys work."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from browsers import asked, opened, press, screen, until
from pages import NASTY, at_path
from typer.testing import CliRunner

from pagedsim.analysis.results import TERMS
from pagedsim.cli import app
from pagedsim.present.palette import TERM_COLORS

TRACE = "arrived_at,prompt_tokens,output_tokens\n" + "".join(
    f"{at / 4},{100 + 37 * at % 900},{1 + 53 * at % 120}\n" for at in range(60)
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A page and its result file, of a trace whose name wants to be an element."""
    folder = tmp_path_factory.mktemp("page")
    trace = folder / f"{NASTY}.csv"
    trace.write_text(TRACE)
    page, file = folder / "page.html", folder / "result.json"
    words = ["compare", trace, "--kv-tokens", 6000, "--max-len", 2000, "-q", "--window", "1:9"]
    words += ["--report", page, "--json", file]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["pagedsim", *map(str, words)])
        ran = CliRunner().invoke(app, [*map(str, words)])
    assert ran.exit_code == 0, ran.stderr
    return page, json.loads(file.read_text())


def draw_all(browser: Any) -> int:
    """Scroll until every chart has been drawn; how many there are."""
    script = (
        "const all = [...document.querySelectorAll('.chart')];"
        "const left = all.filter((box) => !box.querySelector('.main-svg'));"
        "if (left.length) left[0].scrollIntoView();"
        "return left.length ? 0 : all.length"
    )
    count: int = until(lambda: browser.execute_script(script))
    return count


def test_it_opens_without_a_word_and_without_a_request(browser: Any, made: Any) -> None:
    opened(browser, made[0])
    assert draw_all(browser) == 2 + 4 + 3
    assert browser.get_log("browser") == []
    urls = asked(browser)
    pages = [url for url in urls if url.startswith("file:")]
    assert len(pages) == 1
    outside = [url for url in urls if not url.startswith(("file:", "data:", "chrome"))]
    assert outside == []


def test_numbers_are_those_of_the_file(browser: Any, made: Any) -> None:
    opened(browser, made[0])
    script = "return [...document.querySelectorAll('td[data-exact]')].map((cell) => [{}])"
    what = "Number(cell.parentElement.dataset.run), cell.dataset.field, cell.dataset.exact"
    cells = browser.execute_script(script.format(what))
    assert len(cells) == 4 * 11
    for run, field, exact in cells:
        assert json.loads(exact) == at_path(made[1]["runs"][run], field)
    widths = browser.execute_script(
        "return [...document.querySelectorAll('.bar')].map((bar) => Object.fromEntries("
        "[...bar.children].map((part) => [part.className, part.getBoundingClientRect().width])))"
    )
    for run, parts in zip(made[1]["runs"], widths, strict=True):
        whole = sum(parts.values())
        for term in TERMS:
            share = parts.get(term, 0) / whole
            assert share == pytest.approx(run["memory"][term], abs=0.01)


def test_what_is_drawn_is_the_account(browser: Any, made: Any) -> None:
    opened(browser, made[0])
    draw_all(browser)
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('[data-chart=memory]')].map((box) =>"
        " box.data.map((t) => [t.name, t.fillcolor, Math.max(...t.customdata), t.y.at(-2)]))"
    )
    assert len(drawn) == 4
    for traces in drawn:
        assert [name for name, *_ in traces] == list(TERMS)
        assert [colour for _, colour, *_ in traces] == list(TERM_COLORS.values())
        assert traces[-1][3] == pytest.approx(100, abs=1e-3)
    batches = browser.execute_script(
        "return document.querySelector('[data-chart=batch]').data.map((t) => Math.max(...t.y))"
    )
    peaks = [run["batch"]["peak"] for run in made[1]["runs"]]
    assert all(drawn >= peak for drawn, peak in zip(batches, peaks, strict=True))


def test_an_element_in_a_name_stays_text(browser: Any, made: Any) -> None:
    opened(browser, made[0])
    draw_all(browser)
    assert NASTY in browser.title
    found = browser.execute_script(
        "return [document.querySelector('h1').textContent, document.images.length,"
        " document.querySelector('code').textContent]"
    )
    assert NASTY in found[0]
    assert found[1] == 0
    assert NASTY in shlex.split(found[2])[2]
    # A script that is not listed does not run even if it got in.
    browser.execute_script(
        "document.body.insertAdjacentHTML('beforeend', arguments[0])", f"<p>{NASTY}</p>"
    )
    time.sleep(0.2)
    assert browser.title != "owned"
    browser.get_log("browser")


def test_controls_work(browser: Any, made: Any) -> None:
    opened(browser, made[0])
    draw_all(browser)
    button = "const button = document.querySelectorAll('.runs button')[1]; "
    shown = (
        "return [button.ariaPressed, document.querySelector('[data-chart=batch]').data[1].visible]"
    )
    browser.execute_script(f"{button} button.focus()")
    press(browser, " ")
    assert until(lambda: browser.execute_script(button + shown) == ["false", False])
    press(browser, " ")
    assert until(lambda: browser.execute_script(button + shown) == ["true", True])
    ranges = (
        "return [...document.querySelectorAll('.chart:not([data-chart=latency])')]"
        ".map((box) => box.layout.xaxis.range)"
    )
    whole = browser.execute_script(ranges)
    browser.execute_script("document.querySelector('[data-chart=queue]').focus()")
    press(browser, "+")
    assert until(lambda: browser.execute_script(ranges) != whole)
    zoomed = until(lambda: alike(browser.execute_script(ranges)))  # all charts of time together
    assert zoomed[1] - zoomed[0] == pytest.approx((whole[0][1] - whole[0][0]) / 2)
    press(browser, "0")
    assert until(lambda: browser.execute_script(ranges) == whole)
    browser.execute_script("document.querySelector('.copy').click()")
    label = "return document.querySelector('.copy').textContent"
    assert until(lambda: browser.execute_script(label) == "Copied")
    assert browser.get_log("browser") == []


def alike(ranges: list[list[float]]) -> list[float] | None:
    return ranges[0] if all(each == ranges[0] for each in ranges) else None


@pytest.mark.parametrize("width", [360, 740, 880, 1280])
def test_nothing_is_wider_than_the_screen(browser: Any, made: Any, width: int) -> None:
    opened(browser, made[0])
    screen(browser, width)
    draw_all(browser)
    wide = "return document.documentElement.scrollWidth"
    assert until(lambda: browser.execute_script(wide) <= width)
    small = (
        "return Math.min(...[...document.querySelectorAll('td, p, li, dd')]"
        ".map((each) => parseFloat(getComputedStyle(each).fontSize)))"
    )
    assert browser.execute_script(small) >= 11


@pytest.mark.parametrize("width", [360, 740, 880, 1000])
def test_no_number_of_a_table_is_broken(browser: Any, made: Any, width: int) -> None:
    opened(browser, made[0])
    screen(browser, width)
    broken = """
        const broken = [];
        const cells = document.querySelectorAll('.numbers td, .numbers thead th, .account td');
        for (const cell of cells) {
          const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
          while (texts.nextNode()) {
            for (const word of texts.currentNode.data.matchAll(/\\S+/g)) {
              const range = document.createRange();
              range.setStart(texts.currentNode, word.index);
              range.setEnd(texts.currentNode, word.index + word[0].length);
              if (range.getClientRects().length > 1) broken.push(word[0]);
            }
          }
        }
        return [cells.length, broken]
    """
    cells, words = browser.execute_script(broken)
    assert cells > 40
    assert words == []


def test_a_dark_screen_is_dark_and_paper_is_not(browser: Any, made: Any) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    opened(browser, made[0], prefers_color_scheme="dark")
    assert browser.execute_script(ground) == "rgb(21, 24, 29)"
    draw_all(browser)
    text = "return document.querySelector('.chart').layout.font.color"
    assert browser.execute_script(text) == "#A0A9B4"
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    assert until(lambda: browser.execute_script(ground) == "rgb(255, 255, 255)")
    assert until(lambda: browser.execute_script(text) == "#5B6470")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_a_definition_comes_with_the_focus(browser: Any, made: Any) -> None:
    opened(browser, made[0])
    word = "const word = document.activeElement; "
    for _ in range(12):  # past the skip link and the warnings
        press(browser, "\ue004")  # Tab
        if browser.execute_script(f"{word} return word.className") == "def":
            break
    said = browser.execute_script(
        f"{word} return [getComputedStyle(word, '::after').content, word.dataset.def]"
    )
    assert said[0].strip('"') == said[1]
