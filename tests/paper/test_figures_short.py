"""Crossings, loads and arithmetic of the longer experiments, with settings of seconds."""

from __future__ import annotations

import gzip
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagedsim.analysis.experiments import (
    alpaca,
    fig2,
    fig11,
    fig12,
    fig13,
    fig16,
    fig17,
    fig18b,
    jenga,
    mooncake,
    opt,
)
from pagedsim.analysis.experiments.crossing import (
    ROUNDS,
    SPAN,
    Case,
    crossings,
    latency,
    of_curve,
)
from pagedsim.analysis.experiments.experiment import Bench, Experiment, Row
from pagedsim.analysis.experiments.opt import MAX, ORACLE, PAPER, SYSTEMS, VLLM, Settings, System
from pagedsim.device.device import make_device

SHORT = replace(PAPER, seconds=60, seeds=(0,))


def explained(rows: list[Row]) -> bool:
    """Whoever has a published number holds it within a tolerance or says why it differs."""
    return all(row.hard or row.note for row in rows if row.published is not None)


@pytest.mark.parametrize("module", [fig2, fig13], ids=["fig2", "fig13"])
def test_soft_rows_of_fig_2_and_13_are_explained(module: Any) -> None:
    found = module.measure(replace(PAPER, seconds=5, seeds=(0,)), Bench())
    assert explained(found.rows)
    assert sum(not row.hard for row in found.rows) > 1


def test_orca_max_is_exact_while_the_head_is_blocked() -> None:
    part = replace(PAPER, seconds=300)
    assert opt.blocked(MAX, 2, part) == (7.0, pytest.approx(100 * 1_392 / 15_728))
    assert opt.blocked(MAX, 2, replace(part, rate=0.01, seconds=600)) is None
    rows = [module.measure(replace(part, seeds=(2,)), Bench()).rows[-1] for module in (fig2, fig13)]
    assert all(row.hard and row.holds and "head blocked" in row.name for row in rows)


# Lengths.


def test_the_mean_of_a_histogram_bar_by_bar() -> None:
    bars = opt.lengths("alpaca", "output")
    width = (1470 - 1) / 128
    total = sum(count * (1 + width * (at + 0.5)) for at, count in enumerate(bars.density))
    assert fig11.mean("alpaca", "output") == pytest.approx(total / sum(bars.density))
    assert sum(opt.lengths("alpaca", "input").density) == 51_996


@pytest.mark.parametrize("column", ["prompt", "output"])
def test_alpaca_is_drawn_from_its_histogram(column: str) -> None:
    made = opt.trace(0, replace(PAPER, lengths="alpaca", rate=50.0, seconds=1_000))
    drawn = getattr(made, column)
    whole = fig11.mean("alpaca", "input" if column == "prompt" else "output")
    assert drawn.mean() == pytest.approx(whole, abs=5 * drawn.std() / len(made) ** 0.5 + 0.1)


# Crossings.


def linear(system: System, seed: int, settings: Settings) -> float:
    """0.5 s a token at 2 requests/s of seed 0, at 3 of seed 1."""
    return 0.25 * settings.rate if seed == 0 else 0.5 / 3 * settings.rate


def test_a_crossing_is_found_within_its_bracket() -> None:
    cases = [Case(VLLM, seed, PAPER, guess) for seed in (0, 1) for guess in (0.9, 2.0, 5.0)]
    found = crossings(Bench(), cases, measured=linear)
    width = SPAN ** (2 / 2**ROUNDS)
    for case, rate in zip(cases, found, strict=True):
        true = 2.0 if case.seed == 0 else 3.0
        inside = true / SPAN < case.guess < true * SPAN
        assert inside == (rate is not None)
        assert rate is None or 1 / width <= rate / true <= width
    assert found.count(None) == 1
    far = [Case(VLLM, 0, PAPER, guess) for guess in (0.1, 60.0)]
    assert crossings(Bench(), far, measured=linear) == [None, None]


