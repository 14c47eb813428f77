"""A replay beside a log: logs that are written from a replay by other means agree with it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from enginelogs import ARGS, POOL, PROMPT, moments, sglang, vllm
from typer.testing import CliRunner

from pagedsim import simulate
from pagedsim.analysis.logged import Replayed, beside, side
from pagedsim.analysis.report import Report
from pagedsim.cli import app
from pagedsim.device.device import make_device
from pagedsim.device.engineargs import parse_engine_args
from pagedsim.device.engineseries import parse_engine_series
from pagedsim.errors import InputError
from pagedsim.trace import load

SECONDS = [1.0 + 10 * k for k in range(12)]


@pytest.fixture(scope="module")
def report() -> Report:
    """A small pool, so that requests wait and are preempted."""
    device = make_device("llama-3.1-8b", "a100-80gb", kv_tokens=60_000, max_seqs=24)
    return simulate(
        load("chat-shared", limit=350), "paged:block=32,prefix=on", device=device, max_len=16384
    )


@pytest.fixture(scope="module")
def log(report: Report) -> str:
    return "\n".join(vllm(report, SECONDS)) + "\n"


def test_samples_are_those_of_a_walk(report: Report) -> None:
    rng = np.random.default_rng(3)
    seconds = sorted(rng.uniform(0, 110, 60).round(3).tolist())
    at = np.rint(np.array(seconds) * 1e9).astype(np.int64)
    replayed, walked = Replayed(report), moments(report, seconds)
    assert replayed.running(at).tolist() == [moment.running for moment in walked]
    assert replayed.waiting(at).tolist() == [moment.waiting for moment in walked]
    held = (replayed.usage(at) * report.recording.capacity).round().tolist()
    assert held == [moment.held for moment in walked]
    assert replayed.preemptions(at).tolist() == [moment.preemptions for moment in walked]
    shares = [moment.cached / moment.asked if moment.asked else None for moment in walked]
    for window, theirs in ((1000, [moment.hit for moment in walked]), (0, shares)):
        ours = replayed.hit_rate(at, window)
        assert ours.tolist() == pytest.approx(
            [np.nan if t is None else t for t in theirs], nan_ok=True
        )
    assert max(moment.waiting for moment in walked) > 0
    assert max(moment.running for moment in walked) == 24


def test_tokens_a_second_add_up(report: Report) -> None:
    end = int(report.recording.windows[-1, 3])
    at = np.linspace(-(10**9), end + 10**9, 50).astype(np.int64)
    spent = np.diff(at) / 1e9
    replayed = Replayed(report)
    assert np.isnan(replayed.output_tokens_s(at)[0])
    assert (replayed.output_tokens_s(at)[1:] * spent).sum() == pytest.approx(
        report.recording.requests.generated.sum()
    )
    assert (replayed.prompt_tokens_s(at)[1:] * spent).sum() == pytest.approx(
        report.trace.prompt.sum()
    )


@pytest.mark.parametrize("lead", [0.0, 7.0, 95.0])
@pytest.mark.parametrize("write", [vllm, sglang])
def test_a_log_agrees_with_the_replay_it_is_of(report: Report, write: Any, lead: float) -> None:
    series = parse_engine_series("\n".join(write(report, SECONDS, lead)))
    found = beside(series, report, offset_s=None, configuration={})
    assert found.offset_s == -SECONDS[0]
    assert found.damaged == 0
    sides = {each.name: each for each in found.sides}
    assert sides["running"].absolute == sides["waiting"].absolute == 0
    assert sides["usage"].worst <= (0.00051 if write is vllm else 0.0051)
    assert sides["hit_rate"].worst <= 0.0006
    assert found.lines == len(SECONDS)
    assert np.diff(found.at_s).tolist() == pytest.approx([10] * 11)
    if write is vllm:
        assert sides["preemptions"].absolute == 0
        assert sides["prompt_tokens_s"].worst <= 0.0501
        assert sides["output_tokens_s"].absolute < 2  # whole tokens of some twenty requests
        assert sides["output_tokens_s"].engine_mean > 300
    other = beside(series, report, offset_s=20.0, configuration={})
    assert other.offset_given
    assert {each.name: each for each in other.sides}["running"].absolute > 1


def test_errors_are_as_defined() -> None:
    at = np.array([0, 1, 2, 3]) * 10**9
    engine = np.array([2.0, 4.0, np.nan, 6.0])
    found = side("running", at, engine, np.array([3.0, 4.0, 9.0, 2.0]))
    assert found is not None
    assert (found.points, found.engine_mean, found.replay_mean) == (3, 4, 3)
    assert (found.bias, found.absolute) == (-1, pytest.approx(5 / 3))
    assert (found.worst, found.worst_s, found.error) == (4, 3, pytest.approx(5 / 12))
    assert found.engine == (2, 4, None, 6)
    assert side("running", at, np.full(4, np.nan), engine) is None


DAMAGE = {
    "cut short": lambda line: line[: line.index("Running: ") + 9],
    "cut in a number": lambda line: line.replace("GPU KV cache usage: ", "GPU KV cache usage: x"),
    "no time": lambda line: line[line.index("Engine") :],
    "no such day": lambda line: re.sub(r"INFO \d\d-\d\d", "INFO 11-31", line),
    "above all": lambda line: line.replace("cache usage: ", "cache usage: 123"),
    "the past": lambda line: re.sub(r"INFO \d\d-\d\d", "INFO 11-29", line),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_lines_are_counted_and_named(log: str, what: str) -> None:
    lines = log.splitlines()
    lines[5] = DAMAGE[what](lines[5])
    found = parse_engine_series("\n".join(lines))
    assert found.damaged == 1
    assert found.named[0].startswith("line 6: ")
    assert len(found.at_ns) == len(SECONDS) - 1
    many = parse_engine_series("\n".join([*lines, *[lines[5]] * 30]))
    assert (many.damaged, len(many.named)) == (31, 8)


def test_other_forms() -> None:
    old = (
        "INFO 05-01 10:00:0{} metrics.py:345] Avg prompt throughput: 1.5 tokens/s, Avg generation "
        "throughput: 2.5 tokens/s, Running: 7 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache "
        "usage: 12.5%, CPU KV cache usage: 0.0%."
    )
    warned = "WARNING 05-01 10:00:05 scheduler.py] preempted … total_num_cumulative_preemption=51"
    found = parse_engine_series("\n".join([old.format(1), warned, old.format(9)]))
    assert found.columns["running"].tolist() == [7, 7]
    assert found.columns["waiting"].tolist() == [3, 3]
    assert found.columns["usage"].tolist() == [0.125, 0.125]
    assert found.columns["preemptions"].tolist() == [0, 51]
    assert np.isnan(found.columns["hit_rate"]).all()
    assert found.at_ns.tolist() == [0, 8 * 10**9]
    docker = "2026-12-31 23:59:58.500 | " + old.format(1)
    later = "2027-01-01T00:00:01,250 | " + old.format(1)
    assert parse_engine_series(f"{docker}\n{later}").at_ns[1] == 2_750_000_000
    year = old.format(1).replace("05-01", "12-31"), old.format(1).replace("05-01", "01-01")
    assert parse_engine_series("\n".join(year)).at_ns[1] == 86400 * 10**9
    retracted = "[2026-11-30 12:00:02] KV cache pool is full. Retract requests. #retracted_reqs: 4"
    decode = (
        "[2026-11-30 12:00:0{} TP0] Decode batch, #running-req: 2, #token: 98, token usage: 0.25, "
        "cuda graph: True, gen throughput (token/s): 65.95, #queue-req: 1"
    )
    found = parse_engine_series("\n".join([decode.format(1), retracted, decode.format(3)]))
    assert found.columns["preemptions"].tolist() == [0, 4]
    assert found.columns["usage"].tolist() == [0.25, 0.25]
    two = old.format(1).replace("Avg prompt", "Engine 001: Avg prompt")
    both = [two.replace("001", "000"), two, two.replace("001", "000")]
    found = parse_engine_series("\n".join(both))
    assert len(found.at_ns) == 2
    assert found.notes == ("2 engines log here: only engine 000 was read",)
    with pytest.raises(InputError, match="holds lines of vLLM and of SGLang"):
        parse_engine_series(f"{old.format(1)}\n{decode.format(1)}")


def test_arguments() -> None:
    found = parse_engine_args(f"{PROMPT}\n{ARGS}\n")
    assert found.engine == "vLLM"
    assert found.values == {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "max_len": 16384,
        "max_seqs": 24,
        "block": 32,
        "prefix": True,
    }
    other = (
        "server_args=ServerArgs(model_path='x', page_size=64, disable_radix_cache=True, tp_size=2)"
    )
    assert parse_engine_args(other).values == {"model": "x", "block": 64, "tp": 2, "prefix": False}
    odd = "non-default args: {'max_model_len': 'SECRET', 'tensor_parallel_size': -1, 'x': 1}"
    assert parse_engine_args(odd).values == {}
    assert parse_engine_args("nothing").values == {}


def ran(*words: str) -> Any:
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["verify", *words])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = log.splitlines()
    lines[7] = lines[7].replace("tokens/s, Running", "SECRET-LINE, Running: SECRET")
    (tmp_path / "e.log").write_text("\n".join(lines))
    from pagedsim.trace import store

    store.write(load("chat-shared", limit=350), "t.jsonl")
    return tmp_path


def test_the_command(folder: Path) -> None:
    said = ran("--log", "e.log", "t.jsonl", "--json", "v.json", "--figure", "v.svg")
    assert (said.exit_code, said.stderr) == (0, "")
    assert all(len(line) <= 80 for line in said.stdout.splitlines())
    assert "11 lines of vLLM; pool of 59,968 tokens, from the log" in said.stdout
    assert "1 damaged line left out: line 8: " in said.stdout
    found = json.loads((folder / "v.json").read_bytes())
    assert found["schema"] == "pagedsim.verify-log/1"
    assert found["configuration"]["block"] == 32
    assert found["configuration"]["allocator"] == "paged:block=32,prefix=on"
    sides = {each["name"]: each for each in found["sides"]}
    assert sides["running"]["absolute"] == sides["waiting"]["absolute"] == 0
    everything = said.stdout + (folder / "v.json").read_text() + (folder / "v.svg").read_text()
    assert "SECRET" not in everything
    assert "777001" not in everything


def test_secrets_are_in_no_error(folder: Path) -> None:
    text = (folder / "e.log").read_text()
    unknown = text.replace("meta-llama/Llama-3.1-8B-Instruct", "/SECRET/model")
    (folder / "u.log").write_text(unknown)
    (folder / "n.log").write_text(f"{ARGS}\n{POOL}\n{PROMPT}\n")
    (folder / "d.log").write_text("Avg prompt throughput: SECRET tokens/s\n" * 3)
    (folder / "p.log").write_text(text.replace("KV cache size", "SECRET size"))
    for name, words in (
        ("u.log", "the log names no model that is known here: give --model NAME"),
        ("n.log", "holds no line of vLLM's"),
        ("d.log", "3 damaged (line 1: prompt_tokens_s is missing or cut"),
        ("p.log", "states no KV blocks or tokens"),
        ("gone.log", "cannot be read"),
    ):
        said = ran("--log", name, "t.jsonl", "--json", "x.json")
        assert said.exit_code == 2
        assert words in said.stderr
        assert "SECRET" not in said.stderr + said.stdout
        assert not (folder / "x.json").exists()
    assert ran("--log", "u.log", "t.jsonl", "--model", "llama-3.1-8b", "-q").exit_code == 0


def test_options_that_contradict(folder: Path) -> None:
    for words, said in (
        (("--log", "e.log", "t.jsonl", "t.jsonl"), "--log takes one trace"),
        (("t.jsonl", "--gpu", "h100"), "--gpu needs --log"),
        (("t.jsonl", "--offset", "3"), "--offset needs --log"),
        (("--log", "e.log", "t.jsonl", "--json", "e.log"), "is the log as well"),
        (
            ("--log", "e.log", "t.jsonl", "--offset", "soon"),
            "--offset is soon, must be a number of sec",
        ),
        (("--log", "e.log", "t.jsonl", "--figure", "v.doc"), "v.doc"),
    ):
        found = ran(*words)
        assert found.exit_code == 2
        assert said in found.stderr
    assert (
        "begins 1 s before the log's first line, as given"
        in ran("--log", "e.log", "t.jsonl", "--offset", "-1").stdout
    )
