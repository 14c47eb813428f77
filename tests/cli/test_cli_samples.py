"""``--samples`` and ``--beam``: counted, shared, written and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from command import pagedsim, refused, results

from pagedsim.trace import load
from pagedsim.trace.samples import with_beams
from pagedsim.trace.store import write

pytestmark = pytest.mark.usefixtures("folder")

_SHORT = ("chat", "--limit", 40, "--steptime", "constant:ms=20", "--kv-tokens", 60_000)


def _run(*more: object) -> dict[str, Any]:
    (run,) = results("replay", *_SHORT, *more)["runs"]
    return dict(run)


def test_samples_are_counted_and_share() -> None:
    one, four = _run(), _run("--samples", 4)
    assert (one["finished"], one["samples"], one["memory"]["saved"]) == (40, 40, 0.0)
    assert (four["finished"], four["samples"]) == (40, 160)
    assert 0 < four["memory"]["saved"] < 0.75
    ratio = four["throughput"]["output_tokens_per_s"] * four["makespan_s"]
    plain = one["throughput"]["output_tokens_per_s"] * one["makespan_s"]
    assert ratio == pytest.approx(4 * plain)
    said = pagedsim("replay", *_SHORT, "--samples", 4)
    assert "40 requests (160 samples) in" in said.out
    assert "% less is held" in said.out


@pytest.mark.parametrize("more", [("--samples", 3), ("--beam", 3, "--beam-death", 0.2)], ids=str)
@pytest.mark.parametrize("allocator", ["paged", "paged:prefix=on"])
def test_both_engines_say_the_same(more: tuple[object, ...], allocator: str) -> None:
    runs = [
        _run(*more, "--allocator", allocator, "--limit", 8, "--engine", name)
        for name in ("fast", "reference")
    ]
    for run in runs:
        del run["provenance"]
    assert runs[0] == runs[1]
    assert runs[0]["samples"] == 24


def test_beams_share_more_and_follow_the_seed() -> None:
    beams = [_run("--beam", 4, "--seed", seed) for seed in (1, 1, 2)]
    assert beams[0]["memory"] == beams[1]["memory"] != beams[2]["memory"]
    assert beams[0]["memory"]["saved"] > _run("--samples", 4)["memory"]["saved"]
    assert beams[0]["provenance"]["seed"] == 1


def test_recorded_beams_replay_as_they_were_drawn(folder: Path) -> None:
    """A trace file keeps who is dropped for whom."""
    trace = with_beams(load("chat").head(40), 4, seed=1)
    for name in ("b.jsonl", "b.parquet"):
        write(trace, folder / name)
        (run,) = results("replay", name, *_SHORT[3:], "--requests", "r.parquet")["runs"]
        assert run["memory"] == _run("--beam", 4, "--seed", 1)["memory"]
        rows = pl.read_parquet("r.parquet")
        assert rows["samples"].to_list() == [4] * 40
        assert rows["generated"].to_list() == (4 * trace.output).tolist()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--samples", 2, "--beam", 2), "--samples and --beam contradict each other: give one"),
        (("--beam-death", 0.5), "--beam-death is 0.5, but there is no --beam"),
        (("--samples", 0), "--samples is 0, must be a whole number >= 1"),
        (("--beam", 2, "--beam-death", 2), "--beam-death is 2, must be a number > 0 and <= 1"),
        (("--samples", 9, "--max-seqs", 8), "9 samples, but max_seqs is 8"),
        (("--samples", 2, "--allocator", "radix"), "Radix cannot fork a sequence: use paged"),
    ],
)
def test_what_cannot_be(more: tuple[object, ...], says: str) -> None:
    assert says in refused("replay", *_SHORT, *more)
