"""From options to results: what `replay` and `compare` have in common."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pagedsim.analysis import results, series
from pagedsim.analysis.report import Report, result
from pagedsim.analysis.results import Result
from pagedsim.analysis.seeds import over_seeds
from pagedsim.analysis.simulate import GPU, MAX_LEN, MODEL, Setup, device_info, run
from pagedsim.cli.like import read_like
from pagedsim.cli.options import Options
from pagedsim.device.device import Device, make_device
from pagedsim.errors import SpecError
from pagedsim.present.progress import Progress
from pagedsim.specs import parse
from pagedsim.trace import Trace, arrivals, load

Files = dict[str, str | None]  # series, series_steps, requests


def execute(
    path: str, allocators: Sequence[str], options: Options, files: Files
) -> tuple[Result, list[str]]:
    """Run everything and write the files asked for; the result, and what there is to say."""
    options, said, block = _like(options)
    allocators = [_with_block(spec, block) for spec in allocators]
    device = _device(options)
    bare = options.model is None and options.gpu is None
    setup = Setup(
        device=device,
        scheduler=options.scheduler,
        steptime=options.steptime,
        max_len=options.max_len or (MAX_LEN if bare else None),
        concurrency=options.concurrency or 0,
        window=options.window,
        engine=options.engine,
        seed=options.seed if options.rate is not None else None,
        command=shlex.join(["pagedsim", *sys.argv[1:]]),
        notes=tuple(said),
    ).resolved()
    base = _load(path, options)
    seeds = range(options.seed, options.seed + options.seeds)
    if len(seeds) > 1 and options.rate is None:
        raise SpecError("--seeds repeats generated arrivals: give --rate as well")
    runs: list[list[Report]] = []
    total = len(base) * len(allocators) * len(seeds)
    with Progress(total, "replaying", no_color=options.no_color) as progress:
        setup = replace(setup, progress=progress)
        for seed in seeds:
            trace = _loaded(base, options, seed)
            runs.append([run(trace, spec, setup) for spec in allocators])
    shown: Sequence[Any] = runs[0]
    if len(seeds) > 1:
        shown = [over_seeds([r.run for r in over], list(seeds)) for over in zip(*runs, strict=True)]
    found = result(shown, device_info(device), runs[0][0].trace)
    said += _write(runs[0], files)
    if options.json is not None:
        results.write(options.json, found)
    return found, said


def _like(options: Options) -> tuple[Options, list[str], int | None]:
    """Options that an engine's command line gives, where ours say nothing themselves."""
    if options.like is None:
        return options, [], None
    like = read_like(options.like)
    missing = {k: v for k, v in like.options.items() if getattr(options, k) is None}
    scheduler = options.scheduler
    if like.scheduler:
        spec = parse(scheduler)
        extra = {k: v for k, v in like.scheduler.items() if k not in spec.values}
        mark = "," if ":" in scheduler else ":"
        scheduler += mark * bool(extra) + ",".join(f"{k}={v}" for k, v in extra.items())
    said = [f"--like: ignored {', '.join(like.ignored)}"] if like.ignored else []
    return replace(options, scheduler=scheduler, **missing), said, like.block


def _with_block(spec: str, block: int | None) -> str:
    if block is None or parse(spec).name != "paged" or "block" in parse(spec).values:
        return spec
    return f"{spec}{',' if ':' in spec else ':'}block={block}"


def _device(options: Options) -> Device:
    """The device; limits given in the scheduler's spec count for the size of the pool too."""
    limits = parse(options.scheduler).values
    given = {
        "max_seqs": options.max_seqs or limits.get("max_seqs"),
        "max_batched_tokens": options.max_batched_tokens or limits.get("max_batched_tokens"),
        "tp": options.tp,
        "pp": options.pp,
        "kv_dtype": options.kv_dtype,
        "weights_dtype": options.weights_dtype,
        "utilization": options.utilization,
        "kv_tokens": options.kv_tokens,
        "kv_blocks": options.kv_blocks,
        "kv_memory_bytes": options.kv_memory_bytes,
        "engine_log": options.engine_log,
    }
    chosen: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    return make_device(options.model or MODEL, options.gpu or GPU, **chosen)


def _load(path: str, options: Options) -> Trace:
    loads = {
        "--rate": options.rate is not None,
        "--arrivals saturate": options.arrivals == "saturate",
        "--concurrency": bool(options.concurrency),
        "--rate-scale": options.rate_scale is not None,
    }
    given = [name for name, said in loads.items() if said]
    if len(given) > 1:
        raise SpecError(f"{' and '.join(given)} contradict each other: give one")
    if options.arrivals not in (None, "recorded", "saturate"):
        raise SpecError(f"--arrivals is {options.arrivals}, must be recorded or saturate")
    return load(path, zero_output=options.zero_output, limit=options.limit)  # type: ignore[arg-type]


def _loaded(trace: Trace, options: Options, seed: int) -> Trace:
    """The trace under the load model that was asked for."""
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


def _write(reports: Sequence[Report], files: Files) -> list[str]:
    """The Parquet files; with several runs the run's number goes before the suffix."""
    writers: dict[str, Callable[[str, Report], None]] = {
        "series": lambda to, report: series.write_windows(to, report.recording),
        "series_steps": lambda to, report: series.write_steps(
            to, report.recording, report.steptime
        ),
        "requests": lambda to, report: series.write_requests(to, report.recording, report.trace),
    }
    said = []
    for key, write in writers.items():
        path = files.get(key)
        if path is None:
            continue
        for number, report in enumerate(reports, 1):
            target = path
            if len(reports) > 1:
                target = str(Path(path).with_suffix(f".{number}{Path(path).suffix}"))
                said.append(f"{target}: {report.name}")
            write(target, report)
    return said


__all__ = ["Files", "execute"]
