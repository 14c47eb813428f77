"""``pagedsim whatif`` as it is typed: what it prints, writes and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from command import pagedsim, refused


def answer(*args: object) -> dict[str, Any]:
    said = pagedsim("whatif", *args, "--json", "-")
    assert said.code == 0, said.err
    found: dict[str, Any] = msgspec.json.decode(said.out.encode())
    for key in ("created", "wall_s", "command"):
        del found[key]
    return found


def test_the_table_fits_and_the_best_comes_first(folder: Path) -> None:
    args = ("t.csv", "--kv-tokens", "2k", "--max-len", 1900, "--arrivals", "saturate")
    said = pagedsim("whatif", *args, "--by", "makespan", "--stack")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2] == "Ranked by makespan: lower is better"
    assert any("GPU memory: --kv-tokens says how large the pool is" in line for line in lines)
    found = answer(*args, "--by", "makespan", "--stack")
    served = [one for one in found["changes"] if not one["refused"] + one["truncated"]]
    values = [one["value"] for one in served]
    assert values == sorted(values)
    assert found["changes"][: len(served)] == served
    kept = [one["value"] for one in found["stack"] if one["kept"]]
    assert kept == sorted(kept, reverse=True)
    assert kept[-1] < found["present"]["value"]


def test_the_present_is_what_replay_gives(folder: Path) -> None:
    args = ("t.csv", "--max-len", 4096, "--scheduler", "orca", "--rate", 2, "--seed", 4)
    said = pagedsim("replay", *args, "--json", "-")
    run = msgspec.json.decode(said.out.encode())["runs"][0]
    found = answer(*args, "--by", "e2e_p90")
    assert found["present"]["value"] == run["latency"]["e2e_s"]["p90"]
    assert found["present"]["batch_mean"] == run["batch"]["mean"]
    assert found["seed"] == 4


def test_nothing_is_cut_where_there_are_many_columns(folder: Path) -> None:
    args = ("t.csv", "--max-len", 1500, "--kv-tokens", 2000, "--rate-scale", 5)
    said = pagedsim("whatif", *args, "--by", "normalized_mean", "--stack")
    assert said.code == 0, said.err
    assert max(map(len, said.out.splitlines())) <= 80
    assert "served" in said.out
    assert "…" not in said.out
    assert "GPUs" in pagedsim("whatif", "t.csv").out


def test_outstanding_requests_are_a_load_too(folder: Path) -> None:
    found = answer("t.csv", "--max-len", 4096, "--concurrency", 2, "--by", "batch")
    assert found["present"]["batch_mean"] <= 2


def test_several_processes_rank_alike(folder: Path) -> None:
    args = ("t.csv", "--max-len", 4096, "--by", "ttft_p50")
    assert answer(*args, "-j", 2) == answer(*args)


def test_what_cannot_be_is_refused(folder: Path) -> None:
    for args, words in (
        (("t.csv", "--by", "speed"), "--by speed: there is no such metric; there are batch"),
        (("t.csv", "--rate", 1, "--concurrency", 2), "contradict"),
        (("t.csv", "--model", "llama-3.1-70b"), "no room for KV"),
        (("t.csv", "--json", "t.csv"), "is the trace as well"),
        (("t.csv", "--figure", "x.png"), "no such option"),
        (("t.csv", "--allocator", "paged:block=0"), "block is 0"),
    ):
        said = refused("whatif", *args)
        assert words.lower() in said.lower(), (args, said)
