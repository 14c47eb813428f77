"""Work counts (§2), and what ``pagedsim size`` prints and writes."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pagedsim.cli.size import size
from pagedsim.device.work import pairs, prefill_dots, work
from pagedsim.errors import DeviceError, PagedsimError, SpecError

app = typer.Typer()
app.command("size")(size)


def run(*words: str) -> str:
    """Standard output; errors of the program itself are raised."""
    result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@given(st.integers(1, 300))
def test_closed_forms_are_the_sums(n: int) -> None:
    counts = work(n)
    assert counts.refeed_dots == sum(t * t for t in range(1, n + 1))
    assert counts.cached_dots == counts.recompute_dots == sum(range(1, n + 1))
    assert counts.recompute_projections == counts.refeed_projections == sum(range(1, n + 1))
    assert (counts.cached_projections, counts.passes) == (n, n)
    assert counts.dots_ratio == Fraction(2 * n + 1, 3)
    assert counts.projections_ratio == Fraction(n + 1, 2)


def test_work_by_the_worked_examples() -> None:
    assert [round(float(work(n).dots_ratio), 2) for n in (512, 2048)] == [341.67, 1365.67]
    assert [float(work(n).projections_ratio) for n in (14, 4096)] == [7.5, 2048.5]
    last = work(4096).recompute_projections - work(4095).recompute_projections
    assert (last, work(4096).cached_projections - work(4095).cached_projections) == (4096, 1)
    assert prefill_dots(4 * 777) == 16 * prefill_dots(777)
    assert work(10**6).refeed_dots / 10**18 == pytest.approx(1 / 3, rel=1e-5)
    with pytest.raises(SpecError, match="work is 0 tokens, must be >= 1"):
        work(0)


@given(st.integers(0, 500), st.integers(0, 200))
def test_pairs(computed: int, tokens: int) -> None:
    assert pairs(computed, tokens) == sum(computed + t for t in range(1, tokens + 1))


def test_the_table() -> None:
    text = run("llama-2-7b", "--gpu", "a100-80gb", "--max-len", "4096", "--work", "4096")
    for part in (
        "Llama-2-7B on A100-80GB-SXM, tp 1, pp 1 (MHA, 6.74B parameters)",
        "512.00 KiB (fp16)",
        "12.55 GiB (fp16, counted)",
        "(estimate)",
        "25,704 tokens in all",  # 12.55 GiB over 512 KiB
        "2,048.5",
        "2,731.00",
        "mfu 0.5, mbu 0.8, overhead 2 ms",
        "not modelled",
        "What bounds a step",
    ):
        assert part in " ".join(text.split()), part
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    "words",
    [
        ("deepseek-v3", "--gpu", "h200", "-tp", "8", "-pp", "2", "--work", "100000"),
        ("gemma-3-27b", "--gpu", "h100", "--kv-cache-dtype", "fp8_per_token_head"),
        ("llama-3.1-405b", "--gpu", "l4", "--num-gpu-blocks-override", "20"),
        ("qwen3-0.6b", "--gpu", "b200", "--max-model-len", "7", "--block", "784"),
    ],
)
def test_it_fits_a_terminal(words: tuple[str, ...]) -> None:
    text = run(*words)
    assert max(map(len, text.splitlines())) <= 80
    assert "Where the numbers come from" in text


def test_json(tmp_path: Path) -> None:
    file = tmp_path / "size.json"
    words = ("llama-3.1-8b", "--gpu", "h100", "--kv-blocks", "1025", "--work", "14")
    run(*words, "--json", str(file))
    result = json.loads(file.read_text())
    assert next(iter(result)) == "schema"
    assert result["schema"] == "pagedsim.size/1"
    device = result["device"]
    assert (device["blocks"], device["capacity_tokens"]) == (1025, 16_400)
    assert (device["kv_bytes_per_token"], device["estimated"]) == (131_072, False)
    assert result["max_len"] == 131_072
    assert result["sequences_of_max_len"] == 0
    assert result["concurrency"] == 1025 / 8192
    assert result["work"]["projections_ratio"] == 7.5
    assert result["provenance"]["capacity"] == "given: --kv-blocks 1025, null block included"
    assert json.loads(run(*words, "--json", "-")) == result


def test_the_null_block_is_no_room() -> None:
    words = ("llama-3.1-8b", "--gpu", "h100", "--max-len", "16", "--json", "-", "--kv-blocks")
    assert json.loads(run(*words, "10"))["sequences_of_max_len"] == 9


def test_engine_log_option(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("GPU KV cache size: 78,384 tokens\n")
    text = run("gpt-oss-120b", "--gpu", "h100", "--engine-log", str(log))
    assert "78,384 tokens" in text
    assert "(stated)" in text
    assert "from vLLM V1 log line 1: GPU KV cache size: 78,384 tokens" in text
    assert "18 of 36 layers use a sliding window of 128 tokens" in text
    assert "it counts no slots" in " ".join(text.split())


def test_mistakes_are_raised_for_the_application_to_print(tmp_path: Path) -> None:
    for words, message in (
        (("gpt-5", "--gpu", "h100"), "unknown model 'gpt-5'"),
        (("llama-3.1-8b", "--gpu", "h300"), "unknown GPU 'h300'; there are: H200-SXM, H100-SXM"),
        (("llama-3.1-8b", "--gpu", "h100", "--kv-dtype", "fp7"), "unknown KV dtype 'fp7'"),
        (("llama-3.1-8b", "--gpu", "h100", "--max-len", "0"), "--max-len is 0, must be a whole"),
        (("llama-3.1-8b", "--gpu", "h100", "--work", "-1"), "--work is -1, must be a whole"),
        (("llama-3.1-8b", "--gpu", "h100", "--work", "1" * 40), "must be a whole number <= 100000"),
        (("llama-3.1-8b", "--gpu", "h100", "--tp", "x"), "--tp is x, must be a whole number >= 1"),
        (("llama-3.1-8b", "--gpu", "h100", "--block", "1.5"), "--block is 1.5, must be a whole"),
        (("llama-3.1-8b", "--gpu", "h100", "--kv-tokens", "0"), "--kv-tokens is 0, must be a"),
        (("llama-3.1-8b", "--gpu", "h100", "--utilization", "2"), "--utilization is 2, must be a"),
        (("llama-3.1-8b", "--gpu", "h100", "--engine-log", str(tmp_path)), "cannot be read"),
        (("llama-3.1-8b", "--gpu", "h100", "--json", str(tmp_path)), "is a folder"),
    ):
        with pytest.raises(PagedsimError) as caught:
            run(*words)
        assert message in str(caught.value)


def test_no_maximum_length_known(tmp_path: Path) -> None:
    config = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**config, "intermediate_size": 128, "vocab_size": 100}))
    with pytest.raises(DeviceError, match=r"states no maximum length: give --max-len"):
        run(str(file), "--gpu", "t4")
    assert "tokens fit at once" in run(str(file), "--gpu", "t4", "--max-len", "100")


def test_importing_reads_no_file() -> None:
    code = (
        "import builtins, io, sys, numpy, msgspec\n"
        "import pagedsim.errors, pagedsim.protocols\n"
        "from pathlib import Path\n"
        "def refuse(*a, **k): raise AssertionError(a)\n"
        "builtins.open = Path.read_bytes = Path.open = refuse\n"
        "import pagedsim.device\n"
        "assert 'simpy' not in sys.modules and 'polars' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
