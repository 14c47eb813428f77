"""The exported timeline: JSON for a viewer, every nanosecond and slot of it accounted for."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pagedsim import Constant, Report, make_device, simulate
from pagedsim.analysis.results import TERMS
from pagedsim.present.perfetto import save
from pagedsim.trace import Trace

NASTY = '</script>"<img src=x>\\\n'
TRACE = Trace.build(
    "t",
    [10**6 * at for at in (5, 5, 5, 6, 7, 90, 400)],
    [9, 20, 14, 11, 30, 99, 8],
    [30, 25, 40, 1, 12, 5, 6],
)


@pytest.fixture(scope="module")
def runs() -> list[Report]:
    device = make_device("llama-3.1-8b", "a100-80gb", kv_tokens=112)
    setup: dict[str, Any] = {"device": device, "max_len": 80, "steptime": Constant(ms=1.000001)}
    made = [simulate(TRACE, spec, name=NASTY, **setup) for spec in ("paged:block=4", "slots:n=2")]
    assert made[0].run.preemptions > 1
    return made


@pytest.fixture(scope="module")
def found(runs: list[Report], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    path = tmp_path_factory.mktemp("perfetto") / "t.json"
    save(runs, path)
    told = json.loads(path.read_text(), parse_float=Decimal)
    assert set(told) == {"displayTimeUnit", "otherData", "traceEvents"}
    events: list[dict[str, Any]] = told["traceEvents"]
    return events


def of(found: list[dict[str, Any]], process: int, **fields: Any) -> list[dict[str, Any]]:
    wanted = {"pid": process, **fields}
    return [each for each in found if wanted.items() <= each.items()]


def tracks(found: list[dict[str, Any]], process: int) -> dict[str, int]:
    named = of(found, process, ph="M", name="thread_name")
    return {each["args"]["name"]: each["tid"] for each in named}


def ns(time: Decimal | int) -> int:
    exact = Decimal(time) * 1000
    assert exact == int(exact)
    return int(exact)


def test_every_process_is_a_run(found: list[dict[str, Any]]) -> None:
    names = [each["args"]["name"] for each in found if each["name"] == "process_name"]
    assert names == [NASTY, NASTY]
    assert {each["pid"] for each in found} == {1, 2}
    assert {each["ph"] for each in found} == {"M", "X", "C", "i"}


@pytest.mark.parametrize("process", [1, 2])
def test_steps_take_all_the_busy_time(
    runs: list[Report], found: list[dict[str, Any]], process: int
) -> None:
    report = runs[process - 1]
    steps = of(found, process, ph="X", tid=tracks(found, process)["steps"])
    assert sum(ns(each["dur"]) for each in steps) == report.busy_ns
    assert sum(each["args"]["steps"] for each in steps) == report.run.steps
    assert max(each["args"]["batch"] for each in steps) == report.batch.peak
    for one, other in pairwise(steps):
        assert ns(one["ts"]) + ns(one["dur"]) <= ns(other["ts"])
    assert any(each["name"].startswith("decode x ") for each in steps)
    prefills = [each for each in steps if each["args"]["prefills"]]
    assert all("prefill" in each["name"] for each in prefills)
    assert any(each["name"] == "prefill + decode" for each in prefills)


@pytest.mark.parametrize("process", [1, 2])
def test_requests_do_not_lie_over_each_other(
    runs: list[Report], found: list[dict[str, Any]], process: int
) -> None:
    ran = runs[process - 1].recording.requests
    lanes = {tid for name, tid in tracks(found, process).items() if name.startswith("requests")}
    ends: dict[int, int] = defaultdict(int)
    seen = []
    for each in found:
        if each["pid"] == process and each["ph"] == "X" and each["tid"] in lanes:
            begins, ends_at = ns(each["ts"]), ns(each["ts"]) + ns(each["dur"])
            if each["name"].startswith("request "):
                row = int(each["name"].split()[1])
                origin = 5 * 10**6
                assert (begins, ends_at) == (
                    ran.admitted_ns[row] - origin,
                    ran.finish_ns[row] - origin,
                )
                assert begins >= ends[each["tid"]]
                ends[each["tid"]] = ends_at
                seen.append(row)
            else:
                assert ends_at <= ends[each["tid"]]  # inside its request
    assert sorted(seen) == [row for row in range(7) if ran.admitted_ns[row] >= 0]
    alive = sorted(
        [(int(at), 1) for at in ran.admitted_ns if at >= 0]
        + [(int(at), -1) for at in ran.finish_ns if at >= 0]
    )
    most = now = 0
    for _, change in alive:
        now += change
        most = max(most, now)
    assert len(lanes) == most  # no more tracks than are needed


def test_preemptions_are_where_the_batch_shrinks(
    runs: list[Report], found: list[dict[str, Any]]
) -> None:
    instants = of(found, 1, ph="i")
    away, back = (
        sum(int(each["name"].split()[-1]) for each in instants if each["name"].startswith(word))
        for word in ("preempted", "came back")
    )
    assert away == runs[0].run.preemptions
    assert back == away  # all finished in the end
    assert of(found, 2, ph="i") == []


@pytest.mark.parametrize("process", [1, 2])
def test_counters_are_the_account(
    runs: list[Report], found: list[dict[str, Any]], process: int
) -> None:
    report = runs[process - 1]
    memory = of(found, process, ph="C", name="memory (slots)")
    for each in memory:
        assert tuple(each["args"]) == TERMS
        assert sum(each["args"].values()) == report.recording.capacity
    live = max(each["args"]["live"] for each in memory)
    assert live == round(report.memory_spread["live"].max * report.recording.capacity)
    times = [ns(each["ts"]) for each in memory]
    assert times == sorted(times)
    batch = of(found, process, ph="C", name="batch")
    assert max(each["args"]["running"] for each in batch) == report.batch.peak
    waiting = of(found, process, ph="C", name="queue")
    assert waiting[-1]["args"]["waiting"] == 0
    assert max(each["args"]["waiting"] for each in waiting) > 0


def test_compressed_it_says_the_same(runs: list[Report], tmp_path: Path) -> None:
    plain, packed, again = tmp_path / "a.json", tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    for path in (plain, packed, again):
        save(runs, path)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.read_bytes() == again.read_bytes()


def test_a_run_of_nothing(tmp_path: Path) -> None:
    empty = simulate(Trace.build("none", [0], [99], [1]), "paged", max_len=10)
    save([empty], tmp_path / "a.json")
    told = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    assert {each["ph"] for each in told} == {"M"}
