"""Read a model's shape from a Hugging Face ``config.json``.

Families name the same thing differently, so every quantity has a list of keys, the first present
one wins. A key with a null value counts as absent. Nothing is guessed that decides KV size:
a missing layer count, head count or hidden size is an error that names the file and the keys.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pagedsim.device.hfkinds import read_kinds
from pagedsim.device.hfvalues import Config
from pagedsim.device.shape import Experts, Mla, Model
from pagedsim.errors import DeviceError

_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
_HEAD_DIM = ("head_dim", "kv_channels", "attention_head_dim")
_FFN = ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "inner_dim", "hidden_dim")
_VOCAB = ("vocab_size", "padded_vocab_size")
_MAX_LEN = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "seq_length",
    "max_seq_len",
    "max_sequence_length",
)
_EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_k")
_NESTED = ("text_config", "llm_config", "language_config", "language_model")

_FALCON = ("falcon", "refinedweb", "refinedwebmodel")
_UNGATED = frozenset(
    {*_FALCON, "bloom", "codegen", "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "mpt", "nemotron"}
    | {"opt", "persimmon", "phi", "phi-msft", "starcoder2"}
)
_TIED = frozenset((*_FALCON, "bloom", "gpt2", "gpt_bigcode", "mpt", "opt", "cohere", "cohere2"))
_LEARNED = frozenset({"gpt2", "gpt_bigcode", "opt"})


def read_config(path: str | Path) -> Model:
    """The model that a ``config.json``, or a folder with one, describes.

    Raises DeviceError naming file and key where the file cannot be read, is no JSON object, or
    lacks what decides KV size. Multimodal configurations are read at their ``text_config``.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "config.json"
    values = _load(file)
    outer = values
    for key in _NESTED:
        if isinstance(values.get(key), dict) and not any(k in values for k in _LAYERS):
            values = {**values[key]}
            for shared in ("torch_dtype", "dtype", "quantization_config", "tie_word_embeddings"):
                values.setdefault(shared, outer.get(shared))
            break
    name = outer.get("_name_or_path")
    if not isinstance(name, str) or not name or name.startswith((".", "/")):
        name = file.parent.name if file.name == "config.json" else file.stem
    return _model(Config(values, str(file)), name.rsplit("/", 1)[-1] or "config")


