"""What one layer of a model keeps for a sequence, and the bytes of that on one rank.

Words: a layer's *kind* is what it keeps (see `protocols.groups`), besides ``mla``, a latent in the
place of keys and values, and ``shared`` and ``none``, which keep nothing: they reuse another
layer's KV, or have no attention; a *page* is one layer's part of one block, on one rank.

Bytes of a page, as vLLM 0.33 has them::

    full, sliding, chunked   block · heads · (2 · head_dim · element + scales)
    mla                      block · latent · element, whole on every tensor-parallel rank
    state                    conv_width / tp · (kernel - 1) · element + elements / tp · its element

with ``heads = max(1, kv_heads // tp)``: a head is replicated where there are more ranks than heads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from pagedsim.device.dtypes import half, kv_format
from pagedsim.errors import DeviceError

KINDS = ("full", "sliding", "chunked", "mla", "state", "shared", "none")
KEEPS_NOTHING = ("shared", "none")
_OF_VLLM = ("fp16", "bf16", "fp8")  # and those with scales a head and token


@dataclass(frozen=True, slots=True)
class State:
    """A recurrent layer's state, in elements of the whole model; tensor parallelism splits both.

    `conv_width` channels remember `conv_kernel` - 1 inputs each in the model's format; `elements`
    are the recurrent state's, in `dtype` ('auto': the model's). For a gated delta net these are
    ``2 · key heads · key dim + value heads · value dim`` and ``value heads · value dim · key dim``.
    """

    conv_width: int
    conv_kernel: int
    elements: int
    dtype: str = "auto"

    def bytes_per_rank(self, dtype: str, tp: int) -> int:
        """Bytes of one state on one rank; DeviceError where tp does not divide it."""
        for what, count in (("conv channels", self.conv_width), ("state", self.elements)):
            if count % tp:
                raise DeviceError(f"tp {tp} does not divide a recurrent layer's {what} of {count}")
        own = half(dtype) if self.dtype == "auto" else self.dtype
        conv = self.conv_width // tp * (self.conv_kernel - 1) * kv_format(half(dtype)).element
        return int(conv + self.elements // tp * kv_format(own).element)


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: `kind`, and what its bytes follow from; `window` is a chunk's size for chunked.

    `latent` is ``kv_rank + rope_dim`` of MLA. `exempt` layers keep the model's format where the
    others have a narrower one.
    """

    kind: str
    kv_heads: int = 0
    head_dim: int = 0
    window: int = 0
    latent: int = 0
    state: State | None = None
    exempt: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DeviceError(f"unknown kind of layer {self.kind!r}; there are {', '.join(KINDS)}")
        if self.kind in ("sliding", "chunked") and self.window < 1:
            raise DeviceError(f"a {self.kind} layer's window is {self.window}, must be >= 1")
        if self.kind in ("full", "sliding", "chunked") and min(self.kv_heads, self.head_dim) < 1:
            raise DeviceError(
                f"a {self.kind} layer has {self.kv_heads} KV heads of {self.head_dim}, must be >= 1"
            )
        if self.kind == "mla" and self.latent < 1:
            raise DeviceError(f"a latent layer keeps {self.latent} elements, must be >= 1")
        if self.kind == "state" and self.state is None:
            raise DeviceError("a recurrent layer needs a state of a known size")

    def heads(self, tp: int) -> int:
        """KV heads on a rank: rounded down, at least one."""
        return max(1, self.kv_heads // tp)

    def as_full(self) -> Layer:
        """The same layer with the KV of every token kept."""
        return replace(self, kind="full", window=0)

    def token_bytes(self, *, tp: int, dtype: str, kv_dtype: str) -> Fraction:
        """Bytes of one token's KV in this layer on one rank; not for a state."""
        name = half(dtype) if self.exempt or kv_dtype == "auto" else kv_dtype.lower()
        if self.kind == "mla":
            if name == "fp8_ds_mla":
                return Fraction(656)  # fixed by its kernel, whatever the shape
            kind = kv_format(name)
            if kind.scales:
                raise DeviceError(f"MLA latents cannot be kept as {kind.name}: it needs KV heads")
            _known(kind.name)
            return self.latent * kind.element
        kind = kv_format(name)
        if not kind.scales:
            _known(kind.name)
        return self.heads(tp) * (2 * self.head_dim * kind.element + kind.scales)


def _known(name: str) -> None:
    if name not in _OF_VLLM:
        raise DeviceError(
            f"vLLM keeps no KV as {name}; it has auto, {', '.join(_OF_VLLM)}, "
            "fp8_per_token_head, int8_per_token_head, int4_per_token_head and fp8_ds_mla (MLA)"
        )


__all__ = ["KEEPS_NOTHING", "KINDS", "Layer", "State"]
