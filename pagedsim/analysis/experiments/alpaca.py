"""Fig 2 and Fig 13 on Alpaca: short prompts and short answers, at a rate that fills the machine.

Neither the paper's values nor its rate are at hand, so nothing here is a target. Ten minutes at 25
requests/s, more than the contiguous allocators can serve; batches pass the 40 sequences up to which
Fig 1 has points, so the step time is an extrapolation.
"""

from __future__ import annotations

from dataclasses import replace

from pagedsim.analysis.experiments import opt
from pagedsim.analysis.experiments.experiment import Bench, Experiment, Found, over
from pagedsim.analysis.experiments.fig2 import TERMS
from pagedsim.analysis.experiments.opt import PAPER, SOURCE, SYSTEMS, Settings


def measure(settings: Settings, bench: Bench) -> Found:
    """Shares of the slots and the batch of each system, once a seed."""
    seeds = settings.seeds
    runs = bench.map(
        opt.measured, [(system, seed, settings) for system in SYSTEMS for seed in seeds]
    )
    rows = []
    for at, system in enumerate(SYSTEMS):
        own = runs[at * len(seeds) : (at + 1) * len(seeds)]
        for term, name in enumerate((*TERMS, "mean batch")):
            unit = "%" if term < len(TERMS) else ""
            row = over([run[term] for run in own], name=f"{system.name}: {name}", unit=unit)
            rows.append(row)
    return Found(rows)


_SETTINGS = replace(PAPER, lengths="alpaca", rate=25.0, seconds=600, seeds=(0, 1, 2))
EXPERIMENT = Experiment(
    name="fig13-alpaca",
    title="Memory and batch: OPT-13B, Alpaca, 10 min at 25 requests/s",
    source=f"{SOURCE}: Fig 2, Fig 13",
    settings=_SETTINGS,
    quick=replace(_SETTINGS, seconds=60, seeds=(0,)),
    measure=measure,
    minutes=0.2,
    notes=("The rate is ours: the paper's is not at hand.",),
)

__all__ = ["EXPERIMENT", "measure"]
