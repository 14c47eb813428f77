"""What the benchmarks share: the settings, a timed replay, the work it did, processes, tables.

*Work* is what a replay did, in numbers that do not depend on how fast it was: windows, steps,
request-steps (a request in a step is one) and computed tokens. `done` counts it and holds it to
the trace; `known` holds it to the figures in ``known.toml`` where the same replay is written down.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import resource
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MODEL, GPU, MAX_LEN = "llama-3.1-8b", "a100-80gb", 16384
GROUPED = ("gemma-3-27b", "h100")  # model and GPU of replays with groups of layers
GROUPED_BYTES = 40 << 30  # and what they have for KV
MAX_SEQS, BUDGET = 256, 8192
SCHEDULER = f"vllm:max_seqs={MAX_SEQS},max_batched_tokens={BUDGET}"
ALLOCATOR = "paged:block=16"
SATURATED = 60_000  # slots of the pool under which the Azure hour must preempt
US = 1e6


class Settings(NamedTuple):
    """A replay, but for the trace. `kv_tokens` 0: what the GPU holds.

    An `allocator` with ``groups=`` is that of `GROUPED`, over `GROUPED_BYTES`.
    """

    steptime: str
    kv_tokens: int = 0
    allocator: str = ALLOCATOR
    max_len: int = MAX_LEN

    def __str__(self) -> str:
        pool = f"{self.kv_tokens:,} slots" if self.kv_tokens else "the GPU's pool"
        if "groups=" in self.allocator:
            pool = f"{GROUPED[0]} in {GROUPED_BYTES >> 30} GiB"
        return f"{self.allocator}, {self.steptime}, {pool}"


class Work(NamedTuple):
    """What a replay did."""

    windows: int
    steps: int
    request_steps: int
    tokens: int  # computed, those computed again included
    preemptions: int

    def __str__(self) -> str:
        return (
            f"{self.windows:,} windows, {self.steps:,} steps, {self.request_steps:,} request-steps,"
            f" {self.preemptions:,} preemptions"
        )


def arguments(doc: str | None, *, trace: bool = True, repeat: int = 5) -> argparse.ArgumentParser:
    """A parser with what every benchmark takes."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    if trace:
        parser.add_argument("trace", metavar="TRACE", help="a trace file or a bundled name")
        parser.add_argument("--limit", type=int, help="only the first N requests")
    parser.add_argument("--repeat", type=int, default=repeat, help=f"timed runs  [{repeat}]")
    return parser


# A replay.


def parts(settings: Settings) -> tuple[Any, Any, Any]:
    """A fresh allocator, scheduler and step time."""
    from pagedsim.device.device import make_device
    from pagedsim.specs import make_allocator, make_scheduler, make_steptime

    pool = {"kv_tokens": settings.kv_tokens} if settings.kv_tokens else {}
    model, gpu, flight = MODEL, GPU, 0
    if "groups=" in settings.allocator:
        (model, gpu), flight, pool = GROUPED, BUDGET, {"kv_memory_bytes": GROUPED_BYTES}
    device = make_device(model, gpu, max_seqs=MAX_SEQS, max_batched_tokens=BUDGET, **pool)
    tokens, max_len = device.capacity_tokens, settings.max_len
    allocator = make_allocator(
        settings.allocator, tokens=tokens, max_len=max_len, device=device, in_flight=flight
    )
    return allocator, make_scheduler(SCHEDULER), make_steptime(settings.steptime, device=device)


def replay(trace: Any, settings: Settings, engine: str = "fast") -> tuple[float, Any]:
    """Seconds of this process's time from a `Trace` to the recording, and the recording."""
    from pagedsim.analysis.simulate import engine_of

    kind = engine_of(engine)
    allocator, scheduler, steptime = parts(settings)

    def run() -> Any:
        return kind(trace, allocator, scheduler, steptime, max_len=settings.max_len).run()

    return timed(run)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of this process's time that `call` takes, and what it returns."""
    own, _, value = clocked(call)
    return own, value


