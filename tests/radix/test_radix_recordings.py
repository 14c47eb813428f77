"""Every recorded run of SGLang is reproduced in every field; the first difference is reported."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pagedsim.analysis.verify import verify
from pagedsim.analysis.verify_sglang import Config, Driver, is_sglang
from pagedsim.cli import app
from pagedsim.errors import InputError
from pagedsim.trace import load

FOLDER = Path(__file__).resolve().parents[1] / "golden"
RECORDINGS = sorted((FOLDER / "sglang").glob("*.jsonl.gz"))
_REQUEST = """id prompt_len output_len hit evicted evict_calls oom available evictable protected
slots_crc slots_head slots_tail"""
_SUMMARY = """requests prompt_tokens hit_tokens evicted_tokens final_available final_evictable"""
FIELDS = {*_REQUEST.split(), *_SUMMARY.split()}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_there_are_five() -> None:
    assert len(RECORDINGS) == 5


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.split(".")[0])
def test_every_field_agrees(path: Path) -> None:
    outcome = verify(path)
    assert outcome.difference is None
    assert outcome.engine == "sglang 0.5.23"
    recorded = [line for line in lines(path) if line["kind"] != "header"]
    assert {key for line in recorded for key in line} - {"kind"} == set(outcome.fields) == FIELDS
    assert outcome.requests == sum(line["kind"] == "req" for line in recorded)


def edited(tmp_path: Path, edit: Any, *, source: Path = RECORDINGS[0]) -> Path:
    """A recording with its lines changed in place by `edit`, its trace beside it."""
    rows = lines(source)
    edit(rows)
    (tmp_path / "sglang").mkdir()
    name = source.name.split("__")[0]
    (tmp_path / f"trace_{name}.json").write_bytes((FOLDER / f"trace_{name}.json").read_bytes())
    path = tmp_path / "sglang" / source.name.removesuffix(".gz")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_a_difference_is_the_first_one(tmp_path: Path, field: str) -> None:
    def edit(rows: list[dict[str, Any]]) -> None:
        for row in rows[30:]:
            if field in row:
                row[field] = -1 if field != "slots_tail" else [0]

    difference = verify(edited(tmp_path, edit)).difference
    assert difference is not None
    assert difference.field == field
    assert difference.recorded == (-1 if field != "slots_tail" else [0])
    last = field in lines(RECORDINGS[0])[-1]
    assert difference.where == ("summary" if last else "request 29")


def test_the_command_reports_it_and_exits_with_one(tmp_path: Path) -> None:
    def edit(rows: list[dict[str, Any]]) -> None:
        rows[8]["hit"] += 1

    found = CliRunner().invoke(app, ["verify", str(edited(tmp_path, edit)), str(RECORDINGS[1])])
    assert found.exit_code == 1
    assert "first in request 7: hit" in found.output
    assert "1 of 2 recordings of sglang 0.5.23 differ" in found.output


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("need_sort", True, "a run with need_sort or disable cannot be replayed"),
        ("disable", True, "a run with need_sort or disable cannot be replayed"),
        ("page_size", 0, r"config: Expected `int` >= 1 - at `\$.page_size`"),
        ("concurrency", None, r"config: Expected `int`, got `null` - at `\$.concurrency`"),
        ("capacity", 8, "capacity is 8, must be >= 16 and <= 1073741824"),
        ("capacity", 10**12, "capacity is 1000000000000, must be >= 16 and <= 1073741824"),
        (
            "eviction_policy",
            "random",
            "eviction_policy is 'random', must be one of fifo, lfu, lru, mru, slru",
        ),
    ],
)
def test_what_cannot_be_replayed_says_why(
    tmp_path: Path, key: str, value: Any, message: str
) -> None:
    def edit(rows: list[dict[str, Any]]) -> None:
        rows[0]["config"][key] = value

    path = edited(tmp_path, edit)
    with pytest.raises(InputError, match=message) as caught:
        verify(path)
    assert str(path) in str(caught.value)


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    path = edited(tmp_path, lambda rows: None)
    path.write_text(path.read_text() + "{}\n")
    assert is_sglang(path)
    with pytest.raises(InputError, match=r"jsonl:63: not a line of a recording"):
        verify(path)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda rows: rows.insert(5, dict(rows[4])), "61 requests are recorded, exact60 has 60"),
        (lambda rows: rows.pop(5), "59 requests are recorded, exact60 has 60"),
        (lambda rows: rows.pop(), "no summary; not a whole recording of SGLang"),
        (lambda rows: rows.__delitem__(slice(1, -1)), "no requests; not a whole recording"),
        (lambda rows: rows[0].update(config=[]), "config: Expected `object`, got `array`"),
        (lambda rows: rows[0].pop("config"), "config: Object missing required field `capacity`"),
    ],
)
def test_a_recording_that_is_not_whole_is_refused(tmp_path: Path, edit: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        verify(edited(tmp_path, edit))


def test_a_pool_that_is_too_small_runs_out(tmp_path: Path) -> None:
    def edit(rows: list[dict[str, Any]]) -> None:
        rows[0]["config"]["capacity"] = 64

    difference = verify(edited(tmp_path, edit)).difference
    assert difference is not None
    assert (difference.where, difference.field) == ("request 0", "oom")
    assert (difference.ours, difference.recorded) == (True, False)


@pytest.mark.parametrize("policy", ["fifo", "lfu", "lru", "mru", "slru"])
@pytest.mark.parametrize("chunk", [0, 1, 7])
@pytest.mark.parametrize("page", [1, 4, 16])
def test_the_driver_ends_with_everything_free_or_stored(policy: str, chunk: int, page: int) -> None:
    config = Config(
        capacity=1200, page_size=page, concurrency=3, decode_chunk=chunk, eviction_policy=policy
    )
    trace = load(FOLDER / "trace_dup_salt40.json")
    driver = Driver(trace, config)
    for row in range(len(trace)):
        seq = driver.run(row)
        assert not seq.oom
        order = driver.slots(seq)
        assert len(set(order)) == len(order) == seq.prompt + seq.output - 1
    while driver.alive:
        driver.finish()
    assert driver.tree.protected == 0
    assert driver.tree.available + driver.tree.evictable == 1200


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"", False), (b"\x1f\x8b junk", False), (b'{"engine":"vllm"}\n', False), (b"[1]", False)],
)
def test_only_the_first_line_decides(tmp_path: Path, content: bytes, found: bool) -> None:
    path = tmp_path / "recording"
    path.write_bytes(content)
    assert is_sglang(path) is found
    assert not is_sglang(tmp_path / "nowhere")
