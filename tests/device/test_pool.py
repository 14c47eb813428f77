"""The size of the pool: estimates, overrides, and lines that real engines printed about theirs."""

from __future__ import annotations

import csv
import os
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.device import (
    Model,
    activation_peak,
    find_model,
    make_device,
    parse_engine_log,
    read_engine_log,
)
from pagedsim.errors import DeviceError, InputError, SpecError

GIB = 1 << 30
SHARED = Path(os.environ.get("PAGEDSIM_SHARED", Path(__file__).parents[3] / "shared"))
LOGS = SHARED / "reference" / "kv_pool_logs.csv"

# Rows whose tokens do not follow from their GiB and the plain formula, and why
EXCEPTIONS = {
    "deepseek-ai/DeepSeek-V2-Lite-Chat (MLA NOT used)": "an MLA model stored as padded MHA",
    "Qwen3-Coder-30B-A3B-Instruct-FP8": "the smallest rank's GiB against all stages' layers",
    "MiniMax-M2.7-AWQ": "the smallest rank decides, the GiB are another's",
}
SHAPES = {  # where the log's name is no name of the table, and its shape is there
    "Qwen3-235B-A22B-FP8": "Qwen3-235B-A22B",
    "qwen2.5-coder-0.5B-instruct": "Qwen2.5-0.5B",
}
NEMO = Model("Nemo", 40, 5120, 32, 8, 128, 14336, 131072)


def rows() -> list[dict[str, str]]:
    if not LOGS.is_file():
        return []
    with LOGS.open(newline="") as file:
        return list(csv.DictReader(file))


def plain(row: dict[str, str]) -> bool:
    odd = ("SWA", "hybrid", "MLA)", "chunked", "linear")
    return row["identity"] == "stated" and not any(word in row["attention"] for word in odd)


WITH_GIB = [r for r in rows() if plain(r) and r["kv_mem_gib_per_rank"]]
needs_logs = pytest.mark.skipif(
    not WITH_GIB, reason=f"reference data: there is no {LOGS} (set PAGEDSIM_SHARED)"
)


def bytes_by_row(row: dict[str, str]) -> Fraction:
    """Bytes a token on a rank: of the built-in shape, else as the row's own arithmetic has it."""
    stated = re.search(r"bytes_per_token_per_rank=([\d.e+]+)", row["arithmetic_check"])
    assert stated is not None
    checked = Fraction(stated[1])
    try:
        model = find_model(SHAPES.get(row["model"], row["model"]))
    except DeviceError:
        return checked
    dtype = {"f16": "fp16"}.get(row["kv_dtype"], row["kv_dtype"])
    ours = Fraction(model.kv_bytes_per_token(dtype, int(row["tp"]), int(row["pp"])))
    assert ours == checked
    return ours


def tokens_by_row(row: dict[str, str]) -> tuple[int, int]:
    """Tokens that the row's GiB hold in whole blocks, and tokens that its log states."""
    block = int(row["block_size"])
    pool = Fraction(row["kv_mem_gib_per_rank"]) * GIB
    stated = int(row["kv_tokens"]) if row["kv_tokens"] else int(row["num_gpu_blocks"]) * block
    return int(pool / (bytes_by_row(row) * block)) * block, stated


@needs_logs
@pytest.mark.parametrize("row", WITH_GIB, ids=lambda r: r["model"])
def test_tokens_follow_from_the_logs_gib(row: dict[str, str]) -> None:
    ours, stated = tokens_by_row(row)
    if row["model"] == "MiniMax-M2.7-AWQ":
        # both ranks report: 28.74 GiB is one's; the stated tokens are what the smaller one holds
        assert 0.002 < abs(ours / stated - 1) < 0.01
        return
    assert abs(ours / stated - 1) < 0.002, EXCEPTIONS.get(row["model"])


@needs_logs
def test_exceptions_are_what_is_said_of_them() -> None:
    found = {row["model"]: row for row in WITH_GIB}
    assert set(found) >= set(EXCEPTIONS)
    lite, padded = find_model("deepseek-v2-lite"), found[next(iter(EXCEPTIONS))]
    # head dimension padded to 256, keys and values of all 16 heads: 14 times the latent
    assert bytes_by_row(padded) == 2 * lite.layers * lite.heads * 256 * 2
    assert bytes_by_row(padded) > 14 * lite.kv_bytes_per_token()
    coder = found["Qwen3-Coder-30B-A3B-Instruct-FP8"]
    # 48 layers are charged to a rank that holds 16 or 32 of them (the log's own complaint)
    assert bytes_by_row(coder) == find_model("qwen3-30b-a3b").kv_bytes_per_token()
    assert int(coder["pp"]) == 2


@needs_logs
def test_enough_rows_are_tested() -> None:
    assert len(WITH_GIB) == 9
    by_shape = [r for r in WITH_GIB if SHAPES.get(r["model"]) or "Llama-3" in r["model"]]
    assert len(by_shape) == 4


