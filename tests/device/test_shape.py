"""KV bytes per token, parameters and pipeline stages: §1's worked examples."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.device import Model, find_gpu, find_model, gpu_names, make_device, model_names
from pagedsim.device.params import active_params, rank_weights, total_params, weights_bytes
from pagedsim.errors import DeviceError

GIB = 1 << 30
KIB = 1 << 10
SHARED = Path(os.environ.get("PAGEDSIM_SHARED", Path(__file__).parents[3] / "shared"))
SEVEN = find_model("llama-2-7b")


def test_7b_takes_512_kib_a_token() -> None:
    assert SEVEN.kv_bytes_per_token("fp16") == 2 * 262_144 == 512 * KIB
    assert replace(SEVEN, kv_heads=8).kv_bytes_per_token() == 128 * KIB
    assert replace(SEVEN, kv_heads=1).kv_bytes_per_token() == 16 * KIB
    assert SEVEN.kv_bytes_per_token() * 4096 == 2 * GIB
    assert SEVEN.kv_bytes_per_token() * 4096 * 8 == 16 * GIB


def test_7b_at_128k_tokens() -> None:
    one = int(SEVEN.kv_bytes_per_token() * 128 * 1024)
    assert (one, 8 * one) == (64 * GIB, 512 * GIB)
    assert round(one / (13 * GIB), 1) == 4.9
    assert one / (80 * GIB) == 0.8
    assert 13 * GIB // SEVEN.kv_bytes_per_token() == 26_624


def test_larger_models() -> None:
    thirteen, seventy = find_model("llama-2-13b"), find_model("llama-2-70b")
    assert thirteen.kv_bytes_per_token() == 800 * KIB
    assert Fraction(thirteen.kv_bytes_per_token() * 4096, GIB) == Fraction(3125, 1000)
    assert seventy.kv_bytes_per_token() == 320 * KIB < SEVEN.kv_bytes_per_token()


def test_24_gb_card_holds_one_7b_sequence_and_not_eight() -> None:
    weights = 14 * 10**9
    kv = int(SEVEN.kv_bytes_per_token() * 4096)
    assert weights + kv < 24 * 10**9 < weights + 8 * kv


def test_opt_13b_has_15_728_slots_in_12_gib() -> None:
    device = make_device("opt-13b", "a100-40gb", kv_memory_bytes=12 * GIB)
    assert device.kv_bytes_per_token == 819_200
    assert (device.capacity_tokens, device.blocks) == (15_728, 983)


def test_deepseek_v2_against_deepseek_67b() -> None:
    v2, dense = find_model("deepseek-v2"), find_model("deepseek-67b")
    at_16 = Fraction(v2.kv_bytes_per_token("bf16"), dense.kv_bytes_per_token("bf16"))
    assert round(float(1 - at_16) * 100, 1) == 82.2
    assert round(float(1 - at_16 * Fraction(6, 16)) * 100, 1) == 93.3
    assert v2.kv_bytes_per_token() == 576 * 60 * 2


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("fp32", 4), ("bf16", 2), ("fp8", 1), ("fp8_e5m2", 1), ("int8", 1), ("INT4", Fraction(1, 2))],
)
def test_element_sizes(dtype: str, size: Fraction) -> None:
    assert SEVEN.kv_bytes_per_token(dtype) == 262_144 * size


def test_formats_with_scales() -> None:
    """Two fp32 scales a head, token and layer; llama.cpp's blocks of 32 with an fp16 scale."""
    assert SEVEN.kv_bytes_per_token("fp8_per_token_head") == 32 * 32 * (256 + 8)
    assert SEVEN.kv_bytes_per_token("int4_per_token_head") == 32 * 32 * (128 + 8)
    assert SEVEN.kv_bytes_per_token("q8_0") == 262_144 * 34 // 32
    assert find_model("deepseek-v3").kv_bytes_per_token("fp8_ds_mla") == 61 * 656
    odd = replace(SEVEN, layers=1, kv_heads=1, heads=1, head_dim=1)
    assert odd.kv_bytes_per_token("int4") == 1
    assert odd.kv_bytes_per_token("q4_0") == Fraction(9, 8)


