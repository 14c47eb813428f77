"""``pagedsim size``: how much KV a model on a GPU has room for, and how that is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pagedsim.cli.values import counted, measured, option

_MOST_WORK = 10**8  # tokens: a prompt of more takes longer than the clock holds


def size(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="a built-in model, or a config.json")
    ],
    gpu: Annotated[str, option("--gpu", metavar="NAME", help="a built-in GPU")],
    tp: Annotated[
        int, counted("--tp", "-tp", "--tensor-parallel-size", help="tensor parallel GPUs")
    ] = 1,
    pp: Annotated[
        int, counted("--pp", "-pp", "--pipeline-parallel-size", help="pipeline stages")
    ] = 1,
    kv_dtype: Annotated[
        str,
        option(
            "--kv-dtype",
            "--kv-cache-dtype",
            metavar="TYPE",
            help="fp16, bf16, fp8, int8, int4, …",
        ),
    ] = "auto",
    weights_dtype: Annotated[
        str, option("--weights-dtype", metavar="TYPE", help="the same, and fp32")
    ] = "auto",
    max_len: Annotated[
        int | None,
        counted("--max-len", "--max-model-len", help="maximum prompt + output  [the model's]"),
    ] = None,
    utilization: Annotated[
        float,
        measured(
            "--utilization",
            "--gpu-memory-utilization",
            most=1.0,
            help="share of the card that the server may use",
        ),
    ] = 0.9,
    max_batched_tokens: Annotated[
        int | None,
        counted("--max-batched-tokens", "--max-num-batched-tokens", help="token budget of a step"),
    ] = None,
    max_seqs: Annotated[
        int | None, counted("--max-seqs", "--max-num-seqs", help="most sequences in a batch")
    ] = None,
    block: Annotated[int, counted("--block", "--block-size", help="tokens a block")] = 16,
    kv_tokens: Annotated[
        int | None, counted("--kv-tokens", help="tokens in the pool, not estimated")
    ] = None,
    kv_blocks: Annotated[
        int | None,
        counted(
            "--kv-blocks",
            "--num-gpu-blocks-override",
            help="blocks in the pool, the null block included",
        ),
    ] = None,
    kv_memory_bytes: Annotated[
        int | None,
        counted("--kv-cache-memory-bytes", most=1 << 50, help="bytes of the pool on each GPU"),
    ] = None,
    engine_log: Annotated[
        Path | None,
        option(
            "--engine-log",
            metavar="FILE",
            help="take the pool from a vLLM, SGLang, TensorRT-LLM or llama.cpp log",
        ),
    ] = None,
    work: Annotated[
        int | None,
        counted("--work", most=_MOST_WORK, help="count the work of generating N tokens"),
    ] = None,
    json: Annotated[
        str | None,
        option("--json", metavar="FILE", help="write JSON to FILE, - for standard output"),
    ] = None,
) -> None:
    """How much KV a model on a GPU has room for, estimated or from an engine's log."""
    import msgspec

    from pagedsim.device.device import make_device
    from pagedsim.device.sizing import size as size_device
    from pagedsim.files import write_whole
    from pagedsim.present.sizing import show

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
            file.write(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    if json != "-":
        show(result)


__all__ = ["size"]
