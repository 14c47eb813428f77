"""The set-up that the PagedAttention paper's experiments share: systems, load, one hour of it.

Source: Kwon et al., "Efficient Memory Management for Large Language Model Serving with
PagedAttention", SOSP 2023, arXiv 2309.06180: Fig 11 (lengths), Fig 1 right (time of a step, by
batch), Table 1 (slots: 12 GB of KV memory of OPT-13B, read as GiB, are 15,728), section 6.1
(baselines and load). Values of figures are read off their vector graphics.

Words: a *system* is an allocator and a scheduler the paper measured; `Settings` is everything
else; *shares* are the five numbers of a system in Fig 2 and Fig 13. Averages over time are over the
hour of arrivals::

    0 s          3,600 s                              the drain, left out
    |/////////////|-------------------------------->
    arrivals       the queue that is left runs empty
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from pagedsim.analysis.report import Report
from pagedsim.analysis.simulate import simulate
from pagedsim.device.device import Device, make_device
from pagedsim.engine.recording import BLOCKED
from pagedsim.trace.arrivalmodels import Poisson
from pagedsim.trace.lengthmodels import Histogram, Quantiles
from pagedsim.trace.make import make
from pagedsim.trace.recipe import Recipe, checked
from pagedsim.trace.trace import Trace

SOURCE = "Kwon et al., PagedAttention, SOSP 2023, arXiv 2309.06180"
SEEDS = (0, 1, 2, 3, 4)
_DATA = Path(__file__).parents[1] / "data"


class Shares(NamedTuple):
    """Time-weighted means: shares of the KV slots in %, which add up to 100, and a batch."""

    token: float
    reservation: float
    internal: float
    external: float  # the paper's 'external & others': external, cached and idle
    batch: float  # running sequences


@dataclass(frozen=True, kw_only=True)
class System:
    """What the paper measured."""

    name: str
    allocator: str
    scheduler: str = "orca"


# At most 7 sequences at once: what 15,728 slots hold of 2,048.
FASTER = System(
    name="FasterTransformer", allocator="contiguous:place=buddy,reserve=max", scheduler="static"
)
MAX = System(name="Orca (Max)", allocator="contiguous:place=buddy,reserve=max")
POW2 = System(name="Orca (Pow2)", allocator="contiguous:place=buddy,reserve=pow2")
ORACLE = System(name="Orca (Oracle)", allocator="contiguous:place=buddy,reserve=exact")
VLLM = System(
    name="vLLM",
    allocator="paged:block=16,null=0",
    scheduler="orca:max_seqs=256,max_prompt_tokens=2560,watermark=0.01",
)
SYSTEMS = (MAX, POW2, ORACLE, VLLM)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything but the system. The step time is a fit of Fig 1 right, used for prompts too.

    `lengths` are of "sharegpt" or "alpaca": independent of each other, uniform within a bin of
    Fig 11; a pair above `max_len` is drawn again. `filtered` draws under the released benchmark's
    filter too: prompts of 4 to 1,024 tokens, outputs of at least 4. `rate` is in requests/s,
    Poisson.
    """

    model: str = "OPT-13B"
    gpu: str = "A100-40GB"
    tp: int = 1
    slots: int = 15_728
    max_len: int = 2_048
    steptime: str = "affine:base_ms=26.24,per_seq_ms=0.419"
    lengths: str = "sharegpt"
    rate: float = 2.0
    seconds: int = 3_600
    filtered: bool = False
    seeds: tuple[int, ...] = SEEDS


PAPER = Settings()


def trace(seed: int, settings: Settings = PAPER) -> Trace:
    """The requests of one hour."""
    prompt, output = (lengths(settings.lengths, column) for column in ("input", "output"))
    recipe = Recipe(
        name=f"{settings.lengths}-fig11",
        arrivals=Poisson(rate=settings.rate),
        prompt=cut(prompt, 4, 1_024) if settings.filtered else prompt,
        output=cut(output, 4) if settings.filtered else output,
        seconds=settings.seconds,
        max_total=settings.max_len,
    )
    return make(checked(recipe, folder=_DATA), seed=seed)


