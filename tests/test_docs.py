"""What README.md and docs/ show is run, offline: commands, Python, recipes, traces, links.

A ``sh`` block is run line by line, a ``console`` block has its output after each ``$ command``. A
``text`` block after a ``python`` block is its output, and after an ``sh`` block that of its first
command. Commands run in a folder with a trace `requests.csv` and the repository's `tests` in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from pagedsim import simulate
from pagedsim.analysis.results import Result
from pagedsim.cli import app
from pagedsim.device.enginesize import EngineSizing
from pagedsim.device.sizing import Sizing
from pagedsim.engine.recording import Window
from pagedsim.trace import load, stats
from pagedsim.trace.make import make
from pagedsim.trace.recipe import read

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Options of other programs that pages may name.
OTHERS = {"--port", "--dtype", "--save-detailed", "--strict"}
NAMED = re.compile(r"# ([\w-]+\.toml)\n")  # what a block is, where commands take it as a file
BEFORE = {  # what a page has run already where it shows such a command
    "sweep status": ["sweep", "sweep.toml", "--out", "results", "-q"],
    "sweep collect": ["sweep", "sweep.toml", "--out", "results", "-q"],
}
TRACE = "arrived_at,prompt_tokens,output_tokens\n" + "".join(
    f"{at / 4},{100 + 37 * at % 900},{1 + 53 * at % 120}\n" for at in range(40)
)


class Block(NamedTuple):
    """A fenced block, and the text block that follows it with nothing between."""

    page: str
    line: int
    language: str
    text: str
    after: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    found = list(re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    for index, fence in enumerate(found):
        after = found[index + 1] if index + 1 < len(found) else None
        line = text.count("\n", 0, fence.start()) + 2
        output = after[2] if after is not None and after[1] == "text" else None
        yield Block(page.name, line, fence[1], fence[2], output)


BLOCKS = [block for page in PAGES for block in blocks(page)]


class Command(NamedTuple):
    """A command line of pagedsim, and its output where a page shows it."""

    place: str
    words: list[str]
    output: str | None


def commands() -> Iterator[Command]:
    for block in BLOCKS:
        if block.language == "console":
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                line, _, output = part.partition("\n")
                yield Command(str(block), shlex.split(line)[1:], output)
        elif block.language == "sh":
            output = block.after
            for at, line in enumerate(block.text.splitlines(), block.line):
                if ran := re.search(r"(?:^|/)pagedsim( .*)?$", line):
                    yield Command(f"{block.page}:{at}", shlex.split(ran[1] or ""), output)
                    output = None


COMMANDS = list(commands())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where examples run: a trace, the recordings, and no network."""

    def offline(*_: Any) -> None:
        raise AssertionError("an example of the documentation went to the network")

    monkeypatch.setattr(socket.socket, "connect", offline)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requests.csv").write_text(TRACE)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    for block in BLOCKS:
        if file := NAMED.match(block.text):
            (tmp_path / file[1]).write_text(block.text)
    return tmp_path


