"""``pagedsim lesson``: what it writes, and what it refuses before it works."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command import pagedsim, process, refused

from pagedsim.present.lesson import LANGUAGES

pytestmark = pytest.mark.usefixtures("folder")


def test_a_page_and_its_numbers() -> None:
    before = set(os.listdir())
    said = pagedsim("lesson", "--out", "l.html", "--lang", "zh", "--json", "n.json")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("l.html: ")
    assert "10 things to move" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())
    page = Path("l.html").read_text(encoding="utf-8")
    assert '<html lang="zh-CN">' in page
    numbers = json.loads(Path("n.json").read_text())
    assert numbers["schema"] == "pagedsim.lesson/1"
    assert numbers["replays"]["runs"][0]["batch_mean"] > 1
    data = page.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data)["numbers"] == numbers
    assert set(os.listdir()) - before == {"l.html", "n.json"}


def test_numbers_to_standard_output_and_nothing_else() -> None:
    said = pagedsim("lesson", "--out", "l.html", "--json", "-")
    assert json.loads(said.out)["schema"] == "pagedsim.lesson/1"
    assert '<html lang="en">' in Path("l.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "missing option '--out'"),
        ("--out l.txt", "l.txt: the name must end in .htm or .html"),
        ("--out -", "-: the name must end in .htm or .html"),
        ("--out no/l.html", "no/l.html: cannot be written: there is no folder"),
        ("--out l.html --lang de", "--lang is de, must be en or zh"),
        ("--out l.html --json l.html", "--json: l.html is --out as well: give another name"),
        ("--out l.html --json no/n.json", "no/n.json: cannot be written: there is no folder"),
        ("--out l.html --json n.json more", "got unexpected extra argument(s) (more)"),
    ],
)
def test_refusals(words: str, message: str) -> None:
    assert refused("lesson", *words.split()).startswith(f"error: {message}")


def test_a_language_is_one_of_those_that_there_are() -> None:
    said = pagedsim("lesson", "--help").out
    assert "|".join(LANGUAGES) in said


def test_an_interrupt_leaves_nothing() -> None:
    import signal
    import time

    before = sorted(os.listdir())
    with process("lesson", "--out", "l.html") as ran:
        time.sleep(0.8)
        ran.send_signal(signal.SIGINT)
        _, err = ran.communicate(timeout=50)
    assert sorted(os.listdir()) == before
    assert ran.returncode in (130, -signal.SIGINT)
    assert b"Traceback" not in err or ran.returncode == -signal.SIGINT