def device_of(settings: Settings) -> Device:
    """The model on its GPUs, with the slots of Table 1."""
    return make_device(settings.model, settings.gpu, tp=settings.tp, kv_tokens=settings.slots)


def replay(
    system: System, seed: int, settings: Settings = PAPER, requests: Trace | None = None
) -> Report:
    """One run, averaged over the hour that starts with the clock, not with the first arrival.

    `requests` are those of the hour, by default `trace`'s.
    """
    requests = trace(seed, settings) if requests is None else requests
    until_ns = settings.seconds * 10**9 - int(requests.arrival_ns[0])
    return simulate(
        requests,
        system.allocator,
        name=system.name,
        device=device_of(settings),
        scheduler=system.scheduler,
        steptime=settings.steptime,
        max_len=settings.max_len,
        window=(0.0, until_ns / 10**9),
        seed=seed,
    )


def shares(run: Report) -> Shares:
    """The five numbers of one run."""
    memory, batch = run.memory, run.batch.mean
    parts = (memory.live, memory.reserved, memory.internal)
    others = (memory.external, memory.cached, memory.idle)
    token, reservation, internal = (100 * (share or 0.0) for share in parts)
    external = 100 * sum(share or 0.0 for share in others)
    return Shares(token, reservation, internal, external, batch or 0.0)


def measured(system: System, seed: int, settings: Settings) -> Shares:
    """The five numbers of one run, as a bench runs it. About a second."""
    return shares(replay(system, seed, settings))


def blocked(system: System, seed: int, settings: Settings) -> tuple[float, float] | None:
    """Batch, and % of slots in 'external & others', over the steps with a blocked head.

    Each step counts once. None where no head was blocked.
    """
    run = replay(system, seed, settings)
    steps = run.column("limit") >= BLOCKED
    if not steps.any():
        return None
    others = run.column("external") + run.column("cached") + run.column("idle")
    share = 100 * float(others[steps].mean()) / settings.slots
    return float(run.column("batch")[steps].mean()), share


def cut(histogram: Histogram, least: int, most: int | None = None) -> Quantiles:
    """`histogram` drawn again until it rounds to `least` … `most`, in closed form.

    A histogram is a distribution function of straight lines between the edges of its bins; what
    is left of it is too::

        lo   |  edges     |   hi
        -----|--+--+--+---|-----       between the bars: 0 to 100 percent
          least - ½   most + ½
    """
    edges = np.linspace(histogram.lo, histogram.hi, len(histogram.density) + 1)
    upto = np.concatenate(([0.0], np.cumsum(histogram.density)))
    low = max(least - 0.5, histogram.lo)
    high = histogram.hi if most is None else min(most + 0.5, histogram.hi)
    values = np.unique(np.concatenate(([low, high], edges)).clip(low, high))
    below = np.interp(values, edges, upto)
    percents = 100 * (below - below[0]) / (below[-1] - below[0])
    return Quantiles(percents=percents.tolist(), values=values.tolist())


def lengths(dataset: str, column: str) -> Histogram:
    """Fig 11: "sharegpt" or "alpaca", "input" or "output"."""
    table = msgspec.json.decode((_DATA / f"{dataset}_lengths.json").read_bytes())[column]
    return Histogram(**table)


__all__ = [
    "FASTER",
    "MAX",
    "ORACLE",
    "PAPER",
    "POW2",
    "SEEDS",
    "SOURCE",
    "SYSTEMS",
    "VLLM",
    "Settings",
    "Shares",
    "System",
    "blocked",
    "cut",
    "device_of",
    "lengths",
    "measured",
    "replay",
    "shares",
    "trace",
]
