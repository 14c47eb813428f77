"""Run a trace against an allocator, or several side by side: the front door of the package.

Parts may be objects or specs (``"paged:block=16"``, `pagedsim.specs`). What is left out is what a
server would do: the device's own limits, its roofline, vLLM's scheduler.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path
from typing import Any

from pagedsim import __version__
from pagedsim.analysis import replica
from pagedsim.analysis.check import Checked
from pagedsim.analysis.report import Report, report
from pagedsim.analysis.results import DeviceInfo, Provenance
from pagedsim.analysis.runnable import in_closed_loop, runnable
from pagedsim.analysis.span import SpanSpec
from pagedsim.analysis.span import parse as parse_span
from pagedsim.analysis.stepwords import layer_words, step_times
from pagedsim.device.device import Device, make_device
from pagedsim.device.shape import Model
from pagedsim.errors import DeviceError, SpecError
from pagedsim.protocols import Allocator, Observer, Scheduler, StepTime, token_bytes
from pagedsim.specs import make_allocator, make_scheduler, make_steptime
from pagedsim.trace import Trace, load

MOST = 1 << 40  # tokens, requests: more than any server will hold, and products stay in int64
MODEL, GPU, MAX_LEN = "llama-3.1-8b", "a100-80gb", 16384  # what runs when nothing is said
ALLOCATORS = (
    "contiguous:place=buddy,reserve=max",
    "contiguous:place=buddy,reserve=pow2",
    "contiguous:place=buddy,reserve=exact",
    "paged:block=16",
)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Everything of a run but the trace and the allocator; the same for all that are compared.

    `device` None is Llama-3.1-8B on an A100-80GB with a maximum length of 16,384. `max_len` None
    is the model's own, or what the pool holds if that is less. `concurrency` N ignores arrivals
    and keeps N requests outstanding. With `closed_loop` a request with a parent arrives when it is
    recorded to or when the parent has finished and its think time (unknown: 0) is over, whichever
    is later. `window` restricts averages (`report`). `engine` is "fast"
    or "reference". With `check` every step is held to the contract (`analysis.check`), slowly.
    `replicas` engines of this kind share the requests by `route` (`engine.routes`).
    """

    device: Device | None = None
    scheduler: Scheduler | str = "vllm"
    steptime: StepTime | str = "roofline"
    max_len: int | None = None
    concurrency: int = 0
    closed_loop: bool = False
    window: SpanSpec = None
    engine: str = "fast"
    seed: int | None = None
    command: str = ""
    check: bool = False
    replicas: int = 1
    route: str = "round-robin"
    observers: tuple[Observer, ...] = ()
    progress: Callable[[int], None] | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        engine_of(self.engine)
        parse_span(self.window)
        for name, value, least in (
            ("max_len", self.max_len, 2),
            ("concurrency", self.concurrency, 0),
        ):
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Integral):
                raise SpecError(f"{name} is {value!r}, must be a whole number")
            if not least <= value <= MOST:
                bound = f">= {least}" if value < least else f"<= {MOST}"
                raise SpecError(f"{name} is {value}, must be {bound}")
        if self.concurrency and self.closed_loop:
            raise SpecError("concurrency and closed_loop contradict each other: give one")
        replica.check(
            self.replicas,
            self.route,
            concurrency=self.concurrency,
            closed_loop=self.closed_loop,
            engine=self.engine,
            observed=bool(self.observers),
        )

    def resolved(self) -> Setup:
        """With a device and a maximum length filled in."""
        if self.device is None:
            chosen = make_device(MODEL, GPU)
            return replace(self, device=chosen, max_len=self.max_len or MAX_LEN).resolved()
        if self.max_len is not None:
            return self
        model, pool = self.device.model.max_len, self.device.capacity_tokens
        if model and model <= pool:
            return replace(self, max_len=model)
        said = f"maximum length {pool}: what the pool holds (the model's is {model or 'unknown'})"
        return replace(self, max_len=max(pool, 2), notes=(*self.notes, said))


def simulate(
    trace: Trace | str | Path, allocator: Allocator | str = "paged", *, name: str = "", **setup: Any
) -> Report:
    """Replay `trace` against `allocator`; `setup` are the fields of `Setup`.

    Raises PagedsimError for anything that the caller can put right.
    """
    return run(_trace(trace), allocator, Setup(**setup).resolved(), name=name)


def compare(
    trace: Trace | str | Path = "chat",
    allocators: Iterable[Allocator | str] = ALLOCATORS,
    **setup: Any,
) -> list[Report]:
    """Replay `trace` against each allocator under the same scheduler and step time."""
    requests, resolved = _trace(trace), Setup(**setup).resolved()
    return [run(requests, allocator, resolved) for allocator in allocators]


