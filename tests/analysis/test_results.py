"""The result file: its exact fields, the same bytes every time, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from records import random_runs, recording, requests, three_steps

from pagedsim.analysis import results
from pagedsim.analysis.report import report, result
from pagedsim.analysis.seeds import over_seeds
from pagedsim.engine.recording import Recording, Status
from pagedsim.errors import InputError
from pagedsim.trace.trace import Trace

DEVICE = results.DeviceInfo(
    model="m", gpu="g", kv_bytes_per_token=131072, capacity_tokens=100, source="stated"
)


def _result() -> results.Result:
    run, trace = three_steps()
    about = results.Provenance(version="1", specs={"allocator": "paged", "block": 16}, seed=3)
    return result([report(run, trace, name="paged", provenance=about)], DEVICE, trace)


def test_the_fields_of_the_schema() -> None:
    found = json.loads(results.to_json(_result()))
    assert found["schema"] == "pagedsim.result/1"
    assert list(found["trace"])[:5] == [
        *("name", "requests", "prompt_tokens", "output_tokens", "sha256"),
    ]
    assert list(found["device"])[:4] == ["model", "gpu", "kv_bytes_per_token", "capacity_tokens"]
    (run,) = found["runs"]
    assert list(run)[:17] == [
        *("name", "capacity_tokens", "finished", "refused", "truncated", "dropped"),
        *("makespan_s", "memory", "batch", "binds", "preemptions", "preempted_requests"),
        *("recomputed_tokens", "prefix", "throughput", "latency", "provenance"),
    ]
    assert list(run["memory"]) == [
        *("live", "reserved", "internal", "external", "cached", "idle", "waste", "shared"),
        *("waste_of_held", "saved"),
    ]
    assert {"mean", "peak"} <= set(run["batch"])
    assert list(run["binds"]) == ["memory", "max_seqs", "budget", "arrivals"]
    assert {"prompt_tokens", "hit_tokens", "hit_rate"} <= set(run["prefix"])
    assert list(run["throughput"]) == ["requests_per_s", "output_tokens_per_s"]
    assert list(run["latency"]) == [
        *("queue_s", "ttft_s", "tpot_s", "e2e_s", "normalized_s_per_token"),
    ]
    assert all(list(part) == ["mean", "p50", "p90", "p99"] for part in run["latency"].values())
    assert run["provenance"]["scheduling"] == "synchronous scheduling"
    assert found["trace"]["prompt_tokens"] == 71


def test_bytes_are_the_same_every_time() -> None:
    first, second = results.to_json(_result()), results.to_json(_result())
    assert first == second
    assert first.startswith(b'{\n  "schema": "pagedsim.result/1",\n  "trace": {\n')
    assert first.endswith(b"}\n")


def test_where_nothing_finished_there_is_null_and_never_nan() -> None:
    trace = Trace.build("", [0], [99], [1])
    nothing = recording([], requests(arrival_ns=[0], status=[Status.REFUSED]))
    data = results.to_json(result([report(nothing, trace, name="")], DEVICE, trace))
    found = json.loads(data, parse_constant=lambda word: pytest.fail(word))
    assert found["runs"][0]["latency"]["ttft_s"] == dict.fromkeys(("mean", "p50", "p90", "p99"))
    assert results.from_json(data).runs[0].memory.live is None


@settings(max_examples=30)
@given(random_runs())
def test_what_is_written_is_read(made: tuple[Recording, Trace]) -> None:
    run = report(*made, name="random").run
    whole = result([over_seeds([run, run, run], [1, 2, 3]), run], DEVICE, made[1])
    data = results.to_json(whole)
    assert results.from_json(data) == whole
    assert results.to_json(results.from_json(data)) == data


def test_files(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "out.json"
    results.write(path, _result())
    assert results.read(path) == _result()
    assert [each.name for each in tmp_path.iterdir()] == ["out.json"]
    results.write("-", _result())
    assert capsysbinary.readouterr().out == path.read_bytes()
    with pytest.raises(InputError, match=r"gone\.json: cannot be read"):
        results.read(tmp_path / "gone.json")


def test_a_file_of_the_schemas_own_fields_is_enough() -> None:
    found = json.loads(results.to_json(_result()))
    known = list(msgspec.structs.fields(results.Run))
    for field in known:
        if not field.required:
            found["runs"][0].pop(field.name, None)  # some are of models with groups alone
    found["runs"][0]["added_later"] = 1
    read = results.from_json(json.dumps(found).encode())
    assert read.runs[0].memory == _result().runs[0].memory


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "f.json: is not JSON"),
        (b"{", "f.json: is not JSON"),
        (b'\xff"', "f.json: is not JSON"),
        (b"[]", "schema must be 'pagedsim.result/1', there is none"),
        (b'{"schema": "pagedsim.result/2"}', "it is 'pagedsim.result/2'"),
        (b'{"schema": "pagedsim.result/1"}', "f.json: Object missing required field `trace`"),
    ],
)
def test_what_is_no_result_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(InputError) as caught:
        results.from_json(data, "f.json")
    assert words in str(caught.value)


def test_a_field_of_the_wrong_kind_is_named() -> None:
    data = results.to_json(_result()).replace(b'"finished": 2', b'"finished": "two"')
    with pytest.raises(
        InputError, match=r"Expected `int`, got `str` - at `\$\.runs\[0\]\.finished`"
    ):
        results.from_json(data)
