"""How many parameters a model has, and the bytes that they take on each rank.

Counted from the shape alone: projections, feed-forwards, routers, embeddings, learned positions
and output head; norms and biases (below 0.1 %) are left out. *Kept* parameters (embeddings, head,
positions, routers) stay at 16 bits when the rest is quantised, as checkpoints do.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedsim.device.dtypes import half, weight_format
from pagedsim.device.shape import Model


class Counts(NamedTuple):
    """Parameters: `kept` at 16 bits or more, `linear` in the weights' format, `routed` experts."""

    kept: int
    linear: int
    routed: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.kept + self.linear + self.routed


def total_params(model: Model) -> int:
    """All parameters of one copy of the model."""
    return _stage(model, tp=1, first=0, last=model.layers).total


def active_params(model: Model) -> int:
    """Parameters that one token meets: all but the routed experts that it does not use."""
    if model.experts is None:
        return total_params(model)
    unused = model.experts.count - model.experts.per_token
    return total_params(model) - unused * expert_params(model)


def expert_params(model: Model) -> int:
    """Parameters of one routed expert, summed over the layers that have experts."""
    if model.experts is None:
        return 0
    width = model.experts.ffn
    return (model.layers - model.experts.dense_layers) * _ffn(model, width)


def weights_bytes(model: Model, dtype: str = "auto") -> int:
    """Bytes of one whole copy of the weights, rounded up."""
    return _bytes(_stage(model, tp=1, first=0, last=model.layers), model, dtype)


def expert_bytes(model: Model, dtype: str = "auto") -> int:
    """Bytes of one routed expert over all layers, rounded down."""
    kind = weight_format(_auto(model, dtype))
    return int(expert_params(model) * kind.element)


def rank_weights(model: Model, dtype: str = "auto", tp: int = 1, pp: int = 1) -> tuple[int, ...]:
    """Bytes of the weights on one rank of each pipeline stage.

    Tensor parallelism splits heads, feed-forwards and the vocabulary (rounded up); routers, the
    low-rank MLA projections and replicated KV heads are whole on every rank. The first stage has
    the embeddings, the last the head (a copy of the embeddings where they are tied).
    """
    found, start = [], 0
    for layers in model.stages(pp):
        found.append(_bytes(_stage(model, tp, start, start + layers), model, dtype))
        start += layers
    return tuple(found)


def weights_name(model: Model, dtype: str) -> str:
    """The format that `dtype` stands for: 'auto' is the checkpoint's."""
    return weight_format(_auto(model, dtype)).name


def _auto(model: Model, dtype: str) -> str:
    return (model.weights_dtype or half(model.dtype)) if dtype == "auto" else dtype


def _bytes(counts: Counts, model: Model, dtype: str) -> int:
    kind = weight_format(_auto(model, dtype))
    kept = max(kind.element, weight_format("bf16").element)
    # mxfp4 checkpoints quantise the experts only
    linear = kept if kind.name == "mxfp4" and model.experts is not None else kind.element
    size = counts.kept * kept + counts.linear * linear + counts.routed * kind.element
    return -((-size.numerator) // size.denominator)


def _stage(model: Model, tp: int, first: int, last: int) -> Counts:
    """Parameters on one TP rank of the layers first … last - 1."""
    layers = last - first
    experts = model.experts
    table = -(-model.vocab // tp) * model.hidden
    kept = 0
    if first == 0:
        kept += table + model.positions * model.hidden
    if last == model.layers and not (model.tie and first == 0):
        kept += table
    linear = layers * _attention(model, tp)
    routed = 0
    if experts is None:
        linear += layers * _ffn(model, -(-model.ffn // tp))
    else:
        dense = max(0, min(last, experts.dense_layers) - first)
        sparse = layers - dense
        linear += dense * _ffn(model, -(-model.ffn // tp))
        linear += sparse * _ffn(model, -(-experts.shared_ffn // tp))
        routed = sparse * experts.count * _ffn(model, -(-experts.ffn // tp))
        kept += sparse * model.hidden * experts.count
    return Counts(kept, linear, routed)


def _ffn(model: Model, width: int) -> int:
    return (3 if model.gated else 2) * model.hidden * width


def _attention(model: Model, tp: int) -> int:
    heads = model.heads_per_rank(tp)
    if model.mla is None:
        size = model.hidden * model.head_dim
        return 2 * size * heads + 2 * size * model.kv_heads_per_rank(tp)
    mla = model.mla
    query = heads * (mla.nope_dim + mla.rope_dim)
    down = model.hidden * (mla.kv_rank + mla.rope_dim)
    if mla.q_rank is None:
        query_params = model.hidden * query
    else:
        query_params = (model.hidden + query) * mla.q_rank
    up = mla.kv_rank * heads * (mla.nope_dim + mla.value_dim)
    return query_params + down + up + heads * mla.value_dim * model.hidden


__all__ = [
    "Counts",
    "active_params",
    "expert_bytes",
    "expert_params",
    "rank_weights",
    "total_params",
    "weights_bytes",
    "weights_name",
]
