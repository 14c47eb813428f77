"""From options to results: what `replay` and `compare` have in common.

What is wrong with specs and limits is found first, then what would keep files from being written,
then what is wrong with the trace; files are written after the last step is simulated.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from pagedsim.analysis import results, span
from pagedsim.analysis.report import Report, result
from pagedsim.analysis.results import Result
from pagedsim.analysis.scene.glimpse import glimpse
from pagedsim.analysis.seeds import over_seeds
from pagedsim.analysis.simulate import (
    GPU,
    MAX_LEN,
    MODEL,
    Setup,
    allocator_of,
    allocators_for,
    device_info,
    run,
)
from pagedsim.cli.like import masked, read_like
from pagedsim.cli.options import MOST, Options
from pagedsim.cli.outputs import Files, target, writable, write
from pagedsim.device.device import Device, make_device
from pagedsim.errors import SpecError
from pagedsim.present.progress import Progress
from pagedsim.specs import make_scheduler, make_steptime, parse
from pagedsim.trace import Trace, arrivals, load
from pagedsim.trace.samples import DEATH, with_beams, with_samples
from pagedsim.trace.truncate import parse as parse_truncation
from pagedsim.trace.truncate import truncated


def execute(
    path: str, given: Sequence[str], default: Sequence[str], options: Options, files: Files
) -> tuple[Result, list[str]]:
    """Run everything and write the files asked for; the result, and what there is to say.

    `given` are the allocators of the command line, `default` those that run where there are none.
    """
    files = {**files, "json": options.json, "figure": options.figure, "report": options.report}
    files["perfetto"] = options.perfetto
    command = masked(shlex.join(["pagedsim", *sys.argv[1:]]))
    allocators, options, setup = prepared(given, default, options, command)
    writable(files, inputs(path, options), len(allocators) * (options.replicas or 1))
    base = load(path, zero_output=options.zero_output, limit=options.limit)  # type: ignore[arg-type]
    total = len(base) * len(allocators) * options.seeds
    with Progress(total, "replaying", no_color=options.no_color) as progress:
        reports, found = answered(base, allocators, options, replace(setup, progress=progress))
    first = loaded(base, options, options.seed)
    scene: Callable[[], Any] = partial(glimpse, reports, first, allocators, setup)
    drawn = found
    if (
        options.replicas or 1
    ) > 1:  # files are of each engine: what overlaps in time cannot be drawn
        reports = [own for report in reports for own in report.replicas]
        drawn = msgspec.structs.replace(
            found, runs=result(reports, found.device, reports[0].trace).runs
        )
        scene = partial(tuple, (None, "a map is of one engine, and here are several"))
    said = write(drawn, reports, files, options.no_color, scene)
    if options.json is not None:
        results.write(target(options.json), found)
    return found, said


def inputs(path: str, options: Options) -> dict[str, str]:
    """The files that are read, by their real paths."""
    taken = {os.path.realpath(path): "the trace"}
    if options.engine_log is not None:
        taken[os.path.realpath(options.engine_log)] = "the engine's log"
    return taken


def prepared(
    given: Sequence[str], default: Sequence[str], options: Options, command: str
) -> tuple[list[str], Options, Setup]:
    """Allocators, options and setup of a run, `--like` taken into account; reads no trace.

    `given` and `default` are those of `execute`. Raises PagedsimError for what cannot work.
    """
    span.parse(options.window)
    one_load(options)
    options, notes, block = with_like(options)
    device = _device(options)
    if len(default) > 1:
        default = allocators_for(device.model)
    allocators = [with_block(spec, block, bool(given)) for spec in given or default]
    notes += _formats(options, allocators)
    bare = options.model is None and options.gpu is None
    setup = Setup(
        device=device,
        scheduler=options.scheduler,
        steptime=options.steptime,
        max_len=options.max_len or (MAX_LEN if bare else None),
        concurrency=options.concurrency or 0,
        closed_loop=options.closed_loop,
        window=options.window,
        engine=options.engine,
        check=options.check,
        seed=options.seed if _draws(options) or options.beam is not None else None,
        replicas=options.replicas or 1,
        route=options.route or "round-robin",
        command=command,
        notes=tuple(notes),
    ).resolved()
    _possible(setup, device, allocators)
    return allocators, options, setup


def answered(
    base: Trace, allocators: Sequence[str], options: Options, setup: Setup
) -> tuple[list[Report], Result]:
    """Replay `base` under the load asked for with every seed: the first seed's reports, and all."""
    assert setup.device is not None
    seeds = range(options.seed, options.seed + options.seeds)
    runs: list[list[Report]] = []
    for seed in seeds:
        trace = loaded(base, options, seed)
        drawn = setup if setup.seed is None else replace(setup, seed=seed)
        runs.append([run(trace, spec, drawn) for spec in allocators])
    shown: Sequence[Any] = runs[0]
    if len(seeds) > 1:
        over = zip(*runs, strict=True)
        shown = [over_seeds([r.run for r in same], list(seeds)) for same in over]
    return runs[0], result(shown, device_info(setup.device), runs[0][0].trace)


def _possible(setup: Setup, device: Device, allocators: Sequence[str]) -> None:
    """Make every part once, so that the last spec is as good as the first before any runs."""
    for spec in allocators:
        allocator_of(spec, setup)
    make_steptime(str(setup.steptime), device=device)


