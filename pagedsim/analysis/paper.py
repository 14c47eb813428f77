"""PagedAttention's Fig 2 and Fig 13, once more: where OPT-13B's KV memory goes on ShareGPT.

Source: Kwon et al., "Efficient Memory Management for Large Language Model Serving with
PagedAttention", SOSP 2023, arXiv 2309.06180. Fig 2 (shares of the KV slots), Fig 13 (mean batched
requests at 2 requests/s), Fig 11 (lengths), Fig 1 right (time of a step, by batch), Table 1 (12 GB
of KV memory, read as GiB: 15,728 slots), section 6.1 (baselines and load). Values of figures are
read off their vector graphics.

Words: a *system* is an allocator and a scheduler the paper measured; `Settings` is everything
else; *figures* are the five numbers of a system. Averages are over the hour of arrivals::

    0 s          3,600 s                              the drain, left out
    |/////////////|-------------------------------->
    arrivals       the queue that is left runs empty
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from pagedsim.analysis.report import Report
from pagedsim.analysis.results import Interval
from pagedsim.analysis.seeds import interval
from pagedsim.analysis.simulate import simulate
from pagedsim.device.device import make_device
from pagedsim.trace.lengthmodels import Histogram, Quantiles
from pagedsim.trace.make import make
from pagedsim.trace.recipe import Poisson, Recipe, checked
from pagedsim.trace.trace import Trace

SEEDS = (0, 1, 2, 3, 4)
POINTS = 2.5  # how far a share may be from Fig 2, in points
PERCENT = 3.0  # how far a batch may be from Fig 13, in % of it
_DATA = Path(__file__).parent / "data"


class Figures(NamedTuple):
    """Time-weighted means: shares of the KV slots in %, which add up to 100, and a batch."""

    token: float
    reservation: float
    internal: float
    external: float  # the paper's 'external & others': external, cached and idle
    batch: float  # running sequences


@dataclass(frozen=True, kw_only=True)
class System:
    """One bar of Fig 2. `hard`: a replay must come to `published`, within POINTS and PERCENT."""

    name: str
    allocator: str
    scheduler: str = "orca"
    published: Figures
    hard: bool = True


MAX = System(
    name="Orca (Max)",
    allocator="contiguous:place=buddy,reserve=max",
    published=Figures(20.410, 13.349, 57.298, 8.943, 7.00),
)
POW2 = System(
    name="Orca (Pow2)",
    allocator="contiguous:place=buddy,reserve=pow2",
    published=Figures(26.849, 17.883, 13.646, 41.622, 9.81),
)
ORACLE = System(
    name="Orca (Oracle)",
    allocator="contiguous:place=buddy,reserve=exact",
    published=Figures(38.198, 25.243, 0.0, 36.559, 13.62),
)
VLLM = System(
    name="vLLM",
    allocator="paged:block=16,null=0",
    scheduler="orca:max_seqs=256,max_prompt_tokens=2560,watermark=0.01",
    published=Figures(96.264, 1.045, 1.044, 1.647, 30.42),
    hard=False,  # below saturation its batch follows from the time of a step: docs/paper.md
)
SYSTEMS = (MAX, POW2, ORACLE, VLLM)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything but the system. The step time is a fit of Fig 1 right, used for prompts too.

    Lengths are independent of each other and uniform within a bin of Fig 11; a pair above
    `max_len` is drawn again. `filtered` draws under the released benchmark's filter too: prompts
    of 4 to 1,024 tokens, outputs of at least 4.
    """

    model: str = "OPT-13B"
    gpu: str = "A100-40GB"
    slots: int = 15_728
    max_len: int = 2_048
    steptime: str = "affine:base_ms=26.24,per_seq_ms=0.419"
    rate: float = 2.0  # requests/s, Poisson
    seconds: int = 3_600
    filtered: bool = False


PAPER = Settings()


def trace(seed: int, settings: Settings = PAPER) -> Trace:
    """The requests of one hour."""
    prompt, output = _lengths("input"), _lengths("output")
    recipe = Recipe(
        name="sharegpt-fig11",
        arrivals=Poisson(rate=settings.rate),
        prompt=cut(prompt, 4, 1_024) if settings.filtered else prompt,
        output=cut(output, 4) if settings.filtered else output,
        seconds=settings.seconds,
        max_total=settings.max_len,
    )
    return make(checked(recipe, folder=_DATA), seed=seed)


def replay(system: System, seed: int, settings: Settings = PAPER) -> Report:
    """One run, averaged over the hour that starts with the clock, not with the first arrival."""
    requests = trace(seed, settings)
    until_ns = settings.seconds * 10**9 - int(requests.arrival_ns[0])
    return simulate(
        requests,
        system.allocator,
        name=system.name,
        device=make_device(settings.model, settings.gpu, kv_tokens=settings.slots),
        scheduler=system.scheduler,
        steptime=settings.steptime,
        max_len=settings.max_len,
        window=(0.0, until_ns / 10**9),
        seed=seed,
    )


def figures(run: Report) -> Figures:
    """The five numbers of one run."""
    memory, batch = run.memory, run.batch.mean
    shares = (memory.live, memory.reserved, memory.internal)
    others = (memory.external, memory.cached, memory.idle)
    token, reservation, internal = (100 * (share or 0.0) for share in shares)
    external = 100 * sum(share or 0.0 for share in others)
    return Figures(token, reservation, internal, external, batch or 0.0)


class Line(NamedTuple):
    """One number of a system: over seeds, and in the paper. `tolerance` None: a soft one."""

    figure: str  # a field of Figures
    ours: Interval
    published: float
    tolerance: float | None

    @property
    def difference(self) -> float:
        """Ours - published, of the mean."""
        return self.ours.mean - self.published

    @property
    def holds(self) -> bool:
        """Within the tolerance; a soft number always is."""
        return self.tolerance is None or abs(self.difference) <= self.tolerance

    def __str__(self) -> str:
        rounded = round(self.difference, 2)
        difference = f"{rounded:+.2f}".replace("-", "−") if rounded else "0.00"
        return f"{self.ours.mean:.2f} / {self.published:.2f} ({difference})"


def lines(system: System, runs: Iterable[Figures]) -> list[Line]:
    """Each number of `system` over one or more runs of it, beside the paper's."""
    columns = zip(*runs, strict=True)
    found = []
    for figure, published, column in zip(Figures._fields, system.published, columns, strict=True):
        tolerance = PERCENT / 100 * published if figure == "batch" else POINTS
        ours = interval(list(column))
        found.append(Line(figure, ours, published, tolerance if system.hard else None))
    return found


def measure(system: System, settings: Settings = PAPER, seeds: Iterable[int] = SEEDS) -> list[Line]:
    """Replay `system` once a seed. About a second a seed."""
    return lines(system, [figures(replay(system, seed, settings)) for seed in seeds])


def row(name: str, measured: Iterable[Line]) -> str:
    """A row of docs/paper.md's table: ours / published (difference)."""
    return " | ".join([f"| {name}", *map(str, measured)]) + " |"


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


def _lengths(column: str) -> Histogram:
    """Fig 11 (a): "input" or "output"."""
    table = msgspec.json.decode((_DATA / "sharegpt_lengths.json").read_bytes())[column]
    return Histogram(**table)


__all__ = [
    "MAX",
    "ORACLE",
    "PAPER",
    "PERCENT",
    "POINTS",
    "POW2",
    "SEEDS",
    "SYSTEMS",
    "VLLM",
    "Figures",
    "Line",
    "Settings",
    "System",
    "cut",
    "figures",
    "lines",
    "measure",
    "replay",
    "row",
    "trace",
]
