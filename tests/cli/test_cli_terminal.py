"""Every command with a table can be told to be quiet or grey, and fits a narrow terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import on_terminal, pagedsim, process
from rich.cells import cell_len

RUN = ("t.csv", "--kv-tokens", "4000", "--max-len", "2000")
RECORDING = str(Path(__file__).parents[1] / "golden" / "vllm" / "exact60__apc_on_fullhit.jsonl.gz")
COMMANDS = {
    "replay": ("replay", *RUN),
    "compare": ("compare", *RUN),
    "curve": ("curve", "chat-shared", "--limit", "50"),
    "size": ("size", "llama-3.1-8b", "--gpu", "h100"),
    "verify": ("verify", RECORDING),
    "check": ("check", "lru", "--profile", "dev"),
    "paper list": ("paper", "list"),
    "field list": ("field", "list"),
    "paper": ("paper", "table1"),
    "trace info": ("trace", "info", "t.csv"),
    "trace list": ("trace", "list"),
    "trace convert": ("trace", "convert", "t.csv", "c.jsonl"),
    "trace from": ("trace", "from", "t.csv", "--out", "f.jsonl"),
    "trace fit": ("trace", "fit", "chat-shared", "--limit", "60", "--out", "r.toml"),
    "trace make": ("trace", "make", "chat", "--out", "m.jsonl", "--requests", "20"),
    "trace head": ("trace", "head", "t.csv", "--out", "h.jsonl", "--requests", "3"),
    "trace sample": ("trace", "sample", "t.csv", "--out", "s.jsonl", "--share", "0.9"),
    "trace shift": ("trace", "shift", "t.csv", "--out", "s.jsonl"),
    "trace merge": ("trace", "merge", "t.csv", "t.csv", "--out", "m.jsonl"),
    "trace filter": ("trace", "filter", "t.csv", "--out", "f.jsonl", "--prompt", "1:900"),
    "trace anonymise": ("trace", "anonymise", "t.csv", "--out", "a.jsonl"),
    "map": ("map", "t.csv", "--out", "m.html", "--kv-tokens", "4000", "--max-len", "2000"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=list(COMMANDS))
def test_quiet_says_nothing_and_eighty_columns_are_enough(
    folder: Path, words: tuple[str, ...]
) -> None:
    said = pagedsim(*words)
    assert said.code == 0
    assert max(map(cell_len, said.out.splitlines())) <= 80
    assert "\x1b" not in said.out
    assert pagedsim(*words, "--quiet") == (0, "", "")


@pytest.mark.parametrize("words", [COMMANDS["compare"], COMMANDS["size"]], ids=["compare", "size"])
def test_no_color_is_no_colour_on_a_terminal(folder: Path, words: tuple[str, ...]) -> None:
    shown = on_terminal(*words, "--no-color")
    styles = set(re.findall(rb"\x1b\[([0-9;]*)m", shown))
    assert styles <= {b"0", b"1", b"2", b"3", b"1;2", b""}  # bold, dim, italic: no colours


def test_a_reader_that_goes_away_is_no_error_of_a_sizing(folder: Path) -> None:
    with process(*COMMANDS["size"]) as ran:
        assert ran.stdout is not None
        ran.stdout.close()
        assert ran.stderr is not None
        assert ran.stderr.read() == b""
    assert ran.returncode == 141
