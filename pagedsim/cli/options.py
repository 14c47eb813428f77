"""Options that `replay` and `compare` share, written once, and how any command reads a number.

`with_options` gives a command the fields of `Options` as its options, and calls it with an
`Options`. Numbers are checked as they are read, so that a message names the option as it was
typed, the value and the bound.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from pagedsim.errors import SpecError

_DEVICE, _LOAD, _RUN, _OUT = "Device", "Load", "Run", "Output"
MOST = 1 << 40  # of anything that is counted

_HUMAN = re.compile(r"([+-]?[0-9_]+)(?:\.([0-9]+))?([kKmMgGtT]?)")


def whole(name: str, text: str | int, *, least: int = 1, most: int = MOST) -> int:
    """`text` as a whole number, 8k = 8,000 and 8K = 8,192 as engines have it; else SpecError."""
    found = _HUMAN.fullmatch(str(text))
    value: int | None = None
    if found is not None:
        digits, decimals, unit = found[1], found[2] or "", found[3]
        power = "kmgt".find(unit.lower()) + 1 if unit else 0
        scale: int = 1024**power if unit.isupper() else 1000**power
        if len(digits) + len(decimals) <= 40:
            number = int(digits + decimals) * scale
            value = number // 10 ** len(decimals) if number % 10 ** len(decimals) == 0 else None
    if value is None or not least <= value <= most:
        bound = f">= {least}" if value is None or value < least else f"<= {most}"
        raise SpecError(f"{name} is {text}, must be a whole number {bound}")
    return value


def number(name: str, text: str | float, *, most: float = math.inf) -> float:
    """`text` as a finite number above 0 and up to `most`, else SpecError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= most or math.isinf(value):
        bound = "> 0" if math.isinf(most) else f"> 0 and <= {most:g}"
        raise SpecError(f"{name} is {text}, must be a number {bound}")
    return value


def option(*names: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option of a command, in a panel of its help."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


def counted(*names: str, least: int = 1, most: int = MOST, **more: Any) -> Any:
    """An option that takes a whole number from `least` to `most`."""

    def read(text: str | int) -> int:
        return whole(names[0], text, least=least, most=most)

    return option(*names, parser=read, metavar="N", **more)


def measured(*names: str, most: float = math.inf, **more: Any) -> Any:
    """An option that takes a number above 0 and up to `most`."""

    def read(text: str | float) -> float:
        return number(names[0], text, most=most)

    return option(*names, parser=read, metavar="X", **more)


def one_of(name: str, *words: str, **more: Any) -> Any:
    """An option that takes one of some words."""

    def read(text: str) -> str:
        if text not in words:
            raise SpecError(f"{name} is {text}, must be {' or '.join(words)}")
        return text

    return option(name, parser=read, metavar="|".join(words), **more)


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
            help="roofline, affine, table:FILE or constant:ms=…",
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
    rate_scale: Annotated[
        float | None, measured("--rate-scale", panel=_LOAD, help="arrivals X times as fast")
    ] = None
    zero_output: Annotated[
        str, one_of("--zero-output", "drop", "error", panel=_LOAD, help="rows without output")
    ] = "drop"
    seed: Annotated[
        int,
        counted("--seed", least=0, most=1 << 62, panel=_LOAD, help="of generated arrivals"),
    ] = 0
    seeds: Annotated[
        int,
        counted("--seeds", most=10_000, panel=_LOAD, help="repeat generated loads with N seeds"),
    ] = 1
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
    quiet: Annotated[bool, option("--quiet", "-q", panel=_OUT, help="no table")] = False
    no_color: Annotated[bool, option("--no-color", panel=_OUT, help="no colours")] = False
    engine: Annotated[
        str,
        one_of("--engine", "fast", "reference", panel=_RUN, help="reference: plain, slow, equal"),
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


__all__ = [
    "MOST",
    "Options",
    "counted",
    "measured",
    "number",
    "one_of",
    "option",
    "whole",
    "with_options",
]
