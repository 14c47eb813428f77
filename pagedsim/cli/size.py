"""``pagedsim size``: how much KV a model on a GPU has room for, and how that is known.

With ``--available-gib`` it starts up as the engine does, in groups of layers; else the pool is
estimated from the card, or stated, and every layer counts as full attention.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pagedsim.cli.size_groups import available_bytes, start_up
from pagedsim.cli.values import Json, NoColor, Quiet, counted, measured, option, whole
from pagedsim.errors import SpecError

_GROUPS = "As the engine sizes it"
_MOST_WORK = 10**8  # tokens: a prompt of more takes longer than the clock holds


def _length(text: str | int) -> int:
    """A maximum length, 0 for the longest that fits."""
    return 0 if str(text) in ("auto", "-1") else whole("--max-len", text)


def size(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="a built-in model, or a config.json")
    ],
    gpu: Annotated[str | None, option("--gpu", metavar="NAME", help="a built-in GPU")] = None,
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
        option(
            "--max-len",
            "--max-model-len",
            parser=_length,
            metavar="N",
            help="maximum prompt + output, auto for what fits --available-gib  [the model's]",
        ),
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
    json: Json = None,
    available_gib: Annotated[
        str | None,
        option(
            "--available-gib",
            panel=_GROUPS,
            metavar="X",
            help="GiB for KV on each GPU, or X,X,… a stage; 'estimate' from --gpu",
        ),
    ] = None,
    hybrid: Annotated[
        bool | None,
        option(
            "--hybrid/--no-hybrid",
            panel=_GROUPS,
            help="groups of layers, or all as full attention  [as the engine chooses]",
        ),
    ] = None,
    asynchronous: Annotated[
        bool,
        option("--async-scheduling", panel=_GROUPS, help="a step more is in flight"),
    ] = False,
    prefix_caching: Annotated[
        bool,
        option(
            "--prefix-caching/--no-prefix-caching",
            panel=_GROUPS,
            help="with it recurrent layers keep two states a request",
        ),
    ] = True,
    dcp: Annotated[
        int,
        counted(
            "--dcp",
            "-dcp",
            "--decode-context-parallel-size",
            panel=_GROUPS,
            help="GPUs that share a request's tokens",
        ),
    ] = 1,
    skip_layers: Annotated[
        str | None,
        option(
            "--kv-dtype-skip-layers",
            "--kv-cache-dtype-skip-layers",
            panel=_GROUPS,
            metavar="LIST",
            help="layers that keep the model's own KV format: numbers, or sliding_window",
        ),
    ] = None,
    layout: Annotated[
        str | None,
        option(
            "--layout",
            panel=_GROUPS,
            metavar="BLHNC",
            help="order of the pool in memory: B first packs unequal pages  [LBNHC]",
        ),
    ] = None,
    older_print: Annotated[
        bool, option("--older-print", panel=_GROUPS, help="the lines as older versions print them")
    ] = False,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """How much KV a model on a GPU has room for, estimated, stated, or as vLLM sizes it."""
    from pagedsim.cli.outputs import target, writable
    from pagedsim.device.device import make_device
    from pagedsim.device.sizing import size as size_device
    from pagedsim.device.tables import find_gpu, find_model
    from pagedsim.files import write_json
    from pagedsim.present.sizing import show

    if available_gib is not None:
        _refuse(
            "--available-gib says how large the pool is",
            **{
                "--kv-tokens": kv_tokens is not None,
                "--kv-cache-memory-bytes": kv_memory_bytes is not None,
                "--engine-log": engine_log is not None,
                "--work": work is not None,
            },
        )
        shape = find_model(model)
        writable({"json": json}, {}, 1)
        available, limit, source = available_bytes(
            available_gib,
            shape,
            gpu,
            max_batched_tokens,
            tp=tp,
            pp=pp,
            kv_dtype=kv_dtype,
            weights_dtype=weights_dtype,
            utilization=utilization,
            max_seqs=max_seqs,
            block=block,
        )
        start_up(
            shape,
            json,
            source,
            quiet=quiet,
            no_color=no_color,
            available=available,
            max_len=max_len,
            max_batched_tokens=limit,
            tp=tp,
            pp=pp,
            dcp=dcp,
            kv_dtype=kv_dtype,
            block=block,
            blocks=kv_blocks,
            hybrid=hybrid,
            asynchronous=asynchronous,
            prefix_caching=prefix_caching,
            older=older_print,
            layout=layout,
            exempt=tuple(part.strip() for part in (skip_layers or "").split(",") if part.strip()),
        )
        return
    _refuse(
        "needs --available-gib",
        **{
            "--max-len auto": max_len == 0,
            "--hybrid": bool(hybrid),
            "--no-hybrid": hybrid is False,
            "--async-scheduling": asynchronous,
            "--no-prefix-caching": not prefix_caching,
            "--dcp": dcp != 1,
            "--kv-dtype-skip-layers": skip_layers is not None,
            "--layout": layout is not None,
            "--older-print": older_print,
        },
    )
    if gpu is None:
        raise SpecError("give --gpu NAME, or --available-gib X to size as the engine does")
    shape, card = find_model(model), find_gpu(gpu)
    log = {} if engine_log is None else {target(str(engine_log)): "the engine's log"}
    writable({"json": json}, log, 1)
    device = make_device(
        shape,
        card,
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
    write_json(json, result)
    if json != "-" and not quiet:
        show(result, no_color=no_color)


def _refuse(why: str, **given: bool) -> None:
    """SpecError for the first option that was given."""
    for name, value in given.items():
        if value:
            raise SpecError(f"{name}: {why}")


__all__ = ["size"]
