"""vllm#39734: a request within the maximum length, but larger than the pool.

In the report it waited at the head of the queue for ever, and all others behind it. Here it is
refused before the run, with what it needs and what there is, and the others are served.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagedsim.analysis.experiments.experiment import Bench, Experiment, Found, Row
from pagedsim.analysis.simulate import simulate
from pagedsim.device.device import make_device
from pagedsim.trace.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The report's sizes are not at hand: these are ours, in the relation that it describes."""

    model: str = "Llama-3.1-8B"
    gpu: str = "A100-40GB"
    kv_tokens: int = 4_096
    max_len: int = 8_192
    large: tuple[int, int] = (6_000, 100)  # prompt, output: below max_len, above the pool
    small: tuple[int, int] = (500, 50)
    others: int = 20  # requests that come after it


def measure(settings: Settings, bench: Bench) -> Found:
    """The large request first, then the others."""
    pairs = np.array([settings.large, *[settings.small] * settings.others], np.int64).T
    arrival_ns = np.arange(len(pairs[0]), dtype=np.int64) * 10**8
    run = simulate(
        Trace.build("vllm-39734", arrival_ns, *pairs),
        "paged:block=16",
        device=make_device(settings.model, settings.gpu, kv_tokens=settings.kv_tokens),
        scheduler="vllm",
        max_len=settings.max_len,
    ).run
    refused = run.refused_requests
    rows = [
        Row(name="requests refused before the run", ours=run.refused, digits=0),
        Row(name="slots that it needs", ours=refused[0].value if refused else None, digits=0),
        Row(name="slots that there are", ours=refused[0].bound if refused else None, digits=0),
        Row(name="others that finish", ours=run.finished, digits=0),
        Row(name="requests that wait for ever", ours=run.unfinished, digits=0),
    ]
    return Found(rows)


EXPERIMENT = Experiment(
    name="vllm-39734",
    title="A request within the maximum length, larger than the pool",
    source="vllm-project/vllm issue 39734",
    settings=Settings(),
    measure=measure,
    notes=("Reported: the request hung, and the queue behind it. Ours: refused, with numbers.",),
)

__all__ = ["EXPERIMENT", "Settings", "measure"]
