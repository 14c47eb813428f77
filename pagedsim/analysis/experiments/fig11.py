"""Fig 11: how long prompts and answers of ShareGPT and Alpaca are.

Published: the four means, and histograms of 128 bins. Ours: the means of these histograms, uniform
within a bin, which is what the other experiments draw from; and the means of an hour's requests,
shorter because a pair above 2,048 tokens is drawn again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pagedsim.analysis.experiments import opt
from pagedsim.analysis.experiments.experiment import Bench, Experiment, Found, Row, over
from pagedsim.analysis.experiments.opt import PAPER, SOURCE, Settings

PUBLISHED = {
    ("sharegpt", "input"): 161.31,
    ("sharegpt", "output"): 337.99,
    ("alpaca", "input"): 19.31,
    ("alpaca", "output"): 58.45,
}
TOKENS = 0.5  # how far a mean may be off: bins are up to 16 tokens wide


def mean(dataset: str, column: str) -> float:
    """Of a histogram, uniform within its bins."""
    bars = opt.lengths(dataset, column)
    edges = np.linspace(bars.lo, bars.hi, len(bars.density) + 1)
    return float(np.average((edges[1:] + edges[:-1]) / 2, weights=bars.density))


def measure(settings: Settings, bench: Bench) -> Found:
    """Means of the histograms, and of the requests that are drawn from them."""
    rows = [
        Row(
            name=f"{dataset}: mean {column}",
            unit="tokens",
            published=published,
            ours=mean(dataset, column),
            tolerance=TOKENS,
        )
        for (dataset, column), published in PUBLISHED.items()
    ]
    for dataset in ("sharegpt", "alpaca"):
        load = replace(settings, lengths=dataset)
        made = [opt.trace(seed, load) for seed in settings.seeds]
        for column, values in (
            ("prompt", [float(one.prompt.mean()) for one in made]),
            ("output", [float(one.output.mean()) for one in made]),
        ):
            name = f"{dataset}, pairs up to {settings.max_len:,}: mean {column}"
            rows.append(over(values, name=name, unit="tokens"))
    return Found(rows)


EXPERIMENT = Experiment(
    name="fig11",
    title="Lengths of prompts and answers: ShareGPT, Alpaca",
    source=f"{SOURCE}: Fig 11",
    settings=PAPER,
    measure=measure,
    notes=("Which prompt goes with which answer is not published: they are drawn independently.",),
)

__all__ = ["EXPERIMENT", "PUBLISHED", "TOKENS", "mean", "measure"]