def clocked(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds of this process's time, seconds on the clock, and what `call` returns."""
    gc.collect()
    own, clock = time.process_time(), time.perf_counter()
    value = call()
    return time.process_time() - own, time.perf_counter() - clock, value


def lengths(trace: Any) -> list[list[int]]:
    """[arrival ns, prompt, output] of each request."""
    columns: list[list[int]] = np.stack((trace.arrival_ns, trace.prompt, trace.output), 1).tolist()
    return columns


def done(trace: Any, recording: Any) -> Work:
    """The work of a finished replay, which must be the work that the trace asks for."""
    requests, column = recording.requests, recording.column
    served = np.ones(len(trace), bool)
    served[[refusal.row for refusal in recording.refused]] = False
    wanted = np.minimum(trace.output, recording.max_len - trace.prompt)[served]
    assert np.array_equal(requests.generated[served], wanted), "a request got too few tokens"
    assert (requests.finish_ns[served] > trace.arrival_ns[served]).all(), "a request did not finish"
    steps = column("steps")
    assert np.array_equal(column("step"), np.cumsum(steps) - steps), "windows leave steps out"
    computed = int((steps * column("tokens")).sum())
    stored = (trace.prompt + requests.generated - 1 - requests.hit)[served]
    assert computed == int(stored.sum() + requests.recomputed.sum()), "tokens were left out"
    return Work(
        len(recording.rows),
        int(steps.sum()),
        int((steps * column("sequences")).sum()),
        computed,
        int(requests.preemptions.sum()),
    )


def known(trace: Any, settings: Settings, work: Work) -> bool:
    """Whether this replay is written down; an AssertionError if its figures are others."""
    for entry in entries():
        if same(entry, trace, settings):
            said = Work(**entry["work"])
            assert work == said, f"{settings}: {work}; known are {said} (known.py writes them)"
            return True
    return False


def entries() -> list[dict[str, Any]]:
    """The replays that are written down."""
    place = Path(__file__).with_name("known.toml")
    found: list[dict[str, Any]] = tomllib.loads(place.read_text(encoding="utf-8"))["replay"]
    return found


def same(entry: dict[str, Any], trace: Any, settings: Settings) -> bool:
    """Whether that is this replay. A generated trace goes by its name."""
    about = (entry["sha256"] or entry["name"], entry["requests"], entry["settings"])
    return about == (trace.sha256 or trace.name, len(trace), settings._asdict())


# Processes.


class Ran(NamedTuple):
    """A process that ended well: seconds on the clock, seconds of its own, what it printed."""

    wall: float
    cpu: float
    out: str


def process(command: Sequence[str], given: str = "", **environment: str) -> Ran:
    """Run a command to its end with `given` on its input; RuntimeError unless it ends with 0."""
    paths = [str(package().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "80", **environment}
    before, began = _children(), time.perf_counter()
    ran = subprocess.run(command, input=given, capture_output=True, text=True, env=env, check=False)
    wall, cpu = time.perf_counter() - began, _children() - before
    if ran.returncode:
        raise RuntimeError(f"{command[0]} ended with {ran.returncode}:\n{ran.stderr[-2000:]}")
    return Ran(wall, cpu, ran.stdout)


def _children() -> float:
    """Seconds of their own that processes which this one started, and which ended, have had."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def package() -> Path:
    """The folder of the pagedsim that is measured."""
    import pagedsim

    return Path(pagedsim.__file__).resolve().parent


def imports(python: str, module: str) -> bool:
    """Whether that Python has that module; it is looked for, not imported."""
    look = f"import importlib.util as u; raise SystemExit(u.find_spec({module!r}) is None)"
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run([python, "-c", look], env=env, capture_output=True).returncode == 0


def peak_bytes() -> int:
    """The most memory that this process has had since it began."""
    status = Path("/proc/self/status")
    if status.exists():  # here ru_maxrss may be that of the process that started this one
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# What is printed.


def machine() -> str:
    """The machine, the Python, and whether pagedsim's engine is compiled, in one line."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [x for x in info.read_text().splitlines() if x.startswith("model name")]
        cpu = names[0].partition(":")[2].strip() if names else cpu
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    compiled = any((package() / "engine").glob("*.so"))
    ours = f"pagedsim {'compiled' if compiled else 'plain'}"
    numpy = f"NumPy {np.__version__}"
    return f"{cores} cores, {cpu}, {platform.system()}, {python}, {numpy}, {ours}{load}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their heads; the first column to the left, the others to the right."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        first, *rest = (
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, wide, strict=True))
        )
        print("  ".join([first, *rest]).rstrip())
    print()


def seconds(values: Sequence[float]) -> str:
    """The least of some timings, and how far they spread."""
    return f"{min(values):.3f} s ({len(values)} runs, to {max(values):.3f})"
