"""vllm#24577, #10517 and #40691: what a server printed about its KV pool, worked out again.

Arithmetic: blocks = bytes // bytes of a block, concurrency = blocks / blocks of one request. Memory
is printed to a hundredth of a GiB, so the blocks it can mean are a range; from the printed blocks
on, everything is exact.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedsim.analysis.experiments.experiment import Bench, Experiment, Found, Row
from pagedsim.device.enginesize import Choices, size_as_engine
from pagedsim.device.gpu import GIB
from pagedsim.device.tables import find_model
from pagedsim.errors import StartupError
from pagedsim.protocols import LayerGroup

_BLOCK = 16  # tokens
_PRINTED = 0.005  # how far a number printed to two digits may be off


class Pool(NamedTuple):
    """What a server printed: GiB of KV memory, blocks or tokens, concurrency at a length.

    `tokens` None were not reported. `starts` is whether it started.
    """

    model: str
    gib: float
    max_len: int
    blocks: int
    tokens: int | None
    concurrency: float
    starts: bool = True


def pools(settings: tuple[Pool, ...], bench: Bench) -> Found:
    """Each pool: blocks from its memory, then tokens, concurrency and refusal from its blocks."""
    rows: list[Row] = []
    notes: list[str] = []
    for pool in settings:
        model, where = find_model(pool.model), f"{pool.gib} GiB"
        size = int(model.kv_bytes_per_token() * _BLOCK)
        choices = Choices(
            available=[int(pool.gib * GIB)],
            max_len=pool.max_len,
            max_batched_tokens=2048,
            blocks=pool.blocks,
        )
        tokens, concurrency = pool.blocks * _BLOCK, pool.blocks / -(-pool.max_len // _BLOCK)
        starts = True
        try:
            start = size_as_engine(model, choices)
            tokens, concurrency = start.older_tokens, start.concurrency
        except StartupError as error:
            starts = False
            notes.append(f"{pool.model} with {where} at length {pool.max_len:,}: {error}")
        exact = (
            ("tokens", pool.tokens, tokens, 0.0, 0),
            (f"concurrency at {pool.max_len:,}", pool.concurrency, concurrency, _PRINTED, 2),
            (f"starts at {pool.max_len:,} (1 yes, 0 no)", int(pool.starts), int(starts), 0.0, 0),
        )
        rows.append(
            Row(
                name=f"{where}: blocks",
                published=pool.blocks,
                ours=int(pool.gib * GIB) // size,
                tolerance=int(_PRINTED * GIB / size) + 1,
                digits=0,
                note=f"{size:,} bytes a block; memory is printed to a hundredth of a GiB",
            )
        )
        rows += [
            Row(
                name=f"{where}: {name}",
                published=published,
                ours=ours,
                tolerance=tolerance,
                digits=digits,
            )
            for name, published, ours, tolerance, digits in exact
            if published is not None
        ]
    return Found(rows, notes=notes)


class Hybrid(NamedTuple):
    """A model whose layers form several groups over one pool; `groups` as the engine made them."""

    blocks: int
    groups: tuple[LayerGroup, ...]
    max_len: int
    tokens: int
    concurrency: float


def hybrid(settings: Hybrid, bench: Bench) -> Found:
    """Tokens and concurrency of a pool that groups share, in the older print."""
    full = next(group for group in settings.groups if group.kind == "full")
    each = [group.most_blocks(settings.max_len, 0) for group in settings.groups]
    rows = [
        Row(
            name="tokens",
            published=settings.tokens,
            ours=settings.blocks // len(settings.groups) * full.block,
            tolerance=0,
            digits=0,
            note="the older print: blocks // groups · tokens of a block",
        ),
        Row(
            name=f"concurrency at {settings.max_len:,}",
            published=settings.concurrency,
            ours=settings.blocks / sum(each),
            tolerance=_PRINTED,
            note=f"a request takes {' + '.join(map(str, each))} blocks",
        ),
        Row(
            name="tokens, as newer versions print them",
            ours=int(settings.blocks / sum(each) * settings.max_len),
            digits=0,
            note="concurrency · maximum length: of the same pool",
        ),
    ]
    return Found(rows)


_STATES = tuple(LayerGroup("state", (), 784, 0) for _ in range(3))
EXPERIMENTS = (
    Experiment(
        name="vllm-24577",
        title="The pool of Qwen3-0.6B in 69.66 GiB",
        source="vllm-project/vllm issue 24577",
        settings=(Pool("Qwen3-0.6B", 69.66, 4_096, 40_759, 652_144, 159.21),),
        measure=pools,
    ),
    Experiment(
        name="vllm-10517",
        title="Llama-3.1-8B on a 24 GB card: fits at 20,000, refused at 29,000",
        source="vllm-project/vllm issue 10517",
        settings=(
            Pool("Llama-3.1-8B", 3.81, 20_000, 1_952, None, 1.56),
            Pool("Llama-3.1-8B", 2.89, 29_000, 1_478, 23_648, 0.82, starts=False),
        ),
        measure=pools,
        notes=(
            "Memory for KV fell from 3.81 to 2.89 GiB because the activation peak grew with the "
            "tokens of a step, which followed the maximum length.",
        ),
    ),
    Experiment(
        name="vllm-40691",
        title="A hybrid model's printed tokens and concurrency: Qwen3.5-27B",
        source="vllm-project/vllm issue 40691",
        settings=Hybrid(1_487, (LayerGroup("full", (), 784, 0), *_STATES), 32_768, 290_864, 33.04),
        measure=hybrid,
        notes=(
            "Four groups share the pool: one of full attention with blocks of 784 tokens, three "
            "of state-space layers with a block a request each. Concurrency is what can be "
            "relied on: the printed tokens divide the pool as if all groups grew alike.",
        ),
    ),
)

__all__ = ["EXPERIMENTS", "Hybrid", "Pool", "hybrid", "pools"]
