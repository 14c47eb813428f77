"""``pagedsim size --available-gib``: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pagedsim.cli.size import size
from pagedsim.errors import DeviceError, PagedsimError, SpecError, StartupError

app = typer.Typer()
app.command("size")(size)

GEMMA = ("gemma-3-27b", "--available-gib", "40", "--max-batched-tokens", "8192")


def run(*words: str) -> str:
    """Standard output; errors of the program itself are raised."""
    result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def sized(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*words, "--json", "-"))
    assert found["schema"] == "pagedsim.startup/1"
    return found


def test_the_tables() -> None:
    text = run(*GEMMA, "--max-len", "131072")
    for part in (
        "GPU KV cache size: 368,540 tokens",
        "Maximum concurrency for 131,072 tokens per request: 2.81x",
        "The printed tokens are derived: concurrency · maximum length. They are no number",
        "1.125 MiB  128 KiB        577  72.12 MiB",
        "above 9,215   4.226 GiB + 80 KiB · n",
        "as older versions print it           74,896",
    ):
        assert part in text, part
    assert max(map(len, text.splitlines())) <= 80


def test_groups_can_be_worse() -> None:
    """At 4,096 tokens the groups of Gemma-3-27B hold fewer requests than all as full attention."""
    groups = sized(*GEMMA, "--max-len", "4096")
    full = sized(*GEMMA, "--max-len", "4096", "--no-hybrid")
    assert (round(groups["concurrency"], 2), round(full["concurrency"], 2)) == (18.22, 20.64)
    assert [one["tokens"] for one in groups["otherwise"]] == [groups["tokens"], full["tokens"]]
    assert [len(one["layers"]) for one in groups["groups"]] == [9, 9, 9, 9, 8, 8, 10]


def test_padding_is_what_a_block_has_beyond_its_pages() -> None:
    found = sized(*GEMMA, "--max-len", "32768")
    block = found["ranks"][0]["block_bytes"]
    for one in found["groups"]:
        assert one["page_bytes"] == len(one["layers"]) * 16 * 16 * 512
        assert one["page_bytes"] + one["padding_bytes"] == block
        assert one["request_padding_bytes"] == one["padding_bytes"] * one["request_blocks"]


@pytest.mark.parametrize(
    ("words", "tokens", "concurrency"),
    [
        ("llama-2-7b --available-gib 10 --max-len 4090", 20_450, 5.0),
        ("mistral-7b-v0.1 --available-gib 10 --max-len 32768", 218_169, 6.657997399219766),
        ("falcon-7b -tp 2 --available-gib 5.38 --max-len 2048", 705_152, 344.3125),
        (
            "deepseek-v3 -tp 8 --available-gib 40 --max-len 131072 --block 64",
            611_136,
            4.66259765625,
        ),
        (
            "gemma-2-9b -tp 4 --available-gib 10 --kv-dtype fp8 --max-batched-tokens 16384 "
            "--async-scheduling",
            249_412,
            30.445853658536585,
        ),
        (
            "gemma-3-27b -pp 2 --available-gib 20 --max-batched-tokens 2048 --async-scheduling",
            394_540,
            3.010104721660849,
        ),
        (
            "gpt-oss-20b -pp 2 --available-gib 1.2,1 --max-len auto --max-batched-tokens 2048",
            83_135,
            1.0001831501831502,
        ),
        ("llama-3.1-8b --available-gib 10 --max-len 8192 --kv-blocks 1000", 16_000, 1.953125),
    ],
)
def test_printed_as_the_engine_printed(words: str, tokens: int, concurrency: float) -> None:
    limit = () if "--max-batched-tokens" in words else ("--max-batched-tokens", "8192")
    found = sized(*words.split(), *limit)
    assert (found["tokens"], found["concurrency"]) == (tokens, concurrency)


def test_older_lines() -> None:
    found = sized(*GEMMA, "--older-print")
    assert found["printed"][0] == f"GPU KV cache size: {found['older_tokens']:,} tokens"
    assert found["older_tokens"] == found["blocks"] // 7 * 16


def test_llama_4_has_its_groups_off_unless_asked(tmp_path: Path) -> None:
    config = {
        "model_type": "llama4_text",
        "num_hidden_layers": 48,
        "hidden_size": 5120,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 8192,
        "vocab_size": 202_048,
        "attention_chunk_size": 8192,
        "max_position_embeddings": 131_072,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = (str(tmp_path), "-tp", "2", "--available-gib", "40", "--max-batched-tokens", "8192")
    off, on = sized(*words), sized(*words, "--hybrid")
    assert (off["tokens"], off["hybrid"], len(off["groups"])) == (436_896, False, 1)
    assert "vLLM switches groups off by itself" in off["notes"][0]
    assert (on["hybrid"], [one["kind"] for one in on["groups"]]) == (
        True,
        ["chunked"] * 3 + ["full"],
    )


def test_precision_by_group() -> None:
    words = (*GEMMA, "--kv-dtype", "fp8", "--kv-dtype-skip-layers", "sliding_window")
    found = sized(*words)
    assert [one["block_tokens"] for one in found["groups"]] == [16] * 6 + [32]
    assert "by the rules, not by a recorded run" in found["notes"][0]


def test_estimated_memory_is_called_so() -> None:
    found = sized("gemma-3-27b", "--gpu", "h100", "--available-gib", "estimate")
    assert found["notes"][0].startswith("8,192 tokens a step, an assumption")
    assert found["notes"][1].startswith("the memory is an estimate: 71.21 GiB (H100-SXM")
    assert found["ranks"][0]["available_bytes"] > 1 << 34


def test_the_refusal() -> None:
    with pytest.raises(StartupError) as caught:
        run("llama-2-7b", "--available-gib", "2", "--max-len", "4096")
    assert str(caught.value) == (
        "the engine refuses to start: one request of 4,096 tokens needs 2.0 GiB of KV, 1.99 GiB "
        "are available on rank 0 beside the null block; the longest length that fits is 4,080 "
        "tokens (--max-len 4080)"
    )
    assert run("llama-2-7b", "--available-gib", "2", "--max-len", "4080")


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        ("llama-2-7b", SpecError, "give --gpu NAME, or --available-gib X"),
        ("llama-2-7b --available-gib 0", SpecError, "--available-gib is 0, must be a number > 0"),
        ("llama-2-7b --available-gib x", SpecError, "--available-gib is x, must be a number > 0"),
        ("llama-2-7b --available-gib 1e99", SpecError, "--available-gib is 1e99, must be a number"),
        ("llama-2-7b --available-gib 1,2,3", SpecError, "3 sizes of available memory given"),
        ("llama-2-7b --available-gib estimate", SpecError, "estimate needs --gpu NAME"),
        ("llama-2-7b --available-gib 9 --kv-tokens 5", SpecError, "--kv-tokens: --available-gib"),
        ("llama-2-7b --gpu h100 --no-hybrid", SpecError, "--no-hybrid: needs --available-gib"),
        (
            "llama-2-7b --gpu h100 --max-len auto",
            SpecError,
            "--max-len auto: needs --available-gib",
        ),
        ("llama-3.1-8b --available-gib 9 -tp 3", DeviceError, "tp 3 neither divides 8 KV heads"),
        ("llama-2-7b --available-gib 9 --layout BXYZ", SpecError, "--layout is BXYZ, must be the"),
        ("llama-2-7b --gpu h100 --layout BLHNC", SpecError, "--layout: needs --available-gib"),
        ("llama-3.1-8b --available-gib 9 -pp 33", DeviceError, "pp is 33, must be in 1 … 32"),
        (
            "gemma-3-27b --available-gib 40 --kv-dtype-skip-layers chunked",
            DeviceError,
            "Gemma-3-27B has no layer 'chunked'; there are 0 … 61, and full, sliding",
        ),
    ],
)
def test_mistakes(words: str, kind: type[PagedsimError], message: str) -> None:
    with pytest.raises(kind) as caught:
        run(*words.split())
    assert message in str(caught.value)
