"""``paged:groups=…``, KV formats by layer and ``--truncate`` on the command line."""

from __future__ import annotations

from typing import Any

import pytest
from command import pagedsim, refused, results

pytestmark = pytest.mark.usefixtures("folder")

_SHORT = ("chat", "--limit", 25, "--steptime", "constant:ms=20", "--max-len", 8192)
_GEMMA = ("--model", "gemma-3-27b", "--gpu", "h100", "--kv-cache-memory-bytes", 4 << 30)
_OSS = ("--model", "gpt-oss-20b", "--gpu", "h100", "--kv-cache-memory-bytes", 1 << 30)


def test_a_mixed_model_is_compared_with_groups_and_without() -> None:
    runs = results("compare", *_SHORT, *_GEMMA)["runs"]
    assert [run["name"] for run in runs] == [
        "contiguous:place=buddy,reserve=max",
        "paged:block=16,groups=full",
        "paged:block=16,groups=on",
    ]
    assert ["padding" in run["memory"] for run in runs] == [False, True, True]
    assert runs[1]["memory"]["outside"] > 10 * runs[2]["memory"]["outside"]
    said = pagedsim("compare", *_SHORT[:3], *_SHORT[5:], *_GEMMA).out
    assert "~ outside" in said
    notes = " ".join(said.split())
    for once in (
        "52 of 62 layers use a sliding window of 1,024 tokens",
        "Step times count all layers as full attention",
        "Without groups of layers a pool counts every token's KV for all 62 layers",
    ):
        assert notes.count(once) == 1
    assert max(map(len, said.splitlines())) <= 80


def test_one_run_shows_eight_terms() -> None:
    said = pagedsim("replay", *_SHORT, *_GEMMA, "--allocator", "paged:groups=on", "--check").out
    assert "lost by narrow groups' blocks" in said
    assert "tokens no layer will read again" in said


def test_what_is_counted_as_full_attention_is_said_of_what_counts_it() -> None:
    """A pool with groups counts no layer so, and step times that are given read none."""
    facts = {}
    for groups in ("on", "off"):
        for steptime in ("roofline", "constant:ms=9"):
            given = ("--allocator", f"paged:groups={groups}", "--steptime", steptime)
            run = results("replay", "chat", "--limit", 9, *_GEMMA, *given)["runs"][0]
            facts[groups, steptime[:5]] = run["provenance"]["estimates"][-3:]
    layers = "52 of 62 layers use a sliding window of 1,024 tokens"
    steps = "Step times count all layers as full attention"
    pool = "Without groups of layers a pool counts every token's KV for all 62 layers"
    assert facts["on", "roofl"][-2:] == [layers, steps]
    assert facts["on", "const"][-1:] == [layers]
    assert facts["off", "roofl"] == [layers, steps, pool]
    assert facts["off", "const"][-2:] == [layers, pool]


def test_samples_share_the_blocks_of_all_groups() -> None:
    given = ("--allocator", "paged:groups=on", "--samples", 3, "--check")
    run = results("replay", *_SHORT, *_GEMMA, *given)["runs"][0]
    assert run["samples"] == 75
    assert run["memory"]["saved"] > 0.1
    small = ("--kv-cache-memory-bytes", 300 << 20, "--max-len", 500, "--truncate", "last:200")
    run = results("replay", *_SHORT[:-2], *_GEMMA[:-2], *small, *given[:2], "--samples", 8)["runs"][
        0
    ]
    tokens = {(one["value"], one["bound"]) for one in run["refused_requests"]}
    assert {bound for _, bound in tokens} == {run["capacity_tokens"]}
    assert all(bound < value < 8 * 500 for value, bound in tokens)  # in tokens, not in bytes


def test_layers_with_a_format_of_their_own() -> None:
    fp8 = (*_SHORT, *_OSS, "--kv-dtype", "fp8", "--allocator", "paged:groups=on")
    plain, kept = (
        results("replay", *fp8, *more)["runs"][0]
        for more in ((), ("--kv-dtype-skip-layers", "sliding_window"))
    )
    ratio = plain["capacity_tokens"] / kept["capacity_tokens"]
    assert ratio == pytest.approx(1.5, rel=1e-3)  # half of the layers are twice as wide
    said = refused("replay", *_SHORT, *_OSS, "--kv-dtype-skip-layers", "sliding_window")
    assert "give --allocator paged:groups=on" in said
    said = refused("replay", *fp8, "--kv-dtype-skip-layers", "99")
    assert "has no layer '99'" in said
    assert "keeps no KV as int4" in refused("replay", *fp8, "--kv-dtype", "int4")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--truncate", "first:9"), "truncate is 'first:9', must be last:N or middle:N"),
        (("--truncate", "last:0"), "N must be >= 1"),
        (("--allocator", "paged:groups=some"), "groups is some, must be on, full or off"),
    ],
)
def test_what_is_refused(more: Any, said: str) -> None:
    assert said in refused("replay", *_SHORT, *_GEMMA, *more)


def test_truncation_is_said() -> None:
    whole, cut = (
        results("replay", *_SHORT, "--kv-tokens", 60_000, *more)
        for more in ((), ("--truncate", "last:500"))
    )
    assert whole["trace"]["notes"] == []
    (note,) = cut["trace"]["notes"]
    assert note.startswith("truncate last:500: ")
    assert cut["trace"]["prompt_tokens"] < whole["trace"]["prompt_tokens"]
    assert cut["runs"][0]["finished"] == 25
