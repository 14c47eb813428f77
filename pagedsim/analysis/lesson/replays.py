"""Contiguous beside paged, replayed: the runs among which the lesson's last controls choose.

One pool, and requests that arrive at equal distances. What changes is the maximum length (how much
a contiguous server reserves for each), how far output lengths spread around one mean, and the size
of a block. Lengths are quantiles of a lognormal distribution in a fixed order: nothing is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from pagedsim.analysis.outline import outline
from pagedsim.analysis.report import Report
from pagedsim.analysis.results import TERMS
from pagedsim.analysis.simulate import Setup, run
from pagedsim.device.device import make_device
from pagedsim.trace.trace import Trace

POOL = 16_384  # tokens
REQUESTS = 200
GAP_NS = 30_000_000  # between arrivals
PROMPT, OUTPUT = 96, 120  # tokens, means
MAX_LENS = (1024, 2048, 4096)
SPREADS = (0.0, 0.4, 0.8)  # sigma of the logarithm of an output's length
BLOCKS = (1, 16, 64, 256)
BINS = 40
MODEL, CARD = "llama-3.1-8b", "a100-80gb"  # whose roofline times the steps
_STRIDE = 47  # coprime to REQUESTS: an order in which long and short ones are mixed


@dataclass(frozen=True, slots=True)
class Series:
    """The account over time, in slots, thinned; the six terms add up to the pool."""

    at_ns: list[int]
    terms: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Replay:
    """One run. `block` is 0 for contiguous; shares are of the pool, over time."""

    max_len: int
    spread: float
    block: int
    allocator: str
    memory: dict[str, float]
    waste: float
    waste_of_held: float
    batch_mean: float
    batch_peak: int
    makespan_s: float
    ttft_s: float
    preemptions: int
    series: Series


@dataclass(frozen=True, slots=True)
class Replays:
    """All of them, and what they have in common; times are a roofline's, an estimate."""

    model: str
    card: str
    pool: int
    requests: int
    gap_ns: int
    max_lens: list[int]
    spreads: list[float]
    blocks: list[int]
    outputs: dict[str, list[int]]
    runs: list[Replay]


def trace(spread: float) -> Trace:
    """The requests. The longest of any spread stays below the least maximum length."""
    normal = NormalDist()
    prompts, outputs = [], []
    for at in range(REQUESTS):
        place = (at * _STRIDE % REQUESTS + 0.5) / REQUESTS
        output = OUTPUT * math.exp(spread * normal.inv_cdf(place) - spread**2 / 2)
        outputs.append(max(1, round(output)))
        prompts.append(PROMPT // 2 + at * 7 % (PROMPT + 1))
    return Trace.build(f"spread {spread}", np.arange(REQUESTS) * GAP_NS, prompts, outputs)


def replays(progress: Callable[[int, int], None] | None = None) -> Replays:
    """Every combination; `progress(done, of)` after each run."""
    device = make_device(MODEL, CARD, kv_tokens=POOL)
    plan = [(m, s, b) for m in MAX_LENS for s in SPREADS for b in (0, *BLOCKS)]
    found = []
    for done, (max_len, spread, block) in enumerate(plan, 1):
        spec = f"paged:block={block},null=0" if block else "contiguous:place=first,reserve=max"
        report = run(trace(spread), spec, Setup(device=device, max_len=max_len).resolved())
        found.append(_replay(report, max_len, spread, block))
        if progress is not None:
            progress(done, len(plan))
    return Replays(
        model=device.model.name,
        card=device.gpu.name,
        pool=POOL,
        requests=REQUESTS,
        gap_ns=GAP_NS,
        max_lens=list(MAX_LENS),
        spreads=list(SPREADS),
        blocks=list(BLOCKS),
        outputs={str(spread): sorted(trace(spread).output.tolist()) for spread in SPREADS},
        runs=found,
    )


def _replay(report: Report, max_len: int, spread: float, block: int) -> Replay:
    made, thinned = report.run, outline(report.recording, BINS)
    memory = {term: getattr(made.memory, term) for term in TERMS}
    assert made.finished == REQUESTS
    assert made.memory.waste is not None
    assert made.batch.mean is not None
    assert made.memory.waste_of_held is not None
    assert made.makespan_s is not None
    assert made.latency.ttft_s.mean is not None
    terms = {term: thinned.column(term).tolist() for term in TERMS}
    return Replay(
        max_len=max_len,
        spread=spread,
        block=block,
        allocator=report.name,
        memory=memory,
        waste=made.memory.waste,
        waste_of_held=made.memory.waste_of_held,
        batch_mean=made.batch.mean,
        batch_peak=made.batch.peak,
        makespan_s=made.makespan_s,
        ttft_s=made.latency.ttft_s.mean,
        preemptions=made.preemptions,
        series=Series(thinned.at_ns.tolist(), terms),
    )


__all__ = ["BLOCKS", "MAX_LENS", "SPREADS", "Replay", "Replays", "Series", "replays", "trace"]