def with_like(options: Options) -> tuple[Options, list[str], int | None]:
    """Options that an engine's command line gives, where ours say nothing themselves."""
    if options.like is None:
        return options, [], None
    like = read_like(options.like)
    spec = parse(options.scheduler)
    missing = {
        key: value
        for key, value in like.options.items()
        if getattr(options, key) is None and key not in spec.values
    }
    stated = ("kv_tokens", "kv_blocks", "kv_memory_bytes", "engine_log")
    if any(getattr(options, key) is not None for key in stated):
        missing = {key: value for key, value in missing.items() if key not in stated}
    scheduler, ignored = options.scheduler, like.ignored
    if like.scheduler and spec.name == "vllm":
        extra = {key: value for key, value in like.scheduler.items() if key not in spec.values}
        pairs = [f"{key}={word}" for key, word in {**spec.words, **extra}.items()]
        scheduler = f"vllm:{','.join(pairs)}"
    elif like.scheduler:
        ignored = [*ignored, *(f"{key} (--scheduler {spec.name})" for key in like.scheduler)]
    notes = [f"Not used of --like: {', '.join(ignored)}"] if ignored else []
    return replace(options, scheduler=scheduler, **missing), notes, like.block


def with_block(spec: str, block: int | None, said: bool) -> str:
    """`spec` with an engine's block size, unless the command line `said` another."""
    parsed = parse(spec)
    if block is None or parsed.path is not None or parsed.name != "paged":
        return spec
    words = {"block": str(block)}
    words = {**words, **parsed.words} if said else {**parsed.words, **words}
    return f"paged:{','.join(f'{key}={word}' for key, word in words.items())}"


def _formats(options: Options, allocators: Sequence[str]) -> list[str]:
    """What to say of layers with a KV format of their own; SpecError where no run has them."""
    if options.skip_layers is None:
        return []
    modes = [parse(spec).words.get("groups", "off") for spec in allocators]
    if set(modes) == {"off"}:
        raise SpecError(
            "--kv-dtype-skip-layers: only groups of layers have formats of their own: give "
            "--allocator paged:groups=on or groups=full"
        )
    said = "--kv-dtype-skip-layers counts with groups of layers alone"
    return [said] if "off" in modes else []


def _device(options: Options) -> Device:
    """The device that the options name."""
    return make_device(options.model or MODEL, options.gpu or GPU, **device_options(options))


def device_options(options: Options) -> dict[str, Any]:
    """What `make_device` takes besides model and GPU, where something is said.

    Limits given in the scheduler's spec count for the size of the pool too.
    """
    make_scheduler(options.scheduler)
    spec = parse(options.scheduler)
    given: dict[str, Any] = {}
    for key in ("max_seqs", "max_batched_tokens"):
        value, word = getattr(options, key), spec.values.get(key)
        if value is not None and word is not None and value != word:
            name = key.replace("_", "-")
            raise SpecError(f"--{name} is {value}, but {key} is {word} in --scheduler: give one")
        given[key] = word if isinstance(word, int) and word <= MOST else value
    for key in ("tp", "pp", "kv_dtype", "weights_dtype", "utilization"):
        given[key] = getattr(options, key)
    for key in ("kv_tokens", "kv_blocks", "kv_memory_bytes", "engine_log"):
        given[key] = getattr(options, key)
    given["exempt"] = _listed(options.skip_layers)
    return {key: value for key, value in given.items() if value is not None}


def _listed(text: str | None) -> tuple[str, ...] | None:
    """The parts of a list, without blanks."""
    return None if text is None else tuple(filter(None, map(str.strip, text.split(","))))


def one_load(options: Options) -> None:
    """Refuse loads that contradict each other."""
    loads = {
        "--rate": options.rate is not None,
        f"--arrivals {options.arrivals}": options.arrivals is not None,
        "--concurrency": options.concurrency is not None,
        "--rate-scale": options.rate_scale is not None,
    }
    if options.arrivals == "recorded":
        del loads["--rate-scale"]
    given = [name for name, said in loads.items() if said]
    if len(given) > 1:
        raise SpecError(f"{' and '.join(given)} contradict each other: give one")
    if options.samples is not None and options.beam is not None:
        raise SpecError("--samples and --beam contradict each other: give one")
    if options.beam_death is not None and options.beam is None:
        raise SpecError(f"--beam-death is {options.beam_death}, but there is no --beam")
    if options.truncate is not None:
        parse_truncation(options.truncate)
    if options.concurrency is not None and options.closed_loop:
        raise SpecError("--concurrency and --closed-loop contradict each other: give one")
    if options.route is not None and options.replicas is None:
        raise SpecError(f"--route is {options.route}, but there is one engine: give --replicas N")
    if options.seeds > 1 and not _draws(options):
        raise SpecError(
            f"--seeds is {options.seeds}, but only generated arrivals differ: give --rate as well"
        )


def _draws(options: Options) -> bool:
    """Whether arrivals or routes are drawn at random."""
    return options.rate is not None or options.route == "random"


def sampled(trace: Trace, options: Options, seed: int) -> Trace:
    """The trace with prompts cut, and with the samples or beams, as was asked for."""
    if options.truncate is not None:
        trace = truncated(trace, options.truncate)
    if options.samples is not None:
        return with_samples(trace, options.samples)
    if options.beam is not None:
        death = DEATH if options.beam_death is None else options.beam_death
        return with_beams(trace, options.beam, death=death, seed=seed)
    return trace


def loaded(trace: Trace, options: Options, seed: int) -> Trace:
    """The trace under the load model, and with the samples, that were asked for."""
    trace = sampled(trace, options, seed)
    if options.rate is not None:
        return arrivals.poisson(trace, options.rate, seed)
    if options.arrivals == "saturate":
        return arrivals.saturate(trace)
    if options.rate_scale is not None:
        return arrivals.scale(trace, options.rate_scale)
    if options.concurrency:
        load_model = f"{options.concurrency} requests outstanding"
        return replace(trace, load=load_model)
    return trace


__all__ = [
    "answered",
    "device_options",
    "execute",
    "inputs",
    "loaded",
    "one_load",
    "prepared",
    "sampled",
    "with_block",
    "with_like",
]
