"""``pagedsim sweep`` as a person uses it: run, look, stop, go on, collect."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from pagedsim.cli import app

ROOT = Path(__file__).resolve().parents[2]
TRACE = Path(__file__).with_name("four.csv")
GRID = """trace = "four.csv"
[grid]
allocator = ["paged:block=16", "paged:block=4"]
rate = [1, 4.5]
seed = [1, 2]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "four.csv").write_bytes(TRACE.read_bytes())
    (tmp_path / "g.toml").write_text(GRID)
    return tmp_path


def say(*args: str) -> tuple[int, str, str]:
    ran = CliRunner().invoke(app, args, env={"COLUMNS": "80"})
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return ran.exit_code, ran.stdout, ran.stderr


def process(*args: str, **more: Any) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "pagedsim", *args],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **more,
    )


def replayed(*args: str) -> dict[str, Any]:
    code, out, err = say("replay", *args, "--json", "-")
    assert (code, err) == (0, "")
    (run,) = json.loads(out)["runs"]
    return run


def test_a_row_is_what_replay_says(folder: Path) -> None:
    assert say("sweep", "g.toml", "--out", "r", "-j", "1") == (
        0,
        "8 runs: 8 ran\nAs a table: pagedsim sweep collect r --out FILE.parquet\n",
        "",
    )
    assert say("sweep", "collect", "r", "--out", "t.parquet") == (0, "8 runs\n", "")
    table = pl.read_parquet("t.parquet")
    assert table.height == 8
    for row in table.iter_rows(named=True):
        options = [f"--{name}={row[f'option.{name}']}" for name in ("allocator", "rate", "seed")]
        run = replayed("four.csv", *options)
        assert row["name"] == " ".join(
            [f"allocator={row['option.allocator']}", f"rate={row['option.rate']:g}",
             f"seed={row['option.seed']}"]
        )  # fmt: skip
        for term in ("live", "waste", "idle"):
            assert row[f"memory.{term}"] == run["memory"][term]
        assert row["latency.ttft_s.p99"] == run["latency"]["ttft_s"]["p99"]
        assert row["makespan_s"] == run["makespan_s"]
        assert row["trace.requests"] == 4
        assert row["error"] is None
    assert table["error"].dtype == pl.String


def test_collect_holds_failures_and_results_of_earlier_grids(folder: Path) -> None:
    (folder / "first.toml").write_text('trace = "four.csv"\n[[run]]\nkv-tokens = 1000\n')
    assert say("sweep", "first.toml", "--out", "r", "-q")[0] == 0
    text = 'trace = "four.csv"\n[[run]]\nkv-tokens = 3\n[[run]]\nname = "ok"\nkv-tokens = 2000\n'
    (folder / "second.toml").write_text(text)
    code, out, _ = say("sweep", "second.toml", "--out", "r", "-j", "1")
    assert code == 1
    assert out.startswith(
        "2 runs: 1 ran, 1 failed\nFailed: kv-tokens=3\n  DeviceError: --kv-tokens"
    )
    assert "\n  pagedsim replay four.csv --kv-tokens=3\n" in out
    code, out, _ = say("sweep", "status", "r")
    assert code == 0
    assert out.startswith("2 runs: 1 done, 1 failed\nFailed: kv-tokens=3\n")
    assert out.endswith("And 1 of earlier grids\n")
    code, out, err = say("sweep", "collect", "r", "--out", "t.parquet", "--json", "t.json")
    assert (code, out, err) == (0, "3 runs (1 of them failed, 1 of earlier grids)\n", "")
    table = pl.read_parquet("t.parquet")
    assert table["option.kv_tokens"].to_list() == [3, 2000, 1000]
    assert table["error"].is_null().to_list() == [False, True, True]
    assert table["memory.live"].is_null().to_list() == [True, False, False]
    assert [row["name"] for row in json.loads(Path("t.json").read_text())] == table[
        "name"
    ].to_list()


def test_runs_that_replayed_nothing_are_said_whatever_is_quiet(folder: Path) -> None:
    text = 'trace = "four.csv"\n[grid]\nmax-len = [10, 20, 4096]\n'
    (folder / "g.toml").write_text(text)
    nothing = "max-len=10 and 1 more: replayed nothing, every request is refused\n"
    ran = "3 runs: 3 ran\nAs a table: pagedsim sweep collect r --out FILE.parquet\n"
    assert say("sweep", "g.toml", "--out", "r", "-j", "1") == (0, ran, nothing)
    assert say("sweep", "g.toml", "--out", "r", "-j", "1", "-q") == (0, "", nothing)  # all there
    code, out, err = say("sweep", "g.toml", "--out", "s", "-j", "1", "--json", "-")
    told = json.loads(out)
    assert (code, err) == (0, nothing)
    assert told["idle"] == [case["key"] for case in told["cases"][:2]]
    assert say("sweep", "collect", "r", "--json", "t.json", "-q") == (0, "", nothing)
    (folder / "g.toml").write_text(text.replace("10, 20, ", ""))
    assert say("sweep", "g.toml", "--out", "r", "-j", "1", "-q") == (0, "", "")


