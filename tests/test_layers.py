"""The laws of docs/design.md, read from the imports: arrows point one way, few know a library.

Tables come from the document itself, so that it cannot say one thing and the code another.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pagedsim"
FILES = sorted(PACKAGE.rglob("*.py"))
LINES = 320

# Who alone may import a library; what is not here is for everyone.
ONLY = {
    "simpy": ("engine/fast.py",),
    "jinja2": ("present/", "trace/logs/tokens.py"),
    "matplotlib": ("present/",),
    "hypothesis": ("testing/",),
    "pytest": ("testing/",),
    "typer": ("cli/",),
    "rich": ("cli/", "present/"),
    "pooch": ("trace/fetch.py",),
    "tokenizers": ("trace/logs/tokens.py",),
}


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room_of(path: Path) -> str:
    """The room of the table that a file lies in: "engine/", "errors.py", …"""
    first, *rest = path.relative_to(PACKAGE).parts
    return f"{first}/" if rest else first


@cache
def table() -> dict[str, list[str]]:
    """The design's rooms in the order of its rows, each with what it may import in words."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "docs" / "design.md").read_text(encoding="utf-8").splitlines():
        if row := re.fullmatch(r"\| `([a-z_]+(?:/|\.py))` \|.*\| ([^|]+) \|", line):
            found[row[1]] = [word.strip() for word in row[2].split(",")]
    return found


@cache
def allowed(room: str) -> frozenset[str]:
    """Rooms that `room` may import from, itself included."""
    rooms = list(table())
    at = rooms.index(room)
    good = {room}
    for word in table()[room]:
        if word == "–":
            continue
        if word == "all":
            good.update(rooms)
        elif word == "all above":
            good.update(rooms[:at])
        elif word.endswith("and above"):
            last = word.removesuffix("and above").strip()
            good.update(rooms[: rooms.index(full(last)) + 1])
        elif word.startswith("all but "):
            good.update(rooms)
            good.difference_update(
                full(one) for one in word.removeprefix("all but ").split(" and ")
            )
        else:
            good.add(full(word))
    return frozenset(good)


def full(word: str) -> str:
    """The row that a word of the last column means."""
    word = word.strip("` ")
    return next(room for room in table() if room in (word, f"{word}/", f"{word}.py"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of everything imported anywhere in a file, what is only for types included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)}:{node.lineno}: a relative import"
            assert node.module is not None
            if node.module == "pagedsim":
                for alias in node.names:
                    yield node.lineno, f"pagedsim.{alias.name}"
            else:
                yield node.lineno, node.module


def test_the_table_is_read() -> None:
    assert {"errors.py", "protocols/", "trace/", "engine/", "alloc/", "cli/"} <= set(table())
    assert allowed("errors.py") == {"errors.py"}
    assert "alloc/" not in allowed("engine/")
    assert "engine/" not in allowed("alloc/")
    assert {"engine/", "alloc/", "device/", "trace/"} <= allowed("analysis/")
    assert "cli/" not in allowed("present/")


def test_every_file_has_a_room() -> None:
    assert {room_of(path) for path in FILES} - {"__init__.py", "__main__.py"} <= set(table())


@pytest.mark.parametrize("path", FILES, ids=name)
def test_arrows_point_one_way(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__.py", "__main__.py"):
        return
    for line, module in imports(path):
        top, _, rest = module.partition(".")
        if top != "pagedsim":
            continue
        target = rest.split(".")[0]
        there = f"{target}/" if (PACKAGE / target).is_dir() else f"{target}.py"
        if there in table():  # else it is a name of the package itself
            assert there in allowed(room), f"{name(path)}:{line}: {room} may not import {module}"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_few_know_a_library(path: Path) -> None:
    for line, module in imports(path):
        places = ONLY.get(module.split(".")[0])
        assert places is None or name(path).startswith(places), f"{name(path)}:{line}: {module}"


def test_the_engine_is_the_only_one_on_simpy() -> None:
    """... and it does import it, so the law above is not empty."""
    assert [name(path) for path in FILES for _, module in imports(path) if module == "simpy"] == [
        "engine/fast.py"
    ]


@pytest.mark.parametrize("path", FILES, ids=name)
def test_only_the_command_line_and_present_print(path: Path) -> None:
    if room_of(path) in ("cli/", "present/", "files.py"):
        return  # files.py: a file named "-" is standard output
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"{name(path)}:{node.lineno}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            written = (node.value.id, node.attr)
            assert written not in {("sys", "stdout"), ("sys", "stderr")}, (
                f"{name(path)}:{node.lineno}"
            )


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file_is_one_idea(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LINES, f"{name(path)} has {lines} lines"


def test_what_can_be_compiled_is_listed() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wheel = tomllib.loads(text)["tool"]["hatch"]["build"]["targets"]["wheel"]
    listed = [ROOT / path.removeprefix("/") for path in wheel["hooks"]["mypyc"]["include"]]
    assert [path for path in listed if path not in FILES] == []
    marked = [path for path in FILES if "\n@mypyc_attr(" in path.read_text(encoding="utf-8")]
    assert marked
    assert [name(path) for path in marked if path not in listed] == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), name(path)


def test_importing_is_cheap() -> None:
    """`import pagedsim` loads none of the heavy libraries; they load where they are used."""
    heavy = (
        "polars",
        "matplotlib",
        "jinja2",
        "plotly",
        "simpy",
        "rich",
        "typer",
        "pooch",
        "hypothesis",
    )
    code = f"import sys, pagedsim; print(*[m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
