"""A model on a GPU: what a replay needs to know of both, and where each number comes from.

Words: the *pool* is the memory for KV on one rank; *capacity* is its slots (tokens); a *block* is
`block` slots. An engine's block count includes the null block, and so does `Device.blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pagedsim.device.dtypes import Bytes, half, kv_format
from pagedsim.device.enginelog import EngineLog, read_engine_log
from pagedsim.device.gpu import GIB, Gpu
from pagedsim.device.params import (
    active_params,
    expert_bytes,
    rank_weights,
    total_params,
    weights_bytes,
    weights_name,
)
from pagedsim.device.pool import Pool, estimate_pool
from pagedsim.device.shape import Model
from pagedsim.device.tables import find_gpu, find_model
from pagedsim.errors import DeviceError, SpecError


@dataclass(frozen=True, slots=True)
class Device:
    """A model on tp · pp GPUs, sized; made by `make_device`.

    `kv_bytes_per_token` is of the whole model, `kv_bytes_per_token_rank` of the heaviest rank;
    both exact. `weights_bytes` is one copy of the weights, `weights_bytes_rank` the largest rank's
    share, `expert_bytes` one routed expert over all layers. `pool_bytes` is one rank's and
    `capacity_tokens` the slots of the whole engine. `provenance` says where each comes from.
    `stated_blocks`: blocks of the pool where that is how it was given. `exempt` layers keep the
    model's own KV format, which groups of layers show (`replaygroups`).
    """

    model: Model
    gpu: Gpu
    tp: int
    pp: int
    kv_dtype: str
    weights_dtype: str
    utilization: float
    max_batched_tokens: int
    max_seqs: int
    block: int
    kv_bytes_per_token: Bytes
    kv_bytes_per_token_rank: Bytes
    params: int
    active_params: int
    weights_bytes: int
    weights_bytes_rank: int
    expert_bytes: int
    pool_bytes: int
    capacity_tokens: int
    estimated: bool
    estimate: Pool | None
    provenance: dict[str, str]
    stated_blocks: int | None = None
    exempt: tuple[str, ...] = ()

    @property
    def blocks(self) -> int:
        """Whole blocks in the pool, the null block included."""
        return self.capacity_tokens // self.block


def make_device(
    model: Model | str,
    gpu: Gpu | str,
    *,
    tp: int = 1,
    pp: int = 1,
    kv_dtype: str = "auto",
    weights_dtype: str = "auto",
    utilization: float = 0.9,
    max_batched_tokens: int | None = None,
    max_seqs: int | None = None,
    block: int = 16,
    kv_tokens: int | None = None,
    kv_blocks: int | None = None,
    kv_memory_bytes: int | None = None,
    engine_log: str | Path | None = None,
    exempt: tuple[str, ...] = (),
) -> Device:
    """Size the pool of `model` on `gpu`.

    At most one of `kv_tokens`, `kv_blocks` (null block included), `kv_memory_bytes` (a rank) and
    `engine_log` may say how large the pool is; else it is estimated (`estimate_pool`). Limits of
    a step default to what a server sets on that GPU. DeviceError where the parts do not fit,
    SpecError where an option is out of bounds.
    """
    model = find_model(model) if isinstance(model, str) else model
    gpu = find_gpu(gpu) if isinstance(gpu, str) else gpu
    tokens_given, seqs_given = max_batched_tokens is not None, max_seqs is not None
    max_batched_tokens = max_batched_tokens if tokens_given else gpu.max_batched_tokens
    max_seqs = max_seqs if seqs_given else gpu.max_seqs
    assert max_batched_tokens is not None
    assert max_seqs is not None
    _positive(
        tp=tp,
        pp=pp,
        block=block,
        max_batched_tokens=max_batched_tokens,
        max_seqs=max_seqs,
        kv_tokens=kv_tokens,
        kv_blocks=kv_blocks,
        kv_memory_bytes=kv_memory_bytes,
    )
    if not 0 < utilization <= 1:
        raise SpecError(f"utilization is {utilization}, must be in (0, 1]")
    sources = {
        "--kv-tokens": kv_tokens,
        "--kv-blocks": kv_blocks,
        "--kv-cache-memory-bytes": kv_memory_bytes,
        "--engine-log": engine_log,
    }
    given = [name for name, value in sources.items() if value is not None]
    if len(given) > 1:
        raise SpecError(f"{' and '.join(given)} all say how large the pool is: give one")

    rank = model.kv_bytes_per_token(kv_dtype, tp, pp)
    pool: Pool | None = None
    if not given:
        pool = estimate_pool(
            model,
            gpu,
            tp=tp,
            pp=pp,
            kv_dtype=kv_dtype,
            weights_dtype=weights_dtype,
            utilization=utilization,
            max_batched_tokens=max_batched_tokens,
            max_seqs=max_seqs,
            block=block,
        )
        tokens, pool_bytes = pool.tokens, pool.pool_bytes
        why = (
            f"estimate: {pool.budget_bytes / GIB:.2f} GiB ({gpu.name}, utilization {utilization}) "
            f"- {pool.weights_bytes / GIB:.2f} weights "
            f"- {pool.activation_bytes / GIB:.2f} activation peak, in whole blocks"
        )
    else:
        tokens, why = _stated(rank, block, kv_tokens, kv_blocks, kv_memory_bytes, engine_log)
        if model.mixed and engine_log is not None:
            why += (
                "; with several kinds of layers engines derive that number (concurrency · maximum "
                "length): it counts no slots"
            )
        pool_bytes = int(tokens * rank) if kv_memory_bytes is None else kv_memory_bytes
        if tokens < block:
            raise DeviceError(f"{given[0]}: a pool of {tokens} tokens holds no block of {block}")
    server = f"default of vLLM's server on {gpu.name}"
    return Device(
        model=model,
        gpu=gpu,
        tp=tp,
        pp=pp,
        kv_dtype=_kv_name(model, kv_dtype),
        weights_dtype=weights_name(model, weights_dtype),
        utilization=utilization,
        max_batched_tokens=max_batched_tokens,
        max_seqs=max_seqs,
        block=block,
        kv_bytes_per_token=model.kv_bytes_per_token(kv_dtype),
        kv_bytes_per_token_rank=rank,
        params=total_params(model),
        active_params=active_params(model),
        weights_bytes=weights_bytes(model, weights_dtype),
        weights_bytes_rank=max(rank_weights(model, weights_dtype, tp, pp)),
        expert_bytes=expert_bytes(model, weights_dtype),
        pool_bytes=pool_bytes,
        capacity_tokens=tokens,
        estimated=pool is not None,
        estimate=pool,
        provenance={
            "capacity": why,
            "model": model.source or "given",
            "gpu": gpu.source + (f" ({gpu.note})" if gpu.note else "") or "given",
            "params": "counted from the shape, norms and biases left out",
            "kv_dtype": "the checkpoint's" if kv_dtype == "auto" else "given: --kv-dtype",
            "weights_dtype": "the checkpoint's"
            if weights_dtype == "auto"
            else "given: --weights-dtype",
            "max_batched_tokens": "given" if tokens_given else server,
            "max_seqs": "given" if seqs_given else server,
        },
        stated_blocks=kv_blocks,
        exempt=exempt,
    )


def _stated(
    rank: Bytes,
    block: int,
    kv_tokens: int | None,
    kv_blocks: int | None,
    kv_memory_bytes: int | None,
    engine_log: str | Path | None,
) -> tuple[int, str]:
    """Slots and where they come from, where the size of the pool is not estimated."""
    if kv_tokens is not None:
        return kv_tokens, "given: --kv-tokens"
    if kv_blocks is not None:
        return kv_blocks * block, f"given: --kv-blocks {kv_blocks}, null block included"
    if kv_memory_bytes is not None:
        blocks = int(Fraction(kv_memory_bytes) / (rank * block))
        return blocks * block, f"given: --kv-cache-memory-bytes {kv_memory_bytes}, in whole blocks"
    assert engine_log is not None
    log: EngineLog = read_engine_log(engine_log)
    return log.tokens(block), f"from {log.engine} log line {log.line}: {log.text}"


def _kv_name(model: Model, dtype: str) -> str:
    if dtype == "auto":
        return half(model.dtype)
    return dtype.lower() if dtype.lower() == "fp8_ds_mla" else kv_format(dtype).name


def _positive(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 1:
            raise SpecError(f"{name} is {value}, must be >= 1")


__all__ = ["Device", "make_device"]
