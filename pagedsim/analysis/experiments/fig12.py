"""Fig 12: normalized latency against request rate, and the rate that a system sustains.

A system's number is the rate at which the mean normalized latency of an hour's requests passes
0.5 s a token: our threshold, the paper states none. Published numbers are read off the straight
lines between the figure's points. All are soft: they hang on the time of a step, and Fig 1's fit,
which is all that was published of it, prices no prompt tokens.

OPT-66B and OPT-175B have the slots of Table 1 and a step time scaled from OPT-13B's (`scaled`).
Alpaca's curves are not at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pagedsim.analysis.experiments.crossing import (
    OUTSIDE,
    THRESHOLD,
    Case,
    Curve,
    crossings,
    of_curve,
)
from pagedsim.analysis.experiments.experiment import Bench, Claim, Experiment, Found, Row, over
from pagedsim.analysis.experiments.fig1 import BASE_MS, PER_SEQ_MS
from pagedsim.analysis.experiments.fig13 import priced
from pagedsim.analysis.experiments.opt import (
    FASTER,
    MAX,
    ORACLE,
    PAPER,
    POW2,
    SOURCE,
    VLLM,
    Settings,
    System,
)
from pagedsim.device.device import make_device

CURVES: dict[str, Curve] = {  # requests/s, s a token
    "FasterTransformer": (
        *((0.01, 0.0238), (0.05, 0.0434), (0.1, 0.1267), (0.15, 0.2548), (0.2, 0.2805)),
        *((0.25, 0.6371), (0.3, 1.5377)),
    ),
    "Orca (Max)": ((0.2, 0.0299), (0.3, 0.0314), (0.4, 0.0595), (0.5, 0.0823), (0.5912, 1.6188)),
    "Orca (Pow2)": ((0.25, 0.0304), (0.5, 0.0397), (0.6, 0.0403), (0.75, 0.1168), (0.8426, 1.6188)),
    "Orca (Oracle)": (
        *((0.25, 0.0302), (0.5, 0.0329), (0.75, 0.0412), (0.9, 0.0849), (1.0, 0.1923)),
        *((1.1, 0.5016), (1.1484, 1.6188)),
    ),
    "vLLM": (
        *((1.0, 0.0371), (1.25, 0.0401), (1.5, 0.0424), (1.5, 0.0487), (1.75, 0.1126)),
        *((1.8, 0.1309), (1.9, 0.2397), (2.0, 1.1245)),
    ),
}
ORACLE_OF_175B = 1.47  # vLLM over Orca (Oracle), OPT-175B, read off its curves
SYSTEMS = (FASTER, MAX, POW2, ORACLE, VLLM)
_RATIO = "of two soft rates; what longer steps do to each differs with its batch"
_STEPS = "the real system's steps were longer than the fit of Fig 1, which prices no prompt tokens"


@dataclass(frozen=True, kw_only=True)
class Sustained:
    """A load, and about which rate each system sustains. `prompts` runs priced prompts too."""

    load: Settings
    guesses: Mapping[str, float]
    prompts: bool = False


def scaled(model: str, gpu: str, tp: int) -> str:
    """A step time for a larger OPT, from OPT-13B's on one A100-40GB.

    A decode step mostly reads: the weights once (its base) and the KV of every sequence (its part
    a sequence). So the base goes with the weights' bytes on a rank and the part with the KV bytes
    of a token on a rank, both over the GPU's bandwidth. Communication between GPUs is left out, so
    the time is a lower estimate.
    """
    small, large = (
        make_device(PAPER.model, PAPER.gpu, kv_tokens=16),
        make_device(model, gpu, tp=tp, kv_tokens=16),
    )
    slower = small.gpu.bandwidth / large.gpu.bandwidth
    base = BASE_MS * large.weights_bytes_rank / small.weights_bytes_rank * slower
    kv = float(large.kv_bytes_per_token_rank) / float(small.kv_bytes_per_token_rank)
    return f"affine:base_ms={base:.2f},per_seq_ms={PER_SEQ_MS * kv * slower:.3f}"


def measure(settings: Sustained, bench: Bench) -> Found:
    """The rate of each system, and vLLM's over each of the others'."""
    load, seeds = settings.load, settings.load.seeds
    loads = [(system, load, "") for system in SYSTEMS]
    if settings.prompts:
        loads += [(system, priced(load), ", prompts priced") for system in (ORACLE, VLLM)]
    cases = [
        Case(system, seed, at, settings.guesses[system.name])
        for system, at, _ in loads
        for seed in seeds
    ]
    rates = crossings(bench, cases)
    published = _published(load)
    rows: list[Row] = []
    for at, (system, _, label) in enumerate(loads):
        own = rates[at * len(seeds) : (at + 1) * len(seeds)]
        rows.append(_rate(system, f"{system.name}{label}", own, published))
    ours = {system.name: row.ours for system, row in zip(SYSTEMS, rows, strict=False)}
    rows += [
        _ratio(system.name, ours, _published_ratio(load, system.name, published))
        for system in SYSTEMS[:-1]
    ]
    return Found(rows, claims=_claims(load, ours, published))


def _published(load: Settings) -> dict[str, float]:
    known = load.model == PAPER.model and load.lengths == PAPER.lengths
    return {name: of_curve(curve) for name, curve in CURVES.items()} if known else {}


def _rate(
    system: System, label: str, own: list[float | None], published: Mapping[str, float]
) -> Row:
    found = [rate for rate in own if rate is not None]
    known = published.get(system.name)
    name = f"{label}: rate at {THRESHOLD} s/token"
    note = "" if known is None else _STEPS
    if len(found) < len(own):
        return Row(name=name, unit="requests/s", published=known, ours=None, digits=3, note=OUTSIDE)
    return over(found, name=name, unit="requests/s", published=known, digits=3, note=note)


def _published_ratio(load: Settings, other: str, published: Mapping[str, float]) -> float | None:
    if load.model == "OPT-175B" and other == "Orca (Oracle)":
        return ORACLE_OF_175B
    return published["vLLM"] / published[other] if published else None


def _ratio(other: str, ours: Mapping[str, float | None], published: float | None) -> Row:
    mine, theirs = ours["vLLM"], ours[other]
    ratio = None if mine is None or theirs is None else mine / theirs
    note = "" if published is None else _RATIO
    return Row(name=f"vLLM / {other}", unit="x", published=published, ours=ratio, note=note)


def _claims(
    load: Settings, ours: Mapping[str, float | None], published: Mapping[str, float]
) -> list[Claim]:
    vllm, most, oracle = ours["vLLM"], ours["Orca (Max)"], ours["Orca (Oracle)"]
    if vllm is None or most is None or oracle is None:
        return []
    if published:
        here = published["vLLM"] / published["Orca (Max)"]
        return [
            Claim(
                printed="up to 8x the rate of Orca (Max) on ShareGPT",
                figures=f"6.6x at most, and {here:.1f}x for OPT-13B at {THRESHOLD} s/token",
                ours=f"{vllm / most:.1f}x",
            )
        ]
    if load.model == "OPT-175B":
        return [
            Claim(
                printed="1.7x the rate of Orca (Oracle) for OPT-175B",
                figures=f"{ORACLE_OF_175B}x at {THRESHOLD} s/token",
                ours=f"{vllm / oracle:.2f}x",
            )
        ]
    return []


def _experiment(
    name: str, title: str, settings: Sustained, minutes: float, *notes: str
) -> Experiment:
    short = replace(settings.load, seconds=120, seeds=(0,))
    return Experiment(
        name=name,
        title=title,
        source=f"{SOURCE}: Fig 12",
        settings=settings,
        quick=replace(settings, load=short),
        measure=measure,
        minutes=minutes,
        notes=notes,
    )


_THIRTEEN = Sustained(
    load=replace(PAPER, seeds=(0, 1, 2)),
    guesses={
        "FasterTransformer": 0.28,
        "Orca (Max)": 0.70,
        "Orca (Pow2)": 0.93,
        "Orca (Oracle)": 1.2,
        "vLLM": 2.4,
    },
    prompts=True,
)
_ALPACA = Sustained(
    load=replace(PAPER, lengths="alpaca", seconds=600, seeds=(0,)),
    guesses={
        "FasterTransformer": 1.5,
        "Orca (Max)": 5.0,
        "Orca (Pow2)": 20.0,
        "Orca (Oracle)": 22.0,
        "vLLM": 27.0,
    },
)
# Slots are Table 1's. The step times are `scaled`'s, written out so that all settings are here.
_SIXTY_SIX = Sustained(
    load=replace(
        PAPER,
        model="OPT-66B",
        gpu="A100-40GB",
        tp=4,
        slots=9_700,
        steptime="affine:base_ms=33.57,per_seq_ms=0.302",
        seeds=(0,),
    ),
    guesses={
        "FasterTransformer": 0.13,
        "Orca (Max)": 0.33,
        "Orca (Pow2)": 0.5,
        "Orca (Oracle)": 0.65,
        "vLLM": 1.4,
    },
)
_ONE_SEVENTY_FIVE = Sustained(
    load=replace(
        PAPER,
        model="OPT-175B",
        gpu="A100-80GB",
        tp=8,
        slots=60_100,
        steptime="affine:base_ms=34.02,per_seq_ms=0.230",
        seeds=(0,),
    ),
    guesses={
        "FasterTransformer": 0.8,
        "Orca (Max)": 2.2,
        "Orca (Pow2)": 3.0,
        "Orca (Oracle)": 3.9,
        "vLLM": 6.0,
    },
)
_SCALED = (
    "The step time is OPT-13B's scaled: its base with the weights on a GPU, its part a sequence "
    "with the KV of a token on a GPU, both over the bandwidth. Communication between GPUs is left "
    "out."
)
EXPERIMENTS = (
    _experiment("fig12", "Request rate sustained: OPT-13B, ShareGPT", _THIRTEEN, 2),
    _experiment("fig12-66b", "Request rate sustained: OPT-66B, ShareGPT", _SIXTY_SIX, 0.3, _SCALED),
    _experiment(
        "fig12-175b", "Request rate sustained: OPT-175B, ShareGPT", _ONE_SEVENTY_FIVE, 0.5, _SCALED
    ),
    _experiment(
        "fig12-alpaca",
        "Request rate sustained: OPT-13B, Alpaca, 10 min",
        _ALPACA,
        0.3,
        "Ten minutes of arrivals, not an hour: latency past saturation grows with the time. "
        "Batches pass the 40 sequences up to which Fig 1 has points.",
    ),
)

__all__ = ["CURVES", "EXPERIMENTS", "ORACLE_OF_175B", "SYSTEMS", "Sustained", "measure", "scaled"]
