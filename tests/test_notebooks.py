"""Notebooks run as in Jupyter, say what they are committed with, and tell nothing of the machine.

`notebooks/execute.py` runs them in a kernel of their own, offline. Pictures are compared by their
size and number of axes only, frames word by word and not by how their lines are drawn. Cells
with the tag `varies` run, and may say something else.
"""

from __future__ import annotations

import base64
import copy
import importlib.util
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
MACHINE = re.compile(r"(?<![\w.<])/(home|root|tmp|Users|work|opt|usr|var|mnt)\b|\b[A-Z]:\\")
# the last digit before a table's rule, the end of its HTML cell or a unit
LAST = re.compile(r"\d(?= [┆│]|</td>|%| requests)")
PICTURE, FILE = 100_000, 400_000  # most bytes of one picture, of a notebook
# Every control of every slider cell to both its ends, one at a time, the others as they are.
SLIDE = """
from ipywidgets import interactive
_moved = 0
_all = list(globals().values())
for _of in [x for x in _all if isinstance(getattr(x, "widget", None), interactive)]:
    _now = {c._kwarg: c.value for c in _of.widget.kwargs_widgets}
    for _c in _of.widget.kwargs_widgets:
        _ends = (_c.min, _c.max) if hasattr(_c, "min") else (_c.options[0], _c.options[-1])
        for _end in _ends:
            _of(**{**_now, _c._kwarg: _end})
            _moved += 1
assert _moved == EXPECTED, _moved
"""
MOVED = {
    "contiguous_or_paged.ipynb": 2,
    "memory_of_a_token.ipynb": 10,
    "prefix_sharing.ipynb": 2,
}

_spec = importlib.util.spec_from_file_location("execute", ROOT / "notebooks" / "execute.py")
assert _spec is not None
assert _spec.loader is not None
runner = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(runner)
NOTEBOOKS = runner.notebooks()

Cell = dict[str, Any]


class Said(NamedTuple):
    """The outputs of one cell: words of its text, table cells of its HTML, its figures."""

    words: list[str]
    table: list[str]
    figures: list[str]


def words(text: str) -> list[str]:
    return re.findall(r"[\w.,:=%-]+", text)


def table(html: str) -> list[str]:
    return re.findall(r"<td>(.*?)</td>", html)


def joined(text: str | list[str]) -> str:
    return "".join(text)


def code(notebook: dict[str, Any]) -> list[Cell]:
    """The code cells."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def cells(path: Path) -> list[Cell]:
    return code(json.loads(path.read_text(encoding="utf-8")))


def said(cell: Cell) -> Said:
    """AssertionError where an output is neither printed text, nor a value, nor a picture."""
    text, html, figures = "", "", []
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            assert output["name"] == "stdout", joined(output["text"])
            text += joined(output["text"])
            continue
        assert output["output_type"] in ("execute_result", "display_data"), output
        data = output["data"]
        assert runner.VIEW not in data
        if "image/png" in data:
            figures.append(joined(data["text/plain"]))
        else:
            text += joined(data["text/plain"]) + "\n"
            html += joined(data.get("text/html", ""))
    if "varies" in cell["metadata"].get("tags", ()):
        assert text
        text = html = ""
    return Said(words(text), table(html), figures)


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.name)
def notebook(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture(scope="module")
def now(notebook: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Said]]:
    """What the code cells say in a kernel that finds no settings of the user's."""
    defaults = tmp_path_factory.mktemp("settings") / "matplotlibrc"
    defaults.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MATPLOTLIBRC", str(defaults))
        for name in [name for name in os.environ if name.startswith("POLARS_")]:
            patch.delenv(name)
        moved = SLIDE.replace("EXPECTED", str(MOVED.get(notebook.name, 0)))
        yield [said(cell) for cell in code(runner.execute(notebook, last=moved))]


def test_there_is_something_to_run() -> None:
    assert {path.name for path in NOTEBOOKS} > {"first_run.ipynb", *MOVED}
    assert all(len(cells(path)) > 3 for path in NOTEBOOKS)


def test_cells_say_what_is_committed(notebook: Path, now: list[Said]) -> None:
    before = [said(cell) for cell in cells(notebook)]
    assert now == before
    assert sum(len(said.figures) for said in before) >= 1
    assert sum(any(c.isdigit() for c in word) for said in before for word in said.words) > 10


def test_a_stale_digit_would_be_noticed(notebook: Path, now: list[Said]) -> None:
    noticed = 0
    for cell, right in zip(cells(notebook), now, strict=True):
        for output in cell["outputs"] if "varies" not in str(cell["metadata"]) else ():
            texts = output.get("data", output)
            for kind in {"text/plain", "text/html", "text"} & set(texts):
                true = joined(texts[kind])
                wrong = re.sub(
                    r"(\d)(?= [┆│]|</td>|%| requests)",
                    lambda at: str(9 - int(at[0])),
                    true,
                    count=1,
                )
                if wrong != true:
                    texts[kind] = wrong
                    assert said(cell) != right
                    texts[kind] = true
                    assert said(cell) == right
                    noticed += 1
    assert noticed >= 1


def test_outputs_are_small_and_of_one_run_from_the_top(notebook: Path) -> None:
    assert notebook.stat().st_size < FILE
    counts = [cell["execution_count"] for cell in cells(notebook)]
    assert counts == [*range(1, len(counts) + 1)]
    for cell in cells(notebook):
        for output in cell["outputs"]:
            if picture := output.get("data", {}).get("image/png"):
                assert len(base64.b64decode(joined(picture))) < PICTURE


def test_nothing_tells_of_the_machine(notebook: Path) -> None:
    whole = json.loads(notebook.read_text(encoding="utf-8"))
    assert set(whole["metadata"]) == {"kernelspec", "language_info"}
    assert whole["metadata"]["language_info"] == {"name": "python"}
    for cell in whole["cells"]:
        assert cell["metadata"] in ({}, {"tags": ["varies"]})
        for output in cell.get("outputs", []):
            output = copy.deepcopy(output)
            picture = output.get("data", {}).pop("image/png", "")
            head = base64.b64decode(joined(picture)).partition(b"IDAT")[0].decode("latin-1")
            for text in (head, *strings(output)):
                assert not MACHINE.search(text), text
                assert str(ROOT) not in text
                assert str(Path.home()) not in text


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


def test_paths_of_machines_are_recognised() -> None:
    for text in ("/home/x/a.py", "at '/tmp/b'", r"C:\Users", "file:///root/a", "/opt/x/bin"):
        assert MACHINE.search(text), text
    for text in ("docs/work/plan", "8 of 16", "</td>", "req/s", "../docs/model.md"):
        assert not MACHINE.search(text), text
