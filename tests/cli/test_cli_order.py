"""Every command finds what is wrong in one order, whatever else is wrong besides.

First what its words say (names, specs, options that contradict each other), then what would keep
its files from being written, then what is wrong with the files that it reads. Nothing is written.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from command import refused

from pagedsim.cli import app

pytestmark = pytest.mark.usefixtures("folder")

_NOT = "cannot be written: there is no folder"
_JSON = ("--json nodir/x.json", f"nodir/x.json: {_NOT}")
_OUT = ("--out nodir/t.jsonl", f"nodir/t.jsonl: {_NOT}", "--out u.jsonl")
_NOSUCH = (
    "nosuch.csv",
    "nosuch.csv: no such file, and no trace of that name; there are: agent, chat, chat-shared, ",
)
_GPU = ("--gpu nosuch", "unknown GPU 'nosuch'; there are: ")
_MODEL = ("--model nosuch", "unknown model 'nosuch'; there are: ")
_ALLOCATOR = ("--allocator nosuch", "nosuch: there is no allocator 'nosuch'; there are ")
_SLO = "--slo 'ttft_p99<2s'"

# What is wrong with a command: the words that say so, and the message. One after another is put
# right: left out, or said as the third word has it.
WRONG: dict[str, list[tuple[str, ...]]] = {
    "compare": [_GPU, _ALLOCATOR, _JSON, _NOSUCH],
    "replay": [("--rate 2 --concurrency 3", "--rate and --concurrency"), _MODEL, _JSON, _NOSUCH],
    "curve": [("--policy nosuch", "--policy is nosuch, must be "), _MODEL, _JSON, _NOSUCH],
    "map": [_ALLOCATOR, ("--out nodir/x.html", f"nodir/x.html: {_NOT}", "--out x.html"), _NOSUCH],
    "plan": [("--slo nosuch", "--slo 'nosuch', at", _SLO), _ALLOCATOR, _JSON, _NOSUCH],
    "whatif": [("--by nosuch", "--by nosuch: "), _ALLOCATOR, _JSON, _NOSUCH],
    "fit": [("--model nosuch --gpu h100", _MODEL[1]), _JSON, ("nosuch.csv", "nosuch.csv: cannot")],
    "size": [
        ("nosuch --gpu h100", _MODEL[1], "llama-3.1-8b --gpu h100"),
        _JSON,
        ("--engine-log nosuch.log", "nosuch.log: cannot be read"),
    ],
    "size --available-gib 30 llama-3.1-8b": [
        ("--work 5", "--work: --available-gib says how large the pool is"),
        _JSON,
    ],
    "verify": [
        ("--gpu h100", "--gpu needs --log"),
        _JSON,
        ("nosuch.gz", "nosuch.gz: cannot be read"),
    ],
    "verify --log nosuch.log": [
        ("--offset x", "--offset is x, must be "),
        ("--steptime nosuch", "nosuch: there is no step time 'nosuch'; there are "),
        ("--figure nodir/x.png", f"nodir/x.png: {_NOT}"),
        ("t.csv", "nosuch.log: cannot be read"),
    ],
    "check": [("nosuch", "nosuch: there is no part 'nosuch'", "constant:ms=2"), _JSON],
    "paper": [
        ("nosuch", "nosuch: no experiment of that name", "mooncake"),
        _JSON,
        ("--trace nosuch.csv", _NOSUCH[1]),
    ],
    "field": [("nosuch", "nosuch: no experiment of that name", "list"), _JSON],
    "lesson": [("--out x.txt", "x.txt: the name must end in", "--out x.html"), _JSON],
    "sweep run --out o": [
        ("--backend nosuch", "backend is 'nosuch', must be "),
        _JSON,
        ("nosuch.toml", "nosuch.toml: cannot be read"),
    ],
    "sweep status": [_JSON, ("nosuch", "nosuch: no such folder")],
    "sweep collect": [
        ("--out x.csv", "--out is x.csv, must end in .parquet"),
        _JSON,
        ("nosuch", "collect: give --out"),
    ],
    "trace info": [("--block 0", "--block is 0, must be "), _JSON, _NOSUCH],
    "trace list": [_JSON],
    "trace fetch": [("nosuch", "nosuch: no public trace of that name", "azure-2023-conv"), _JSON],
    "trace convert nosuch.csv": [
        ("x.txt", "x.txt: the name must end in", "x.jsonl"),
        _JSON,
        ("", _NOSUCH[1]),
    ],
    "trace fit": [_OUT, _NOSUCH],
    "trace make": [
        ("--scale 0", "--scale is 0, must be "),
        _OUT,
        ("nosuch", "nosuch: no such file, and no recipe of that name; there are: agent, chat, "),
    ],
    "trace head": [("--requests 0", "--requests is 0", "--requests 3"), _OUT, _NOSUCH],
    "trace sample": [("--share 2", "--share is 2, must be ", "--share 1"), _OUT, _NOSUCH],
    "trace shift": [("--seconds x", "--seconds is x, must be "), _OUT, _NOSUCH],
    "trace filter": [("--prompt 3", "--prompt is 3, must be A:B", "--prompt 3:"), _OUT, _NOSUCH],
    "trace make --from-percentiles": [
        ("bad", "--from-percentiles: ", "'prompt p50=9, output p50=9, rate=5/s'"),
        _OUT,
    ],
    "trace merge t.csv": [("", "merge needs two", "nosuch.csv"), _OUT, ("", _NOSUCH[1])],
    "trace anonymise": [("--round 0", "--round is 0, must be "), _OUT, _NOSUCH],
    "trace compare t.csv": [_GPU, _JSON, _NOSUCH],
    "trace from": [
        ("--map bad", "--map is bad, must be FIELD=NAME"),
        ("--time-unit x", "--time-unit is x, must be "),
        _OUT,
        ("nosuch.csv", "nosuch.csv: no such file"),
    ],
}


def _named(group: Any, path: str = "") -> Iterator[str]:
    for name, command in getattr(group, "commands", {}).items():
        yield from _named(command, f"{path} {name}".strip())
    if not hasattr(group, "commands"):
        yield path


def test_every_command_is_here() -> None:
    for path in _named(typer.main.get_command(app)):
        assert any(f"{command} ".startswith(f"{path} ") for command in WRONG), path


@pytest.mark.parametrize("command", WRONG)
def test_what_is_wrong_is_said_in_one_order(command: str) -> None:
    wrong = [words for words, *_ in WRONG[command]]
    for at, (_, message, *right) in enumerate(WRONG[command]):
        said = refused(*shlex.split(command), *shlex.split(" ".join(wrong)))
        assert said.startswith(f"error: {message}"), said
        wrong[at] = "".join(right)
