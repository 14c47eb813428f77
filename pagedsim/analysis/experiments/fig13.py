"""Fig 13: how many requests run at once, OPT-13B on ShareGPT at 2 requests/s.

vLLM's number is soft: it keeps up with 2 requests/s, so its batch is arrivals times time in the
system and follows from the time of a step. With prompts priced it comes to the published one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pagedsim.analysis.experiments import opt
from pagedsim.analysis.experiments.experiment import Bench, Experiment, Found, Row, over
from pagedsim.analysis.experiments.opt import (
    MAX,
    PAPER,
    SOURCE,
    SYSTEMS,
    VLLM,
    Settings,
    Shares,
    System,
)

PERCENT = 3.0  # how far a batch may be off, in %
PUBLISHED = {"Orca (Max)": 7.00, "Orca (Pow2)": 9.81, "Orca (Oracle)": 13.62, "vLLM": 30.42}
# 2 · 13e9 FLOPs a prompt token at half of an A100's 312 TFLOP/s: an assumption
PROMPTS_US = 166.7


def priced(settings: Settings) -> Settings:
    """The same with a price for prompt tokens, which the fit of Fig 1 does not have."""
    return replace(settings, steptime=f"{settings.steptime},per_prefill_token_us={PROMPTS_US}")


def row(system: System, runs: Sequence[Shares], *, label: str = "", note: str = "") -> Row:
    """The batch of `system` over one or more runs, beside the paper's."""
    published = PUBLISHED[system.name]
    return over(
        [run.batch for run in runs],
        name=f"{label or system.name}: mean batch",
        published=published,
        tolerance=None if system is VLLM else PERCENT / 100 * published,
        note=note,
    )


def measure(settings: Settings, bench: Bench) -> Found:
    """Each system once a seed, and vLLM with prompts priced."""
    cases = [(system, seed, settings) for system in SYSTEMS for seed in settings.seeds]
    cases += [(VLLM, seed, priced(settings)) for seed in settings.seeds]
    runs = bench.map(opt.measured, cases)
    each = len(settings.seeds)
    parts = [runs[at : at + each] for at in range(0, len(runs), each)]
    soft = "below saturation; Fig 1's fit has no price for the tokens of a prompt"
    rows = [
        row(system, part, note=soft if system is VLLM else "")
        for system, part in zip(SYSTEMS, parts, strict=False)
    ]
    why = f"an assumption: {PROMPTS_US} us a prompt token, half of an A100's peak"
    rows.append(row(VLLM, parts[-1], label="vLLM, prompts priced", note=why))
    full = bench.map(opt.blocked, [(MAX, seed, settings) for seed in settings.seeds])
    batches = [run[0] for run in full if run is not None]
    most: dict[str, Any] = {
        "name": f"{MAX.name}, head blocked: batch",
        "published": PUBLISHED[MAX.name],
        "tolerance": 0.0,
        "note": "15,728 // 2,048: the same in every such step",
    }
    rows.append(over(batches, **most) if len(batches) == len(full) else Row(ours=None, **most))
    return Found(rows)


EXPERIMENT = Experiment(
    name="fig13",
    title="Requests running at once: OPT-13B, ShareGPT, 2 requests/s",
    source=f"{SOURCE}: Fig 13",
    settings=PAPER,
    quick=replace(PAPER, seconds=300, seeds=(0,)),
    measure=measure,
    minutes=0.5,
)

__all__ = ["EXPERIMENT", "PERCENT", "PROMPTS_US", "PUBLISHED", "measure", "priced", "row"]
