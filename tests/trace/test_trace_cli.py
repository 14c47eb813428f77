"""``pagedsim trace``: tables for people, JSON for machines, errors for the main program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pagedsim.cli.trace import app
from pagedsim.errors import InputError, PagedsimError, SpecError
from pagedsim.trace import load


def run(*arguments: object) -> Result:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, [str(a) for a in arguments])
    if "-" not in arguments:
        assert all(len(line) <= 80 for line in result.stdout.splitlines())
    return result


@pytest.mark.parametrize("name", ["agent", "chat", "chat-shared", "code"])
def test_info(name: str) -> None:
    result = run("info", name)
    assert result.exit_code == 0
    assert "requests/s over" in result.stdout
    assert "ideal reuse" in result.stdout
    assert "p99" in result.stdout


def test_info_json(tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    assert run("info", "chat", "--json", out, "--limit", 100).exit_code == 0
    found = json.loads(out.read_bytes())
    assert found["requests"] == 100
    assert found["prompt"]["percentiles"]["50"] > 0
    printed = run("info", "chat", "--json", "-", "--limit", 100, "--block", 64)
    assert json.loads(printed.stdout)["reuse"]["block"] == 64


def test_info_says_what_was_left_out(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("prompt,output\n3,0\n4,9\n")
    result = run("info", path)
    assert "1 (1 left out)" in result.stdout
    assert "1 of 2 requests have zero output and were left out" in result.stdout
    assert isinstance(run("info", path, "--zero-output", "error").exception, InputError)
    assert isinstance(run("info", path, "--zero-output", "keep").exception, SpecError)


def test_convert_and_make(tmp_path: Path) -> None:
    made = tmp_path / "m.jsonl.gz"
    result = run("make", "chat", "--out", made, "--seed", 7, "--requests", 30)
    assert result.exit_code == 0
    assert load(made).load == "gamma 6.5/s, cv 1.09, seed 7"
    out = tmp_path / "m.parquet"
    assert run("convert", made, out, "--limit", 20, "--json", tmp_path / "j").exit_code == 0
    assert len(load(out)) == 20
    assert json.loads((tmp_path / "j").read_bytes())["requests"] == 20
    assert run("convert", made, "-").stdout.startswith('{"pagedsim":"trace/1"')
    again = tmp_path / "n.jsonl.gz"
    run("make", "chat", "--out", again, "--seed", 7, "--requests", 30)
    assert again.read_bytes() == made.read_bytes()


def test_list() -> None:
    result = run("list")
    assert "chat-shared" in result.stdout
    assert "mooncake-conversation" in result.stdout
    assert len(json.loads(run("list", "--json", "-").stdout)["traces"]) == 7


def test_errors_are_left_to_the_main_program(tmp_path: Path) -> None:
    for arguments in (
        ("info", tmp_path / "nothing.csv"),
        ("make", tmp_path / "nothing.toml", "--out", "x.jsonl"),
        ("fetch", "nothing"),
        ("convert", "chat", tmp_path / "x.csv"),
    ):
        assert isinstance(run(*arguments).exception, PagedsimError)
    for name, value in (("--block", 0), ("--limit", "x"), ("--zero-output", "keep")):
        refusal = run("info", "chat", name, value).exception
        assert isinstance(refusal, PagedsimError)
        assert str(refusal).startswith(f"{name} is {value}, must be ")


@pytest.mark.parametrize(
    "words",
    [
        "convert chat F --json F",
        "make chat --requests 3 -o F --json F",
        "make chat --requests 3 -o - --json -",
        "head chat --requests 3 -o F --json F",
        "merge chat code -o F --json F",
        "merge chat code -o - --json -",
    ],
)
def test_a_trace_and_its_json_go_to_two_places(words: str, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    result = run(*(str(file) if word == "F" else word for word in words.split()))
    assert isinstance(result.exception, SpecError)
    assert "as well: give another name" in str(result.exception)
    assert not file.exists()
    assert not result.stdout


def test_a_missing_folder_is_said_before_anything_is_read(tmp_path: Path) -> None:
    for more in (["-o", tmp_path / "no" / "x.jsonl"], ["-o", "-", "--json", tmp_path / "no" / "x"]):
        result = run("head", "chat", "--requests", 3, *more)
        assert isinstance(result.exception, InputError)
        assert "there is no folder" in str(result.exception)


def test_a_long_name_leaves_the_headings_whole(tmp_path: Path) -> None:
    long = tmp_path / ("a_name_of_many_letters" * 2 + ".jsonl")
    assert run("make", "chat-shared", "--requests", 12_000, "-o", long).exit_code == 0
    result = run("head", long, "--requests", 11_000, "-o", tmp_path / "x.jsonl")
    headings = "requests  convers.  req/s  prompt  output  reuse %  with outputs"
    assert headings in result.stdout