def plain(text: str) -> list[str]:
    """Lines without the spaces that tables end in, and without empty ones at the end."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def test_there_is_something_to_run() -> None:
    assert [command.words for command in COMMANDS].count(["compare"]) == 1
    assert len(COMMANDS) > 6
    assert {block.language for block in BLOCKS} >= {"sh", "text", "python", "toml", "json"}


def test_every_shown_line_of_pagedsim_is_run() -> None:
    """... and none stands in a block that is not looked at."""
    for block in BLOCKS:
        if block.language not in ("sh", "console"):
            assert not re.search(r"^\$? ?pagedsim ", block.text, re.MULTILINE), str(block)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: f"{c.place} {' '.join(c.words[:2])}")
def test_a_command_runs_and_says_what_is_shown(command: Command, folder: Path) -> None:
    if before := BEFORE.get(" ".join(command.words[:2])):
        assert CliRunner().invoke(app, before).exit_code == 0
    ran = CliRunner().invoke(app, command.words, env={"COLUMNS": "80"})
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    assert (ran.exit_code, ran.stderr) == (0, "")
    if command.output is not None:
        assert plain(ran.stdout) == plain(command.output)


PYTHON = [block for block in BLOCKS if block.language == "python"]


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_runs_and_prints_what_is_shown(block: Block, folder: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(block.text, str(block), "exec"), {"__name__": "__main__"})
    if block.after is not None:
        assert plain(said.getvalue()) == plain(block.after)


def test_traces_and_recipes_that_are_shown_are_read(folder: Path) -> None:
    lengths = {"fig": {"output": {"lo": 1, "hi": 300, "density": [3, 2, 1]}}}
    (folder / "lengths.json").write_text(json.dumps(lengths))
    shown = 0
    for block in BLOCKS:
        if NAMED.match(block.text):
            continue
        file = folder / f"{block.page}-{block.line}.{block.language or 'jsonl'}"
        file.write_text(block.text)
        if block.language == "toml":
            made = make(read(file), requests=50)
            assert len(made) == 50
            shown += 1
        elif block.text.startswith(('{"pagedsim"', '{"requests"')):
            assert len(load(file)) >= 1
            shown += 1
    assert shown == 3


# What is named in running text.

SPANS = [
    (page.name, span)
    for page in PAGES
    for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", page.read_text(encoding="utf-8"))
]


def options() -> dict[str, set[str]]:
    """The options of every command, by its words: ``"trace info"``."""
    found: dict[str, set[str]] = {}

    def walk(command: Any, words: str) -> None:
        if hasattr(command, "commands"):
            for name, inner in command.commands.items():
                walk(inner, f"{words} {name}".strip())
        else:
            found[words] = {
                opt for param in command.params for opt in (*param.opts, *param.secondary_opts)
            }

    walk(typer.main.get_command(app), "")
    return found


def test_commands_and_options_that_are_named_exist() -> None:
    known = options()
    everything = set().union(*known.values())
    named = 0
    for page, span in SPANS:
        words = span.split()
        if words[0] == "pagedsim" and len(words) > 1:
            name = " ".join(words[1:3]) if words[1] == "trace" else words[1]
            name = {"sweep": "sweep run"}.get(name, name)
            name = " ".join(words[1:3]) if " ".join(words[1:3]) in known else name
            assert name in known, f"{page}: {span}"
            here = known[name]
        else:
            here = everything
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", span):
            named += 1
            assert option in here | OTHERS, f"{page}: {span}: no option {option}"
    assert named > 20


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "README.zh-CN.md"]:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if target.startswith("http"):
                continue
            path, _, anchor = target.partition("#")
            there = page if not path else page.parent / path
            assert there.exists(), f"{page.name}: {target}"
            if anchor:
                titles = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
                slugs = [re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles]
                assert anchor in slugs, f"{page.name}: {target}"


def test_no_page_cites_a_line_of_source() -> None:
    """Lines move with every change above them; names stay. What programs print is no citation."""
    pages = [*PAGES, ROOT / "README.zh-CN.md", *sorted((ROOT / "benchmarks").glob("*.md"))]
    for page in pages:
        prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for cited in re.findall(r"\.py`?,? ?:?(?:#L|L|lines? )?\d+", prose):
            raise AssertionError(f"{page.name} cites a line: {cited}")


def fields(kind: Any) -> Iterator[str]:
    """Names of a class's fields, and of those of the classes that they hold."""
    for name, hint in get_type_hints(kind).items():
        yield name
        for inner in (hint, *get_args(hint)):
            if isinstance(inner, type) and (
                issubclass(inner, msgspec.Struct) or dataclasses.is_dataclass(inner)
            ):
                yield from fields(inner)


def test_every_number_that_is_reported_is_defined() -> None:
    text = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", text))
    info = stats.summary(load("chat-shared", limit=50))
    inner = [name for part in info.values() if isinstance(part, dict) for name in part]
    names = {*fields(Result), *fields(Sizing), *info, *(n for n in inner if isinstance(n, str))}
    assert len(names) > 150
    assert names - words == set()
    device = (ROOT / "docs" / "device.md").read_text(encoding="utf-8")
    assert {*fields(EngineSizing)} - set(re.findall(r"\w+", device)) == set()
    frame = simulate(load("chat", limit=5), max_len=16384).requests_frame()
    assert {*Window._fields, *frame.columns} - words == set()
