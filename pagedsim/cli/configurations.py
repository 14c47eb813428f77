"""From options to configurations and loads: what `plan` and `whatif` have in common."""

from __future__ import annotations

import itertools
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pagedsim import __version__
from pagedsim.analysis.configuration import Configuration
from pagedsim.analysis.plan_load import Offered, generated, recorded, untimed
from pagedsim.analysis.simulate import ALLOCATORS, GPU, MAX_LEN, MODEL
from pagedsim.cli.like import masked
from pagedsim.cli.options import Options
from pagedsim.cli.outputs import writable
from pagedsim.cli.runs import device_options, one_load, sampled, with_block, with_like
from pagedsim.cli.runs import loaded as under_load
from pagedsim.errors import SpecError
from pagedsim.specs import parse
from pagedsim.trace import Trace, load


def configurations(
    options: Options, allocators: Sequence[str], blocks: Sequence[int] = (), **several: Any
) -> tuple[list[Configuration], list[str]]:
    """A configuration for every combination, and what there is to say.

    `several` are fields of `Options` with a list of values each, None or [] where one is not said.
    `blocks` are block sizes of the paged allocators among `allocators`. SpecError for words that
    make no configuration, or contradict each other.
    """
    one_load(options)
    options, notes, block = with_like(options)
    specs = [with_block(spec, block, bool(allocators)) for spec in allocators or ALLOCATORS[-1:]]
    specs = [each for spec in specs for each in _in_blocks(spec, blocks, bool(allocators))]
    varied = {key: list(values) for key, values in several.items() if values}
    for name, given in (("allocator", specs), *varied.items()):
        if len(set(given)) < len(given):
            twice = next(value for value in given if given.count(value) > 1)
            raise SpecError(f"--{name.replace('_', '-')} {twice} is given twice")
    made = []
    for spec in specs:
        for values in itertools.product(*varied.values()):
            own = replace(options, **dict(zip(varied, values, strict=True)))
            made.append(_configuration(own, spec))
    return made, notes


def _configuration(options: Options, allocator: str) -> Configuration:
    bare = options.model is None and options.gpu is None
    return Configuration(
        allocator=allocator,
        scheduler=options.scheduler,
        steptime=options.steptime,
        model=options.model or MODEL,
        gpu=options.gpu or GPU,
        max_len=options.max_len or (MAX_LEN if bare else None),
        closed_loop=options.closed_loop,
        device=device_options(options),
    )


def _in_blocks(spec: str, blocks: Sequence[int], said: bool) -> list[str]:
    """`spec` with each block size, if it is a paged one."""
    parsed = parse(spec)
    if not blocks or parsed.path is not None or parsed.name != "paged":
        return [spec]
    if said and "block" in parsed.words:
        raise SpecError(f"--block-size and --allocator {spec} both give the size of a block")
    words = [f"{key}={word}" for key, word in parsed.words.items() if key != "block"]
    return [f"paged:{','.join([f'block={block}', *words])}" for block in blocks]


def offered(path: str, options: Options, *, rated: bool = True) -> Offered:
    """The trace, at the rate that is wanted of it; without `rated` no rate is needed."""
    trace = load(path, zero_output=options.zero_output, limit=options.limit)  # type: ignore[arg-type]
    trace = sampled(trace, options, options.seed)
    if not rated:
        return untimed(trace)
    if options.rate is not None:
        return generated(trace, options.rate, options.seed)
    return recorded(trace, options.rate_scale or 1.0)


def loaded(path: str, options: Options) -> Trace:
    """The trace under the load that was asked for."""
    trace = load(path, zero_output=options.zero_output, limit=options.limit)  # type: ignore[arg-type]
    return under_load(trace, options, options.seed)


def made_by(options: Options) -> Callable[[], dict[str, Any]]:
    """Starts a clock; called at the end, how, when and with what an answer was made."""
    began = time.perf_counter()

    def about() -> dict[str, Any]:
        drawn = options.rate is not None or options.beam is not None
        return {
            "version": __version__,
            "command": masked(shlex.join(["pagedsim", *sys.argv[1:]])),
            "seed": options.seed if drawn else None,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "wall_s": round(time.perf_counter() - began, 3),
        }

    return about


def check_files(path: str, options: Options) -> None:
    """Find what would keep the files from being written."""
    taken = {os.path.realpath(path): "the trace"}
    if options.engine_log is not None:
        taken[os.path.realpath(options.engine_log)] = "the engine's log"
    writable({"json": options.json, "figure": options.figure}, taken, 1)


__all__ = ["check_files", "configurations", "loaded", "made_by", "offered"]