def test_what_is_missing_or_damaged_is_said(folder: Path) -> None:
    say("sweep", "g.toml", "--out", "r", "-j", "1")
    plan = json.loads(Path("r/sweep.json").read_bytes())["cases"]
    Path(f"r/{plan[0]['key']}.json").unlink()
    damaged = Path(f"r/{plan[1]['key']}.json")
    damaged.write_bytes(damaged.read_bytes()[:100])
    Path(f"r/{plan[2]['key']}.json").rename(f"r/{'0' * 24}.json")
    code, out, _ = say("sweep", "status", "r")
    assert code == 0
    assert out.splitlines() == [
        "8 runs: 5 done, 2 to do, 1 damaged",
        f"  to do         {plan[0]['name']}",
        f"  damaged       {plan[1]['name']}",
        f"  to do         {plan[2]['name']}",
        "And 1 of earlier grids",
    ]
    code, out, err = say("sweep", "collect", "r", "--out", "t.parquet")
    assert (code, out) == (1, "5 runs\n")
    assert err == (
        f"{plan[0]['name']} and 1 more: not there yet: run the sweep again\n"
        f"{damaged} and 1 more: damaged: run the sweep again\n"
    )
    code, out, _ = say("sweep", "g.toml", "--out", "r", "--json", "-")
    told = json.loads(out)
    assert code == 0
    assert told["damaged"] == [plan[1]["key"]]
    assert told["ran"] == [case["key"] for case in plan[:3]]


def test_what_is_wrong_is_an_error_and_nothing_is_made(folder: Path) -> None:
    (folder / "file").touch()
    before = sorted(os.listdir())
    for args, said in (
        (("g.toml",), "missing option '--out'"),
        (("no.toml", "--out", "r"), "no.toml: cannot be read"),
        (("g.toml", "--out", "file"), "file: cannot be a folder: File exists"),
        (("g.toml", "--out", "r", "-j", "0"), "--jobs is 0, must be a whole number >= 1"),
        (("g.toml", "--out", "r", "--backend", "x"), "backend is 'x', must be local, dask"),
        (("g.toml", "--out", "r", "--json", "g.toml"), "--json: g.toml is the grid as well"),
        (("g.toml", "--out", "r", "-j", "2", "--backend", "ray"), "--jobs is 2, but a cluster"),
        (("status", "r"), "r: no such folder: there is no r/sweep.json"),
        (("collect", "."), "collect: give --out FILE.parquet, --json FILE, or both"),
        (("collect", ".", "--out", "x.csv"), "--out is x.csv, must end in .parquet"),
        (("collect", ".", "--out", "x.parquet"), ".: is no folder of a sweep"),
    ):
        code, out, err = say("sweep", *args)
        assert (code, out) == (2, ""), args
        assert err.startswith(f"error: {said}"), err
        assert sorted(os.listdir()) == before, args


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_sweep_that_is_stopped_goes_on_where_it_was(folder: Path, stop: signal.Signals) -> None:
    text = 'trace = "chat"\nengine = "reference"\nlimit = 40\nrate = 3\n[grid]\n'
    (folder / "g.toml").write_text(text + "seed = [1, 2, 3, 4, 5, 6]\n")
    with process("sweep", "g.toml", "--out", "r", "-j", "1", start_new_session=True) as ran:
        until = time.monotonic() + 60
        while len(list(folder.glob("r/*.json"))) < 3 and time.monotonic() < until:
            time.sleep(0.01)
        ran.send_signal(stop)
        _, err = ran.communicate(timeout=30)
    done = {path.name: path.read_bytes() for path in folder.glob("r/*.json")}
    assert ran.returncode == (-stop if stop is signal.SIGKILL else 130)
    assert b"Traceback" not in err
    assert 3 <= len(done) <= 7
    assert say("sweep", "g.toml", "--out", "r", "-j", "1", "-q") == (0, "", "")
    assert say("sweep", "g.toml", "--out", "s", "-j", "1", "-q") == (0, "", "")
    after = {path.name: path.read_bytes() for path in folder.glob("r/*.json")}
    assert done.items() <= after.items()
    assert after == {path.name: path.read_bytes() for path in folder.glob("s/*.json")}
    assert sorted(os.listdir("r")) == sorted(after)


def test_a_disk_that_is_full_is_said_and_the_rest_is_kept(folder: Path) -> None:
    """Files of more than 3,000 bytes cannot be written: results are larger, all else is not."""
    limit = "import resource,signal,sys;signal.signal(signal.SIGXFSZ,signal.SIG_IGN);"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE,(3000,3000));"
    limit += "from pagedsim.cli import main;main()"
    args = ["sweep", "g.toml", "--out", "r", "-j", "2"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", limit, *args], env=env, capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"error: {folder}/r/")
    assert ran.stderr.endswith(".json: cannot be written: File too large\n")
    assert ran.stderr.count("\n") == 1
    assert [path.name for path in Path("r").glob("*.json")] == ["sweep.json"]
    assert say(*args) == (
        0,
        "8 runs: 8 ran\nAs a table: pagedsim sweep collect r --out FILE.parquet\n",
        "",
    )
