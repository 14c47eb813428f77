"""Which kind each layer of a ``config.json`` is: full, sliding, chunked, recurrent, or without KV.

A configuration says it by a list of names a layer (``layer_types``), by a string of letters
(``hybrid_override_pattern``), by lists of layer numbers (``linear_attn_config``) or by a period;
the first that is there counts. A name that is not known, and a list that does not cover all layers,
are errors: nothing is taken for full attention in silence.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedsim.device.hfvalues import Config
from pagedsim.device.layers import State
from pagedsim.errors import DeviceError

_NAMES = {
    **dict.fromkeys(("full", "full_attention", "attention", "global", "global_attention"), "full"),
    **dict.fromkeys(("sliding", "sliding_attention", "sliding_window", "local"), "sliding"),
    **dict.fromkeys(("local_attention", "sliding_window_attention"), "sliding"),
    **dict.fromkeys(("chunked", "chunked_attention"), "chunked"),
    **dict.fromkeys(("linear", "linear_attention", "gated_delta_net", "gdn", "kda"), "state"),
    **dict.fromkeys(("mamba", "mamba1", "mamba2", "recurrent", "rwkv", "ssm", "conv"), "state"),
    **dict.fromkeys(("mlp", "moe"), "none"),
}
_LETTERS = {"*": "full", "M": "state", "-": "none", "E": "none"}
_PARALLEL = ("falcon_h1",)


class Kinds(NamedTuple):
    """Each layer's kind, () for full attention; the size of a window or chunk; a state's size."""

    kinds: tuple[str, ...] = ()
    window: int = 0
    state: State | None = None


def read_kinds(config: Config, layers: int) -> Kinds:
    """The kinds of all `layers`; DeviceError names file, key and layer where that is not clear."""
    kinds = _stated(config, layers) or _by_period(config, layers)
    if config.kind.startswith(_PARALLEL):
        kinds = ["parallel"] * layers
    elif config.kind.startswith(("mamba", "rwkv")):
        kinds = ["state"] * layers
    window = config.find(("sliding_window",))
    chunk = config.find(("attention_chunk_size",))
    if not config.flag("use_sliding_window", not config.kind.startswith("qwen")):
        kinds = ["full" if kind == "sliding" else kind for kind in kinds]
    elif not kinds and (window or chunk):
        kinds = _windowed(config, layers, chunked=not window)
    for kind, size, key in (
        ("sliding", window, "sliding_window"),
        ("chunked", chunk, "attention_chunk_size"),
    ):
        if kind in kinds and size is None:
            raise DeviceError(
                f"{config.file}: layer {kinds.index(kind)} is {kind}, and {key} is missing"
            )
    if {"sliding", "chunked"} <= set(kinds):
        raise DeviceError(f"{config.file}: has both sliding and chunked layers; one size is known")
    shared = config.find(("num_kv_shared_layers",), low=0) or 0
    if shared > layers:
        raise DeviceError(
            f"{config.file}: num_kv_shared_layers is {shared}, must be <= {layers} (layers)"
        )
    if shared:
        own = kinds or ["full"] * layers
        kinds = own[: layers - shared] + ["shared"] * shared
    if set(kinds) <= {"full"}:
        return Kinds()
    size = window if "sliding" in kinds else chunk if "chunked" in kinds else 0
    return Kinds(tuple(_latent(config, kinds)), size or 0, _state(config, kinds))


def _stated(config: Config, layers: int) -> list[str]:
    """Kinds from a list or a string that names each layer; [] if there is none."""
    for key in ("layer_types", "layers_block_type"):
        names = config.words(key)
        if not names:
            continue
        _covers(config, key, len(names), layers)
        for index, name in enumerate(names):
            if name.lower() not in _NAMES:
                known = ", ".join(sorted(_NAMES))
                raise DeviceError(
                    f"{config.file}: {key}[{index}] is {name!r}, an unknown type of layer; "
                    f"there are {known}"
                )
        return [_NAMES[name.lower()] for name in names]
    letters = config.values.get("hybrid_override_pattern")
    if isinstance(letters, str) and letters:
        _covers(config, "hybrid_override_pattern", len(letters), layers)
        for index, letter in enumerate(letters):
            if letter not in _LETTERS:
                raise DeviceError(
                    f"{config.file}: hybrid_override_pattern[{index}] is {letter!r}, an unknown "
                    f"type of layer; there are {' '.join(_LETTERS)}"
                )
        return [_LETTERS[letter] for letter in letters]
    return _numbered(config, layers)


def _numbered(config: Config, layers: int) -> list[str]:
    """Kinds from lists of numbers: 1 for attention, 0 for a state; or layers counted from 1."""
    types = config.numbers("attn_type_list")
    if types is not None:
        _covers(config, "attn_type_list", len(types), layers)
        for index, number in enumerate(types):
            if number not in (0, 1):
                raise DeviceError(f"{config.file}: attn_type_list[{index}] is {number}, not 0 or 1")
        return ["full" if number else "state" for number in types]
    nested = config.values.get("linear_attn_config")
    if not isinstance(nested, dict):
        return []
    inner = Config(nested, config.file)
    kinds = [""] * layers
    for key, kind in (("kda_layers", "state"), ("full_attn_layers", "full")):
        for number in inner.numbers(key) or []:
            if not 1 <= number <= layers:
                raise DeviceError(
                    f"{config.file}: {key} has layer {number}, must be in 1 … {layers}"
                )
            kinds[number - 1] = kind
    _covers(config, "linear_attn_config", layers - kinds.count(""), layers)
    return kinds


def _by_period(config: Config, layers: int) -> list[str]:
    """Kinds of models where every n-th layer has full attention and the others a state."""
    every = config.find(("full_attention_interval",))
    if every:
        return ["state" if (i + 1) % every else "full" for i in range(layers)]
    every = config.find(("attn_layer_period",))
    if every:
        offset = config.find(("attn_layer_offset",), low=0) or 0
        return ["full" if i % every == offset else "state" for i in range(layers)]
    return []


def _windowed(config: Config, layers: int, *, chunked: bool) -> list[str]:
    """Kinds of a model that states a window or chunk and no kinds."""
    if chunked:
        rotary = config.numbers("no_rope_layers")
        if rotary:
            _covers(config, "no_rope_layers", len(rotary), layers)
            return ["chunked" if uses else "full" for uses in rotary]
        every = config.find(("no_rope_layer_interval",)) or 4 * config.kind.startswith("llama4")
        return ["chunked" if not every or (i + 1) % every else "full" for i in range(layers)]
    every = config.find(("sliding_window_pattern",)) or 2 * (config.kind == "gemma2")
    if config.kind.startswith("qwen2"):
        first = config.find(("max_window_layers",), low=0) or 0
        return ["sliding" if i >= first else "full" for i in range(layers)]
    return ["sliding" if not every or (i + 1) % every else "full" for i in range(layers)]


def _latent(config: Config, kinds: list[str]) -> list[str]:
    """Full attention of a model with latents keeps those."""
    if config.find(("kv_lora_rank",)) is None:
        return kinds
    return ["mla" if kind == "full" else kind for kind in kinds]


def _state(config: Config, kinds: list[str]) -> State | None:
    """A recurrent layer's state, None where the configuration does not say how large it is."""
    if "state" not in kinds:
        return None
    dtype = str(config.values.get("mamba_ssm_dtype") or "auto").removeprefix("torch.")
    dtype = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}.get(dtype, dtype)
    values = config.find(("linear_num_value_heads",))
    if values is not None:
        width = config.need(("linear_value_head_dim",))
        key = config.need(("linear_key_head_dim",))
        keys = config.need(("linear_num_key_heads",))
        kernel = config.need(("linear_conv_kernel_dim",))
        return State(2 * keys * key + values * width, kernel, values * width * key, dtype)
    size = config.find(("mamba_d_state", "ssm_state_size"))
    kernel_ = config.find(("mamba_d_conv", "conv_kernel"))
    if size is None or kernel_ is None:
        return None
    heads = config.find(("mamba_n_heads", "mamba_num_heads"))
    if heads is not None:
        if config.values.get("mamba_d_head") == "auto":
            inner = (config.find(("mamba_expand",)) or 2) * config.need(("hidden_size",))
        else:
            inner = heads * config.need(("mamba_d_head", "mamba_head_dim"))
        shared = config.find(("mamba_n_groups", "n_groups")) or 1
        return State(inner + 2 * shared * size, kernel_, inner * size, dtype)
    inner = (config.find(("mamba_expand",)) or 2) * config.need(("hidden_size",))
    return State(inner, kernel_, inner * size, dtype)


def _covers(config: Config, key: str, count: int, layers: int) -> None:
    if count != layers:
        raise DeviceError(f"{config.file}: {key} covers {count} layers, must cover all {layers}")


__all__ = ["Kinds", "read_kinds"]
