"""All experiments, in the order in which they are listed. A new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Sequence

from pagedsim.analysis.experiments import (
    alpaca,
    fig1,
    fig2,
    fig11,
    fig12,
    fig13,
    fig15,
    fig16,
    fig17,
    fig18b,
    jenga,
    mooncake,
    table1,
    vattention,
    vllm_39734,
    vllm_44594,
    vllm_prints,
)
from pagedsim.analysis.experiments.experiment import Experiment
from pagedsim.errors import SpecError

PAPERS: tuple[Experiment, ...] = (
    table1.EXPERIMENT,
    fig1.EXPERIMENT,
    fig2.EXPERIMENT,
    fig11.EXPERIMENT,
    *fig12.EXPERIMENTS,
    fig13.EXPERIMENT,
    alpaca.EXPERIMENT,
    fig15.EXPERIMENT,
    fig16.EXPERIMENT,
    fig17.EXPERIMENT,
    *fig18b.EXPERIMENTS,
    mooncake.EXPERIMENT,
    vattention.EXPERIMENT,
    jenga.EXPERIMENT,
)
FIELD: tuple[Experiment, ...] = (
    vllm_44594.EXPERIMENT,
    *vllm_prints.EXPERIMENTS,
    vllm_39734.EXPERIMENT,
)


def find(name: str, among: Sequence[Experiment]) -> Experiment:
    """The experiment called `name`; SpecError lists what there is."""
    for one in among:
        if one.name == name.lower():
            return one
    known = ", ".join(one.name for one in among)
    raise SpecError(f"{name}: no experiment of that name; there are: list, {known}")


__all__ = ["FIELD", "PAPERS", "find"]