@needs_logs
def test_all_layers_charged_in_older_hybrids() -> None:
    """gpt-oss-120b: the printed tokens charge all 36 layers, as is done here for now."""
    row = next(r for r in rows() if r["model"] == "openai/gpt-oss-120b")
    device = make_device("gpt-oss-120b", "h100", kv_memory_bytes=int(5.38 * GIB))
    assert device.capacity_tokens == pytest.approx(int(row["kv_tokens"]), rel=0.002)
    assert device.model.caveats[0].endswith("all layers are counted as full attention")


@pytest.mark.parametrize(
    ("model", "blocks", "seqs", "step", "deviation"),
    [
        # with the server's 8,192 tokens and 256 sequences, as the estimate was set
        ("llama-2-7b", 7463, 256, 8192, -0.0054),
        ("qwen2.5-7b", 65368, 256, 8192, 0.0008),
        # with the H100's own default of 1,024 sequences
        ("llama-2-7b", 7463, None, None, -0.0070),
        ("qwen2.5-7b", 65368, None, None, -0.0070),
        # with the 2,048 tokens that the rows quote, Llama is as near and Qwen is not
        ("llama-2-7b", 7463, 256, 2048, 0.0028),
        ("qwen2.5-7b", 65368, 256, 2048, 0.0139),
    ],
)
def test_estimates_against_plain_h100_rows(
    model: str, blocks: int, seqs: int | None, step: int | None, deviation: float
) -> None:
    device = make_device(model, "h100", max_seqs=seqs, max_batched_tokens=step)
    assert device.blocks / blocks - 1 == pytest.approx(deviation, abs=0.0002)
    assert device.estimated
    assert device.provenance["capacity"].startswith("estimate: 71.21 GiB (H100-SXM, utilization")


def test_estimate_against_a_row_on_two_ranks() -> None:
    device = make_device(NEMO, "h100", tp=2, max_seqs=256, max_batched_tokens=8192)
    assert device.blocks / 48009 - 1 == pytest.approx(0.0101, abs=0.0005)


def test_activation_peak_grows_with_the_tokens_of_a_step() -> None:
    """Measured: 87.75 KiB a step token (Qwen3-8B); the formula gives 88.0."""
    model = find_model("qwen3-8b")
    step = activation_peak(model, 2, 7) - activation_peak(model, 1, 7)
    assert step == 88 * 1024
    assert activation_peak(model, 0, 256) == 256 * 151_936 * 4
    assert activation_peak(model, 10, 1, tp=2) < activation_peak(model, 10, 1)


@given(st.integers(1, 60_000), st.integers(1, 60_000), st.sampled_from([1, 16, 32, 784]))
def test_a_larger_step_never_leaves_a_larger_pool(a: int, b: int, block: int) -> None:
    pools = [
        make_device("qwen3-8b", "h100", max_batched_tokens=t, block=block).capacity_tokens
        for t in sorted((a, b))
    ]
    assert pools[0] >= pools[1]
    assert all(tokens % block == 0 for tokens in pools)


def test_the_smallest_rank_decides() -> None:
    """27 layers over two stages are 14 and 13: the first has more KV a token and less room."""
    device = make_device("deepseek-v2-lite", "a100-40gb", pp=2)
    assert device.kv_bytes_per_token_rank == 14 * 576 * 2
    assert device.estimate is not None
    assert device.estimate.blocks * 16 == device.capacity_tokens
    one = make_device("llama-3.1-8b", "a100-80gb")
    two = make_device("llama-3.1-8b", "a100-80gb", tp=2)
    assert two.capacity_tokens > 2 * one.capacity_tokens


def test_overrides_win_and_say_so() -> None:
    def sized(**options: int) -> tuple[int, int, str]:
        device = make_device("llama-3.1-8b", "a100-80gb", **options)
        assert not device.estimated
        return device.capacity_tokens, device.blocks, device.provenance["capacity"]

    assert sized(kv_blocks=1000) == (
        16_000,
        1000,
        "given: --kv-blocks 1000, null block included",
    )
    assert sized(kv_tokens=15_729) == (15_729, 983, "given: --kv-tokens")
    tokens, blocks, why = sized(kv_memory_bytes=GIB + 5)
    assert (tokens, blocks) == (8192, 512)
    assert "--kv-cache-memory-bytes" in why
    # a stated pool needs no room for weights: the engine has shown that there was
    assert make_device("llama-3.1-405b", "l4", kv_tokens=100).capacity_tokens == 100


