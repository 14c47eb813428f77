"""``pagedsim verify --log``: a replay beside what an engine logged, over time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pagedsim.errors import InputError, PagedsimError, SpecError

if TYPE_CHECKING:
    from pagedsim.analysis.cached import KeysSeen
    from pagedsim.analysis.simulate import Setup
    from pagedsim.device.device import Device
    from pagedsim.device.engineargs import EngineArgs
    from pagedsim.protocols import Allocator

_BLOCK = {"vLLM": 16, "SGLang": 1}  # tokens of a block or page, where the log does not say


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """What the command line says beside the log and the trace."""

    log: str
    trace: str
    events: str | None
    model: str | None
    gpu: str | None
    steptime: str
    offset: float | None
    json: str | None
    figure: str | None
    quiet: bool
    no_color: bool


def verify_log(options: LogOptions) -> None:
    """Replay the trace with the log's pool and configuration, and show both side by side."""
    import msgspec

    from pagedsim.analysis.cached import cached
    from pagedsim.analysis.logged import beside
    from pagedsim.analysis.simulate import run
    from pagedsim.cli.outputs import target, writable
    from pagedsim.device.engineargs import read_engine_args
    from pagedsim.device.engineseries import read_engine_series
    from pagedsim.device.kvevents import read_kv_events
    from pagedsim.files import write_json
    from pagedsim.present.logged import show
    from pagedsim.present.progress import busy
    from pagedsim.present.tables import console
    from pagedsim.trace import load

    _check_words(options)
    taken = {target(options.trace): "the trace", target(options.log): "the log"}
    if options.events is not None:
        taken[target(options.events)] = "the events"
    writable({"json": options.json, "figure": options.figure}, taken, 1)
    read = None if options.events is None else read_kv_events(options.events)
    series = read_engine_series(options.log)
    arguments = read_engine_args(options.log)
    setup, allocator, notes = _setup(options, arguments, series.engine)
    seen = None
    pool: Allocator | str = allocator
    if read is not None:
        seen, pool = _watched(options, allocator, setup)
        setup = replace(setup, observers=(seen,))
    with busy(f"replaying {options.trace}", no_color=options.no_color):
        report = run(load(options.trace), pool, setup, name=allocator)
        told = report.run.provenance.estimates
        found = beside(
            series,
            report,
            offset_s=options.offset,
            configuration={**_said(arguments, setup), "allocator": allocator},
            notes=(*notes, *(line for line in told if line.startswith("Step times"))),
        )
        if read is not None and seen is not None:
            held = cached(read, seen, report, offset_s=found.offset_s)
            found = msgspec.structs.replace(found, cached=held)
    write_json(options.json, found)
    if options.figure is not None:
        from pagedsim.present import figures
        from pagedsim.present.logged_figure import logged

        figures.save(logged(found), target(options.figure))
    if options.json != "-" and not options.quiet:
        show(found, console(no_color=options.no_color))


def _check_words(options: LogOptions) -> None:
    """SpecError for a name or a spec that there is not, before the log says what goes with it."""
    from pagedsim.analysis.simulate import GPU, MODEL
    from pagedsim.device.device import make_device
    from pagedsim.device.tables import find_gpu, find_model
    from pagedsim.specs import make_steptime

    if options.model is not None:
        find_model(options.model)
    if options.gpu is not None:
        find_gpu(options.gpu)
    make_steptime(options.steptime, device=make_device(MODEL, GPU))


def _setup(
    options: LogOptions, arguments: EngineArgs, engine: str
) -> tuple[Setup, str, tuple[str, ...]]:
    """The setup and allocator that the log states, and what it does not."""
    from pagedsim.analysis.simulate import Setup

    values, notes = arguments.values, []
    if not values:
        notes.append("the log states no arguments: the engine's defaults are taken")
    block = values.get("block", _BLOCK[engine])
    prefix = values.get("prefix", True)
    if engine == "SGLang":
        notes.append("vLLM's scheduler stands in for SGLang's, which is not simulated")
        allocator = f"radix:page={block}" if prefix else f"paged:block={block}"
    else:
        allocator = f"paged:block={block},prefix={'on' if prefix else 'off'}"
    words = [f"policy={values['policy']}"] if values.get("policy") in ("fcfs", "priority") else []
    if values.get("chunked") is False:
        words.append("chunked=0")
    device = _device(options, values, notes)
    setup = Setup(
        device=device,
        max_len=values.get("max_len"),
        scheduler=f"vllm:{','.join(words)}" if words else "vllm",
        steptime=options.steptime,
    )
    return setup.resolved(), allocator, tuple(notes)


def _watched(options: LogOptions, allocator: str, setup: Setup) -> tuple[KeysSeen, Allocator]:
    """The pool, and who notes what it caches. InputError where that is nothing to compare with."""
    from pagedsim.alloc.prefix import PrefixPaged
    from pagedsim.analysis.cached import KeysSeen
    from pagedsim.specs import make_allocator

    assert setup.device is not None
    assert setup.max_len is not None
    pool = make_allocator(allocator, tokens=setup.device.capacity_tokens, max_len=setup.max_len)
    if not isinstance(pool, PrefixPaged):
        raise InputError(
            f"{options.events}: events tell of a prefix cache of blocks, the log of {allocator}: "
            "leave --events out"
        )
    return KeysSeen(pool), pool


def _device(options: LogOptions, values: dict[str, Any], notes: list[str]) -> Device:
    """The device with the pool that the log states. A model's name in a log is never repeated."""
    from pagedsim.analysis.simulate import GPU
    from pagedsim.device.device import make_device
    from pagedsim.device.tables import find_model

    model = options.model
    if model is None:
        try:
            find_model(values.get("model", ""))
        except PagedsimError:
            raise InputError(
                f"{options.log}: the log names no model that is known here: give --model NAME or a "
                "config.json"
            ) from None
        model = values["model"]
    if options.gpu is None:
        notes.append(f"no GPU is in a log: {GPU}, unless --gpu says otherwise")
    keys = ("tp", "pp", "kv_dtype", "max_seqs", "max_batched_tokens")
    given = {key: values[key] for key in keys if key in values}
    try:
        return make_device(model, options.gpu or GPU, engine_log=options.log, **given)
    except SpecError as error:
        if "kv_dtype" in given and "dtype" in str(error):
            del given["kv_dtype"]
            notes.append("the log's KV data type is not known here: the model's own is taken")
            return make_device(model, options.gpu or GPU, engine_log=options.log, **given)
        raise


def _said(arguments: EngineArgs, setup: Setup) -> dict[str, Any]:
    """What was taken from the log, but names and paths."""
    said = {key: value for key, value in arguments.values.items() if key != "model"}
    assert setup.device is not None
    return {"model": setup.device.model.name, **said, "max_len": setup.max_len}


__all__ = ["LogOptions", "verify_log"]
