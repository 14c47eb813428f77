"""Recorded runs of vLLM: every field of every step, on both engines, with jumps and without.

And the comparison itself: whatever is changed in a recording is reported, at its very place.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from agreement import Fixed, assert_equal, expand

from pagedsim.analysis.recorded import read_recording
from pagedsim.analysis.recorded_pool import config_of, pool_of
from pagedsim.analysis.verify import verify
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Vllm
from pagedsim.errors import InputError
from pagedsim.trace import load

FOLDER = Path(__file__).resolve().parents[1] / "golden"
APC_OFF = sorted(path.name for path in (FOLDER / "vllm").glob("*__apc_off_*.jsonl.gz"))
SEQS4 = "uniq200_burst__apc_on_seqs4.jsonl.gz"  # no hits, no preemption
RECORDED = sorted(path.name for path in (FOLDER / "vllm").glob("*.jsonl.gz"))
SLIDING = [name for name in RECORDED if "sliding" in name]
TAMPERED = "uniq200__apc_off_tight.jsonl.gz"

ENGINES = ["fast", "reference"]
WALL = re.compile(r"^us_|_s$")  # wall-clock times of the recorded engine
NAMES = {"kind", "id", "prompt_len", "output_len"}  # say what a line is about


@cache
def lines(name: str) -> tuple[dict[str, Any], ...]:
    data = gzip.decompress((FOLDER / "vllm" / name).read_bytes())
    return tuple(json.loads(line) for line in data.splitlines())


def fields_of(name: str, kind: str) -> list[str]:
    """What the lines of a kind say, in the order in which they say it."""
    found = dict.fromkeys(f for line in lines(name) if line["kind"] == kind for f in line)
    return [field for field in found if field not in NAMES and not WALL.search(field)]


def trace_of(name: str) -> Path:
    stem = f"trace_{name.split('__')[0]}.json"
    return next(path for path in (FOLDER / stem, FOLDER / f"{stem}.gz") if path.exists())


def test_the_recordings_are_there() -> None:
    assert len(APC_OFF) == 5
    assert SEQS4 not in APC_OFF
    assert len(RECORDED) == 25
    assert len(SLIDING) == 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_agrees_in_every_field(name: str, engine: str) -> None:
    outcome = verify(FOLDER / "vllm" / name, engine=engine)
    assert outcome.difference is None
    recorded = lines(name)
    steps = [line for line in recorded if line["kind"] == "step"]
    assert outcome.steps == len(steps)
    assert outcome.requests == sum(line["kind"] == "req" for line in recorded)
    fields = {field for kind in ("step", "req", "summary") for field in fields_of(name, kind)}
    assert set(outcome.fields) == fields


@pytest.mark.parametrize("name", [*APC_OFF, SEQS4, *SLIDING])
def test_a_recording_agrees_with_jumps_on(name: str) -> None:
    """Without an observer, in as few windows as may be, the same is recorded."""
    header, *recorded = lines(name)
    config, recorded_run = header["config"], read_recording(FOLDER / "vllm" / name)
    runs = []
    for engine in (FastEngine, ReferenceEngine):
        made = engine(
            load(trace_of(name)),
            pool_of(recorded_run, config_of(recorded_run)),
            Vllm(
                max_seqs=config["max_num_seqs"],
                max_batched_tokens=config["max_num_batched_tokens"],
                chunked=config["enable_chunked_prefill"],
            ),
            Fixed(1),
            max_len=config["max_model_len"],
        )
        runs.append(made.run())
    fast, _ = runs
    assert_equal(*runs, Fixed(1).ns)
    steps = expand(fast, Fixed(1).ns)
    assert len(fast.windows) < len(steps)
    size = config["block_size"]
    ours = [(s["start_ns"], s["batch"], s["tokens"], s["held"] // size) for s in steps]
    theirs = [
        (line["step"], line["running"], line["tokens"], line["used"])
        for line in recorded
        if line["kind"] == "step"
    ]
    assert ours == theirs
    for line in recorded:
        if line["kind"] == "req":
            row, requests = line["id"], fast.requests
            assert requests.finish_ns[row] - 1 == line["finish_step"]
            assert requests.admitted_ns[row] == line["first_step"]
            assert requests.preemptions[row] == line["preempt"]


# What is changed in a recording.


def other(value: Any) -> Any:
    """`value`, with one thing changed in it."""
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return [*value[:-1], value[-1] + 1] if value else [7]
    key = next(iter(value), "7")
    return value | {key: other(value.get(key, 0))}


class Tamper:
    """Writes changed recordings of one run and says how each differs from a replay."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / TAMPERED.removesuffix(".gz")

    def difference(self, engine: str, change: Callable[[list[dict[str, Any]]], object]) -> Any:
        rows = [dict(row) for row in lines(TAMPERED)]
        change(rows)
        self.path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return verify(self.path, trace=trace_of(TAMPERED), engine=engine).difference


@pytest.fixture
def tamper(tmp_path: Path) -> Tamper:
    return Tamper(tmp_path)


