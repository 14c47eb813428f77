"""What users of real engines measured comes out, for one seed here and for five by the command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pagedsim.analysis.experiments import vllm_39734, vllm_44594, vllm_prints
from pagedsim.analysis.experiments.catalogue import FIELD, find
from pagedsim.analysis.experiments.experiment import Bench

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "paper.md").read_text(encoding="utf-8")
SETTINGS = vllm_44594.EXPERIMENT.settings


def test_preemptions_by_watermark() -> None:
    """All five seeds, and docs/paper.md's table of them."""
    outcome = vllm_44594.EXPERIMENT.run()
    assert outcome.missed == []
    for row, mark in zip(outcome.rows, vllm_44594.PUBLISHED, strict=True):
        assert row.hard
        assert row.ours is not None
        assert row.difference is not None
        allowed = (0.15 if mark < 5 else 0.3) * vllm_44594.PUBLISHED[mark]
        assert row.tolerance == pytest.approx(allowed)
        difference = f"{row.difference:+.0f}".replace("-", "−")
        cells = f"{mark} % | {row.published} | {row.ours:.0f} | {difference} | ± {allowed:.0f}"
        assert f"| {cells} |" in DOCS.splitlines()


def test_the_report_is_a_test_of_the_scheduler() -> None:
    """Without full-input reservation and with a smaller budget, preemptions are far too many."""
    from pagedsim.analysis.simulate import simulate
    from pagedsim.device.device import make_device

    run = simulate(
        vllm_44594.trace(0, SETTINGS),
        "paged:block=16",
        device=make_device("Qwen2.5-7B", "h100", kv_tokens=SETTINGS.kv_tokens),
        scheduler="vllm:max_seqs=256,max_batched_tokens=2048,full_input=0",
        steptime="constant:ms=20",
        max_len=SETTINGS.max_len,
        concurrency=128,
    ).run
    assert run.preemptions > 2 * vllm_44594.PUBLISHED[0]


def test_the_counts_do_not_depend_on_the_time_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(SETTINGS, requests=60, concurrency=30, kv_tokens=48_000, seeds=(3,))
    plain = vllm_44594.preemptions(0, 3, few)
    whole = vllm_44594.simulate
    monkeypatch.setattr(
        vllm_44594, "simulate", lambda *a, **k: whole(*a, **{**k, "steptime": "roofline"})
    )
    assert vllm_44594.preemptions(0, 3, few) == plain > 0


def test_lengths_are_as_reported() -> None:
    trace = vllm_44594.trace(0, replace(SETTINGS, requests=20_000))
    assert (trace.prompt.min(), trace.prompt.max()) == (800, 1_200)
    assert (trace.output.min(), trace.output.max()) == (4_000, 6_000)
    assert trace.prompt.mean() == pytest.approx(1_000, abs=5)
    assert trace.output.mean() == pytest.approx(5_000, abs=25)
    assert abs(np.corrcoef(trace.prompt, trace.output)[0, 1]) < 0.03


def test_what_was_printed() -> None:
    for name in ("vllm-24577", "vllm-10517", "vllm-40691"):
        outcome = find(name, FIELD).run()
        assert outcome.missed == []
        assert sum(row.hard for row in outcome.rows) >= 2
    refused = find("vllm-10517", FIELD).run()
    assert any("at length 29,000: the engine refuses to start" in note for note in refused.notes)


def test_a_block_less_is_noticed() -> None:
    [experiment] = [one for one in vllm_prints.EXPERIMENTS if one.name == "vllm-24577"]
    [pool] = experiment.settings
    fewer = pool._replace(blocks=pool.blocks - 1)
    missed = [row.name for row in vllm_prints.pools((fewer,), Bench()).rows if not row.holds]
    assert missed == ["69.66 GiB: tokens"]


def test_a_request_larger_than_the_pool_is_refused_and_nothing_hangs() -> None:
    found = {row.name: row.ours for row in vllm_39734.EXPERIMENT.run().rows}
    assert found == {
        "requests refused before the run": 1,
        "slots that it needs": 6_000 + 100 - 1,
        "slots that there are": 4_096 - 16,  # the null block
        "others that finish": 20,
        "requests that wait for ever": 0,
    }