def test_tensor_parallelism_splits_or_replicates_kv_heads() -> None:
    model = find_model("llama-3.1-8b")  # 8 KV heads, 32 query heads
    whole = model.kv_bytes_per_token()
    ranks = [model.kv_bytes_per_token(tp=tp) for tp in (1, 2, 4, 8, 16, 32)]
    assert ranks == [whole, whole / 2, whole / 4, whole / 8, whole / 8, whole / 8]
    falcon = find_model("falcon-40b")
    assert falcon.kv_bytes_per_token(tp=16) == falcon.kv_bytes_per_token(tp=8)
    mla = find_model("deepseek-v3")
    assert mla.kv_bytes_per_token(tp=8) == mla.kv_bytes_per_token()


def test_splits_that_do_not_work_out() -> None:
    model = find_model("llama-3.1-8b")
    for tp, text in ((3, "tp 3 does not divide 8 KV heads"), (12, "tp 12 is no multiple of 8 KV")):
        with pytest.raises(DeviceError, match=text):
            model.kv_bytes_per_token(tp=tp)
    with pytest.raises(DeviceError, match="tp 3 does not divide 128 query heads"):
        find_model("deepseek-v3").kv_bytes_per_token(tp=3)
    with pytest.raises(DeviceError, match="tp is 0"):
        model.kv_bytes_per_token(tp=0)
    for pp in (0, 33):
        with pytest.raises(DeviceError, match=f"pp is {pp}, must be in 1 … 32"):
            model.kv_bytes_per_token(pp=pp)
    with pytest.raises(DeviceError, match=r"unknown KV dtype 'fp9'; there are: auto, fp\d"):
        model.kv_bytes_per_token("fp9")
    with pytest.raises(DeviceError, match="needs KV heads"):
        find_model("deepseek-v3").kv_bytes_per_token("fp8_per_token_head")


@pytest.mark.parametrize(
    ("layers", "stages"),
    [(27, (14, 13)), (80, (27, 27, 26)), (126, (31, 32, 32, 31)), (62, (15, 16, 16, 15))],
)
def test_uneven_stages_as_vllm_splits_them(layers: int, stages: tuple[int, ...]) -> None:
    model = replace(SEVEN, layers=layers)
    assert model.stages(len(stages)) == stages
    heaviest = 2 * 32 * 128 * 2 * max(stages)
    assert model.kv_bytes_per_token(pp=len(stages)) == heaviest


@given(st.integers(1, 200), st.integers(1, 200))
def test_stages_add_up(layers: int, pp: int) -> None:
    if pp <= layers:
        stages = replace(SEVEN, layers=layers).stages(pp)
        assert sum(stages) == layers
        assert max(stages) - min(stages) <= 1


@pytest.mark.parametrize("name", model_names())
def test_ranks_hold_the_whole_model(name: str) -> None:
    """One copy in all, but for what is replicated and rounded up."""
    model = find_model(name)
    assert rank_weights(model) == (weights_bytes(model),)
    whole, split = weights_bytes(model), rank_weights(model, tp=1, pp=2)
    tied = model.vocab * model.hidden * 2 if model.tie else 0
    assert abs(sum(split) - whole - tied) <= 1
    assert 0 < active_params(model) <= total_params(model)
    if model.kv_heads % 2 == 0 and model.heads % 2 == 0:
        both = 2 * max(rank_weights(model, tp=2))
        assert whole <= both + 2 <= whole * 1.05


def test_quantised_weights_leave_embeddings_at_16_bits() -> None:
    kept = 2 * SEVEN.vocab * SEVEN.hidden
    total = total_params(SEVEN)
    assert weights_bytes(SEVEN, "fp32") == 4 * total
    assert weights_bytes(SEVEN, "fp8") == 2 * kept + (total - kept)
    assert weights_bytes(SEVEN, "awq") == 2 * kept + (total - kept) // 2
    with pytest.raises(DeviceError, match="unknown weights dtype 'q4_0'"):
        weights_bytes(SEVEN, "q4_0")


