"""The shape of a model, and the bytes that the KV of one token takes.

Words: a *layer* is one attention + one feed-forward; *heads* are query heads, *KV heads* those
whose keys and values are stored; *MLA* stores one latent per layer and token in their place; a
*rank* is one GPU of tp · pp; a *stage* is the run of layers that a pipeline rank holds.

Law: sizes are exact (int, or Fraction where 4-bit formats make half bytes); nothing is rounded
before whole blocks are counted. `kv_bytes_per_token` counts every layer as full attention, and
`Model.caveats` says so for models with windows, recurrent layers or shared KV; `Model.layer_list`
is what `startup` sizes such models by.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from pagedsim.device.dtypes import Bytes, half, kv_format, whole
from pagedsim.device.layers import Layer, State
from pagedsim.errors import DeviceError


@dataclass(frozen=True, slots=True)
class Mla:
    """Multi-head latent attention: ranks and head sizes, as in DeepSeek-V2 (arXiv 2405.04434).

    `q_rank` is None where queries are projected directly.
    """

    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    q_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts: `count`, of which a token uses `per_token`, each of width `ffn`.

    `shared_ffn` is the total width of the experts that every token uses; the first
    `dense_layers` layers have a plain feed-forward instead.
    """

    count: int
    per_token: int
    ffn: int
    shared_ffn: int = 0
    dense_layers: int = 0


