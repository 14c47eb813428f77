"""Everything that `pagedsim size` says, as one value: pure functions of a `Device`.

Field names are those of the JSON (schema ``pagedsim.size/1``); bytes, tokens and sequences are
counts, shares and rates floats.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from pagedsim.device.device import Device
from pagedsim.device.dtypes import Bytes
from pagedsim.device.pool import activation_peak, estimate_pool
from pagedsim.device.roofline import Roofline
from pagedsim.device.work import Work, pairs, work
from pagedsim.errors import DeviceError, SpecError
from pagedsim.protocols import Load

STEP_TOKENS = (512, 2048, 8192, 16384, 32768)


@dataclass(frozen=True, slots=True)
class StepRoom:
    """An estimate: the pool that a step of `max_batched_tokens` leaves; None if nothing is left."""

    max_batched_tokens: int
    activation_bytes: int
    pool_bytes: int | None
    capacity_tokens: int | None


@dataclass(frozen=True, slots=True)
class DecodeRate:
    """Decode at a context: one sequence alone, and as many as fit (`batch`, at most max_seqs)."""

    context: int
    tokens_per_s: float
    bound: str
    batch: int
    batch_tokens_per_s: float | None
    batch_bound: str | None


@dataclass(frozen=True, slots=True)
class SizedDevice:
    """The device, flat."""

    model: str
    gpu: str
    tp: int
    pp: int
    attention: str
    kv_dtype: str
    weights_dtype: str
    utilization: float
    max_batched_tokens: int
    max_seqs: int
    params: int
    active_params: int
    kv_bytes_per_token: float
    kv_bytes_per_token_rank: float
    weights_bytes: int
    weights_bytes_rank: int
    activation_bytes: int
    pool_bytes: int
    block: int
    blocks: int
    capacity_tokens: int
    estimated: bool


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """§2's counts for `tokens` generated tokens, and their ratios."""

    tokens: int
    passes: int
    refeed_dots: int
    cached_dots: int
    recompute_projections: int
    cached_projections: int
    dots_ratio: float
    projections_ratio: float


@dataclass(frozen=True, slots=True)
class StepBound:
    """What bounds a step, an estimate: `intensity` FLOPs a byte against the GPU's ridge point."""

    step: str
    sequences: int
    tokens: int
    context: int
    ms: float
    bound: str
    intensity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """The answer. `concurrency` is what vLLM prints: blocks / blocks of a longest sequence."""

    schema: str = "pagedsim.size/1"
    device: SizedDevice
    max_len: int
    sequences_of_max_len: int
    concurrency: float
    kv_equals_weights_tokens: int
    step_room: list[StepRoom]
    decode: list[DecodeRate]
    ridge_flops_per_byte: float
    caveats: list[str]
    provenance: dict[str, str]
    work: WorkCounts | None = None
    bounds: list[StepBound] = field(default_factory=list)


