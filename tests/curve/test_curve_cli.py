"""``pagedsim curve`` as it is typed: what it prints, writes and refuses, and docs/curve.md."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from pagedsim.analysis.curve_plot import COLUMNS, places, plot, steps
from pagedsim.analysis.curve_result import Curves
from pagedsim.cli import app

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "curve.md").read_text(encoding="utf-8")


def run(*args: str, width: int = 80) -> tuple[int, str, str]:
    ran = CliRunner().invoke(app, ["curve", *args], env={"COLUMNS": str(width), "NO_COLOR": "1"})
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return ran.exit_code, ran.stdout, ran.stderr


def test_the_example_of_the_docs() -> None:
    found = re.search(r"```console\n\$ pagedsim curve (.*?)\n(.*?)```", DOCS, re.DOTALL)
    assert found is not None
    code, out, _ = run(*found[1].split())
    assert code == 0
    assert [line.rstrip() for line in out.splitlines()] == found[2].splitlines()


def test_the_python_of_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", DOCS, re.DOTALL)
    assert found is not None
    exec(found[1], {})
    assert capsys.readouterr().out == found[2]


@pytest.mark.parametrize(
    "args",
    [
        "chat-shared --policy all --model llama-3.1-8b --gpu h100 --warmup 0.5 --outputs",
        "chat-shared --touch root --policy lru,fifo --partial off --block 1",
        "chat --policy all",
        "agent --limit 1 --capacities 1",
        "agent --capacities 10,1k,1K --model llama-3.1-8b --kv-dtype fp8",
    ],
)
def test_eighty_columns_are_enough(args: str) -> None:
    code, out, err = run(*args.split())
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert out == run(*args.split(), width=120)[1]  # nothing was broken or cut to fit


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    args = ("chat-shared", "--capacities", "200,100", "--model", "llama-3.1-8b", "--gpu", "h100")
    code, out, _ = run(*args, "--json", str(path))
    assert code == 0
    assert "Knee of lru" in out
    found = msgspec.json.decode(path.read_bytes(), type=Curves)
    assert found.schema == "pagedsim.curve/1"
    assert found.pool is not None
    assert [point.capacity.blocks for point in found.curves[0].points] == [
        100,
        200,
        found.pool.blocks,
    ]
    assert found.curves[0].points[0].capacity.gib == 100 * 16 * 131_072 / 2**30
    code, out, _ = run(*args, "--json", "-")
    assert out.encode() == path.read_bytes()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("--policy mru", "--policy is mru, must be lru, fifo, lfu, optimal or all"),
        ("--capacities 5,0", "--capacities is 0, must be a whole number >= 1"),
        ("--capacities 5,", "--capacities is , must be a whole number >= 1"),
        ("--block 0", "--block is 0, must be a whole number >= 1"),
        ("--touch up", "--touch is up, must be leaf or root"),
        ("--partial some", "--partial is some, must be on or off"),
        (
            "--partial on --outputs",
            "--partial on cannot go with --outputs: an answer fills that block",
        ),
        (
            "--policy lfu --touch root",
            "--touch is root, which --policy lfu has not: it is there for lru and fifo",
        ),
        ("--warmup 1", "--warmup is 1, must be a number >= 0 and < 1"),
        ("--warmup nan", "--warmup is nan, must be a number >= 0 and < 1"),
        ("--gpu h100", "--gpu needs --model"),
        ("--tp 2", "--tp needs --model"),
        ("--tp 2 --model llama-3.1-8b", "--tp needs --gpu"),
        ("--kv-dtype fp8", "--kv-dtype needs --model"),
        (
            "--model llama-3.1-8b --gpu a100-80gb --block 1M",
            "--block is 1048576, must be <= 458192, the tokens of the pool",
        ),
    ],
)
def test_refusals(args: str, says: str) -> None:
    assert run("chat-shared", *args.split()) == (2, "", f"error: {says}\n")


def test_the_plot() -> None:
    marks = {"a": [0.5] * COLUMNS, "b": [index / COLUMNS for index in range(COLUMNS)]}
    lines = plot(marks, 1.0, ["1", "10", "100"], ascii_only=True)
    assert max(map(len, lines)) <= 79
    assert lines[0].startswith(" 100.0|")
    assert lines[6] == "  50.0|" + "a" * COLUMNS
    assert sum(line.count("b") for line in lines) == COLUMNS - 7  # below a's row and above it
    assert lines[-1].split() == ["1", "10", "100"]
    assert len(lines[-1]) == 7 + COLUMNS


def test_columns_are_even_in_logarithms() -> None:
    found = steps(1, 10**6)
    assert (found[0], found[-1], len(found)) == (1, 10**6, COLUMNS)
    assert places()[0] == 0
    assert places()[-1] == COLUMNS - 1