@dataclass(frozen=True, slots=True)
class Model:
    """What of a model decides its memory and work; see `find_model` and `read_config`.

    `max_len` is None where the configuration states no maximum length. `gated` feed-forwards have
    three matrices, others two. `positions` counts learned position embeddings. `kinds` is each
    layer's kind (see `layers`) in model order, a pattern that is repeated where it is shorter, ()
    for full attention; `window` is the size of a window or chunk. `global_kv_heads` and
    `global_head_dim` are full layers' own where others are sliding, 0 for the same; `state` is what
    a recurrent layer keeps, None where that is unknown; `uncounted` is what is kept besides, in
    words. `weights_dtype` is what the checkpoint
    stores its linear layers in, '' where that is `dtype`.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    max_len: int | None = None
    source: str = ""
    dtype: str = "bf16"
    weights_dtype: str = ""
    gated: bool = True
    tie: bool = False
    positions: int = 0
    mla: Mla | None = None
    experts: Experts | None = None
    window: int = 0
    kinds: tuple[str, ...] = ()
    global_kv_heads: int = 0
    global_head_dim: int = 0
    state: State | None = None
    uncounted: str = ""

    @property
    def attention(self) -> str:
        """MHA, GQA, MQA or MLA."""
        if self.mla is not None:
            return "MLA"
        if self.kv_heads == self.heads:
            return "MHA"
        return "MQA" if self.kv_heads == 1 else "GQA"

    @property
    def unlike(self) -> tuple[str, ...]:
        """Which layers are no full attention, a clause for each kind: '5 of 6 layers …'."""
        sees = self.max_len is None or self.window <= self.max_len
        words = {
            "sliding": f"use a sliding window of {self.window:,} tokens" if sees else "",
            "chunked": f"attend within chunks of {self.window:,} tokens" if sees else "",
            "state": "are recurrent and keep a state in place of KV",
            "parallel": "are recurrent and keep a state besides KV",
            "shared": "reuse another layer's KV",
            "none": "have no attention",
        }
        return tuple(
            f"{count} of {self.layers} layers {what}"
            for kind, what in words.items()
            if what and (count := self.layer_kinds.count(kind))
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the sizes leave out, or count as full attention although it is not; sentences."""
        beside = (f"{self.uncounted}: kept besides KV, and not counted",) if self.uncounted else ()
        alike = "all layers are counted as full attention"
        return beside + tuple(f"{clause}; {alike}" for clause in self.unlike)

    @property
    def layer_kinds(self) -> tuple[str, ...]:
        """Each layer's kind, in model order."""
        pattern = self.kinds or ("mla" if self.mla is not None else "full",)
        return (pattern * -(-self.layers // len(pattern)))[: self.layers]

    @property
    def mixed(self) -> bool:
        """Whether some layers keep something else than every token's KV."""
        return not set(self.layer_kinds) <= {"full", "mla"}

    def layer_list(self, exempt: Collection[str] = ()) -> list[Layer]:
        """Every layer as `startup.start` takes it.

        `exempt` names layers that keep the model's own KV format, by index or by kind.
        DeviceError for a kind whose size is unknown, or an exemption that meets no layer.
        """
        if self.uncounted:
            raise DeviceError(
                f"{self.name} keeps more than its layers' KV ({self.uncounted}): how the engine "
                "sizes that is not known here"
            )
        found = []
        met = set()
        for index, kind in enumerate(self.layer_kinds):
            names = {str(index), kind, f"{kind}_window", f"{kind}_attention"} & set(exempt)
            met |= names
            found.append(self._layer(index, kind, bool(names)))
        if unmet := sorted(set(exempt) - met):
            raise DeviceError(
                f"{self.name} has no layer {unmet[0]!r}; there are 0 … {self.layers - 1}, and "
                f"{', '.join(sorted(set(self.layer_kinds)))}"
            )
        return found

    def _layer(self, index: int, kind: str, exempt: bool) -> Layer:
        if kind == "parallel" or (kind == "state" and self.state is None):
            what = "a state besides KV" if kind == "parallel" else "a state"
            raise DeviceError(f"{self.name}: layer {index} keeps {what}, of unknown size")
        if kind == "mla":
            assert self.mla is not None
            return Layer(kind, latent=self.mla.kv_rank + self.mla.rope_dim, exempt=exempt)
        own = kind == "full"
        return Layer(
            kind,
            kv_heads=(own and self.global_kv_heads) or self.kv_heads,
            head_dim=(own and self.global_head_dim) or self.head_dim,
            window=self.window if kind in ("sliding", "chunked") else 0,
            state=self.state if kind == "state" else None,
            exempt=exempt,
        )

    def kv_bytes_per_token(self, kv_dtype: str = "auto", tp: int = 1, pp: int = 1) -> Bytes:
        """Bytes that the KV of one token takes on the rank that holds most of it.

        ``2 · layers · kv_heads · head_dim · element``, or for MLA
        ``layers · (kv_rank + rope_dim) · element``; tp=1, pp=1 is the whole model. Tensor
        parallelism splits the KV heads (`kv_heads_per_rank`) but never an MLA latent; pipeline
        parallelism splits the layers (`stages`).
        """
        return whole(self.kv_bytes_per_layer(kv_dtype, tp) * max(self.stages(pp)))

    def kv_bytes_per_layer(self, kv_dtype: str = "auto", tp: int = 1) -> Fraction:
        """Bytes of one token's KV in one layer on one rank."""
        if self.mla is not None:
            self.heads_per_rank(tp)
            if kv_dtype.lower() == "fp8_ds_mla":
                return Fraction(656)  # fixed by its kernel, whatever the shape
            kind = kv_format(half(self.dtype) if kv_dtype == "auto" else kv_dtype)
            if kind.scales:
                raise DeviceError(f"{self.name} keeps MLA latents: {kind.name} needs KV heads")
            return (self.mla.kv_rank + self.mla.rope_dim) * kind.element
        kind = kv_format(half(self.dtype) if kv_dtype == "auto" else kv_dtype)
        heads = self.kv_heads_per_rank(tp)
        return heads * (2 * self.head_dim * kind.element + kind.scales)

    def heads_per_rank(self, tp: int) -> int:
        """Query heads on a rank; DeviceError unless tp divides them."""
        if tp < 1:
            raise DeviceError(f"tp is {tp}, must be >= 1")
        if self.heads % tp:
            raise DeviceError(f"{self.name}: tp {tp} does not divide {self.heads} query heads")
        return self.heads // tp

    def kv_heads_per_rank(self, tp: int) -> int:
        """KV heads on a rank: kv_heads / tp, or 1 (replicated) where tp is a multiple of them."""
        if tp < 1:
            raise DeviceError(f"tp is {tp}, must be >= 1")
        if tp <= self.kv_heads:
            if self.kv_heads % tp:
                raise DeviceError(f"{self.name}: tp {tp} does not divide {self.kv_heads} KV heads")
            return self.kv_heads // tp
        if tp % self.kv_heads:
            raise DeviceError(
                f"{self.name}: tp {tp} is no multiple of {self.kv_heads} KV heads, so they can "
                "neither be split nor replicated evenly"
            )
        return 1

    def stages(self, pp: int) -> tuple[int, ...]:
        """Layers of each pipeline stage, as vLLM splits them.

        ``layers // pp`` each; the remainder goes one each to the stages before the last, from the
        second-last backwards (80 over 3: 27, 27, 26; 62 over 4: 15, 16, 16, 15).
        """
        if not 1 <= pp <= self.layers:
            raise DeviceError(f"{self.name}: pp is {pp}, must be in 1 … {self.layers} (layers)")
        each, rest = divmod(self.layers, pp)
        return tuple(each + (pp - 1 - rest <= stage < pp - 1) for stage in range(pp))


__all__ = ["Experts", "Mla", "Model"]