def _load(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_bytes())
    except OSError as error:
        raise DeviceError(f"{file}: cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise DeviceError(f"{file}:{error.lineno}: is no JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:  # no UTF-8, endless digits, endless nesting
        raise DeviceError(f"{file}: is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise DeviceError(f"{file}: holds a {type(values).__name__}, must be a JSON object")
    return values


def _model(config: Config, name: str) -> Model:
    layers, hidden = config.need(_LAYERS), config.need(_HIDDEN)
    heads, max_len = config.need(_HEADS), config.find(_MAX_LEN)
    gated = config.kind not in _UNGATED
    mla = _mla(config)
    head_dim = mla.nope_dim + mla.rope_dim if mla else _head_dim(config, hidden, heads)
    kinds = read_kinds(config, layers)
    return Model(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads if mla else _kv_heads(config, heads),
        head_dim=head_dim,
        ffn=config.need(_FFN) if gated else config.find(_FFN) or 4 * hidden,
        vocab=config.need(_VOCAB),
        max_len=max_len,
        source=config.file,
        dtype=_dtype(config),
        weights_dtype=_quantised(config),
        gated=gated,
        tie=config.flag(
            "tie_word_embeddings", config.kind in _TIED or config.kind.startswith("gemma")
        ),
        positions=(max_len or 0) + 2 * (config.kind == "opt") if config.kind in _LEARNED else 0,
        mla=mla,
        experts=_experts(config, layers),
        window=kinds.window,
        kinds=kinds.kinds,
        global_kv_heads=config.find(("num_global_key_value_heads",)) or 0,
        global_head_dim=config.find(("global_head_dim",)) or 0,
        state=kinds.state,
        uncounted=_uncounted(config),
    )


def _kv_heads(config: Config, heads: int) -> int:
    nested = config.values.get("attn_config")
    if isinstance(nested, dict) and nested.get("kv_n_heads") is not None:
        found: int | None = Config(nested, config.file).find(("kv_n_heads",))
    else:
        default = config.kind in (*_FALCON, "gpt_bigcode")
        if config.flag("multi_query", default) and not config.flag("new_decoder_architecture"):
            return 1
        found = config.find(_KV_HEADS)
    found = found or heads
    if heads % found:
        raise DeviceError(f"{config.file}: {found} KV heads do not divide {heads} query heads")
    return found


def _head_dim(config: Config, hidden: int, heads: int) -> int:
    found = config.find(_HEAD_DIM)
    if found is None:
        found, rest = divmod(hidden, heads)
        if rest:
            raise DeviceError(
                f"{config.file}: head_dim is missing and {heads} heads do not divide "
                f"hidden_size {hidden}"
            )
    return found


def _mla(config: Config) -> Mla | None:
    rank = config.find(("kv_lora_rank",))
    if rank is None:
        return None
    return Mla(
        kv_rank=rank,
        rope_dim=config.need(("qk_rope_head_dim",)),
        nope_dim=config.need(("qk_nope_head_dim",)),
        value_dim=config.need(("v_head_dim",)),
        q_rank=config.find(("q_lora_rank",)),
    )


def _experts(config: Config, layers: int) -> Experts | None:
    count = config.find(_EXPERTS, low=0)
    if not count or count == 1:
        return None
    width = config.find(("moe_intermediate_size", "expert_ffn_hidden_size")) or config.need(_FFN)
    shared = config.find(("shared_expert_intermediate_size",), low=0) or 0
    alike = config.find(("n_shared_experts", "num_shared_experts"), low=0) or 0
    step = config.find(("decoder_sparse_step", "interleave_moe_layer_step")) or 1
    dense = config.find(("first_k_dense_replace",), low=0) or 0
    dense = max(dense, layers - layers // step)
    return Experts(
        count=count,
        per_token=min(count, config.need(_PER_TOKEN)),
        ffn=width,
        shared_ffn=shared or alike * width,
        dense_layers=min(dense, layers),
    )


def _uncounted(config: Config) -> str:
    """What the model keeps for a sequence besides its layers' KV."""
    if config.find(("index_topk", "index_head_dim")):
        return "keys of a sparse indexer"
    return "cross-attention" if config.flag("is_encoder_decoder") else ""


def _dtype(config: Config) -> str:
    value = config.values.get("torch_dtype") or config.values.get("dtype") or "bfloat16"
    short = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
    found = short.get(str(value).removeprefix("torch."))
    if found is None:
        raise DeviceError(f"{config.file}: torch_dtype is {value!r}, must be one of {list(short)}")
    return found


def _quantised(config: Config) -> str:
    """The weights' format if the checkpoint is quantised, else ''."""
    settings = config.values.get("quantization_config")
    if not isinstance(settings, dict):
        return ""
    method = str(settings.get("quant_method") or "").lower()
    if method in ("fp8", "fbgemm_fp8", "mxfp4"):
        return method.removeprefix("fbgemm_")
    bits = settings.get("bits") or settings.get("w_bit")
    if bits is None and method == "bitsandbytes":
        bits = 4 if settings.get("load_in_4bit") else 8
    if bits is None and isinstance(settings.get("config_groups"), dict):
        groups = [g for g in settings["config_groups"].values() if isinstance(g, dict)]
        weights = [g["weights"] for g in groups if isinstance(g.get("weights"), dict)]
        if weights and weights[0].get("type") == "float" and weights[0].get("num_bits") == 8:
            return "fp8"
        bits = weights[0].get("num_bits") if weights else None
    return {4: "int4", 8: "int8"}.get(bits, "") if isinstance(bits, int) else ""


__all__ = ["read_config"]
