"""``pagedsim plan`` as it is typed: what it prints, writes and refuses; and its answer, confirmed.

The confirmation is by the command line alone: a plain `replay` at the rate that holds meets the
objective, one at the rate that fails, at most 5 % above, does not.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command import pagedsim, process, refused

SLO = "ttft_p90<160ms"
FAST = ("--max-len", "4096", "--max-seqs", "4")
AFFINE = "affine:base_ms=12,per_seq_ms=0.15,per_prefill_token_us=90,per_context_token_ns=60"


def plan(*args: object) -> dict[str, Any]:
    said = pagedsim("plan", *args, "--no-advice", "--json", "-")
    assert said.code == 0, said.err
    found: dict[str, Any] = msgspec.json.decode(said.out.encode())
    return found


def measured(trace: object, options: list[str], *args: object) -> dict[str, Any]:
    said = pagedsim("replay", trace, *args, *options, "--json", "-")
    assert said.code == 0, said.err
    run: dict[str, Any] = msgspec.json.decode(said.out.encode())["runs"][0]
    return run["latency"]


def confirmed(trace: object, slo: dict[str, float], *args: object) -> None:
    """`slo`: bound in s by ``field.statistic`` of a result's latency."""
    names = {"normalized_s_per_token": "normalized", "ttft_s": "ttft", "tpot_s": "tpot"}
    paths = {path: path.split(".") for path in slo}
    text = ", ".join(f"{names[m]}_{s}<{slo[f'{m}.{s}'] * 1000:g}ms" for m, s in paths.values())
    found = plan(trace, "--slo", text, *args)
    (answer,) = found["answers"]
    low, high = answer["passes"], answer["fails"]
    assert low["rate"] < high["rate"] <= 1.05 * low["rate"]
    for replay, holds in ((low, True), (high, False)):
        latency = measured(trace, replay["options"], *args)
        values = {path: latency[m][s] for path, (m, s) in paths.items()}
        assert list(values.values()) == replay["values"]
        assert all(values[path] < bound for path, bound in slo.items()) is holds
    assert answer["monotone"]


def test_the_answer_is_confirmed_by_replays() -> None:
    confirmed("chat", {"ttft_s.p90": 0.5, "tpot_s.p90": 0.06}, "--limit", 400, "--steptime", AFFINE)


def test_generated_arrivals_are_confirmed_too() -> None:
    args = ("--rate", 3, "--seed", 5, "--limit", 300, "--steptime", AFFINE)
    confirmed("code", {"normalized_s_per_token.mean": 0.3}, *args)


def test_on_a_public_trace_the_answer_is_confirmed_and_latency_rises_with_the_rate(
    shared: Path,
) -> None:
    trace = shared / "traces" / "azure-2023" / "AzureLLMInferenceTrace_conv.csv"
    args = ("--limit", 3000, "--steptime", AFFINE)
    confirmed(trace, {"normalized_s_per_token.mean": 0.1}, *args)
    rates = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
    curve = [
        measured(trace, ["--rate-scale", str(x)], *args)["normalized_s_per_token"]["mean"]
        for x in rates
    ]
    for slower, faster in itertools.pairwise(curve):
        assert faster >= 0.98 * slower, curve  # noise: other requests share a step
    assert curve[-1] > 3 * curve[0]


def test_the_table_fits_and_says_what_was_found(folder: Path) -> None:
    said = pagedsim("plan", "t.csv", "--slo", SLO, *FAST, "--price", 2)
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("t · 8 requests · recorded arrivals · 2.67/s")
    assert lines[1] == f"Holds: {SLO}"
    assert any(line.startswith("holds at ") and "--rate-scale" in line for line in lines)
    assert any(line.startswith("fails at ") for line in lines)
    assert "costs" in said.out


