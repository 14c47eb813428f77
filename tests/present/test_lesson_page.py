"""The lesson's page in a real browser: it is quiet, fits, and is moved with a keyboard.

What its sections show is in test_lesson_sections.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from browsers import asked, opened, press, screen, until

from pagedsim.analysis.lesson.numbers import Lesson
from pagedsim.present import lesson as present
from pagedsim.present.numbers import bytes_, per_cent, significant


@pytest.mark.parametrize("lang", sorted(present.LANGUAGES))
def test_it_opens_without_a_word_and_without_a_request(
    browser: Any, pages: dict[str, Path], lang: str
) -> None:
    opened(browser, pages[lang], prefers_color_scheme="dark")
    assert until(
        lambda: browser.execute_script(
            "return [...document.querySelectorAll('[data-number]')].filter((e) => !e.textContent)"
            ".every((e) => e.closest('[hidden]'))"
        )
    )
    assert browser.get_log("browser") == []
    urls = asked(browser)
    assert [url for url in urls if url.startswith("file:")] == [pages[lang].as_uri()]
    assert [url for url in urls if not url.startswith(("file:", "data:", "chrome"))] == []
    blank = browser.execute_script(
        "return [...document.querySelectorAll('.picture')].filter((e) => !e.innerText"
        " && !e.querySelector('svg [class]')).map((e) => e.id)"
    )
    assert blank == []
    assert "undefined" not in browser.execute_script("return document.body.innerText")
    assert "NaN" not in browser.execute_script("return document.body.innerHTML")


@pytest.mark.parametrize("lang", sorted(present.LANGUAGES))
@pytest.mark.parametrize("width", [360, 400, 900, 1280])
def test_nothing_is_wider_than_the_screen(
    browser: Any, pages: dict[str, Path], width: int, lang: str
) -> None:
    opened(browser, pages[lang])
    screen(browser, width)
    wide = "return document.documentElement.scrollWidth"
    assert until(lambda: browser.execute_script(wide) <= width)
    small = (
        "return Math.min(...[...document.querySelectorAll('td, p, dt, dd, label, text')]"
        ".filter((each) => each.textContent.trim())"
        ".map((each) => parseFloat(getComputedStyle(each).fontSize)))"
    )
    assert browser.execute_script(small) >= 11


def test_at_first_it_shows_what_its_texts_say(
    browser: Any, pages: dict[str, Path], numbers: Lesson
) -> None:
    opened(browser, pages["en"])
    facts = present.facts(numbers)
    texts = browser.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('[data-number]')]"
        ".map((each) => [each.dataset.number, each.textContent]))"
    )
    assert texts["formula.token"] == texts["calculator.token"] == facts["model_token"]
    assert texts["calculator.all"] == texts["calculator.one"] == "2 GiB"
    assert texts["grid.computed"] == facts["grid_without"]
    assert texts["card.left"] != "–"
    assert texts["intensity.decode.use"].startswith("decode: limited by the speed of memory")


def test_every_control_moves_with_the_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    """... changes a number or a drawing of its own section, and counts the section as moved."""
    opened(browser, pages["en"])
    state = (
        "const thing = arguments[0].closest('.thing');"
        "return [...thing.querySelectorAll('[data-number], .picture, .column, table, #same-with')]"
        ".map((each) => each.outerHTML).join()"
    )
    controls = browser.execute_script(
        "return [...document.querySelectorAll('input[type=range], select, input:checked')]"
    )
    assert len(controls) > 30
    for control in controls:
        browser.execute_script(
            "arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", control
        )
        before = browser.execute_script(state, control)
        key, back = "\ue014", "\ue012"  # arrows: right, left
        if control.tag_name == "select":
            key, back = "\ue015", "\ue013"  # down, up
        press(browser, key)
        if browser.execute_script(state, control) == before:
            press(browser, back)  # it was at its end
        assert browser.execute_script(state, control) != before, control.get_attribute("outerHTML")
    assert browser.execute_script("return document.getElementById('moved').textContent") == (
        "10 of 10 moved"
    )
    assert browser.execute_script("return document.querySelectorAll('nav .done').length") == 10
    assert browser.get_log("browser") == []


def test_numbers_read_as_python_writes_them(browser: Any, pages: dict[str, Path]) -> None:
    opened(browser, pages["en"])
    draw = random.Random(1)
    values = [0, 1e-9, 0.00005, 0.00004999, 0.125, 0.25, 0.375, 2.5, 0.5, 99.95, 9.995, 0.9995]
    values += [draw.uniform(0, 10 ** draw.randint(-5, 9)) for _ in range(2000)]
    values += [draw.randrange(1, 4096) / 2 ** draw.randint(0, 12) for _ in range(2000)]  # ties
    shares = [value for value in values if value <= 1]
    sizes = [draw.randrange(2 ** draw.randint(0, 53)) for _ in range(2000)]
    sizes += [draw.randrange(1, 1 << 14) << draw.randint(0, 37) for _ in range(2000)]
    texts = browser.execute_script(
        "const [values, shares, sizes] = arguments;"
        "return [values.map(formulas.significant), shares.map(formulas.share),"
        " sizes.map(formulas.bytes), sizes.map(formulas.whole)]",
        *(values, shares, sizes),
    )
    assert texts[0] == [significant(value) for value in values]
    assert texts[1] == [per_cent(value) for value in shares]
    assert texts[2] == [bytes_(value) for value in sizes]
    assert texts[3] == [f"{value:,}" for value in sizes]


def test_what_is_not_exact_is_refused(browser: Any, pages: dict[str, Path]) -> None:
    opened(browser, pages["en"])
    error = browser.execute_script(
        "try { formulas.token(2 ** 30, 2 ** 20, 128, 16); } catch (error) { return error.name; }"
    )
    assert error == "RangeError"


def test_paper_is_white_and_shows_every_section(browser: Any, pages: dict[str, Path]) -> None:
    opened(browser, pages["zh"], prefers_color_scheme="dark")
    ground = "return getComputedStyle(document.body).backgroundColor"
    assert browser.execute_script(ground) == "rgb(21, 24, 29)"
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    assert until(lambda: browser.execute_script(ground) == "rgb(255, 255, 255)")
    heights = "return [...document.querySelectorAll('nav, .thing')].map((e) => e.offsetHeight)"
    contents, *things = browser.execute_script(heights)
    assert contents == 0
    assert len(things) == 10
    assert min(things) > 100
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
