"""vllm#44594: preemptions by watermark, long outputs on one large card.

A real test of the scheduler: 128 requests outstanding, outputs five times their prompts, so that a
batch outgrows the pool again and again. Which step is which does not depend on how long steps take,
because the next request is sent as one finishes; any step time gives the same counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pagedsim.analysis.experiments.experiment import Bench, Experiment, Found, Row, over
from pagedsim.analysis.simulate import simulate
from pagedsim.device.device import make_device
from pagedsim.trace.draws import stream
from pagedsim.trace.trace import Trace

PUBLISHED = {0: 1065, 2: 400, 5: 187, 10: 168, 15: 168}  # watermark in % -> preemptions
TOLERANCES = {0: 15, 2: 15, 5: 30, 10: 30, 15: 30}  # in %


@dataclass(frozen=True, kw_only=True)
class Settings:
    """As reported; the seeds are ours. Lengths are uniform, ends included."""

    model: str = "Qwen2.5-7B"
    kv_tokens: int = 299_584
    requests: int = 450
    concurrency: int = 128
    prompt: tuple[int, int] = (800, 1_200)
    output: tuple[int, int] = (4_000, 6_000)
    max_seqs: int = 256
    max_batched_tokens: int = 8_192
    max_len: int = 32_768
    watermarks: tuple[int, ...] = tuple(PUBLISHED)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


def trace(seed: int, settings: Settings) -> Trace:
    """The requests; arrivals are the load generator's."""
    rng = stream(seed)
    prompt, output = (
        low + np.floor((high - low + 1) * rng.random(settings.requests)).astype(np.int64)
        for low, high in (settings.prompt, settings.output)
    )
    return Trace.build("vllm-44594", np.zeros(settings.requests, np.int64), prompt, output)


def preemptions(watermark: int, seed: int, settings: Settings) -> int:
    """Of one run under a watermark of so many %. Two seconds at most."""
    run = simulate(
        trace(seed, settings),
        "paged:block=16",
        device=make_device(settings.model, "h100", kv_tokens=settings.kv_tokens),
        scheduler=f"vllm:max_seqs={settings.max_seqs},"
        f"max_batched_tokens={settings.max_batched_tokens},watermark={watermark / 100}",
        steptime="constant:ms=20",
        max_len=settings.max_len,
        concurrency=settings.concurrency,
        seed=seed,
    ).run
    return run.preemptions


def measure(settings: Settings, bench: Bench) -> Found:
    """Each watermark once a seed."""
    seeds = settings.seeds
    cases = [(mark, seed, settings) for mark in settings.watermarks for seed in seeds]
    found = bench.map(preemptions, cases)
    rows: list[Row] = []
    for at, mark in enumerate(settings.watermarks):
        row = over(
            found[at * len(seeds) : (at + 1) * len(seeds)],
            name=f"preemptions at watermark {mark} %",
            published=PUBLISHED[mark],
            tolerance=TOLERANCES[mark] / 100 * PUBLISHED[mark],
            digits=0,
        )
        rows.append(row)
    return Found(rows)


EXPERIMENT = Experiment(
    name="vllm-44594",
    title="Preemptions by watermark: 128 outstanding, outputs of 5,000",
    source="vllm-project/vllm issue 44594",
    settings=Settings(),
    quick=replace(Settings(), seeds=(0,)),
    measure=measure,
    minutes=0.1,
    notes=(
        "The report's own requests are not at hand: lengths are drawn, uniform within its 20 %. "
        "The report does not say a maximum length; 32,768 is assumed, and none reaches it.",
    ),
)

__all__ = ["EXPERIMENT", "PUBLISHED", "TOLERANCES", "Settings", "measure", "preemptions", "trace"]
