"""`compare` and `replay`: the file they write, and that it is the same however it is asked for."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from command import pagedsim, refused, results

pytestmark = pytest.mark.usefixtures("folder")

_TOP = ("schema", "trace", "device", "runs")
_TRACE = ("name", "requests", "prompt_tokens", "output_tokens", "sha256")
_DEVICE = ("model", "gpu", "kv_bytes_per_token", "capacity_tokens")
_RUN = (
    *("name", "capacity_tokens", "finished", "refused", "truncated", "dropped", "makespan_s"),
    *("memory", "batch", "binds", "preemptions", "preempted_requests", "recomputed_tokens"),
    *("prefix", "throughput", "latency", "provenance"),
)
_STATS = ("mean", "p50", "p90", "p99")
_INSIDE = {
    "memory": (
        *("live", "reserved", "internal", "external", "cached", "idle", "waste", "shared"),
        "waste_of_held",
    ),
    "batch": ("mean", "peak"),
    "binds": ("memory", "max_seqs", "budget", "arrivals"),
    "prefix": ("prompt_tokens", "hit_tokens", "hit_rate"),
    "throughput": ("requests_per_s", "output_tokens_per_s"),
    "latency": ("queue_s", "ttft_s", "tpot_s", "e2e_s", "normalized_s_per_token"),
}


def _first(found: dict[str, Any], names: tuple[str, ...]) -> None:
    """The names are those of the schema, in its order; later additions come after them."""
    assert tuple(found)[: len(names)] == names


def test_the_fields_of_a_result() -> None:
    found = results("compare", "t.csv")
    assert tuple(found) == _TOP
    assert found["schema"] == "pagedsim.result/1"
    _first(found["trace"], _TRACE)
    _first(found["device"], _DEVICE)
    assert len(found["runs"]) == 4
    for run in found["runs"]:
        _first(run, _RUN)
        for name, fields in _INSIDE.items():
            _first(run[name], fields)
        for stats in run["latency"].values():
            assert tuple(stats) == _STATS


def test_shares_add_up() -> None:
    for run in results("compare", "t.csv", "--kv-tokens", 2500, "--max-len", 2000)["runs"]:
        memory = run["memory"]
        terms = [memory[name] for name in _INSIDE["memory"][:6]]
        assert math.isclose(sum(terms), 1, abs_tol=1e-12)
        assert math.isclose(memory["waste"], sum(terms[1:4]), abs_tol=1e-12)
        assert math.isclose(sum(run["binds"].values()), 1, abs_tol=1e-12)
        assert run["finished"] + run["refused"] == 8


def test_the_same_command_writes_the_same_bytes(folder: Path) -> None:
    words = ("compare", "t.csv", "--rate", 3, "--seeds", 3, "--kv-tokens", 2500, "--max-len", 2000)
    first, second = results(*words), results(*words)
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
    files = []
    for name in "ab":
        said = pagedsim(*words, "--series", f"{name}.parquet", "--requests", f"{name}r.parquet")
        assert said.code == 0
        files.append([(folder / f"{name}{part}.4.parquet").read_bytes() for part in ("", "r")])
    assert files[0] == files[1]


def test_the_engines_write_the_same() -> None:
    fast, plain = (
        results("compare", "t.csv", "--kv-tokens", 2500, "--max-len", 2000, "--engine", engine)
        for engine in ("fast", "reference")
    )
    for run in [*fast["runs"], *plain["runs"]]:
        del run["provenance"]["specs"]["engine"]
    assert fast == plain


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("--max-len 2000", "--max-model-len 2000"),
        ("--max-len 8000", "--max-model-len 8k"),
        ("--max-len 8192", "--max-model-len 8K"),
        ("--kv-dtype fp8", "--kv-cache-dtype fp8"),
        ("--utilization 0.8", "--gpu-memory-utilization 0.8"),
        ("--kv-blocks 200", "--num-gpu-blocks-override 200"),
        ("--kv-tokens 3200", "--kv-tokens 3.2k"),
        ("--kv-cache-memory-bytes 1073741824", "--kv-cache-memory-bytes 1G"),
        ("--max-seqs 3", "--max-num-seqs 3"),
        ("--max-seqs 3", "--scheduler vllm:max_seqs=3"),
        ("--max-batched-tokens 300", "--max-num-batched-tokens 300"),
        ("--tp 2", "-tp 2"),
        ("--tp 2", "--tensor-parallel-size 2"),
        ("--pp 2", "-pp 2"),
        ("--pp 2", "--pipeline-parallel-size 2"),
        ("--model llama-3.1-8b --gpu a100-80gb", "--model LLAMA31_8B --gpu A100-80GB-SXM"),
        ("--gpu h100", "--gpu H100-SXM"),
        ("--steptime roofline", "--steptime roofline:mfu=0.5,mbu=0.8,overhead_ms=2"),
        ("--allocator paged", "--allocator paged:prefix=off,evict=lru,null=1,free_order=0.33"),
    ],
)
def test_spellings_of_engine_users(ours: str, theirs: str) -> None:
    pair = [results("replay", "t.csv", *words.split()) for words in (ours, theirs)]
    for found in pair:
        found["device"].pop("source")
        for run in found["runs"]:
            run["provenance"].pop("specs")
            run["provenance"].pop("notes")
            run["provenance"].pop("estimates")
            run.pop("name")
    assert pair[0] == pair[1]


def test_every_built_in_spec_runs() -> None:
    for place in ("first", "best", "buddy"):
        for reserve in ("max", "pow2", "exact"):
            spec = f"contiguous:place={place},reserve={reserve}"
            assert results("replay", "t.csv", "--allocator", spec)["runs"][0]["finished"] == 8
    for option, spec in (
        ("--allocator", "paged:block=1,null=0"),
        ("--allocator", "slots:n=4"),
        ("--allocator", "pagedsim.alloc.paged:Paged?block=8"),
        ("--scheduler", "orca:max_seqs=4,watermark=0.01"),
        ("--scheduler", "static:max_seqs=4"),
        ("--scheduler", "vllm:chunked=1,full_input=false,policy=priority,watermark=0.01"),
        ("--scheduler", "vllm:long_prefill=64,max_batched_tokens=300"),
        ("--steptime", "affine:base_ms=1,per_seq_ms=0.1,per_prefill_token_us=3"),
        ("--steptime", "constant:ms=1"),
    ):
        assert results("replay", "t.csv", option, spec)["runs"][0]["finished"] == 8


def test_a_part_of_the_users_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "own_step_times.py").write_text(
        "class Slow:\n    def __init__(self, ms=1):\n        self.ms = ms\n"
        "    def ns(self, load):\n        return round(self.ms * 1e6)\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    for spec in ("own_step_times:Slow", "own_step_times:Slow?ms=2"):
        assert results("replay", "t.csv", "--steptime", spec)["runs"][0]["finished"] == 8


def test_loads_are_named() -> None:
    for words, load in (
        ((), "recorded arrivals"),
        (("--rate", 2, "--seed", 5), "Poisson 2/s, seed 5"),
        (("--concurrency", 2), "2 requests outstanding"),
        (("--arrivals", "saturate"), "all at time 0"),
        (("--rate-scale", 2), "2"),
    ):
        said = pagedsim("replay", "t.csv", *words)
        (line,) = (line for line in said.out.splitlines() if line.startswith("Load: "))
        assert load in line


def test_windows() -> None:
    whole = results("replay", "t.csv")["runs"][0]
    part = results("replay", "t.csv", "--window", "0:1")["runs"][0]
    assert part["makespan_s"] == whole["makespan_s"]
    assert (part["span"]["whole"], whole["span"]["whole"]) == (False, True)
    busy = ("--kv-tokens", 2000, "--max-len", 1500, "--steptime", "constant:ms=50")
    assert results("replay", "t.csv", *busy, "--window", "steady")["runs"][0]["blocked"] > 0


def test_limits_count_by_arrival() -> None:
    found = results("replay", "t.csv", "--limit", 3)
    assert (found["trace"]["requests"], found["trace"]["prompt_tokens"]) == (3, 374 + 396 + 879)
    assert results("replay", "t.csv", "--limit", 999) == results("replay", "t.csv")


def test_files_have_the_runs_number(folder: Path) -> None:
    both = ("--allocator", "paged", "--allocator", "slots:n=2")
    names = ("--series", "s.parquet", "--series-steps", "t.parquet", "--requests", "r.parquet")
    said = pagedsim("compare", "t.csv", *both, *names, "--json", "o.json", "--quiet")
    assert (said.code, said.out) == (0, "")
    assert "s.2.parquet: slots:n=2" in said.err
    written = {path.name for path in folder.iterdir()}
    numbered = {f"{letter}.{number}.parquet" for letter in "str" for number in "12"}
    assert written == {"t.csv", "o.json", *numbered}
    steps = pl.read_parquet(folder / "t.1.parquet")
    windows = pl.read_parquet(folder / "s.1.parquet")
    assert len(steps) == windows["steps"].sum()
    assert pl.read_parquet(folder / "r.2.parquet")["status"].to_list() == ["finished"] * 8


def test_standard_input_and_output(folder: Path) -> None:
    text = (folder / "t.csv").read_text()
    said = pagedsim("replay", "-", "--json", "-", given=text)
    assert said.code == 0
    piped = msgspec.json.decode(said.out)
    assert piped["trace"]["name"] == "stdin"
    assert piped["trace"]["sha256"] == results("replay", "t.csv")["trace"]["sha256"]
    assert pagedsim("replay", "-", given="").code == 2


def test_replicas_share_a_trace(folder: Path) -> None:
    whole = results("replay", "t.csv", "--replicas", 2)["runs"][0]
    assert [one["requests"] for one in whole["replicas"]] == [4, 4]
    assert whole["provenance"]["specs"]["route"] == "round-robin"
    alone = results("replay", "t.csv", "--replicas", 1, "--route", "session")
    assert alone == results("replay", "t.csv")
    assert "replicas" not in alone["runs"][0]["provenance"]["specs"]
    said = pagedsim("replay", "t.csv", "--replicas", 3, "--route", "session")
    assert said.code == 0
    assert "3 replicas (session): averages over all their steps" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    assert "\n#3 " in said.out
    files = ("--requests", "q.parquet", "--figure", "f.png", "--perfetto", "p.json")
    said = pagedsim("replay", "t.csv", "--replicas", 2, *files, "--report", "r.html")
    assert said.code == 0
    assert sorted(os.listdir()) == [
        *("f.png", "p.json", "q.1.parquet", "q.2.parquet", "r.html", "t.csv")
    ]


def test_replicas_with_seeds(folder: Path) -> None:
    drawn = ("--replicas", 2, "--route", "random")
    once = [results("replay", "t.csv", *drawn, "--seed", seed)["runs"][0] for seed in (1, 2)]
    both = results("replay", "t.csv", *drawn, "--seed", 1, "--seeds", 2)["runs"][0]
    mean = (once[0]["batch"]["mean"] + once[1]["batch"]["mean"]) / 2
    assert both["seeds"]["intervals"]["batch.mean"]["mean"] == pytest.approx(mean)


def test_what_contradicts_replicas_is_said(folder: Path) -> None:
    assert refused("replay", "t.csv", "--route", "session") == (
        "error: --route is session, but there is one engine: give --replicas N"
    )
    assert refused("replay", "t.csv", "--replicas", 0).startswith("error: --replicas is 0, must be")
    assert "must be round-robin or random or" in refused(
        "replay", "t.csv", "--replicas", 2, "--route", "best"
    )
    assert "session keeps them on one replica" in refused(
        "replay", "chat-shared", "--replicas", 2, "--closed-loop"
    )


@pytest.mark.parametrize("command", ["replay", "compare", "whatif"])
@pytest.mark.parametrize("look", [("--quiet",), ("--json", "-"), ("--quiet", "--json", "o.json")])
def test_a_run_of_nothing_is_no_success_in_silence(command: str, look: tuple[str, ...]) -> None:
    said = pagedsim(command, "t.csv", "--max-len", 50, *look)
    assert said.code == 0
    assert said.err.startswith("Nothing was replayed")
    assert ". Refused 8 requests" in said.err
    assert len(said.err.splitlines()) == 1
    assert pagedsim(command, "t.csv", *look).err == ""


def test_which_of_several_runs_replayed_nothing_is_said(folder: Path) -> None:
    few = ("--kv-tokens", 1500, "--max-len", 1500)
    two = ("--allocator", "paged", "--allocator", "slots:n=30")
    said = pagedsim("compare", "t.csv", *few, *two, "--quiet")
    assert (said.code, said.out) == (0, "")
    assert said.err.startswith("slots:n=30: nothing was replayed. Refused 8 requests")
    assert len(said.err.splitlines()) == 1


def test_a_map_of_nothing_says_why(folder: Path) -> None:
    said = refused("map", "t.csv", "--out", "m.html", "--max-len", 50, "--kv-tokens", 4000)
    assert said.startswith("error: no step starts from 0 s on: all 8 requests are refused (")
