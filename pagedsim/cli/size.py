"""``pagedsim size``: how much KV a model on a GPU has room for, and how that is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagedsim.device.device import make_device
from pagedsim.device.gpu import GIB
from pagedsim.device.sizing import Sizing, WorkCounts
from pagedsim.device.sizing import size as size_device
from pagedsim.files import write_whole

_WIDTH = 80


def size(
    model: Annotated[str, typer.Argument(help="A built-in model, or a path to a config.json.")],
    gpu: Annotated[str, typer.Option("--gpu", help="A built-in GPU.")],
    tp: Annotated[
        int, typer.Option("--tp", "-tp", "--tensor-parallel-size", help="Tensor parallel ranks.")
    ] = 1,
    pp: Annotated[
        int, typer.Option("--pp", "-pp", "--pipeline-parallel-size", help="Pipeline stages.")
    ] = 1,
    kv_dtype: Annotated[
        str, typer.Option("--kv-dtype", "--kv-cache-dtype", help="fp16, bf16, fp8, int8, int4, …")
    ] = "auto",
    weights_dtype: Annotated[
        str, typer.Option("--weights-dtype", help="fp32, fp16, bf16, fp8, int8, int4, …")
    ] = "auto",
    max_len: Annotated[
        int | None,
        typer.Option("--max-len", "--max-model-len", help="Longest sequence, prompt + output."),
    ] = None,
    utilization: Annotated[
        float,
        typer.Option("--utilization", "--gpu-memory-utilization", help="Share of memory used."),
    ] = 0.9,
    max_batched_tokens: Annotated[
        int | None,
        typer.Option("--max-batched-tokens", "--max-num-batched-tokens", help="Tokens a step."),
    ] = None,
    max_seqs: Annotated[
        int | None, typer.Option("--max-seqs", "--max-num-seqs", help="Sequences a step.")
    ] = None,
    block: Annotated[int, typer.Option("--block", "--block-size", help="Tokens a block.")] = 16,
    kv_tokens: Annotated[
        int | None, typer.Option("--kv-tokens", help="The pool in tokens, not estimated.")
    ] = None,
    kv_blocks: Annotated[
        int | None,
        typer.Option(
            "--kv-blocks",
            "--num-gpu-blocks-override",
            help="The pool in blocks, the null block included.",
        ),
    ] = None,
    kv_memory_bytes: Annotated[
        int | None,
        typer.Option("--kv-cache-memory-bytes", help="The pool in bytes, on one rank."),
    ] = None,
    engine_log: Annotated[
        Path | None,
        typer.Option("--engine-log", help="A vLLM, SGLang, TensorRT-LLM or llama.cpp log."),
    ] = None,
    work: Annotated[
        int | None,
        typer.Option("--work", help="Count the work of generating this many tokens."),
    ] = None,
    json: Annotated[
        str | None, typer.Option("--json", help="Write the result here; '-': standard output.")
    ] = None,
) -> None:
    """How much KV a model on a GPU has room for, estimated or from an engine's log."""
    device = make_device(
        model,
        gpu,
        tp=tp,
        pp=pp,
        kv_dtype=kv_dtype,
        weights_dtype=weights_dtype,
        utilization=utilization,
        max_batched_tokens=max_batched_tokens,
        max_seqs=max_seqs,
        block=block,
        kv_tokens=kv_tokens,
        kv_blocks=kv_blocks,
        kv_memory_bytes=kv_memory_bytes,
        engine_log=engine_log,
    )
    result = size_device(device, max_len=max_len, tokens=work)
    if json is not None:
        with write_whole(json) as file:
            file.write(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    if json != "-":
        show(result, Console(width=_WIDTH, highlight=False))


def show(result: Sizing, console: Console) -> None:
    """Print a sizing, at most 80 columns wide."""
    d = result.device
    console.print(
        Text(f"{d.model} on {d.gpu}, tp {d.tp}, pp {d.pp}", "bold"),
        f"({d.attention}, {d.params / 1e9:.2f}B parameters"
        + (f", {d.active_params / 1e9:.2f}B active)" if d.active_params != d.params else ")"),
    )
    for caveat in result.caveats:
        console.print(Text(f"Note: {caveat}.", "yellow"))
    console.print(_main(result))
    console.print(_steps(result))
    console.print(_decode(result))
    if result.work is not None:
        console.print(_work(result.work))
        console.print(_bounds(result))
    console.print(Text("Where the numbers come from", "bold"))
    for name, why in result.provenance.items():
        console.print(Text(f"  {name}: {why}"))


def _main(result: Sizing) -> Table:
    d = result.device
    called = "estimate" if d.estimated else "stated"
    share = "" if d.tp * d.pp == 1 else f"; {_size(d.kv_bytes_per_token_rank)} on the fullest rank"
    rank = "" if d.tp * d.pp == 1 else f"; {_size(d.weights_bytes_rank)} on the largest rank"
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_row("KV of a token", f"{_size(d.kv_bytes_per_token)} ({d.kv_dtype}){share}")
    table.add_row("weights", f"{_size(d.weights_bytes)} ({d.weights_dtype}, counted){rank}")
    table.add_row(
        "activation peak",
        f"{_size(d.activation_bytes)} at {d.max_batched_tokens:,} tokens a step (estimate)",
    )
    where = "" if d.tp * d.pp == 1 else " a rank"
    table.add_row(
        "KV pool",
        f"{_size(d.pool_bytes)}{where}: {d.blocks:,} blocks of {d.block} = "
        f"{d.capacity_tokens:,} tokens ({called})",
    )
    table.add_row(
        "longest sequences",
        f"{result.sequences_of_max_len:,} of {result.max_len:,} tokens fit at once "
        f"(engines print {result.concurrency:.2f}x)",
    )
    table.add_row(
        "KV equals weights",
        f"at {result.kv_equals_weights_tokens:,} tokens in all",
    )
    return table


def _steps(result: Sizing) -> Table:
    table = _table("How the pool shrinks with the tokens of a step (estimate)")
    for name in ("tokens a step", "activation peak", "KV pool", "tokens"):
        table.add_column(name, justify="right")
    for room in result.step_room:
        table.add_row(
            f"{room.max_batched_tokens:,}",
            _size(room.activation_bytes),
            "none" if room.pool_bytes is None else _size(room.pool_bytes),
            "none" if room.capacity_tokens is None else f"{room.capacity_tokens:,}",
        )
    return table


def _decode(result: Sizing) -> Table:
    table = _table("Decode tokens/s against context (estimate)")
    for name in ("context", "one sequence", "bound by", "batch that fits", "in all", "bound by"):
        table.add_column(name, justify="right")
    for rate in result.decode:
        table.add_row(
            f"{rate.context:,}",
            f"{rate.tokens_per_s:,.1f}",
            rate.bound,
            f"{rate.batch:,}",
            "" if rate.batch_tokens_per_s is None else f"{rate.batch_tokens_per_s:,.0f}",
            rate.batch_bound or "",
        )
    return table


def _work(counts: WorkCounts) -> Table:
    table = _table(f"Generating {counts.tokens:,} tokens, {counts.passes:,} forward passes")
    for name in ("a layer and head", "without a cache", "cached", "ratio"):
        table.add_column(name, justify="left" if name.startswith("a ") else "right")
    table.add_row(
        "dot products (refeed)",
        f"{counts.refeed_dots:,}",
        f"{counts.cached_dots:,}",
        f"{counts.dots_ratio:,.2f}",
    )
    table.add_row(
        "K, V projections (recompute)",
        f"{counts.recompute_projections:,}",
        f"{counts.cached_projections:,}",
        f"{counts.projections_ratio:,.1f}",
    )
    return table


def _bounds(result: Sizing) -> Table:
    ridge = result.ridge_flops_per_byte
    table = _table(f"What bounds a step; ridge point {ridge:.0f} FLOPs a byte (estimate)")
    for name in ("step", "tokens", "context", "ms", "FLOPs a byte", "bound by"):
        table.add_column(name, justify="left" if name == "step" else "right")
    for step in result.bounds:
        table.add_row(
            step.step,
            f"{step.tokens:,}",
            f"{step.context:,}",
            f"{step.ms:,.2f}",
            f"{step.intensity:,.1f}",
            step.bound,
        )
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def _size(count: float) -> str:
    for unit, name in ((GIB, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if abs(count) >= unit:
            return f"{count / unit:,.2f} {name}"
    return f"{count:,g} bytes"


__all__ = ["show", "size"]