def test_published_active_parameters() -> None:
    for name, billions in (
        ("qwen3-30b-a3b", 3.3),
        ("qwen3-235b-a22b", 22),
        ("deepseek-v3", 37),
        ("mixtral-8x7b", 12.9),
        ("gpt-oss-120b", 5.1),
    ):
        counted = active_params(find_model(name)) / 1e9
        assert counted == pytest.approx(billions, rel=0.13), name


@pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"reference data: {SHARED} is no folder (set PAGEDSIM_SHARED)"
)
def test_built_in_models_match_the_reference() -> None:
    rows = json.loads((SHARED / "reference" / "models.json").read_text())
    names = [name for name in rows if name != "_readme"]
    assert sorted(names) == sorted(model_names())
    for name in names:
        model, row = find_model(name), rows[name]
        assert model.kv_bytes_per_token("bf16") == row["kv_bytes_per_token_16bit_all_layers"]
        if row.get("params_from_config_b"):
            # the reference is rounded to three decimals and has no padded vocabulary
            counted = total_params(model) / 1e9
            assert counted == pytest.approx(row["params_from_config_b"], rel=1e-3, abs=6e-4), name


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("llama-3.1-8b", "Llama-3.1-8B"),
        ("Meta-Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("meta-llama/Llama-3.1-8B", "Llama-3.1-8B"),
        ("Llama 2 7b chat hf", "Llama-2-7B"),
        ("huggyllama/llama-7b", "LLaMA-7B"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "Mistral-7B-v0.3"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B"),
        ("google/gemma-2-9b-it", "Gemma-2-9B"),
        ("facebook/opt-13b", "OPT-13B"),
        ("deepseek-ai/DeepSeek-R1", "DeepSeek-V3"),
        ("QWEN3_8B", "Qwen3-8B"),
    ],
)
def test_model_names(name: str, found: str) -> None:
    assert find_model(name).name == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a100-80gb", "A100-80GB-SXM"),
        ("a100 40gb", "A100-40GB-SXM"),
        ("h100", "H100-SXM"),
        ("H100 PCIe", "H100-PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB-SXM"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("h200", "H200-SXM"),
        ("l4", "L4"),
        ("mi300x", "MI300X"),
    ],
)
def test_gpu_names(name: str, found: str) -> None:
    assert find_gpu(name).name == found


def test_unknown_and_ambiguous_names_list_what_exists() -> None:
    with pytest.raises(DeviceError, match=r"unknown model 'llama-3\.1-9b'; there are: Llama-3\."):
        find_model("llama-3.1-9b")
    with pytest.raises(DeviceError, match=r"'a100' is ambiguous; it could be: A100-40GB-SXM, A100"):
        find_gpu("a100")
    with pytest.raises(DeviceError, match=r"'Qwen2\.5' is ambiguous"):
        find_model("Qwen2.5")
    with pytest.raises(DeviceError) as caught:
        find_gpu("")
    assert all(name in str(caught.value) for name in gpu_names())
    # a quantised name is another checkpoint: it is not taken for the plain one in silence
    with pytest.raises(DeviceError, match="unknown model"):
        find_model("Qwen/Qwen2.5-7B-Instruct-AWQ")


def test_scheduler_defaults_follow_the_gpu() -> None:
    for name, limits in (
        ("h100", (1024, 8192)),
        ("h200", (1024, 8192)),
        ("b200", (1024, 8192)),
        ("a100-80gb", (256, 2048)),
        ("l40s", (256, 2048)),
    ):
        gpu = find_gpu(name)
        assert (gpu.max_seqs, gpu.max_batched_tokens) == limits


def test_models_say_what_is_counted_as_full_attention() -> None:
    assert find_model("llama-3.1-8b").caveats == ()
    gemma: Model = find_model("gemma-3-27b")
    assert gemma.caveats == (
        "52 of 62 layers use a sliding window of 1,024 tokens; "
        "all layers are counted as full attention",
    )
