"""Fig 1 right: how long a step of OPT-13B takes on an A100-40GB, by batch.

Published as throughput by batch; a step of batch b takes b / throughput. The straight line through
these points, by least squares, is the step time of the other experiments.
"""

from __future__ import annotations

import numpy as np

from pagedsim.analysis.experiments.experiment import Bench, Experiment, Found, Row
from pagedsim.analysis.experiments.opt import PAPER, SOURCE
from pagedsim.protocols import Load
from pagedsim.specs import make_steptime

POINTS = (  # batch, tokens/s
    *((4, 146.9446), (8, 267.3348), (12, 378.8606), (16, 482.5673), (20, 577.1002)),
    *((24, 659.4567), (28, 740.7982), (32, 810.9803), (36, 881.7883), (40, 921.8798)),
)
BASE_MS, PER_SEQ_MS = 26.24, 0.419  # the fit that is used


def measure(settings: tuple[tuple[int, float], ...], bench: Bench) -> Found:
    """The line, and the throughput that the step time gives at each batch."""
    batch = np.array([b for b, _ in settings], np.float64)
    slope, base = np.polyfit(batch, 1000 * batch / np.array([t for _, t in settings]), 1)
    rows = [
        Row(
            name="time of a step: base",
            unit="ms",
            published=BASE_MS,
            ours=float(base),
            tolerance=0.01,
            digits=3,
        ),
        Row(
            name="time of a step: per sequence",
            unit="ms",
            published=PER_SEQ_MS,
            ours=float(slope),
            tolerance=0.001,
            digits=4,
        ),
    ]
    for b, published in settings:
        ns = make_steptime(PAPER.steptime).ns(Load(b, 0, b, 0, 0))
        row = Row(
            name=f"throughput at batch {b}",
            unit="tokens/s",
            published=published,
            ours=b / (ns / 1e9),
            tolerance=0.03 * published,
            digits=1,
        )
        rows.append(row)
    return Found(rows)


EXPERIMENT = Experiment(
    name="fig1",
    title="Time of a step of OPT-13B by batch",
    source=f"{SOURCE}: Fig 1 (right)",
    settings=POINTS,
    measure=measure,
    notes=("The points have no term for the tokens of a prompt.",),
)

__all__ = ["BASE_MS", "EXPERIMENT", "PER_SEQ_MS", "POINTS", "measure"]
