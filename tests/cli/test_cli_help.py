"""Help says what there is, whole, in one manner, within 80 columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from command import pagedsim

from pagedsim.cli import app


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from _commands(command, (*path, name))


COMMANDS = dict(_commands(typer.main.get_command(app)))


def test_there_are_commands_and_groups() -> None:
    assert {(), ("compare",), ("trace",), ("trace", "from")} < set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_is_whole_and_narrow(path: tuple[str, ...]) -> None:
    said = pagedsim(*path, "--help")
    assert (said.code, said.err) == (0, "")
    assert max(map(len, said.out.splitlines())) <= 80
    shown = " ".join(said.out.split())
    assert "..." not in re.sub(r"ARGS\]\.\.\.|[}\]]\.\.\.", "", shown)
    for name, command in getattr(COMMANDS[path], "commands", {}).items():
        first = re.split(r"\n\n|\.\s", f"{command.help}\n\n")[0].rstrip(".")
        assert f"{name} {' '.join(first.split())}." in shown


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_arguments_are_named_in_capitals(path: tuple[str, ...]) -> None:
    for parameter in COMMANDS[path].params:
        if parameter.param_type_name == "argument":
            words = re.split(r"\||\.toml", parameter.metavar or parameter.name)
            assert all(word == word.upper() or word == "list" for word in words), parameter.name


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_what_shows_a_table_can_be_quiet_and_without_colours(path: tuple[str, ...]) -> None:
    options = {name for parameter in COMMANDS[path].params for name in parameter.opts}
    if "--json" in options:
        assert {"--quiet", "-q", "--no-color"} <= options


def test_quiet_is_quiet(folder: Path) -> None:
    (folder / "g.toml").write_text("trace = 't.csv'\n[grid]\nkv-tokens = [4000, 5000]\n")
    assert pagedsim("sweep", "g.toml", "--out", "r", "-j", 1, "-q") == (0, "", "")
    assert pagedsim("sweep", "status", "r", "-q") == (0, "", "")
    assert pagedsim("sweep", "collect", "r", "--json", "c.json", "-q") == (0, "", "")
    assert pagedsim("trace", "compare", "t.csv", "chat", "--limit", 50, "-q") == (0, "", "")
