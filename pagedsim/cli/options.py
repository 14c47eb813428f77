"""Options that `replay` and `compare` share, written once.

`with_options` gives a command the fields of `Options` as its options, and calls it with an
`Options`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

_DEVICE, _LOAD, _RUN, _OUT = "Device", "Load", "Run", "Output"


def _option(*names: str, help: str, panel: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says; None = not said."""

    model: Annotated[
        str | None,
        _option(
            "--model", panel=_DEVICE, help="a built-in model, or a config.json  [llama-3.1-8b]"
        ),
    ] = None
    gpu: Annotated[
        str | None, _option("--gpu", panel=_DEVICE, help="a built-in GPU  [a100-80gb]")
    ] = None
    tp: Annotated[
        int | None,
        _option(
            "--tp", "-tp", "--tensor-parallel-size", panel=_DEVICE, help="tensor parallel GPUs"
        ),
    ] = None
    pp: Annotated[
        int | None,
        _option(
            "--pp", "-pp", "--pipeline-parallel-size", panel=_DEVICE, help="pipeline parallel GPUs"
        ),
    ] = None
    kv_dtype: Annotated[
        str | None,
        _option(
            "--kv-dtype", "--kv-cache-dtype", panel=_DEVICE, help="fp16, bf16, fp8, int8, int4"
        ),
    ] = None
    weights_dtype: Annotated[
        str | None, _option("--weights-dtype", panel=_DEVICE, help="as --kv-dtype, and fp32")
    ] = None
    utilization: Annotated[
        float | None,
        _option(
            "--utilization",
            "--gpu-memory-utilization",
            panel=_DEVICE,
            help="share of the card that the server may use  [0.9]",
        ),
    ] = None
    kv_tokens: Annotated[
        int | None, _option("--kv-tokens", panel=_DEVICE, help="tokens in the pool")
    ] = None
    kv_blocks: Annotated[
        int | None,
        _option(
            "--kv-blocks",
            "--num-gpu-blocks-override",
            panel=_DEVICE,
            help="blocks of 16 in the pool, the null block included",
        ),
    ] = None
    kv_memory_bytes: Annotated[
        int | None,
        _option("--kv-cache-memory-bytes", panel=_DEVICE, help="bytes of the pool on each GPU"),
    ] = None
    engine_log: Annotated[
        Path | None,
        _option("--engine-log", panel=_DEVICE, help="take the pool from an engine's log"),
    ] = None
    like: Annotated[
        str | None,
        _option("--like", panel=_DEVICE, help="take options from a 'vllm serve …' command line"),
    ] = None
    max_len: Annotated[
        int | None,
        _option("--max-len", "--max-model-len", panel=_RUN, help="maximum prompt + output"),
    ] = None
    max_seqs: Annotated[
        int | None,
        _option("--max-seqs", "--max-num-seqs", panel=_RUN, help="most sequences in a batch"),
    ] = None
    max_batched_tokens: Annotated[
        int | None,
        _option(
            "--max-batched-tokens",
            "--max-num-batched-tokens",
            panel=_RUN,
            help="token budget of a step",
        ),
    ] = None
    scheduler: Annotated[
        str, _option("--scheduler", panel=_RUN, help="vllm, orca or static, with :key=value,…")
    ] = "vllm"
    steptime: Annotated[
        str,
        _option("--steptime", panel=_RUN, help="roofline, affine, table:FILE or constant:ms=…"),
    ] = "roofline"
    limit: Annotated[
        int | None, _option("--limit", panel=_LOAD, help="only the first N requests by arrival")
    ] = None
    rate: Annotated[
        float | None, _option("--rate", panel=_LOAD, help="Poisson arrivals, requests a second")
    ] = None
    arrivals: Annotated[
        str | None,
        _option("--arrivals", panel=_LOAD, help="recorded, or saturate: all at time 0"),
    ] = None
    concurrency: Annotated[
        int | None, _option("--concurrency", panel=_LOAD, help="keep N requests outstanding")
    ] = None
    rate_scale: Annotated[
        float | None, _option("--rate-scale", panel=_LOAD, help="arrivals X times as fast")
    ] = None
    zero_output: Annotated[
        str, _option("--zero-output", panel=_LOAD, help="rows without output: drop or error")
    ] = "drop"
    seed: Annotated[int, _option("--seed", panel=_LOAD, help="of generated arrivals")] = 0
    seeds: Annotated[
        int, _option("--seeds", panel=_LOAD, help="repeat generated loads with K seeds", min=1)
    ] = 1
    window: Annotated[
        str | None,
        _option("--window", panel=_OUT, help="averages over A:B seconds, or steady"),
    ] = None
    json: Annotated[
        str | None, _option("--json", panel=_OUT, help="write the results, - for standard output")
    ] = None
    quiet: Annotated[bool, _option("--quiet", "-q", panel=_OUT, help="no table")] = False
    no_color: Annotated[bool, _option("--no-color", panel=_OUT, help="no colours")] = False
    engine: Annotated[
        str, _option("--engine", panel=_RUN, help="fast, or reference (plain, slow, equal)")
    ] = "fast"


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command(…, options)` with the fields of `Options` in the place of `options`."""
    hints = get_type_hints(Options, include_extras=True)
    own_hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=own_hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "options"
    ]
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(Options)
    ]

    def wrapper(*args: Any, **values: Any) -> None:
        chosen = {field.name: values.pop(field.name) for field in dataclasses.fields(Options)}
        command(*args, **values, options=Options(**chosen))

    parameters = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in own] + shared
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    return wrapper


__all__ = ["Options", "with_options"]
