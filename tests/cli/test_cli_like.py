"""`--like`: a server's own command line, as people have it."""

from __future__ import annotations

import pytest
from command import pagedsim, refused, results

from pagedsim.cli.like import masked, read_like
from pagedsim.errors import SpecError

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    "text",
    [
        f"vllm serve {MODEL} --max-model-len 8192 --tensor-parallel-size 2",
        f"vllm serve {MODEL} --max-model-len=8192 -tp 2",
        f"vllm serve '{MODEL}' --max_model_len 8K -tp=2 > server.log 2>&1 &",
        f"vllm serve --model {MODEL} --max-model-len 8192 -tp 2 | tee log",
        f"vllm serve --trust-remote-code {MODEL} --max-model-len 8192 -tp 2",
        f"HF_TOKEN=hf_x CUDA_VISIBLE_DEVICES=0,1 vllm serve {MODEL} --max-model-len 8192 -tp 2",
        f"nohup /opt/bin/vllm serve {MODEL} \\\n  --max-model-len 8192 \\\n  -tp 2",
        f"python -m vllm.entrypoints.openai.api_server --model {MODEL} --max-model-len 8192 -tp 2",
        f"docker run --gpus all -p 8000:8000 vllm/vllm-openai:latest --model {MODEL} "
        "--max-model-len 8192 -tp 2",
    ],
)
def test_ways_to_start_a_server(text: str) -> None:
    assert read_like(text).options == {"model": MODEL, "max_len": 8192, "tp": 2}


def test_everything_that_counts() -> None:
    like = read_like(
        f"vllm serve {MODEL} --block-size 32 --scheduling-policy priority --dtype bfloat16 "
        "--long-prefill-token-threshold 64 --no-enable-chunked-prefill --kv-cache-dtype fp8 "
        "--gpu-memory-utilization 0.8 --max-num-seqs 12 --max-num-batched-tokens 16k "
        "--num-gpu-blocks-override 99 --kv-cache-memory-bytes 10G -pp 2"
    )
    assert like.options == {
        "model": MODEL,
        "weights_dtype": "bfloat16",
        "kv_dtype": "fp8",
        "utilization": 0.8,
        "max_seqs": 12,
        "max_batched_tokens": 16_000,
        "kv_blocks": 99,
        "kv_memory_bytes": 10 << 30,
        "pp": 2,
    }
    assert like.scheduler == {"policy": "priority", "long_prefill": 64, "chunked": False}
    assert (like.block, like.ignored) == (32, [])


def test_what_is_left_to_the_server_stays_so() -> None:
    text = f"vllm serve {MODEL} --max-model-len auto --kv-cache-dtype auto --dtype auto"
    assert read_like(text).options == {"model": MODEL}


def test_what_is_ignored_is_listed_without_its_value() -> None:
    like = read_like(
        f"HF_TOKEN=hf_x vllm serve {MODEL} --api-key sk-1 --port 80 --enable-prefix-caching "
        "--served-model-name a b -O3"
    )
    assert like.ignored == [
        *("HF_TOKEN", "--api-key", "--port", "--enable-prefix-caching"),
        *("--served-model-name", "-O3"),
    ]
    assert like.options == {"model": MODEL}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' starts no server; there are 'vllm serve MODEL …'"),
        ("vllm", "'vllm' starts no server"),
        ("sglang serve x", "'sglang serve x' starts no server"),
        ("vllm serve 'x", "No closing quotation: vllm serve 'x"),
        ("vllm serve x --max-model-len", "--max-model-len has no value"),
        ("vllm serve x --max-num-seqs abc", "--max-num-seqs is abc, must be a whole number >= 1"),
        ("vllm serve x --max-num-seqs -5", "--max-num-seqs is -5, must be a whole number >= 1"),
        ("vllm serve x --gpu-memory-utilization 90", "--gpu-memory-utilization is 90, must be a"),
        ("vllm --api-key sk-1", "'vllm --api-key ***' starts no server"),
    ],
)
def test_command_lines_that_are_none(text: str, message: str) -> None:
    with pytest.raises(SpecError) as refusal:
        read_like(text)
    assert str(refusal.value).startswith(f"--like: {message}")


@pytest.mark.usefixtures("folder")
def test_it_is_the_same_as_our_own_options() -> None:
    text = f"vllm serve {MODEL} --max-model-len 8k --block-size 32 --max-num-seqs 7"
    like = results("compare", "t.csv", "--like", text)
    ours = results(
        *("compare", "t.csv", "--model", "llama-3.1-8b", "--max-len", 8000, "--max-seqs", 7),
        *("--allocator", "contiguous:place=buddy,reserve=max"),
        *("--allocator", "contiguous:place=buddy,reserve=pow2"),
        *("--allocator", "contiguous:place=buddy,reserve=exact", "--allocator", "paged:block=32"),
    )
    assert like == ours


@pytest.mark.usefixtures("folder")
def test_our_own_options_come_first() -> None:
    text = f"vllm serve {MODEL} --max-model-len 8k --num-gpu-blocks-override 99 --max-num-seqs 7"
    said = results(
        *("replay", "t.csv", "--like", text, "--max-len", 4000, "--kv-tokens", 8000),
        *("--scheduler", "vllm:max_seqs=3"),
    )
    (run,) = said["runs"]
    assert run["provenance"]["specs"]["max_len"] == 4000
    assert run["provenance"]["specs"]["max_seqs"] == 3
    assert said["device"]["capacity_tokens"] == 8000


@pytest.mark.usefixtures("folder")
def test_what_is_not_used_is_said_and_secrets_are_not() -> None:
    text = f"vllm serve {MODEL} --port 80 --scheduling-policy priority"
    said = pagedsim("replay", "t.csv", "--like", text, "--scheduler", "orca")
    assert "Not used of --like: --port, policy (--scheduler orca)" in said.out
    assert refused("replay", "t.csv", "--like", "vllm serve nosuch").startswith("error: unknown")
    line = "--like 'HF_TOKEN=hf_1 vllm serve m --api-key sk-1 --max-num-batched-tokens 9' --x=1"
    assert masked(line) == (
        "--like 'HF_TOKEN=*** vllm serve m --api-key *** --max-num-batched-tokens 9' --x=1"
    )
