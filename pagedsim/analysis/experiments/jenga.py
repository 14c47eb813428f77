"""Jenga: what full-length KV wastes in layers with a sliding window, as arithmetic.

Of a sequence of L tokens a layer with window W needs min(L, W). If windowed layers are a share s of
all (of equal width) and get L like the others, the waste is s · max(0, L - W) / L: at most s, and
reached only by long sequences. The published shares are of traces that are not at hand; arithmetic
says whether they can be, and how long sequences must then be.
"""

from __future__ import annotations

from dataclasses import dataclass

from pagedsim.analysis.experiments.experiment import Bench, Experiment, Found, Row
from pagedsim.device.tables import find_model

GEMMA, MINISTRAL = 73.6, 38.2  # published, %


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Which Gemma 3 was measured is not at hand: all sizes of the table. `lengths` in tokens."""

    models: tuple[str, ...] = ("Gemma-3-1B", "Gemma-3-4B", "Gemma-3-12B", "Gemma-3-27B")
    lengths: tuple[int, ...] = (8_192,)


def waste(share: float, window: int, length: int) -> float:
    """Share of KV that is never needed again, at this length."""
    return share * max(0, length - window) / length


def length_for(share: float, window: int, wasted: float) -> float | None:
    """The length at which so much is wasted; None where no length will do."""
    return window / (1 - wasted / share) if wasted < share else None


def measure(settings: Settings, bench: Bench) -> Found:
    """The most that can be wasted, and the length at which the published share is."""
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
    rows.append(
        Row(
            name="Ministral: waste",
            unit="%",
            published=MINISTRAL,
            ours=None,
            digits=1,
            note=f"its shape is not at hand; at least {MINISTRAL} % of its layers have a window",
        )
    )
    return Found(rows)


EXPERIMENT = Experiment(
    name="jenga",
    title="Waste of full-length KV in layers with a sliding window",
    source="Jenga, SOSP 2025",
    settings=Settings(),
    measure=measure,
)

__all__ = ["EXPERIMENT", "GEMMA", "MINISTRAL", "Settings", "length_for", "measure", "waste"]