def test_many_candidates_fit_80_columns(folder: Path) -> None:
    said = pagedsim(
        "plan", "t.csv", "--slo", "ttft_p90<1s,tpot_p50<=30ms", "--model", "llama-3.1-8b",
        "--gpu", "a100-80gb", "--gpu", "h100", "--tp", 1, "--tp", 2, "--kv-dtype", "fp8",
        "--kv-dtype", "fp16", "--block-size", 16, "--block-size", 32, "--max-seqs", 4,
        "--price", 1.25, "--price", "H100=3", "--no-advice",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert max(map(len, said.out.splitlines())) <= 80
    assert "\n16 " in said.out
    assert "…" not in said.out.partition("\n\n1 ")[0]


def test_a_candidate_that_does_not_fit_is_said_and_the_others_are_found(folder: Path) -> None:
    args = ("--model", "llama-3.1-70b", "--gpu", "a100-80gb", "--tp", 1, "--tp", 4)
    found = plan("t.csv", "--slo", "ttft_p90<1s", *args)
    first, second = found["answers"]
    assert "no room for KV" in first["impossible"]
    assert second["impossible"] == ""
    said = pagedsim("plan", "t.csv", "--slo", "ttft_p90<1s", *args)
    assert "impossible: Llama-3.1-70B on A100-80GB-SXM" in said.out.replace("\n   ", " ")


def test_what_cannot_be_is_refused(folder: Path) -> None:
    slo = ("--slo", SLO)
    for args, words in (
        (("t.csv",), "Missing option '--slo'"),
        (("t.csv", "--slo", "ttft_p42<1s"), "'p42' is none; there are ttft_mean"),
        (("t.csv", "--slo", "ttft_p90<1us"), "with one request at a time, at any rate"),
        (("no.csv", *slo), "no.csv"),
        (("t.csv", *slo, "--tp", 1, "--tp", 1), "--tp 1 is given twice"),
        (("t.csv", *slo, "--gpu", "b52"), "b52"),
        (("t.csv", *slo, "--tolerance", "0"), "--tolerance is 0, must be"),
        (("t.csv", *slo, "--tolerance", "0.0001"), "must be a number >= 0.001"),
        (("t.csv", *slo, "--tolerance", "2"), "<= 1"),
        (("t.csv", *slo, "--price", "-1"), "--price is -1, must be a number > 0"),
        (("t.csv", *slo, "--price", "h100=1"), "no candidate's GPU"),
        (("t.csv", *slo, "--price", "1", "--price", "2"), "given twice"),
        (("t.csv", *slo, "--block-size", 32, "--allocator", "paged:block=16"), "both give"),
        (("t.csv", *slo, "--rate", 1, "--rate-scale", 2), "contradict"),
        (("t.csv", *slo, "--concurrency", 2), "no such option"),
        (("t.csv", *slo, "--json", "no/where.json"), "no folder"),
        (("t.csv", *slo, "--json", "t.csv"), "is the trace as well"),
        (("t.csv", *slo, "-j", 0), "must be a whole number >= 1"),
        (("chat", *slo, "--allocator", "paged", "--allocator", "pagd"), "did you mean paged?"),
        (("t.csv", *slo, "--find", "peace"), "must be rate or kv-tokens or max-len or gpus or b"),
        (("t.csv", *slo, "--find", "batch", "--price", 1), "no rate to divide it by"),
        (("t.csv", *slo, "--find", "batch", "--closed-loop"), "contradict"),
        (("t.csv", "--slo", "tpot_p50<1us", "--find", "gpus"), "on any number of servers"),
        (("t.csv", "--slo", "tpot_p50<1us", "--find", "batch"), "with one request at a time"),
    ):
        said = refused("plan", *args)
        assert words.lower() in said.lower(), (args, said)


def test_several_impossible_candidates_are_each_named(folder: Path) -> None:
    args = ("--slo", "ttft_p90<100us", "--max-seqs", 1, "--max-seqs", 2, "--steptime", AFFINE)
    said = refused("plan", "t.csv", *args)
    assert "at any rate" in said


PRESS = """
import os, signal

class Press:
    '''A step-time model that presses Ctrl-C, which every process of the terminal gets.'''

    def __init__(self, after):
        self.left = after

    def ns(self, load):
        self.left -= 1
        if self.left == 0:
            os.killpg(0, signal.SIGINT)
        return 10**7
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_ends_it_at_once(folder: Path, jobs: int) -> None:
    Path("press.py").write_text(PRESS)
    many = [word for n in range(1, 9) for word in ("--max-seqs", str(n))]
    args = ("plan", "chat", "--slo", SLO, *many, "-j", str(jobs), "--json", "out.json")
    part = ("--steptime", "press:Press?after=3000")
    with process(*args, *part, start_new_session=True) as ran:
        out, err = ran.communicate(timeout=90)
    assert (ran.returncode, out) == (130, b"")
    assert err.decode().strip().splitlines()[-1] == "interrupted"
    assert not Path("out.json").exists()


def test_the_figure_has_axes_a_bound_and_more_rates(folder: Path) -> None:
    args = ("t.csv", "--slo", "ttft_p90<160ms, tpot_p90<1s", *FAST)
    bare = plan(*args)["answers"][0]
    drawn = plan(*args, "--figure", "out.svg")["answers"][0]
    assert bare["found"] == drawn["found"]
    assert {r["at"] for r in bare["replays"]} < {r["at"] for r in drawn["replays"]}
    svg = Path("out.svg").read_text()
    assert svg.count("ttft_p90<160ms") + svg.count("ttft_p90&lt;160ms") == 1
    assert "tpot_p90, s" in svg
    assert refused("plan", *args, "--figure", "out.bmp")


def test_the_legend_says_what_the_numbers_are(folder: Path) -> None:
    args = (
        "t.csv",
        "--slo",
        "ttft_p90<160ms",
        "--max-len",
        4096,
        "--no-advice",
        "--figure",
        "out.svg",
    )
    plan(
        *args,
        "--max-seqs",
        4,
        "--max-seqs",
        2048,
        "--max-batched-tokens",
        4096,
        "--tp",
        1,
        "--tp",
        2,
    )
    svg = Path("out.svg").read_text()
    for words in ("tp 1 · max seqs 4", "tp 2 · max seqs 2,048"):
        assert words in svg
    assert "token budget" not in svg  # the same for all


@pytest.mark.parametrize(
    ("find", "slo", "heading"),
    [
        ("kv-tokens", "ttft_p90<200ms", "KV tokens"),
        ("max-len", "ttft_p90<200ms", "max length"),
        ("batch", "ttft_p90<200ms", "requests"),
    ],
)
def test_what_is_found_is_confirmed_by_replays(
    folder: Path, find: str, slo: str, heading: str
) -> None:
    args = ("--max-len", 3000, "--steptime", AFFINE)
    (answer,) = plan("t.csv", "--slo", slo, "--find", find, *args)["answers"]
    assert answer["found"] == answer["passes"]["at"]
    for replay, holds in ((answer["passes"], True), (answer["fails"], False)):
        if replay is None:
            assert answer["unlimited"]
            continue
        latency = measured("t.csv", replay["options"], *args)
        assert [latency["ttft_s"]["p90"]] == replay["values"]
        assert (latency["ttft_s"]["p90"] < 0.2) is holds or replay["refused"]
    said = pagedsim("plan", "t.csv", "--slo", slo, "--find", find, *args)
    assert said.code == 0
    assert heading in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    assert f"{int(answer['found']):,}" in said.out


def test_servers_are_found_and_drawn(folder: Path) -> None:
    args = ("--slo", "ttft_p90<140ms", "--find", "gpus", "--rate-scale", 8, "--steptime", AFFINE)
    said = pagedsim("plan", "t.csv", *args, "--max-len", 3000, "--figure", "out.png")
    assert said.code == 0, said.err
    assert "servers" in said.out
    (answer,) = plan("t.csv", *args, "--max-len", 3000)["answers"]
    for replay, holds in ((answer["passes"], True), (answer["fails"], False)):
        latency = measured("t.csv", replay["options"], "--max-len", 3000, "--steptime", AFFINE)
        assert (latency["ttft_s"]["p90"] < 0.14) is holds
        assert replay["values"] == [latency["ttft_s"]["p90"]]
    assert "fails at 1 server:" in said.out
    assert Path("out.png").stat().st_size > 10_000


def test_the_change_that_gives_the_most_is_named(folder: Path) -> None:
    args = ("t.csv", "--slo", "ttft_p90<600ms", "--max-len", 2000, "--kv-tokens", 2000)
    said = pagedsim("plan", *args)
    assert said.code == 0, said.err
    assert "changes KV in" in said.out
    without = pagedsim("plan", *args, "--no-advice")
    assert "changes" not in without.out


def test_lengths_without_arrivals_can_be_kept_outstanding(folder: Path) -> None:
    Path("l.csv").write_text("prompt_tokens,output_tokens\n100,20\n300,30\n50,60\n200,10\n")
    said = refused("plan", "l.csv", "--slo", SLO)
    assert "give --rate R" in said
    found = plan("l.csv", "--slo", "ttft_p90<1s", "--find", "batch", "--max-len", 2000)
    assert found["wanted_rate"] is None
    assert found["answers"][0]["found"] == 4
