"""Options that `replay` and `compare` share, written once.

`with_options` gives a command the fields of `Options` as its options, and calls it with an
`Options`. Numbers are checked as they are read, so that a message names the option as it was
typed, the value and the bound.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from pagedsim.cli.values import MOST, counted, measured, number, one_of, option, whole

# Options of one replay that say nothing where there are many: other loads, engines, its own files.
ONE_RUN = frozenset(
    ("concurrency", "arrivals", "seeds", "window", "report", "perfetto", "engine", "check")
) | {"replicas", "route"}
_DEVICE, _LOAD, _RUN, _OUT = "Device", "Load", "Run", "Output"
_ROUTES = ("round-robin", "random", "least-loaded-at-arrival", "session")  # of engine.routes


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says; None = not said."""

    model: Annotated[
        str | None,
        option(
            "--model",
            metavar="NAME",
            panel=_DEVICE,
            help="a built-in model, or a config.json  [llama-3.1-8b]",
        ),
    ] = None
    gpu: Annotated[
        str | None,
        option("--gpu", metavar="NAME", panel=_DEVICE, help="a built-in GPU  [a100-80gb]"),
    ] = None
    tp: Annotated[
        int | None,
        counted(
            "--tp", "-tp", "--tensor-parallel-size", panel=_DEVICE, help="tensor parallel GPUs"
        ),
    ] = None
    pp: Annotated[
        int | None,
        counted("--pp", "-pp", "--pipeline-parallel-size", panel=_DEVICE, help="pipeline stages"),
    ] = None
    kv_dtype: Annotated[
        str | None,
        option(
            "--kv-dtype",
            "--kv-cache-dtype",
            metavar="TYPE",
            panel=_DEVICE,
            help="fp16, bf16, fp8, int8, int4, …",
        ),
    ] = None
    skip_layers: Annotated[
        str | None,
        option(
            "--kv-dtype-skip-layers",
            "--kv-cache-dtype-skip-layers",
            metavar="LIST",
            panel=_DEVICE,
            help="layers that keep the model's own KV format (paged:groups=on|full)",
        ),
    ] = None
    weights_dtype: Annotated[
        str | None,
        option("--weights-dtype", metavar="TYPE", panel=_DEVICE, help="the same, and fp32"),
    ] = None
    utilization: Annotated[
        float | None,
        measured(
            "--utilization",
            "--gpu-memory-utilization",
            most=1.0,
            panel=_DEVICE,
            help="share of the card that the server may use  [0.9]",
        ),
    ] = None
    kv_tokens: Annotated[
        int | None, counted("--kv-tokens", panel=_DEVICE, help="tokens in the pool")
    ] = None
    kv_blocks: Annotated[
        int | None,
        counted(
            "--kv-blocks",
            "--num-gpu-blocks-override",
            panel=_DEVICE,
            help="blocks of 16 in the pool, the null block included",
        ),
    ] = None
    kv_memory_bytes: Annotated[
        int | None,
        counted(
            "--kv-cache-memory-bytes",
            most=1 << 50,
            panel=_DEVICE,
            help="bytes of the pool on each GPU",
        ),
    ] = None
    engine_log: Annotated[
        Path | None,
        option(
            "--engine-log",
            metavar="FILE",
            panel=_DEVICE,
            help="take the pool from an engine's log",
        ),
    ] = None
    like: Annotated[
        str | None,
        option(
            "--like",
            metavar="COMMAND",
            panel=_DEVICE,
            help="take options from a 'vllm serve …' command line",
        ),
    ] = None
    max_len: Annotated[
        int | None,
        counted(
            "--max-len", "--max-model-len", least=2, panel=_RUN, help="maximum prompt + output"
        ),
    ] = None
    max_seqs: Annotated[
        int | None,
        counted("--max-seqs", "--max-num-seqs", panel=_RUN, help="most sequences in a batch"),
    ] = None
    max_batched_tokens: Annotated[
        int | None,
        counted(
            "--max-batched-tokens",
            "--max-num-batched-tokens",
            panel=_RUN,
            help="token budget of a step",
        ),
    ] = None
    scheduler: Annotated[
        str,
        option(
            "--scheduler",
            metavar="SPEC",
            panel=_RUN,
            help="vllm, orca or static, with :key=value,…",
        ),
    ] = "vllm"
    steptime: Annotated[
        str,
        option(
            "--steptime",
            metavar="SPEC",
            panel=_RUN,
            help="roofline, affine, table:FILE, fitted:FILE or constant:ms=…",
        ),
    ] = "roofline"
    limit: Annotated[
        int | None, counted("--limit", panel=_LOAD, help="only the first N requests by arrival")
    ] = None
    rate: Annotated[
        float | None, measured("--rate", panel=_LOAD, help="Poisson arrivals, requests a second")
    ] = None
    arrivals: Annotated[
        str | None,
        one_of("--arrivals", "recorded", "saturate", panel=_LOAD, help="saturate: all at time 0"),
    ] = None
    concurrency: Annotated[
        int | None, counted("--concurrency", panel=_LOAD, help="keep N requests outstanding")
    ] = None
    closed_loop: Annotated[
        bool,
        option(
            "--closed-loop",
            panel=_LOAD,
            help="a turn waits for the answer before it and its think time",
        ),
    ] = False
    samples: Annotated[
        int | None,
        counted("--samples", most=10_000, panel=_LOAD, help="N parallel outputs of each request"),
    ] = None
    beam: Annotated[
        int | None,
        counted("--beam", most=10_000, panel=_LOAD, help="N beams of each request"),
    ] = None
    beam_death: Annotated[
        float | None,
        measured(
            "--beam-death", most=1.0, panel=_LOAD, help="chance a beam dies after a token  [0.1]"
        ),
    ] = None
    rate_scale: Annotated[
        float | None, measured("--rate-scale", panel=_LOAD, help="arrivals X times as fast")
    ] = None
    truncate: Annotated[
        str | None,
        option(
            "--truncate",
            metavar="last:N|middle:N",
            panel=_LOAD,
            help="keep N tokens of longer prompts: their end, or both ends",
        ),
    ] = None
    zero_output: Annotated[
        str, one_of("--zero-output", "drop", "error", panel=_LOAD, help="rows without output")
    ] = "drop"
    seed: Annotated[
        int,
        counted("--seed", least=0, most=1 << 62, panel=_LOAD, help="of generated arrivals, beams"),
    ] = 0
    seeds: Annotated[
        int,
        counted("--seeds", most=10_000, panel=_LOAD, help="repeat generated loads with N seeds"),
    ] = 1
    replicas: Annotated[
        int | None,
        counted("--replicas", most=1024, panel=_RUN, help="N engines share the requests"),
    ] = None
    route: Annotated[
        str | None,
        one_of("--route", *_ROUTES, panel=_RUN, help="which engine gets a request  [round-robin]"),
    ] = None
    window: Annotated[
        str | None,
        option("--window", metavar="A:B|steady", panel=_OUT, help="averages over these seconds"),
    ] = None
    json: Annotated[
        str | None,
        option(
            "--json", metavar="FILE", panel=_OUT, help="write the results, - for standard output"
        ),
    ] = None
    figure: Annotated[
        str | None,
        option(
            "--figure",
            metavar="FILE",
            panel=_OUT,
            help="draw it all: .png, .svg or .pdf",
        ),
    ] = None
    report: Annotated[
        str | None,
        option(
            "--report", metavar="FILE", panel=_OUT, help="one HTML page that needs nothing else"
        ),
    ] = None
    perfetto: Annotated[
        str | None,
        option(
            "--perfetto", metavar="FILE", panel=_OUT, help="a timeline for ui.perfetto.dev: .json"
        ),
    ] = None
    quiet: Annotated[bool, option("--quiet", "-q", panel=_OUT, help="no table")] = False
    no_color: Annotated[bool, option("--no-color", panel=_OUT, help="no colours")] = False
    engine: Annotated[
        str,
        one_of("--engine", "fast", "reference", panel=_RUN, help="reference: plain, slow, equal"),
    ] = "fast"
    check: Annotated[
        bool, option("--check", panel=_RUN, help="hold every step to the contract; slow")
    ] = False


def with_options(
    command: Callable[..., None], *, without: Container[str] = ()
) -> Callable[..., None]:
    """`command(…, options)` with the fields of `Options` in the place of `options`.

    Fields `without` are no options of the command, or it has its own of that name.
    """
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
        if field.name not in without
    ]

    def wrapper(*args: Any, **values: Any) -> None:
        chosen = {each.name: values.pop(each.name) for each in shared}
        command(*args, **values, options=Options(**chosen))

    parameters = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in own] + shared
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    return wrapper


__all__ = ["MOST", "ONE_RUN", "Options", "number", "whole", "with_options"]