def run(trace: Trace, allocator: Allocator | str, setup: Setup, *, name: str = "") -> Report:
    """One run under a resolved `setup`."""
    device, max_len = setup.device, setup.max_len
    assert device is not None
    assert max_len is not None
    runnable(trace, setup)
    if setup.closed_loop:
        trace, setup = in_closed_loop(trace, setup)
    parts = [_parts(allocator, setup) for _ in range(setup.replicas)]
    observers = [
        (*setup.observers, Checked(slots)) if setup.check else setup.observers
        for slots, _, _ in parts
    ]
    more: dict[str, Any] = {
        "max_len": max_len,
        "concurrency": setup.concurrency,
        "closed_loop": setup.closed_loop,
        "progress": setup.progress,
    }
    began = time.perf_counter()
    shares: list[tuple[Trace, Any]] = []
    if setup.replicas == 1:
        made = engine_of(setup.engine)(trace, *parts[0], observers=observers[0], **more)
        recording = made.run()
    else:
        recording, shares = replica.spread(
            trace, parts, setup.route, setup.seed or 0, observers, setup.engine, **more
        )
    wall = time.perf_counter() - began
    token = token_bytes(parts[0][0])
    recording = replace(recording, token_bytes=token)
    shares = [(share, replace(own, token_bytes=token)) for share, own in shares]
    if setup.progress is not None:
        setup.progress(len(recording.refused))  # they never ran, and are done all the same
    label = name or (allocator if isinstance(allocator, str) else type(allocator).__name__)
    steptime = parts[0][2]
    told = _provenance(setup, device, label, wall, recording.token_bytes > 0)
    whole = report(
        recording, trace, name=label, window=setup.window, provenance=told, steptime=steptime
    )
    each = {"span_ns": whole.span_ns, "provenance": told, "steptime": steptime}
    return replace(
        whole,
        replicas=tuple(
            Report(name=f"{label} #{number}", recording=own, trace=share, **each)
            for number, (share, own) in enumerate(shares, 1)
        ),
    )


def _parts(allocator: Allocator | str, setup: Setup) -> tuple[Any, Any, Any]:
    """Allocator, scheduler and step time of one engine. Several need each its own: SpecError."""
    device, max_len = setup.device, setup.max_len
    assert device is not None
    assert max_len is not None
    for part in (allocator, setup.scheduler):
        if setup.replicas > 1 and not isinstance(part, str):
            raise SpecError(
                f"{type(part).__name__} is one, but {setup.replicas} replicas need each its own: "
                "give a spec"
            )
    slots = allocator
    if isinstance(slots, str):
        slots = allocator_of(slots, setup)
    steptime = setup.steptime
    if isinstance(steptime, str):
        steptime = make_steptime(steptime, device=device)
    return slots, scheduler_of(setup), steptime


def engine_of(name: str) -> Any:
    """The class of the engine "fast" or "reference"; they take the same arguments."""
    if name == "fast":
        from pagedsim.engine.fast import FastEngine

        return FastEngine
    if name == "reference":
        from pagedsim.engine.reference import ReferenceEngine

        return ReferenceEngine
    raise SpecError(f"engine is {name!r}, must be fast or reference")


def scheduler_of(setup: Setup) -> Scheduler:
    """A scheduler for one run, with the device's limits where the spec gives none."""
    device, scheduler = setup.device, setup.scheduler
    assert device is not None
    if not isinstance(scheduler, str):
        return scheduler
    return make_scheduler(
        scheduler, max_seqs=device.max_seqs, max_batched_tokens=device.max_batched_tokens
    )


def allocator_of(spec: str, setup: Setup) -> Allocator:
    """An allocator for one run under a resolved `setup`."""
    device, max_len = setup.device, setup.max_len
    assert device is not None
    assert max_len is not None
    flight = getattr(scheduler_of(setup), "max_batched_tokens", 0)
    return make_allocator(
        spec, tokens=device.capacity_tokens, max_len=max_len, device=device, in_flight=flight
    )


def allocators_for(model: Model) -> tuple[str, ...]:
    """What is compared where nothing is said: with several kinds of layers, groups of them too."""
    try:
        kinds = {layer.kind for layer in model.layer_list()}
    except DeviceError:  # of unknown size: counted as full attention
        return ALLOCATORS
    if not kinds & {"sliding", "chunked", "state"}:
        return ALLOCATORS
    return (
        ALLOCATORS[0],
        ALLOCATORS[-1] if "state" in kinds else f"{ALLOCATORS[-1]},groups=full",
        f"{ALLOCATORS[-1]},groups=on",
    )


def device_info(device: Device) -> DeviceInfo:
    """The device as a result file has it."""
    token = device.kv_bytes_per_token
    return DeviceInfo(
        model=device.model.name,
        gpu=device.gpu.name
        if device.tp * device.pp == 1
        else f"{device.tp * device.pp}x {device.gpu.name}",
        kv_bytes_per_token=int(token) if token == int(token) else float(token),
        capacity_tokens=device.capacity_tokens,
        source=device.provenance["capacity"],
    )


def _trace(trace: Trace | str | Path) -> Trace:
    return trace if isinstance(trace, Trace) else load(trace)


def _provenance(setup: Setup, device: Device, name: str, wall: float, grouped: bool) -> Provenance:
    estimates = []
    if device.estimated:
        estimates.append(f"Pool size is an {device.provenance['capacity']}")
    kind, sentence = step_times(setup.steptime, device)
    estimates.append(sentence)
    estimates += layer_words(device.model, roofline=kind == "estimated", grouped=grouped)
    specs: dict[str, Any] = {
        "allocator": name,
        "scheduler": _said(setup.scheduler),
        "steptime": _said(setup.steptime),
        "max_len": setup.max_len,
        "max_seqs": device.max_seqs,
        "max_batched_tokens": device.max_batched_tokens,
        "concurrency": setup.concurrency or None,
        "closed_loop": setup.closed_loop or None,
        "engine": setup.engine,
    }
    notes = setup.notes
    if setup.replicas > 1:
        specs |= {"replicas": setup.replicas, "route": setup.route}
        notes = (
            *notes,
            f"{setup.replicas} replicas ({setup.route}): averages over all their steps",
        )
    return Provenance(
        version=__version__,
        command=setup.command,
        specs=specs,
        seed=setup.seed,
        step_times=kind,
        estimates=tuple(estimates),
        notes=notes,
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        wall_s=round(wall, 3),
    )


def _said(part: Any) -> str:
    return part if isinstance(part, str) else type(part).__name__


__all__ = ["ALLOCATORS", "Setup", "compare", "device_info", "run", "simulate"]
