"""The result file ``pagedsim.result/1``: its shape, how it is written, how it is read.

A `Result` is one command's answer: a trace, a device and a run for each allocator. Terms of
memory are time-weighted shares of the capacity, times are seconds; ``null`` stands where there
was nothing to divide by (no request finished, no step ran), never NaN. Fields that have a default
were added to the schema later or by need, and a reader ignores those it does not know.

docs/model.md defines every field. Bytes are the same for the same result; all that differs
between two runs of one command is ``provenance.created`` and ``provenance.wall_s``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from pagedsim.analysis.replica import Replica
from pagedsim.analysis.terms import GROUP_TERMS, TERMS, Memory, Saved
from pagedsim.errors import InputError
from pagedsim.files import write_whole

SCHEMA = "pagedsim.result/1"


class Stats(msgspec.Struct, frozen=True):
    """Over finished requests; percentiles by nearest rank."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None


class Spread(msgspec.Struct, frozen=True):
    """Over time, every step weighted by its duration; nearest rank."""

    min: float
    p50: float
    p90: float
    p99: float
    max: float


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Running sequences: time-weighted mean, and the most at once."""

    mean: float | None
    peak: int
    spread: Spread | None = None


class Binds(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of time by what kept the batch from being larger."""

    memory: float | None
    max_seqs: float | None
    budget: float | None
    arrivals: float | None


class Prefix(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt tokens of first admissions, and those of them found in the cache.

    `evicted_tokens` are of the whole run; None where the allocator does not count them.
    """

    prompt_tokens: int
    hit_tokens: int
    hit_rate: float | None
    resumed_hit_tokens: int = 0
    evicted_tokens: int | None = None


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """What finished, a second."""

    requests_per_s: float | None
    output_tokens_per_s: float | None


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, over finished requests."""

    queue_s: Stats
    ttft_s: Stats
    tpot_s: Stats
    e2e_s: Stats
    normalized_s_per_token: Stats


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """What the averages are over: s from the first arrival; `busy_s` of it had a step running."""

    from_s: float
    to_s: float
    busy_s: float
    whole: bool = True  # the whole run, no ``--window``


class Compute(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of time in steps bound by compute and by bandwidth; mean FLOPs a byte."""

    compute_bound: float | None
    bandwidth_bound: float | None
    intensity: float | None
    ridge: float | None = None


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A request refused before the run: `value` > `bound`, in tokens."""

    row: int
    reason: str
    value: int
    bound: int


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """Mean over seeds and its 95 % interval (Student's t)."""

    mean: float
    low: float
    high: float


class Seeds(msgspec.Struct, frozen=True, kw_only=True):
    """What K seeds gave; the run's own fields are those of the first seed."""

    count: int
    seeds: tuple[int, ...]
    intervals: dict[str, Interval]  # by the field's path, such as "memory.live"


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where the numbers come from. `estimates` says in words what was assumed."""

    version: str = ""
    command: str = ""
    specs: dict[str, str | int | float | bool | None] = {}
    seed: int | None = None
    scheduling: str = "synchronous scheduling"
    step_times: str = ""  # estimated, fitted, measured, or given
    estimates: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    created: str = ""  # UTC, ISO 8601
    wall_s: float | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One allocator's run. `finished` includes `truncated`."""

    name: str
    capacity_tokens: int
    finished: int
    refused: int
    truncated: int
    dropped: int
    makespan_s: float | None
    memory: Memory
    batch: Batch
    binds: Binds
    preemptions: int
    preempted_requests: int
    recomputed_tokens: int
    prefix: Prefix
    throughput: Throughput
    latency: Latency
    provenance: Provenance
    unfinished: int = 0
    steps: int = 0
    blocked: float | None = None  # share of time with the head of the queue blocked
    span: Span | None = None
    memory_spread: dict[str, Spread] = {}  # shares of capacity
    compute: Compute | None = None
    refused_token_share: float | None = None  # of all prompt and output tokens
    truncated_token_share: float | None = None  # output cut off, of all prompt and output tokens
    refused_requests: tuple[Refused, ...] = ()
    truncated_requests: tuple[int, ...] = ()
    seeds: Seeds | None = None
    samples: int = 0  # sequences that finished requests returned
    saved: Saved | None = None
    capacity_bytes: int | msgspec.UnsetType = msgspec.UNSET  # of a rank, with groups of layers
    replicas: tuple[Replica, ...] = ()  # each engine, where there are several


class TraceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The requests that went in, after ``--limit``; `sha256` of the decompressed input bytes."""

    name: str
    requests: int
    prompt_tokens: int
    output_tokens: int
    sha256: str
    load: str = ""
    format: str = ""
    notes: tuple[str, ...] = ()


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the pool is on; None where slots alone were given."""

    model: str | None
    gpu: str | None
    kv_bytes_per_token: int | float | None
    capacity_tokens: int
    source: str = ""  # where the capacity comes from, in words


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    schema: str = SCHEMA
    trace: TraceInfo
    device: DeviceInfo
    runs: tuple[Run, ...]


def to_json(result: Result) -> bytes:
    """The file's bytes: fields in the order of the schema, two spaces, a final newline.

    Floats are the shortest digits that read back to the same value.
    """
    return msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"


def write(path: str | os.PathLike[str], result: Result) -> None:
    """Write `result` whole or not at all; ``-`` is standard output."""
    with write_whole(path) as file:
        file.write(to_json(result))


def read(path: str | os.PathLike[str]) -> Result:
    """Read a result file, ``-`` from standard input; InputError names what is wrong and where."""
    name = os.fspath(path)
    if name == "-" and sys.stdin is None:
        raise InputError("<stdin>: is closed, a result is needed")
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from None
    return from_json(data, name)


def from_json(data: bytes, name: str = "result") -> Result:
    """The `Result` in `data`; `name` is for messages."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{name}: is not JSON: {error}") from None
    schema: Any = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        said = "there is none" if schema is None else f"it is {schema!r}"
        raise InputError(f"{name}: schema must be {SCHEMA!r}, {said}")
    try:
        return msgspec.convert(found, Result)
    except msgspec.ValidationError as error:
        raise InputError(f"{name}: {error}") from None


__all__ = [
    "GROUP_TERMS",
    "SCHEMA",
    "TERMS",
    "Batch",
    "Binds",
    "Compute",
    "DeviceInfo",
    "Interval",
    "Latency",
    "Memory",
    "Prefix",
    "Provenance",
    "Refused",
    "Result",
    "Run",
    "Saved",
    "Seeds",
    "Span",
    "Spread",
    "Stats",
    "Throughput",
    "TraceInfo",
    "from_json",
    "read",
    "to_json",
    "write",
]