def size(device: Device, *, max_len: int | None = None, tokens: int | None = None) -> Sizing:
    """Size `device` for sequences of up to `max_len` (default: the model's) tokens.

    `tokens` asks for §2's work counts. DeviceError if no maximum length is known.
    """
    longest = max_len if max_len is not None else device.model.max_len
    if longest is None:
        raise DeviceError(f"{device.model.name} states no maximum length: give --max-len")
    if longest < 1:
        raise SpecError(f"max_len is {longest}, must be >= 1")
    roofline = Roofline(device)
    each = -(-longest // device.block)
    return Sizing(
        device=_flat(device),
        max_len=longest,
        sequences_of_max_len=_fit(device, longest),
        concurrency=device.blocks / each,
        kv_equals_weights_tokens=int(
            Fraction(device.weights_bytes) / Fraction(device.kv_bytes_per_token)
        ),
        step_room=[_room(device, step) for step in _steps(device)],
        decode=[_rate(device, roofline, context) for context in _contexts(longest)],
        ridge_flops_per_byte=roofline.ridge,
        caveats=list(device.model.caveats),
        provenance={
            **device.provenance,
            "decode": "estimate: roofline with assumed mfu 0.5, mbu 0.8, overhead 2 ms a step; "
            "pipeline stages one after another; communication between GPUs not modelled",
        },
        work=None if tokens is None else _counts(work(tokens)),
        bounds=[] if tokens is None else _bounds(device, roofline, tokens),
    )


def _fit(device: Device, length: int) -> int:
    """Sequences of `length` stored tokens that fit at once, the null block left out."""
    return (device.blocks - 1) // -(-length // device.block)


def _steps(device: Device) -> list[int]:
    return sorted({*STEP_TOKENS, device.max_batched_tokens})


def _contexts(longest: int) -> list[int]:
    contexts = [512]
    while contexts[-1] * 4 < longest:
        contexts.append(contexts[-1] * 4)
    return [*(c for c in contexts if c < longest), longest]


def _room(device: Device, tokens: int) -> StepRoom:
    peak = activation_peak(device.model, tokens, device.max_seqs, device.tp)
    try:
        pool = estimate_pool(
            device.model,
            device.gpu,
            tp=device.tp,
            pp=device.pp,
            kv_dtype=device.kv_dtype,
            weights_dtype=device.weights_dtype,
            utilization=device.utilization,
            max_batched_tokens=tokens,
            max_seqs=device.max_seqs,
            block=device.block,
        )
    except DeviceError:
        return StepRoom(tokens, peak, None, None)
    return StepRoom(tokens, peak, pool.pool_bytes, pool.tokens)


def _rate(device: Device, roofline: Roofline, context: int) -> DecodeRate:
    one = Load(1, 0, 1, context, context)
    batch = min(_fit(device, context), device.max_seqs)
    many = Load(batch, 0, batch, batch * context, batch * context)
    return DecodeRate(
        context=context,
        tokens_per_s=1e9 / roofline.ns(one),
        bound=roofline.bound(one),
        batch=batch,
        batch_tokens_per_s=batch * 1e9 / roofline.ns(many) if batch else None,
        batch_bound=roofline.bound(many) if batch else None,
    )


def _bounds(device: Device, roofline: Roofline, tokens: int) -> list[StepBound]:
    """A prompt of `tokens` in one step, one decode after it, and a full batch of such decodes."""
    batch = min(_fit(device, tokens), device.max_seqs)
    steps = [
        ("prefill", Load(1, 1, tokens, pairs(0, tokens), tokens)),
        ("decode", Load(1, 0, 1, tokens, tokens)),
    ]
    if batch > 1:
        steps.append(
            ("decode, batch that fits", Load(batch, 0, batch, batch * tokens, batch * tokens))
        )
    return [
        StepBound(
            step=name,
            sequences=load.sequences,
            tokens=load.tokens,
            context=load.context,
            ms=roofline.ns(load) / 1e6,
            bound=roofline.bound(load),
            intensity=roofline.intensity(load),
        )
        for name, load in steps
    ]


def _flat(device: Device) -> SizedDevice:
    return SizedDevice(
        model=device.model.name,
        gpu=device.gpu.name,
        tp=device.tp,
        pp=device.pp,
        attention=device.model.attention,
        kv_dtype=device.kv_dtype,
        weights_dtype=device.weights_dtype,
        utilization=device.utilization,
        max_batched_tokens=device.max_batched_tokens,
        max_seqs=device.max_seqs,
        params=device.params,
        active_params=device.active_params,
        kv_bytes_per_token=_number(device.kv_bytes_per_token),
        kv_bytes_per_token_rank=_number(device.kv_bytes_per_token_rank),
        weights_bytes=device.weights_bytes,
        weights_bytes_rank=device.weights_bytes_rank,
        activation_bytes=activation_peak(
            device.model, device.max_batched_tokens, device.max_seqs, device.tp
        ),
        pool_bytes=device.pool_bytes,
        block=device.block,
        blocks=device.blocks,
        capacity_tokens=device.capacity_tokens,
        estimated=device.estimated,
    )


def _number(value: Bytes) -> float:
    """As JSON has it: whole where it is, else the nearest double."""
    return value if isinstance(value, int) else float(value)


def _counts(counts: Work) -> WorkCounts:
    return WorkCounts(
        tokens=counts.tokens,
        passes=counts.passes,
        refeed_dots=counts.refeed_dots,
        cached_dots=counts.cached_dots,
        recompute_projections=counts.recompute_projections,
        cached_projections=counts.cached_projections,
        dots_ratio=float(counts.dots_ratio),
        projections_ratio=float(counts.projections_ratio),
    )


__all__ = ["DecodeRate", "SizedDevice", "Sizing", "StepBound", "StepRoom", "WorkCounts", "size"]
