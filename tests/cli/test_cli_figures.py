"""``--figure``: drawn beside the result, refused before the run."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import pagedsim, refused

SMALL = ("t.csv", "--kv-tokens", "4000", "--max-len", "2000")


@pytest.mark.parametrize("command", ["replay", "compare"])
def test_a_figure_is_drawn_beside_the_result(folder: Path, command: str) -> None:
    said = pagedsim(command, *SMALL, "--figure", "f.svg")
    assert (said.code, said.err) == (0, "")
    assert "live" in said.out
    text = (folder / "f.svg").read_text()
    for words in ("Where the memory went", "running sequences", "paged:block=16"):
        assert words in text
    quiet = pagedsim(command, *SMALL, "--figure", "g.svg", "-q")
    assert quiet.out == ""
    assert (folder / "g.svg").read_text() == text


def test_curves_are_drawn(folder: Path) -> None:
    said = pagedsim("curve", "chat-shared", "--limit", "60", "--figure", "f.svg", "-q")
    assert (said.code, said.out, said.err) == (0, "", "")
    text = (folder / "f.svg").read_text()
    assert "% of prompt tokens hit" in text
    assert "chat-shared · 60 requests" in text


@pytest.mark.parametrize("command", ["replay", "compare", "curve"])
def test_what_cannot_be_drawn_is_refused_before_the_run(folder: Path, command: str) -> None:
    assert refused(command, "t.csv", "--figure", "f.jpg") == (
        "error: f.jpg: the name must end in .pdf, .png or .svg"
    )
    assert refused(command, "t.csv", "--figure", "no/f.png").startswith(
        "error: no/f.png: cannot be written: there is no folder"
    )
    assert refused(command, "t.csv", "--figure", "-").endswith("a file name is needed")
    (folder / "t.svg").write_text((folder / "t.csv").read_text())
    assert refused(command, "t.svg", "--figure", "t.svg").endswith("give another name")
    assert refused(command, "t.csv", "--figure", "x.svg", "--json", "x.svg").endswith(
        "give another name"
    )


def test_a_page_is_written_beside_the_result(folder: Path) -> None:
    said = pagedsim("replay", *SMALL, "--report", "r.html", "-q")
    assert (said.code, said.out, said.err) == (0, "", "")
    assert (folder / "r.html").read_text().lstrip().startswith("<!doctype html>")
    assert refused("compare", "t.csv", "--report", "r.txt") == (
        "error: r.txt: the name must end in .htm or .html"
    )
    assert refused("compare", "t.csv", "--report", "r.html", "--figure", "r.html").startswith(
        "error: r.html: the name must end in"
    )


def test_a_timeline_is_written_beside_the_result(folder: Path) -> None:
    said = pagedsim("compare", *SMALL, "--perfetto", "p.json.gz", "-q")
    assert (said.code, said.out, said.err) == (0, "", "")
    assert (folder / "p.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert refused("compare", "t.csv", "--perfetto", "p.txt") == (
        "error: p.txt: the name must end in .json or .json.gz"
    )
    assert refused("compare", "t.csv", "--perfetto", "p.json", "--json", "p.json").endswith(
        "give another name"
    )
