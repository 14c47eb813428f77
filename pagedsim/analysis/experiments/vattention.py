"""vAttention: how many tokens a page of the driver holds, and what that leaves empty.

tokens a page = bytes of the page / (KV heads on a rank · head size · 2 bytes). Each layer has pages
of its own for K and for V, so a page is a block of so many tokens.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedsim.analysis.experiments.experiment import Bench, Experiment, Found, Row
from pagedsim.device.tables import find_model

KIB = 1 << 10


class Pages(NamedTuple):
    """A model as published, and pages: (KiB, tokens that it holds)."""

    model: str
    tp: int
    pages: tuple[tuple[int, int], ...]


PUBLISHED = (
    Pages("Llama-3-8B", 2, ((64, 64), (2_048, 2_048))),
    Pages("Yi-6B", 1, ((64, 64), (2_048, 2_048))),
)
_UNKNOWN = "Yi-6B"  # its shape is not among the built-in ones


def measure(settings: tuple[Pages, ...], bench: Bench) -> Found:
    """Tokens of each page, and slots that a sequence leaves empty at most."""
    rows = []
    for model, tp, pages in settings:
        for kib, published in pages:
            name = f"{model}, TP{tp}: page of {kib:,} KiB"
            if model == _UNKNOWN:
                numbers = kib * KIB // 2 // published
                note = f"its shape is not at hand; the page means {numbers} numbers of K a token"
                row = Row(
                    name=name, unit="tokens", published=published, ours=None, digits=0, note=note
                )
                rows.append(row)
                continue
            shape = find_model(model)
            token = shape.kv_heads_per_rank(tp) * shape.head_dim * 2
            tokens = kib * KIB // token
            rows.append(
                Row(
                    name=name,
                    unit="tokens",
                    published=published,
                    ours=tokens,
                    tolerance=0,
                    digits=0,
                )
            )
            rows.append(
                Row(name="at most empty a sequence", unit="slots", ours=tokens - 1, digits=0)
            )
    return Found(rows)


EXPERIMENT = Experiment(
    name="vattention",
    title="Tokens of a page of the driver",
    source="vAttention, ASPLOS 2025",
    settings=PUBLISHED,
    measure=measure,
    notes=("Larger pages are larger blocks: fig18b shows what these cost.",),
)

__all__ = ["EXPERIMENT", "PUBLISHED", "Pages", "measure"]