def where(kind: str, at: int) -> int:
    """Index of the `at`-th line of a kind."""
    return [index for index, line in enumerate(lines(TAMPERED)) if line["kind"] == kind][at]


def first_with(field: str, at_least: int = 20) -> int:
    """A step that has something in a field, where there is one."""
    steps = [i for i, line in enumerate(lines(TAMPERED)) if line["kind"] == "step"][at_least:]
    return next((i for i in steps if lines(TAMPERED)[i].get(field)), steps[0])


@pytest.mark.parametrize("field", fields_of(TAMPERED, "step")[1:])
def test_a_changed_step_is_found_at_its_field(tamper: Tamper, field: str) -> None:
    index = first_with(field)
    original = lines(TAMPERED)[index]
    found = tamper.difference(
        "fast", lambda rows: rows[index].update({field: other(original[field])})
    )
    assert found.where == f"step {original['step']}"
    assert found.field == field
    assert (found.ours, found.recorded) == (original[field], other(original[field]))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("field", ["sched", "block_ids", "free_crc", "free_crc_after"])
def test_one_token_one_block_one_crc(tamper: Tamper, engine: str, field: str) -> None:
    """The same in a late step, on both engines."""
    index = first_with(field, 600)
    original = lines(TAMPERED)[index]
    found = tamper.difference(
        engine, lambda rows: rows[index].update({field: other(original[field])})
    )
    assert (found.where, found.field) == (f"step {original['step']}", field)
    assert (found.ours, found.recorded) == (original[field], other(original[field]))


@pytest.mark.parametrize("field", fields_of(TAMPERED, "req"))
def test_a_changed_request_is_found(tamper: Tamper, field: str) -> None:
    index = where("req", 123)
    original = lines(TAMPERED)[index]
    changed = other(original[field])
    found = tamper.difference("fast", lambda rows: rows[index].update({field: changed}))
    assert found == (f"request {original['id']}", field, original[field], changed)


@pytest.mark.parametrize("field", fields_of(TAMPERED, "summary"))
def test_a_changed_total_is_found(tamper: Tamper, field: str) -> None:
    index = where("summary", 0)
    value = lines(TAMPERED)[index][field]
    found = tamper.difference("fast", lambda rows: rows[index].update({field: value - 1}))
    assert found == ("summary", field, value, value - 1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("at", [0, 300, -1])
def test_a_dropped_step_is_found(tamper: Tamper, engine: str, at: int) -> None:
    index = where("step", at)
    step = lines(TAMPERED)[index]["step"]
    found = tamper.difference(engine, lambda rows: rows.pop(index))
    following = "no further step" if at == -1 else lines(TAMPERED)[index + 1]["step"]
    assert found == (f"step {step}", "step", step, following)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("at", [0, 300, -1])
def test_an_added_step_is_found(tamper: Tamper, engine: str, at: int) -> None:
    """A line that stands there twice: the second one is compared with the next step."""
    index = where("step", at)
    step = lines(TAMPERED)[index]["step"]
    found = tamper.difference(engine, lambda rows: rows.insert(index, rows[index]))
    if at == -1:
        assert found == ("end", "step", "no further step", step)
    else:
        following = lines(TAMPERED)[index + 1]["step"]
        assert found == (f"step {following}", "step", following, step)


def test_two_swapped_steps_are_found(tamper: Tamper) -> None:
    index = where("step", 77)

    def swap(rows: list[dict[str, Any]]) -> None:
        rows[index], rows[index + 1] = rows[index + 1], rows[index]

    step = lines(TAMPERED)[index]["step"]
    assert tamper.difference("fast", swap) == (f"step {step}", "step", step, step + 1)


def test_an_untouched_copy_agrees(tamper: Tamper) -> None:
    assert tamper.difference("fast", lambda rows: None) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[0]["config"].pop("num_gpu_blocks"), ":1: config: .*num_gpu_blocks"),
        (lambda rows: rows[0]["config"].update(block_size="x"), ":1: config: .*block_size"),
        (lambda rows: rows[-2].pop("id"), "its 200 request lines are not those of the trace's 200"),
        (lambda rows: rows[-2].update(id=999), "its 200 request lines are not those"),
        (lambda rows: rows.pop(-2), "its 199 request lines are not those of the trace's 200"),
        (lambda rows: rows[0].update(engine="other"), "'other' cannot be replayed"),
        (lambda rows: rows[0]["config"].update(groups=[{"type": "state"}]), ":1: config: group 0"),
        (lambda rows: rows[0]["config"].update(groups=[{"type": "sliding"}]), "window is whole"),
        (lambda rows: rows[0]["config"].update(async_scheduling=True), "asynchronous"),
    ],
)
def test_a_damaged_recording_is_refused(
    tamper: Tamper, change: Callable[[list[dict[str, Any]]], object], said: str
) -> None:
    def copied(rows: list[dict[str, Any]]) -> None:
        rows[0]["config"] = dict(rows[0]["config"])
        change(rows)

    with pytest.raises(InputError, match=said):
        tamper.difference("fast", copied)
