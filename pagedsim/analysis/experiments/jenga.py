"""Jenga: what full-length KV wastes in layers with a sliding window, by arithmetic and by replay.

Of a sequence of L tokens a layer with window W needs min(L, W). If windowed layers are a share s of
all (of equal width) and get L like the others, the waste is s · max(0, L - W) / L: at most s, and
reached only by long sequences. The published shares are of traces that are not at hand; arithmetic
says whether they can be, and how long sequences must then be. A replay of a bundled trace of coding
agents says what an engine without groups holds outside of every window (`paged:groups=full`), and
what one with groups does (`groups=on`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pagedsim.analysis.experiments.experiment import Bench, Experiment, Found, Row
from pagedsim.analysis.simulate import simulate
from pagedsim.device.device import make_device
from pagedsim.device.shape import Model
from pagedsim.device.tables import find_model
from pagedsim.trace import load

GEMMA, MINISTRAL = 73.6, 38.2  # published, %
MINISTRAL_8B = Model(
    name="Ministral-8B",
    layers=36,
    hidden=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    ffn=12288,
    vocab=131072,
    max_len=131072,
    source="its public configuration",
    window=32768,
    kinds=("full", "sliding", "sliding", "sliding"),
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Which Gemma 3 was measured is not at hand: all sizes of the table. `lengths` in tokens."""

    models: tuple[str, ...] = ("Gemma-3-1B", "Gemma-3-4B", "Gemma-3-12B", "Gemma-3-27B")
    lengths: tuple[int, ...] = (8_192,)
    trace: str = "agent"
    requests: int = 150
    kv_gib: int = 40
    max_len: int = 100_000


def waste(share: float, window: int, length: int) -> float:
    """Share of KV that is never needed again, at this length."""
    return share * max(0, length - window) / length


def length_for(share: float, window: int, wasted: float) -> float | None:
    """The length at which so much is wasted; None where no length will do."""
    return window / (1 - wasted / share) if wasted < share else None


def held_outside(model: str, mode: str, settings: Settings) -> float:
    """Of the KV that is held over time, % that no layer will read again, in one replay."""
    shape = MINISTRAL_8B if model == MINISTRAL_8B.name else find_model(model)
    report = simulate(
        load(settings.trace).head(settings.requests),
        f"paged:groups={mode}",
        device=make_device(shape, "h100", kv_memory_bytes=settings.kv_gib << 30),
        max_len=settings.max_len,
    )
    return 100 * report.integrals["outside"] / report.integrals["held"]


def measure(settings: Settings, bench: Bench) -> Found:
    """The most that can be wasted, the length at which the published share is, and replays."""
    rows = []
    for name in settings.models:
        model = find_model(name)
        share = model.layer_kinds.count("sliding") / model.layers
        windowed = model.layer_kinds.count("sliding")
        layers = f"{windowed} of {model.layers} layers have a window of {model.window:,}"
        rows.append(
            Row(
                name=f"{name}: waste at most",
                unit="%",
                published=GEMMA,
                ours=100 * share,
                digits=1,
                note="the most at any length: the published share must be below it",
            )
        )
        rows.append(
            Row(
                name=f"{name}: length that wastes {GEMMA} %",
                unit="tokens",
                ours=length_for(share, model.window, GEMMA / 100),
                digits=0,
                note=layers,
            )
        )
        rows += [
            Row(
                name=f"{name}: waste at {length:,}",
                unit="%",
                ours=100 * waste(share, model.window, length),
                digits=1,
            )
            for length in settings.lengths
        ]
    share = MINISTRAL_8B.layer_kinds.count("sliding") / MINISTRAL_8B.layers
    rows.append(
        Row(
            name=f"Ministral-8B: length that wastes {MINISTRAL} %",
            unit="tokens",
            ours=length_for(share, MINISTRAL_8B.window, MINISTRAL / 100),
            digits=0,
            note=f"27 of 36 layers have a window of {MINISTRAL_8B.window:,}",
        )
    )
    cases = [
        (name, mode, settings)
        for name in (settings.models[-1], MINISTRAL_8B.name)
        for mode in ("full", "on")
    ]
    for (name, mode, _), ours in zip(cases, bench.map(held_outside, cases), strict=True):
        published = MINISTRAL if name == MINISTRAL_8B.name else GEMMA
        where = ", most prompts below the window" if name == MINISTRAL_8B.name else ""
        rows.append(
            Row(
                name=f"{name}: waste, {'without' if mode == 'full' else 'with'} groups",
                unit="%",
                published=published if mode == "full" else None,
                ours=ours,
                digits=1,
                note=f"of a trace that is not at hand; ours of coding agents{where}"
                if mode == "full"
                else "what a window has left of a block",
            )
        )
    return Found(rows)


EXPERIMENT = Experiment(
    name="jenga",
    title="Waste of full-length KV in layers with a sliding window",
    source="Jenga, SOSP 2025",
    settings=Settings(),
    quick=replace(Settings(), requests=15),
    measure=measure,
    minutes=0.2,
)

__all__ = [
    "EXPERIMENT",
    "GEMMA",
    "MINISTRAL",
    "MINISTRAL_8B",
    "Settings",
    "held_outside",
    "length_for",
    "measure",
    "waste",
]