def test_another_threshold_is_another_rate() -> None:
    [low] = crossings(Bench(), [Case(VLLM, 0, PAPER, 1.0)], 0.25, linear)
    assert low == pytest.approx(1.0, rel=0.01)


def test_a_curve_is_read_on_the_line_between_two_points() -> None:
    curve = ((1.0, 0.1), (2.0, 0.3), (3.0, 0.7), (4.0, 0.2))
    assert of_curve(curve) == 2.5
    assert of_curve(curve, 0.7) == 3.0
    with pytest.raises(ValueError, match="does not pass 0\\.9"):
        of_curve(curve, 0.9)


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("FasterTransformer", 0.231),
        ("Orca (Max)", 0.525),
        ("Orca (Pow2)", 0.774),
        ("Orca (Oracle)", 1.10),
        ("vLLM", 1.93),
    ],
)
def test_published_crossings_of_fig_12(name: str, rate: float) -> None:
    assert of_curve(fig12.CURVES[name]) == pytest.approx(rate, abs=0.005)


def test_latency_is_a_mean_over_all_requests_of_the_hour() -> None:
    run = opt.replay(ORACLE, 0, SHORT)
    rows = run.recording.requests
    each = (rows.finish_ns - rows.arrival_ns) / 1e9 / run.trace.output
    assert latency(ORACLE, 0, SHORT) == pytest.approx(math.fsum(each) / len(each))


# Fig 12: one seed of the hour, and the order of the systems in it.


def test_the_systems_keep_their_order() -> None:
    """Well past the rate at which one passes 0.5 s a token, the next better one is below it."""
    part = replace(PAPER, seconds=1_800)
    for system, better in ((MAX, ORACLE), (ORACLE, VLLM)):
        rate = 1.8 * of_curve(fig12.CURVES[system.name])
        load = replace(part, rate=rate)
        assert latency(system, 0, load) > 0.5 > latency(better, 0, load)


@pytest.mark.parametrize("one", fig12.EXPERIMENTS[1:3], ids=lambda one: one.name)
def test_step_times_of_larger_models_are_scaled(one: Experiment) -> None:
    load = one.settings.load
    assert fig12.scaled(load.model, load.gpu, load.tp) == load.steptime


def test_the_scaled_step_time_by_hand() -> None:
    # OPT-66B: four GPUs of the same bandwidth hold 131.4 / 4 of 25.7 GB, 2,359,296 / 4 of 819,200 B
    base, per = (float(part.split("=")[1]) for part in _parts("OPT-66B", "A100-40GB", 4))
    assert base == pytest.approx(26.24 * 131.42 / 4 / 25.70, rel=0.002)
    assert per == pytest.approx(0.419 * 2_359_296 / 4 / 819_200, abs=0.0005)
    # the same model is itself
    assert fig12.scaled("OPT-13B", "A100-40GB", 1) == "affine:base_ms=26.24,per_seq_ms=0.419"
    # it is no less than the time in which weights can be read
    device = make_device("OPT-175B", "A100-80GB", tp=8, kv_tokens=16)
    base = float(_parts("OPT-175B", "A100-80GB", 8)[0].split("=")[1])
    assert base > 1000 * device.weights_bytes_rank / device.gpu.bandwidth


def _parts(model: str, gpu: str, tp: int) -> list[str]:
    return fig12.scaled(model, gpu, tp).removeprefix("affine:").split(",")


def test_a_short_fig_12_has_every_row() -> None:
    load = replace(fig12.EXPERIMENTS[0].settings, load=SHORT, prompts=False)
    found = fig12.measure(load, Bench())
    names = [row.name for row in found.rows]
    assert len(names) == len(set(names)) == 9
    assert not any(row.hard for row in found.rows)
    assert {row.published is not None for row in found.rows} == {True}
    assert explained(found.rows)
    other = replace(fig12.EXPERIMENTS[3].settings, load=replace(SHORT, lengths="alpaca"))
    assert fig12._published(other.load) == {}


