"""Notebooks run, say what they are committed with, and carry nothing of the machine that ran them.

Code cells are executed in order in one namespace, without Jupyter: what a cell prints, the value
of its last line and the figures it leaves open are its outputs. Pictures are compared by their
size and number of axes only, frames word by word and not by how their lines are drawn.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import copy
import io
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import polars as pl
import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MACHINE = re.compile(r"(?<![\w.<])/(home|root|tmp|Users|work|opt|usr|var|mnt)\b|\b[A-Z]:\\")
PICTURE, FILE = 100_000, 400_000  # most bytes of one picture, of a notebook

# `plt.show` cannot show anything here, and says so where there is a display.
pytestmark = pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive:UserWarning")

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


def cells(path: Path) -> list[Cell]:
    """The code cells."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def committed(cell: Cell) -> Said:
    """AssertionError where an output is neither printed text, nor a value, nor a picture."""
    text, html, figures = "", "", []
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            assert output["name"] == "stdout", joined(output["text"])
            text += joined(output["text"])
            continue
        assert output["output_type"] in ("execute_result", "display_data"), output
        data = output["data"]
        if "image/png" in data:
            figures.append(joined(data["text/plain"]))
        else:
            text += joined(data["text/plain"]) + "\n"
            html += joined(data.get("text/html", ""))
    return Said(words(text), table(html), figures)


def run(path: Path) -> list[Said]:
    """What the cells say now."""
    from matplotlib import pyplot as plt

    namespace: dict[str, Any] = {"__name__": "__main__"}
    said = []
    for number, cell in enumerate(cells(path), 1):
        body = ast.parse(joined(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        place, html = f"{path.name}, code cell {number}", ""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(ast.Module(body, []), place, "exec"), namespace)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), place, "eval"), namespace)
                if value is not None:
                    out.write(f"{value!r}\n")
                    html = value._repr_html_() if hasattr(value, "_repr_html_") else ""
        figures = [repr(plt.figure(number)) for number in plt.get_fignums()]
        plt.close("all")
        said.append(Said(words(out.getvalue()), table(html), figures))
    return said


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.name)
def notebook(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture(scope="module")
def now(notebook: Path) -> Iterator[list[Said]]:
    """`run`, offline and with the defaults of polars and matplotlib, which are put back."""

    def offline(*_: Any) -> None:
        raise AssertionError("a notebook went to the network")

    with pytest.MonkeyPatch.context() as patch, pl.Config(), matplotlib.rc_context():
        patch.setattr(socket.socket, "connect", offline)
        matplotlib.use("Agg")
        matplotlib.rcdefaults()
        pl.Config.restore_defaults()
        yield run(notebook)


def test_there_is_something_to_run() -> None:
    assert [path.name for path in NOTEBOOKS] == ["first_run.ipynb"]
    assert len(cells(NOTEBOOKS[0])) > 5


def test_cells_say_what_is_committed(notebook: Path, now: list[Said]) -> None:
    before = [committed(cell) for cell in cells(notebook)]
    assert now == before
    assert sum(len(said.figures) for said in before) >= 2
    assert sum(any(c.isdigit() for c in word) for said in before for word in said.words) > 20


def test_a_stale_digit_would_be_noticed(notebook: Path, now: list[Said]) -> None:
    noticed = 0
    for cell, said in zip(cells(notebook), now, strict=True):
        for output in cell["outputs"]:
            for kind in {"text/plain", "text/html"} & set(output.get("data", {})):
                right = joined(output["data"][kind])
                # the last digit before a table's rule or the end of its HTML cell
                wrong = re.sub(
                    r"(\d)(?= [┆│]|</td>)", lambda digit: str(9 - int(digit[0])), right, count=1
                )
                if wrong != right:
                    output["data"][kind] = wrong
                    assert committed(cell) != said
                    output["data"][kind] = right
                    assert committed(cell) == said
                    noticed += 1
    assert noticed >= 6  # three frames, each as text and as HTML


def test_outputs_are_small_and_of_one_run_from_the_top(notebook: Path) -> None:
    assert notebook.stat().st_size < FILE
    assert [cell["execution_count"] for cell in cells(notebook)] == [
        *range(1, len(cells(notebook)) + 1)
    ]
    for cell in cells(notebook):
        for output in cell["outputs"]:
            if picture := output.get("data", {}).get("image/png"):
                assert len(base64.b64decode(joined(picture))) < PICTURE


def test_nothing_tells_of_the_machine(notebook: Path) -> None:
    whole = json.loads(notebook.read_text(encoding="utf-8"))
    assert set(whole["metadata"]) == {"kernelspec", "language_info"}
    assert whole["metadata"]["language_info"] == {"name": "python"}
    for cell in whole["cells"]:
        assert cell["metadata"] == {}
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
