"""`pagedsim verify`: exit codes, and a line a recording."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import msgspec
import pytest
from command import pagedsim, refused
from rich.cells import cell_len

from pagedsim.analysis.verify import verify

pytestmark = pytest.mark.usefixtures("folder")
NAME = "uniq200_burst__apc_off_nochunk.jsonl.gz"


@pytest.fixture
def recording(golden: Path, folder: Path) -> Path:
    """A recording with its trace beside it."""
    (folder / "vllm").mkdir()
    shutil.copy(golden / "trace_uniq200_burst.json", folder)
    shutil.copy(golden / "vllm" / NAME, folder / "vllm")
    return Path("vllm") / NAME


def _changed(recording: Path, field: str, value: object) -> str:
    """A copy of the recording in which a field of its tenth step is another."""
    lines = gzip.decompress(recording.read_bytes()).splitlines()
    row = msgspec.json.decode(lines[10])
    assert row[field] != value
    lines[10] = msgspec.json.encode({**row, field: value})
    path = recording.with_name("uniq200_burst__other.jsonl")
    path.write_bytes(b"\n".join(lines))
    return str(path)


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_agreement_is_0_and_a_line(recording: Path, engine: str) -> None:
    said = pagedsim("verify", recording, "--engine", engine)
    assert said.code == 0
    lines = [line.rstrip() for line in said.out.splitlines()]
    assert lines == [
        "         recording                        steps  requests  fields",
        "agrees   uniq200_burst__apc_off_nochunk     600       200      39",
        "",
        "1 recording of vllm 0.33.0: every recorded field agrees at every step",
    ]


@pytest.mark.parametrize(
    "name", ["vllm/exact60__apc_on_fullhit", "sglang/exact60__unified_rust_ps1_c1"]
)
def test_it_says_how_far_it_is(golden: Path, name: str) -> None:
    told: list[tuple[int, int]] = []
    outcome = verify(
        golden / f"{name}.jsonl.gz", progress=lambda done, total: told.append((done, total))
    )
    assert outcome.difference is None
    assert told == sorted(told)
    assert {total for _, total in told} == {60}
    assert told[-1][0] >= 59


def test_a_difference_is_1_and_both_sides(recording: Path) -> None:
    other = _changed(recording, "free", 7)
    said = pagedsim("verify", recording, other)
    assert said.code == 1
    lines = [line.rstrip() for line in said.out.splitlines()]
    assert lines[1].startswith("agrees   uniq200_burst__apc_off_nochunk ")
    assert lines[2].startswith("DIFFERS  uniq200_burst__other ")
    assert lines[3].strip().startswith("first in step 9: free")
    assert lines[4].split()[0] == "pagedsim"
    assert lines[5].split() == ["vllm", "0.33.0", "7"]
    assert lines[-1] == "1 of 2 recordings of vllm 0.33.0 differ"


def test_of_a_mapping_only_what_differs_is_shown(recording: Path) -> None:
    other = _changed(recording, "sched", {str(at): at for at in range(500)})
    said = pagedsim("verify", other)
    assert said.code == 1
    assert max(map(cell_len, said.out.splitlines())) <= 80


def test_json(recording: Path, folder: Path) -> None:
    other = _changed(recording, "free", 7)
    said = pagedsim("verify", recording, other, "--json", "-")
    assert said.code == 1
    found = msgspec.json.decode(said.out)
    assert list(found) == ["schema", "recordings"]
    good, bad = found["recordings"]
    assert (good["agrees"], good["difference"], good["steps"]) == (True, None, 600)
    assert bad["agrees"] is False
    assert bad["difference"]["where"] == "step 9"
    assert bad["difference"]["recorded"] == 7
    assert pagedsim("verify", recording, "--json", "v.json").out.startswith("         recording")
    assert msgspec.json.decode((folder / "v.json").read_bytes())["recordings"] == [good]
    assert refused("verify", other, "--json", other).endswith("give another name")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_recording_is_a_line_at_any_width(recording: Path, width: int) -> None:
    long = recording.with_name("uniq200_burst__" + "long_" * 20 + ".jsonl.gz")
    shutil.copy(recording, long)
    said = pagedsim("verify", long, width=width)
    lines = said.out.splitlines()
    assert lines[1].startswith("agrees   uniq200_burst__")
    assert lines[1].endswith("39")
    assert all(cell_len(line) <= width for line in lines[:2])


def test_what_is_no_recording_is_2(recording: Path, folder: Path) -> None:
    assert refused("verify", "nosuch").startswith("error: nosuch: cannot be read")
    assert refused("verify", ".").startswith("error: .: cannot be read")
    assert refused("verify", "t.csv").startswith("error: t.csv:1: not a line of a recording")
    assert "must be fast or reference" in refused("verify", recording, "--engine", "slow")
    assert refused("verify", recording, "--trace", "nosuch.csv").startswith(
        "error: nosuch.csv: no such file, and no trace of that name; there are: "
    )
    (folder / "trace_uniq200_burst.json").unlink()
    assert "is not beside it; give it with --trace" in refused("verify", recording)