def test_what_was_published_of_opt_175b() -> None:
    load = fig12.EXPERIMENTS[2].settings.load
    assert fig12._published_ratio(load, "Orca (Oracle)", {}) == 1.47
    assert fig12._published_ratio(load, "Orca (Max)", {}) is None
    assert fig12._published_ratio(PAPER, "Orca (Oracle)", {}) is None
    known = {"vLLM": 3.0, "Orca (Max)": 2.0}
    assert fig12._published_ratio(PAPER, "Orca (Max)", known) == 1.5


def test_alpaca_has_shares_and_a_batch() -> None:
    found = alpaca.measure(replace(alpaca.EXPERIMENT.quick, seconds=10), Bench())
    assert len(found.rows) == 4 * 5
    assert {row.published for row in found.rows} == {None}
    for at in range(4):
        shares = [row.ours for row in found.rows[5 * at : 5 * at + 4] if row.ours is not None]
        assert sum(shares) == pytest.approx(100)


# Fig 13's price, Fig 18b's blocks.


def test_the_price_of_a_prompt_token() -> None:
    flops, peak = 2 * 13e9, 312e12
    assert pytest.approx(flops / (peak / 2) * 1e6, abs=0.05) == fig13.PROMPTS_US


def test_larger_blocks_are_never_quicker() -> None:
    """Allocation alone: at one rate latency rises with the size of a block."""
    full = replace(PAPER, seconds=300, rate=3.0)
    sizes = [replace(VLLM, allocator=f"paged:block={block},null=0") for block in (1, 16, 128, 256)]
    found = [latency(system, 0, full) for system in sizes]
    assert found == sorted(found)
    assert found[-1] > 1.5 * found[1]


def test_a_short_fig_18b() -> None:
    found = fig18b.measure(fig18b.Blocks(load=replace(SHORT, seconds=20), guess=4.0), Bench())
    assert [row.published for row in found.rows[1:10]] == list(fig18b.PUBLISHED["sharegpt"])
    assert not any(row.hard for row in found.rows)
    assert explained(found.rows)


# Fig 16: a shared prefix.


@pytest.mark.parametrize(("prefix", "blocks"), [(80, 5), (341, 21)])
def test_the_full_blocks_of_a_prefix_are_hit(prefix: int, blocks: int) -> None:
    load = replace(fig16.EXPERIMENT.settings[0], prefix=prefix, seconds=30)
    made = fig16.trace(0, load)
    run = opt.replay(fig16.SHARED, 0, load, made)
    hits = run.recording.requests.hit
    assert hits[0] == 0  # the first one computes it
    later = hits[run.recording.requests.admitted_ns > run.recording.requests.first_token_ns[0]]
    assert len(later) > 50
    assert (later >= 16 * blocks).all()
    # more than that is chance: sentences have tokens of their own
    assert (later == 16 * blocks).all()


def test_sharing_saves_slots_and_time() -> None:
    load = replace(fig16.EXPERIMENT.settings[1], seconds=30, rate=9.0)
    plain, shared = (fig16.latency(system, 0, load) for system in fig16.SYSTEMS[1:])
    assert shared < plain
    hit, slots = fig16.saved(0, load)
    assert 60 < hit < 100
    assert 30 < slots < 100


# Fig 17: conversations.


def test_a_conversation_is_cut_to_its_end() -> None:
    chat = fig17.Chat(seconds=1_000, rate=2.0)
    made = fig17.trace(0, chat)
    assert made.prompt.max() == 1_024
    assert made.output.max() == 1_024
    assert (made.prompt + made.output).max() <= 2_048
    assert abs(len(made) - 2_000) < 5 * 2_000**0.5
    alone = fig17.trace(0, replace(chat, rounds=0.0))
    assert alone.prompt.mean() < 0.3 * made.prompt.mean()
    assert np.array_equal(made.prompt, fig17.trace(0, chat).prompt)
    # without a cut a prompt is its rounds and one query: 4 · (161 + 338) + 161
    whole = fig17.trace(0, replace(chat, last=10**6, max_len=2 * 10**6, seconds=4_000))
    assert whole.prompt.mean() == pytest.approx(4 * (161.4 + 338.0) + 161.4, rel=0.05)