def test_an_engine_log_wins(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("starting\nINFO 01-01 GPU KV cache size: 41,408 tokens\n")
    device = make_device("llama-3.1-8b", "rtx4090", engine_log=log)
    assert (device.capacity_tokens, device.blocks) == (41_408, 2588)
    assert device.provenance["capacity"] == (
        "from vLLM V1 log line 2: INFO 01-01 GPU KV cache size: 41,408 tokens"
    )


@pytest.mark.parametrize(
    ("text", "engine", "unit", "count"),
    [
        ("# GPU blocks: 7463, # CPU blocks: 1023", "vLLM V0", "blocks", 7463),
        ("INFO # cuda blocks: 1478, # CPU blocks: 2048", "vLLM V0", "blocks", 1478),
        ("max seq len (8192) > KV cache (6048)", "vLLM V0", "tokens", 6048),
        ("larger than … can be stored in KV cache (24320).", "vLLM V0", "tokens", 24320),
        ("GPU KV cache size: 652,144 tokens", "vLLM V1", "tokens", 652_144),
        ("'num_gpu_blocks': 2588, 'block_size': 16", "vLLM V1", "blocks", 2588),
        ("num_gpu_blocks is: 512", "vLLM V1", "blocks", 512),
        ("total_kv_blocks 7463, cpu_kv_blocks 1023", "vLLM V1", "blocks", 7463),
        ("KV Cache is allocated. #tokens: 367404, K size: 8.23 GB", "SGLang", "tokens", 367_404),
        ("max_total_num_tokens=367404, chunked_prefill", "SGLang", "tokens", 367_404),
        ("Using 10718 tokens in paged KV cache.", "TensorRT-LLM", "tokens", 10_718),
        ("4.53 GiB for max tokens in paged KV cache (395776).", "TensorRT-LLM", "tokens", 395_776),
        ("CUDA0 KV buffer size = 768.00 MiB (32768 cells, 24 lay", "llama.cpp", "tokens", 32_768),
        ("llama_kv_cache_unified: size = 768 MiB ( 32768 cells", "llama.cpp", "tokens", 32_768),
        ("llama_context: n_ctx         = 4096", "llama.cpp", "tokens", 4096),
    ],
)
def test_engine_logs(text: str, engine: str, unit: str, count: int) -> None:
    log = parse_engine_log(f"\nprefix {text} suffix\n")
    assert (log.engine, log.unit, log.count, log.line) == (engine, unit, count, 2)
    assert log.tokens(16) == count * (16 if unit == "blocks" else 1)


def test_the_last_statement_wins() -> None:
    text = "# GPU blocks: 10, #\nGPU KV cache size: 99 tokens\n# GPU blocks: 20, # CPU\nbye\n"
    log = parse_engine_log(text)
    assert (log.count, log.line) == (20, 3)
    # what llama.cpp allocated says more than what it was asked for, in either order
    cells, asked = "KV buffer size = 1 MiB (256 cells", "n_ctx = 512"
    assert parse_engine_log(f"{cells}\n{asked}").count == 256
    assert parse_engine_log(f"{asked}\n{cells}").count == 256


@needs_logs
def test_reference_quotes_are_understood() -> None:
    """Every quote that is an engine's own line gives what the row states."""
    understood = 0
    for row in rows():
        try:
            log = parse_engine_log(row["log_quote"])
        except InputError:
            continue
        if row["num_gpu_blocks"] and log.unit == "blocks":
            assert log.count == int(row["num_gpu_blocks"])
        else:
            assert log.count == int(row["kv_tokens"])
        understood += 1
    assert understood == 28


def test_logs_that_do_not_help(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"server\.log: states no KV blocks or tokens; looked for"):
        parse_engine_log("nothing here", "server.log")
    with pytest.raises(InputError, match="log:1: blocks is 0, must be >= 1"):
        parse_engine_log("# GPU blocks: 0, # CPU blocks: 0")
    with pytest.raises(InputError, match="cannot be read"):
        read_engine_log(tmp_path)
    binary = tmp_path / "x.log"
    binary.write_bytes(b"\xff\x00\n# GPU blocks: 77, # CPU\n")
    assert read_engine_log(binary).count == 77


def test_weights_that_do_not_fit_say_all_numbers() -> None:
    with pytest.raises(DeviceError) as caught:
        make_device("llama-3.1-70b", "h100")
    for part in ("no room for KV on rank 0", "79.12 GiB usable · 0.9 = 71.21", "131.41 weights"):
        assert part in str(caught.value)
    assert "-62.26 GiB" in str(caught.value)
    assert "A larger tp or pp, a smaller weights dtype" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tp": 0}, "tp is 0, must be >= 1"),
        ({"pp": -1}, "pp is -1, must be >= 1"),
        ({"block": 0}, "block is 0, must be >= 1"),
        ({"max_seqs": 0}, "max_seqs is 0, must be >= 1"),
        ({"max_batched_tokens": -5}, "max_batched_tokens is -5, must be >= 1"),
        ({"utilization": 0}, "utilization is 0, must be in (0, 1]"),
        ({"utilization": 1.1}, "utilization is 1.1, must be in (0, 1]"),
        ({"utilization": float("nan")}, "utilization is nan, must be in (0, 1]"),
        ({"kv_tokens": 0}, "kv_tokens is 0, must be >= 1"),
        ({"kv_tokens": 5, "kv_blocks": 5}, "--kv-tokens and --kv-blocks all say how large"),
    ],
)
def test_options_out_of_bounds(options: dict[str, float], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        make_device("llama-3.1-8b", "h100", **options)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_a_pool_smaller_than_a_block() -> None:
    with pytest.raises(DeviceError, match="--kv-tokens: a pool of 15 tokens holds no block of 16"):
        make_device("llama-3.1-8b", "h100", kv_tokens=15)
    with pytest.raises(DeviceError, match="holds no block of 16"):
        make_device("llama-3.1-8b", "h100", kv_memory_bytes=1)
