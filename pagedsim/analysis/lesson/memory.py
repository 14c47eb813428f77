"""What the lesson's calculators start from: shapes of models, cards, and models on cards.

All of it comes from `pagedsim.device`; the page multiplies and divides whole numbers, no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pagedsim.device.device import Device, make_device
from pagedsim.device.gpu import Gpu
from pagedsim.device.roofline import Roofline
from pagedsim.device.shape import Mla, Model
from pagedsim.device.tables import find_gpu, find_model
from pagedsim.errors import DeviceError
from pagedsim.protocols import Load

MODELS = ("Llama-2-7B", "Llama-2-13B", "Llama-3.1-8B", "Qwen2.5-14B", "Llama-3.1-70B")
CARDS = (
    *("RTX4090", "L40S", "A100-40GB-SXM", "A100-80GB-SXM"),
    *("H100-SXM", "H200-SXM", "B200-SXM"),
)
DTYPES = ("fp16", "fp8", "int4")
BLOCK = 16
KINDS_OF = "Llama-2-7B"  # whose shape the kinds of attention are compared on
LATENT = "DeepSeek-V2"  # whose latent MLA has there
KINDS_MAX_LEN = 4096  # what one contiguous extent is long


@dataclass(frozen=True, slots=True)
class ModelNumbers:
    """A model. `flops_per_token` without attention, `flops_per_pair` of a query and a key.

    `kv_bytes_per_token` in 16 bits.
    """

    name: str
    attention: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    max_len: int | None
    params: int
    weights_bytes: int
    kv_bytes_per_token: int
    flops_per_token: int
    flops_per_pair: int


@dataclass(frozen=True, slots=True)
class CardNumbers:
    """A card; `ridge` is FLOPs a byte at which it computes as long as it reads."""

    name: str
    memory_gib: int
    usable_bytes: int
    bandwidth: int
    flops: int
    ridge: float


@dataclass(frozen=True, slots=True)
class Room:
    """A model on a card, an estimate as `pagedsim size` makes it; None where weights do not fit.

    `blocks` include the null block. Bytes a token are of KV in `kv_dtype`.
    """

    card: str
    model: str
    kv_dtype: str
    kv_bytes_per_token: int
    budget_bytes: int | None
    activation_bytes: int | None
    pool_bytes: int | None
    blocks: int | None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of attention on one shape: numbers kept a token and layer, bytes a token by dtype."""

    name: str
    heads: int
    kv_heads: int
    numbers: int
    kv_bytes_per_token: dict[str, int]


def models() -> list[ModelNumbers]:
    """`MODELS`, in their order."""
    return [_model(find_model(name)) for name in MODELS]


def _model(model: Model) -> ModelNumbers:
    device = _device(model, find_gpu(CARDS[-1]), DTYPES[0])
    roofline = Roofline(device)
    return ModelNumbers(
        name=model.name,
        attention=model.attention,
        layers=model.layers,
        heads=model.heads,
        kv_heads=model.kv_heads,
        head_dim=model.head_dim,
        max_len=model.max_len,
        params=device.params,
        weights_bytes=device.weights_bytes,
        kv_bytes_per_token=int(model.kv_bytes_per_token(DTYPES[0])),
        flops_per_token=roofline.flops(Load(0, 0, 1, 0, 0)),
        flops_per_pair=roofline.flops(Load(0, 0, 0, 1, 0)),
    )


def cards() -> list[CardNumbers]:
    """`CARDS`, in their order."""
    found = []
    for gpu in map(find_gpu, CARDS):
        ridge = gpu.flops / gpu.bandwidth
        found.append(
            CardNumbers(gpu.name, gpu.memory_gib, gpu.usable_bytes, gpu.bandwidth, gpu.flops, ridge)
        )
    return found


def rooms() -> list[Room]:
    """Every model on every card, with KV in every precision."""
    return [
        _room(find_gpu(card), find_model(model), dtype)
        for card in CARDS
        for model in MODELS
        for dtype in DTYPES
    ]


def _room(gpu: Gpu, model: Model, dtype: str) -> Room:
    token = int(model.kv_bytes_per_token(dtype))
    try:
        pool = _device(model, gpu, dtype).estimate
    except DeviceError:
        return Room(gpu.name, model.name, dtype, token, None, None, None, None)
    assert pool is not None
    parts = pool.budget_bytes, pool.activation_bytes, pool.pool_bytes, pool.blocks
    return Room(gpu.name, model.name, dtype, token, *parts)


def _device(model: Model, gpu: Gpu, dtype: str) -> Device:
    return make_device(model, gpu, kv_dtype=dtype, block=BLOCK)


def utilization() -> float:
    """The share of a card that the rooms are worked out for."""
    return _device(find_model(KINDS_OF), find_gpu(CARDS[-1]), DTYPES[0]).utilization


def kinds() -> list[Kind]:
    """MHA, GQA, MQA and MLA on the shape of `KINDS_OF`, the last with `LATENT`'s latent."""
    base, latent = find_model(KINDS_OF), find_model(LATENT).mla
    assert latent is not None
    shapes = [replace(base, kv_heads=heads) for heads in (base.heads, 8, 1)]
    return [_kind(shape) for shape in (*shapes, replace(base, mla=latent))]


def _kind(model: Model) -> Kind:
    return Kind(
        name=model.attention,
        heads=model.heads,
        kv_heads=0 if model.mla else model.kv_heads,
        numbers=_numbers(model, model.mla),
        kv_bytes_per_token={dtype: int(model.kv_bytes_per_token(dtype)) for dtype in DTYPES},
    )


def _numbers(model: Model, mla: Mla | None) -> int:
    if mla is not None:
        return mla.kv_rank + mla.rope_dim
    return 2 * model.kv_heads * model.head_dim


__all__ = [
    "BLOCK",
    "CARDS",
    "DTYPES",
    "KINDS_MAX_LEN",
    "MODELS",
    "CardNumbers",
    "Kind",
    "ModelNumbers",
    "Room",
    "cards",
    "kinds",
    "models",
    "rooms",
    "utilization",
]
