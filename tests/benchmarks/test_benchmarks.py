"""Each benchmark in a process of its own, as its README runs it, on a trace of a few requests.

The benchmarks assert the work that they do; here it is enough that they end well and say so.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pagedsim.engine.rows import Rows
from pagedsim.trace import load

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"


def run(name: str, *args: object) -> str:
    """What a benchmark prints, its runs of blanks as one."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(FOLDER / f"{name}.py"), *map(str, args)]
    ran = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert ran.returncode == 0, ran.stderr
    return re.sub(" +", " ", ran.stdout)


SMALL = ("chat", "--limit", 40, "--repeat", 2)
TIGHT = (*SMALL, "--kv-tokens", 6_000)


def test_engines_agree_and_say_what_they_did() -> None:
    said = run("engines", *TIGHT)
    assert said.count("numbers equal") == 7
    works = re.findall(r"([\d,]+) windows, ([\d,]+) steps, ([\d,]+) request-steps", said)
    assert len(works) == 7
    assert all(int(w.replace(",", "")) < int(s.replace(",", "")) for w, s, _ in works)
    assert " 0 preemptions" in said
    assert re.search(r" [1-9][\d,]* preemptions", said), "the tight pool preempts nobody"


def test_a_replay_from_start_to_table() -> None:
    said = run("whole", *SMALL[:3], "--repeat", 1)
    assert said.count("its own time") == 2
    assert "import pagedsim.cli" in said


def test_growth() -> None:
    said = run("growth", "--sizes", "20,200")
    rows = [line.split() for line in said.splitlines() if re.match(r"(20|200) ", line)]
    assert [row[0] for row in rows] == ["20", "200"]
    assert {row[-1] for row in rows} == {"120"}


def test_sweeps() -> None:
    said = run("sweeps", *SMALL[:3], "--repeat", 1, "--runs", 2, "--jobs", 1)
    assert re.search(r"^a single run ([\d.]+) ([\d.]+) 1 ", said, re.MULTILINE)
    assert re.search(r"^a sweep of 2 ([\d.]+ ){3,4}\d+", said, re.MULTILINE)


def test_the_vllm_scheduler_is_recorded_where_it_is_not_installed() -> None:
    said = run("vllm_scheduler", *TIGHT)
    if "vLLM is not installed here" in said:
        assert said.count("recorded, not measured") == 2
        assert "recorded 20 µs, GPU" in said
    else:
        assert said.count("the finish time of every request") == 2


def test_other_simulators_and_the_hand_loop() -> None:
    said = run("others", *TIGHT)
    assert said.count("same steps and finish times") == 2
    assert "ai-dynamo is not installed here" in said or "ai-dynamo, its own step times" in said


def test_caches() -> None:
    said = run("caches", "chat-shared", "--limit", 60, "--repeat", 1)
    assert said.count("allocator, ") == 6  # timed, and in the table
    assert "curve, lru, every capacity 0." in said
    if "kvcache-simulator is not installed here" not in said:
        assert "hit counts of kvcache-simulator equal" in said


def test_reading_two_formats(tmp_path: Path) -> None:
    csv = tmp_path / "small.csv"
    csv.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.0000000,374,44\n"
        "2023-11-16 18:15:46.5000000,396,109\n"
    )
    jsonl = tmp_path / "small.jsonl"
    jsonl.write_text(
        '{"timestamp": 0, "input_length": 1500, "output_length": 50, "hash_ids": [0, 1, 2]}\n'
        '{"timestamp": 2000, "input_length": 1700, "output_length": 9, "hash_ids": [0, 1, 2, 3]}\n'
    )
    said = run("loading", csv, jsonl, "--repeat", 1)
    assert "small 2 2 " in said
    assert "small 2 7 " in said
    assert "prefix=on" in said


def test_known_work_is_written_as_it_is_read(tmp_path: Path) -> None:
    jsonl = tmp_path / "small.jsonl"
    jsonl.write_text(
        '{"timestamp": 0, "input_length": 600, "output_length": 50, "hash_ids": [0, 1]}\n'
    )
    run("known", jsonl, "--sizes", "20", "--to", tmp_path / "known.toml")
    found = tomllib.loads((tmp_path / "known.toml").read_text(encoding="utf-8"))["replay"]
    kept = tomllib.loads((FOLDER / "known.toml").read_text(encoding="utf-8"))["replay"]
    assert found[:4] == kept[:4]
    assert [each["requests"] for each in found] == [2000, 60, 60, 60, 1, 1, 20]
    assert found[4]["work"]["steps"] == 50


@pytest.fixture
def common() -> Any:
    """The module that benchmarks share, under a name that nothing else has."""
    spec = importlib.util.spec_from_file_location("benchmarks_common", FOLDER / "common.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_work_that_was_left_out_is_noticed(common: Any) -> None:
    trace = load("chat", limit=10)
    _, recording = common.replay(trace, common.Settings("constant:ms=30"))
    common.done(trace, recording)
    fewer = replace(recording, rows=Rows.of(recording.windows[:-1]))
    with pytest.raises(AssertionError, match="tokens were left out"):
        common.done(trace, fewer)
    gap = replace(recording, rows=Rows.of(recording.windows[1:]))
    with pytest.raises(AssertionError, match="windows leave steps out"):
        common.done(trace, gap)


def test_work_that_is_known_is_held_to_it(common: Any) -> None:
    entries = tomllib.loads((FOLDER / "known.toml").read_text(encoding="utf-8"))["replay"]
    entry = next(each for each in entries if each["name"] == "chat")
    assert entry["sha256"]
    trace, settings = load("chat"), common.Settings(**entry["settings"])
    work = common.Work(**entry["work"])
    assert common.known(trace, settings, work)
    assert common.done(trace, common.replay(trace, settings)[1]) == work
    with pytest.raises(AssertionError, match="known are"):
        common.known(trace, settings, work._replace(steps=work.steps + 1))
    assert not common.known(trace.head(10), settings, work)
