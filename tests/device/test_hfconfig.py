"""Shapes from ``config.json``: every family's own spelling, and what is wrong by file and key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pagedsim.device import Model, find_model, read_config
from pagedsim.device.layers import Layer, State
from pagedsim.device.params import total_params
from pagedsim.errors import DeviceError

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
MLA: dict[str, Any] = {
    **LLAMA,
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "quantization_config": {"quant_method": "fp8"},
}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def write(values: object) -> Model:
        file = tmp_path / "my-model" / "config.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(values if isinstance(values, str) else json.dumps(values))
        return read_config(file)

    return write


def without(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {k: v for k, v in values.items() if k not in keys}


def test_llama_equals_the_built_in_row(read: Any, tmp_path: Path) -> None:
    model, table = read(LLAMA), find_model("llama-3.1-8b")
    assert model.name == "my-model"
    assert model.kv_bytes_per_token() == table.kv_bytes_per_token()
    assert total_params(model) == total_params(table)
    assert (model.max_len, model.dtype, model.attention) == (131072, "bf16", "GQA")
    for path in (tmp_path / "my-model", tmp_path / "my-model" / "config.json"):
        assert find_model(str(path)) == model


def test_mla_equals_the_built_in_row(read: Any) -> None:
    model, table = read(MLA), find_model("deepseek-v3")
    assert model.mla == table.mla
    assert model.experts == table.experts
    assert (model.weights_dtype, model.attention) == ("fp8", "MLA")
    assert total_params(model) == total_params(table)


@pytest.mark.parametrize(
    ("changes", "kv_heads", "head_dim"),
    [
        ({"num_key_value_heads": None}, 32, 128),  # MHA where nothing is said
        ({"head_dim": None}, 8, 128),
        ({"head_dim": 256}, 8, 256),
        ({"multi_query": True}, 1, 128),
        ({"num_key_value_heads": None, "num_kv_heads": 4}, 4, 128),
        ({"num_key_value_heads": None, "n_head_kv": 2}, 2, 128),
        ({"num_key_value_heads": None, "multi_query_group_num": 2}, 2, 128),
        ({"num_key_value_heads": None, "attn_config": {"kv_n_heads": 4}}, 4, 128),
        # Falcon-7B states 71 KV heads and means 1; the new architecture means what it says
        ({"model_type": "falcon", "multi_query": True, "num_kv_heads": 32}, 1, 128),
        (
            {"model_type": "falcon", "multi_query": True, "new_decoder_architecture": True},
            8,
            128,
        ),
        ({"model_type": "gpt_bigcode"}, 1, 128),
    ],
)
def test_kv_heads(read: Any, changes: dict[str, Any], kv_heads: int, head_dim: int) -> None:
    model = read({**LLAMA, **changes})
    assert (model.kv_heads, model.head_dim) == (kv_heads, head_dim)
    assert model.kv_bytes_per_token() == 2 * 32 * kv_heads * head_dim * 2


def test_gpt2_spelling_and_defaults(read: Any) -> None:
    model = read(
        {
            "model_type": "gpt2",
            "n_layer": 12,
            "n_embd": 768,
            "n_head": 12,
            "n_inner": None,
            "vocab_size": 50257,
            "n_positions": 1024,
        }
    )
    assert (model.ffn, model.gated, model.tie, model.max_len) == (3072, False, True, 1024)
    assert total_params(model) == pytest.approx(124.4e6, rel=2e-3)


def test_nested_text_config(read: Any) -> None:
    nested = without(LLAMA, "torch_dtype")
    model = read({"model_type": "llava", "text_config": nested, "torch_dtype": "float16"})
    assert model.kv_bytes_per_token() == 131_072
    assert model.dtype == "fp16"


@pytest.mark.parametrize(
    ("changes", "caveat"),
    [
        ({"sliding_window": 4096}, "32 of 32 layers use a sliding window of 4,096"),
        ({"sliding_window": 4096, "use_sliding_window": False}, None),
        ({"sliding_window": None}, None),
        ({"sliding_window": 512, "sliding_window_pattern": 6}, "27 of 32 layers use"),
        (
            {
                "sliding_window": 512,
                "layer_types": ["sliding_attention"] * 20 + ["full_attention"] * 12,
            },
            "20 of 32 layers use a sliding window of 512",
        ),
        (
            {"layer_types": ["linear_attention"] * 24 + ["full_attention"] * 8},
            "24 of 32 layers are",
        ),
        ({"sliding_window": 4096, "model_type": "qwen2"}, None),
        ({"sliding_window": 200_000}, None),  # nothing is longer
        ({"attention_chunk_size": 8192, "model_type": "llama4_text"}, "24 of 32 layers attend wi"),
        ({"attn_type_list": [0] * 28 + [1] * 4}, "28 of 32 layers are recurrent"),
        ({"hybrid_override_pattern": "M-M*" * 8}, "16 of 32 layers are recurrent"),
        ({"full_attention_interval": 4}, "24 of 32 layers are recurrent"),
        ({"model_type": "falcon_h1"}, "32 of 32 layers are recurrent"),
        ({"num_kv_shared_layers": 10}, "10 of 32 layers reuse another layer's KV"),
    ],
)
def test_what_is_not_full_attention_is_said(
    read: Any, changes: dict[str, Any], caveat: str | None
) -> None:
    model = read({**LLAMA, **changes})
    assert model.kv_bytes_per_token() == 131_072
    if caveat is None:
        assert model.caveats == ()
    else:
        assert model.caveats[0].startswith(caveat)
        assert "counted as full attention" in model.caveats[0]


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({"sliding_window": 9, "sliding_window_pattern": 4}, "sssf" * 8),
        ({"sliding_window": 9, "model_type": "gemma2"}, "sf" * 16),
        ({"full_attention_interval": 4}, "rrrf" * 8),
        ({"attn_layer_period": 8, "attn_layer_offset": 4}, "rrrrfrrr" * 4),
        ({"attention_chunk_size": 9, "model_type": "llama4_text"}, "cccf" * 8),
        ({"attention_chunk_size": 9, "no_rope_layers": [1, 0] * 16}, "cf" * 16),
        ({"num_kv_shared_layers": 2}, "f" * 30 + "__"),
        (
            {"sliding_window": 9, "use_sliding_window": True, "max_window_layers": 30}
            | {"model_type": "qwen2"},
            "f" * 30 + "ss",
        ),
        ({"hybrid_override_pattern": "M-M*" * 8}, "r_rf" * 8),
        (
            {
                "linear_attn_config": {
                    "kda_layers": [i for i in range(1, 33) if i % 4],
                    "full_attn_layers": [4 * i for i in range(1, 9)],
                }
            },
            "rrrf" * 8,
        ),
    ],
)
def test_which_layer_is_what(read: Any, changes: dict[str, Any], kinds: str) -> None:
    letters = {"sliding": "s", "full": "f", "state": "r", "chunked": "c"}
    model = read({**LLAMA, **changes})
    assert "".join(letters.get(kind, "_") for kind in model.layer_kinds) == kinds


def test_layers_as_the_engine_has_them(read: Any) -> None:
    gemma4 = {
        "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 8,
        "sliding_window": 1024,
        "global_head_dim": 512,
        "num_global_key_value_heads": 4,
    }
    layers = read({**LLAMA, **gemma4}).layer_list()
    assert layers[0] == Layer("sliding", 8, 128, 1024)
    assert layers[3] == Layer("full", 4, 512)
    assert read(MLA).layer_list() == [Layer("mla", latent=576)] * 61
    exempt = read({**LLAMA, **gemma4}).layer_list(["sliding_window", "3"])
    assert [layer.exempt for layer in exempt[:8]] == [True] * 7 + [False]
    with pytest.raises(DeviceError, match="my-model has no layer '32'; there are 0 … 31, and"):
        read({**LLAMA, **gemma4}).layer_list(["32"])


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        (  # Qwen3-Next's delta nets: 1,097,728 bytes at 16 bits
            {
                "linear_num_key_heads": 16,
                "linear_num_value_heads": 32,
                "linear_key_head_dim": 128,
                "linear_value_head_dim": 128,
                "linear_conv_kernel_dim": 4,
            },
            State(8192, 4, 524_288),
        ),
        (
            {"mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_d_conv": 4}
            | {"mamba_ssm_dtype": "float32"},
            State(48 * 64 + 2 * 128, 4, 48 * 64 * 128, "fp32"),
        ),
        (
            {"mamba_n_heads": 128, "mamba_d_head": "auto", "mamba_d_state": 128}
            | {"mamba_d_conv": 4, "mamba_expand": 2},
            State(8192 + 2 * 128, 4, 8192 * 128),
        ),
        (
            {"mamba_expand": 2, "mamba_d_state": 16, "mamba_d_conv": 4},
            State(8192, 4, 8192 * 16),
        ),
    ],
)
def test_states(read: Any, changes: dict[str, Any], state: State) -> None:
    model = read({**LLAMA, "full_attention_interval": 4, **changes})
    assert model.state == state
    assert model.layer_list()[0].state == state


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"index_topk": 2048}, "keys of a sparse indexer"),
        ({"is_encoder_decoder": True}, "cross-attention"),
    ],
)
def test_what_is_kept_besides_kv_is_said(read: Any, changes: dict[str, Any], what: str) -> None:
    model = read({**MLA, **changes})
    assert model.caveats == (f"{what}: kept besides KV, and not counted",)
    with pytest.raises(DeviceError, match=f"keeps more than its layers' KV .{what}.: how"):
        model.layer_list()


def test_a_state_of_unknown_size_is_no_kv(read: Any) -> None:
    for changes, message in (
        ({"full_attention_interval": 4}, "layer 0 keeps a state, of unknown size"),
        ({"model_type": "falcon_h1"}, "layer 0 keeps a state besides KV, of unknown size"),
    ):
        with pytest.raises(DeviceError, match=message):
            read({**LLAMA, **changes}).layer_list()


@pytest.mark.parametrize(
    ("settings", "dtype"),
    [
        ({"quant_method": "awq", "bits": 4}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 8}}},
            },
            "fp8",
        ),
        (None, ""),
    ],
)
def test_quantised_checkpoints(read: Any, settings: object, dtype: str) -> None:
    assert read({**LLAMA, "quantization_config": settings}).weights_dtype == dtype


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("", "config.json:1: is no JSON"),
        ("{", "config.json:1: is no JSON"),
        ('{"num_hidden_layers": ' + "9" * 5000 + "}", "config.json: is no JSON"),
        ("[]", "config.json: holds a list, must be a JSON object"),
        ("[" * 100_000, "config.json: is no JSON"),
        ({}, "config.json: num_hidden_layers is missing (nor is there n_layer"),
        (without(LLAMA, "hidden_size"), "config.json: hidden_size is missing"),
        (without(LLAMA, "num_attention_heads"), "config.json: num_attention_heads is missing"),
        (without(LLAMA, "vocab_size"), "config.json: vocab_size is missing"),
        (without(LLAMA, "intermediate_size"), "config.json: intermediate_size is missing"),
        ({**LLAMA, "num_hidden_layers": 0}, "num_hidden_layers is 0, must be an integer >= 1"),
        ({**LLAMA, "num_hidden_layers": "32"}, "num_hidden_layers is '32', must be an integer"),
        ({**LLAMA, "hidden_size": 4096.5}, "hidden_size is 4096.5, must be an integer"),
        ({**LLAMA, "hidden_size": True}, "hidden_size is True, must be an integer"),
        ({**LLAMA, "num_key_value_heads": 5}, "5 KV heads do not divide 32 query heads"),
        ({**LLAMA, "hidden_size": 4097}, "32 heads do not divide hidden_size 4097"),
        ({**LLAMA, "multi_query": "yes"}, "multi_query is 'yes', must be true or false"),
        ({**LLAMA, "torch_dtype": "complex64"}, "torch_dtype is 'complex64'"),
        ({**LLAMA, "layer_types": "full"}, "layer_types must be a list of names"),
        (
            {**LLAMA, "layer_types": ["full_attention"] * 3 + ["sparse_attention"] * 29},
            "config.json: layer_types[3] is 'sparse_attention', an unknown type of layer; there",
        ),
        ({**LLAMA, "layer_types": ["full_attention"] * 31}, "layer_types covers 31 layers, must"),
        ({**LLAMA, "layers_block_type": ["hybrid"] * 32}, "layers_block_type[0] is 'hybrid'"),
        ({**LLAMA, "hybrid_override_pattern": "MX" * 16}, "hybrid_override_pattern[1] is 'X'"),
        ({**LLAMA, "hybrid_override_pattern": "M*"}, "hybrid_override_pattern covers 2 layers"),
        ({**LLAMA, "attn_type_list": [2] * 32}, "attn_type_list[0] is 2, not 0 or 1"),
        ({**LLAMA, "attn_type_list": "full"}, "attn_type_list must be a list of whole numbers"),
        ({**LLAMA, "linear_attn_config": {"kda_layers": [0]}}, "kda_layers has layer 0, must be"),
        ({**LLAMA, "linear_attn_config": {"kda_layers": [1]}}, "linear_attn_config covers 1 lay"),
        ({**LLAMA, "no_rope_layers": [1], "attention_chunk_size": 8}, "no_rope_layers covers 1"),
        ({**LLAMA, "sliding_window": 0}, "sliding_window is 0, must be an integer >= 1"),
        ({**LLAMA, "attention_chunk_size": 0}, "attention_chunk_size is 0, must be an integer"),
        (
            {**LLAMA, "layer_types": ["full_attention"] * 31 + ["sliding_attention"]},
            "config.json: layer 31 is sliding, and sliding_window is missing",
        ),
        (
            {**LLAMA, "layer_types": ["chunked_attention", "sliding_attention"] * 16}
            | {"sliding_window": 9, "attention_chunk_size": 9},
            "has both sliding and chunked layers",
        ),
        ({**LLAMA, "num_kv_shared_layers": 33}, "num_kv_shared_layers is 33, must be <= 32"),
        (without(MLA, "qk_rope_head_dim"), "qk_rope_head_dim is missing"),
        (without(MLA, "num_experts_per_tok"), "num_experts_per_tok is missing"),
    ],
)
def test_what_is_wrong_is_named(read: Any, values: object, message: str) -> None:
    with pytest.raises(DeviceError) as caught:
        read(values)
    assert message in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(DeviceError, match=r"binary\.json:1: is no JSON"):
        find_model(str(tmp_path / "binary.json"))
    with pytest.raises(DeviceError, match=r"none\.json: cannot be read: No such file"):
        find_model(str(tmp_path / "none.json"))
    with pytest.raises(DeviceError, match=r"the folder has no config\.json"):
        find_model(str(tmp_path))
