"""How large the KV pool is, estimated; an engine's own figure always wins over this.

For each rank, in bytes::

    |<--------------------- usable · utilization --------------------->|
    |   weights   |  activation peak  |            pool                 |
    0                                 |<- whole blocks of every layer ->|

The pool of the engine is that of the rank which holds the fewest blocks. A runtime's own reserve
(CUDA graphs, NCCL buffers) is taken as 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pagedsim.device.dtypes import Bytes
from pagedsim.device.gpu import GIB, Gpu
from pagedsim.device.params import rank_weights
from pagedsim.device.shape import Model
from pagedsim.errors import DeviceError


@dataclass(frozen=True, slots=True)
class Pool:
    """The estimate on the smallest rank; bytes are of that rank.

    `budget_bytes` is usable · utilization; `kv_bytes_per_token` that rank's share of a token.
    """

    stage: int
    budget_bytes: int
    weights_bytes: int
    activation_bytes: int
    pool_bytes: int
    kv_bytes_per_token: Bytes
    block: int
    blocks: int

    @property
    def tokens(self) -> int:
        """Slots, in whole blocks."""
        return self.blocks * self.block


def activation_peak(model: Model, max_batched_tokens: int, max_seqs: int, tp: int = 1) -> int:
    """Bytes of activations at their peak on one rank; grows with the tokens of a step.

    ``max_batched_tokens · (3 · ffn / tp + 2 · hidden) · 2 + max_seqs · vocab · 4``. A server with
    Qwen3-8B on a 24 GB card measured 87.75 KiB a step token; this gives 88.0. For experts, ffn is
    the larger of the dense width and that of the experts which a token uses.
    """
    ffn = model.ffn
    if model.experts is not None:
        used = model.experts.per_token * model.experts.ffn + model.experts.shared_ffn
        dense = model.experts.dense_layers > 0
        ffn = max(used, model.ffn) if dense else used
    step = Fraction(3 * ffn, tp) + 2 * model.hidden
    return math.ceil(max_batched_tokens * step * 2) + max_seqs * model.vocab * 4


def estimate_pool(
    model: Model,
    gpu: Gpu,
    *,
    tp: int,
    pp: int,
    kv_dtype: str,
    weights_dtype: str,
    utilization: float,
    max_batched_tokens: int,
    max_seqs: int,
    block: int,
) -> Pool:
    """The pool of the smallest rank. DeviceError, with all the numbers, if nothing is left."""
    budget = int(gpu.usable_bytes * Fraction(str(utilization)))
    peak = activation_peak(model, max_batched_tokens, max_seqs, tp)
    layer = model.kv_bytes_per_layer(kv_dtype, tp)
    weights = rank_weights(model, weights_dtype, tp, pp)
    pools = []
    for stage, layers in enumerate(model.stages(pp)):
        left = budget - weights[stage] - peak
        blocks = max(0, math.floor(left / (layer * layers * block)))
        kv = layer * layers
        share: Bytes = kv.numerator if kv.denominator == 1 else kv
        pools.append(Pool(stage, budget, weights[stage], peak, left, share, block, blocks))
    smallest = min(pools, key=lambda pool: (pool.blocks, pool.pool_bytes))
    if smallest.blocks < 1:
        raise DeviceError(_too_small(model, gpu, smallest, tp, pp, utilization))
    return smallest


def _too_small(model: Model, gpu: Gpu, pool: Pool, tp: int, pp: int, utilization: float) -> str:
    need = pool.weights_bytes + pool.activation_bytes
    one = float(pool.kv_bytes_per_token * pool.block)
    return (
        f"{model.name} on {gpu.name} (tp {tp}, pp {pp}): no room for KV on rank {pool.stage}: "
        f"{gpu.usable_bytes / GIB:.2f} GiB usable · {utilization} = {pool.budget_bytes / GIB:.2f}, "
        f"less {pool.weights_bytes / GIB:.2f} weights and {pool.activation_bytes / GIB:.2f} "
        f"activation peak, leaves {(pool.budget_bytes - need) / GIB:.2f} GiB; one block of "
        f"{pool.block} tokens takes {one / GIB:.4f}. "
        "A larger tp or pp, a smaller weights dtype, fewer max_batched_tokens or another GPU help"
    )


__all__ = ["Pool", "activation_peak", "estimate_pool"]