def test_a_conversation_that_is_cut_is_never_found_again() -> None:
    whole, cut = fig17.found_again(0, fig17.Chat(), conversations=40)
    assert cut == 0.0
    # what is missed of a whole one is its newest query, its last token and the rest of a block
    assert 50 < whole < 100
    uncut = fig17.Chat(last=10**6, most=50, max_len=2 * 10**6)
    assert fig17.found_again(0, uncut, conversations=10)[0] > whole


def test_a_buddy_gives_every_orca_2048_slots_for_a_long_prompt() -> None:
    """So the three Orcas run at most 7 such sequences, whatever they reserve for."""
    chat = fig17.Chat(seconds=60, rate=3.0, rounds=60.0)
    made = fig17.trace(0, chat)
    assert (made.prompt == 1_024).mean() > 0.9
    rows = np.flatnonzero((made.prompt == 1_024) & (made.output > 1))
    for system in SYSTEMS[:3]:
        run = opt.replay(system, 0, chat, made.take(rows))
        assert run.batch.peak == 7


def test_the_printed_claim_of_chat_is_judged_by_the_curves() -> None:
    found = fig17.measure(fig17.Chat(seconds=30, seeds=(0,)), Bench())
    assert explained(found.rows)
    [claim] = found.claims
    assert not claim.follows
    assert claim.figures == "1.40 to 1.66x at 0.1 to 1 s/token"  # 1.43 at 0.9
    ratio = of_curve(fig17.CURVES["vLLM"]) / of_curve(fig17.CURVES["Orca (Max)"])
    assert ratio == pytest.approx(1.54, abs=0.01)


# Arithmetic.


def test_the_waste_of_windows() -> None:
    assert jenga.waste(0.5, 100, 100) == 0
    assert jenga.waste(0.5, 100, 50) == 0
    assert jenga.waste(0.5, 100, 400) == 0.375
    assert jenga.length_for(0.5, 100, 0.375) == 400
    assert jenga.length_for(0.5, 100, 0.5) is None
    # layer by layer, token by token
    layers, window, length = ("w", "w", "f"), 4, 10
    kept = sum(min(length, window) if layer == "w" else length for layer in layers)
    assert jenga.waste(2 / 3, window, length) == pytest.approx(1 - kept / (3 * length))


def test_an_engine_without_groups_holds_what_no_window_reaches() -> None:
    short = replace(jenga.Settings(), requests=8)
    without, with_groups = (
        jenga.held_outside("Gemma-3-27B", mode, short) for mode in ("full", "on")
    )
    assert 60 < without < 84  # of 52 of 62 layers
    assert 0 <= with_groups < 1
    assert jenga.held_outside("Ministral-8B", "on", short) < 1


def test_mooncake(shared: Path) -> None:
    path = shared / "traces" / "mooncake" / "conversation_trace.jsonl"
    bench = Bench(traces={"mooncake-conversation": str(path)})
    outcome = mooncake.EXPERIMENT.run(bench)
    assert outcome.missed == []
    assert sum(row.hard for row in outcome.rows) == 10
    assert outcome.notes == ()


def test_a_trace_with_a_request_less_misses(shared: Path, tmp_path: Path) -> None:
    path = shared / "traces" / "mooncake" / "conversation_trace.jsonl"
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b"\n".join(path.read_bytes().splitlines()[:-400])))
    outcome = mooncake.EXPERIMENT.run(Bench(traces={"mooncake-conversation": str(cut)}))
    assert len(outcome.missed) > 3
    assert any("another trace" in note for note in outcome.notes)
