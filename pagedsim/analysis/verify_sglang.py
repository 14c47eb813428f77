"""Hold the radix tree to a recorded run of SGLang, request by request.

SGLang's recordings know no steps: requests are admitted one after another, and `concurrency` of
them are alive. So not the engine replays them but a driver of the tree and its pool::

    make room -> look up -> lock -> take slots -> store the prompt -> decode -> (compare)
    at its finish: store all, give back what is double and the rest, unlock

The first difference ends a comparison, for what follows it is a consequence.
"""

from __future__ import annotations

import gzip
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from pagedsim.alloc.evict import POLICIES, make_evict
from pagedsim.alloc.radix_held import Held, slots
from pagedsim.alloc.radix_tree import RadixTree
from pagedsim.analysis.recorded import Recorded, trace_of
from pagedsim.analysis.verify import Difference, Outcome
from pagedsim.errors import InputError
from pagedsim.specs import MOST_PLACES
from pagedsim.trace import Trace, load


@dataclass(slots=True)
class Alive:
    """A request that was admitted: what it holds, and what came of it until now."""

    held: Held
    prompt: int
    output: int
    hit: int
    stored: int  # tokens that it has slots for
    evicted: int = 0
    evict_calls: int = 0
    oom: bool = False


class Config(msgspec.Struct, kw_only=True):
    """What a header must say of a run; all else in it plays no part."""

    capacity: int
    page_size: Annotated[int, msgspec.Meta(ge=1)]
    concurrency: Annotated[int, msgspec.Meta(ge=1)]
    decode_chunk: Annotated[int, msgspec.Meta(ge=0)] = 0
    eviction_policy: str = "lru"
    need_sort: bool = False
    disable: bool = False


class Driver:
    """SGLang's use of its tree, without a scheduler."""

    def __init__(self, trace: Trace, config: Config) -> None:
        self.page = page = config.page_size
        self.chunk, self.concurrency = config.decode_chunk, config.concurrency
        evict = make_evict(config.eviction_policy)
        self.tree = RadixTree(config.capacity // page, page=page, evict=evict)
        self.alive: deque[Alive] = deque()
        self._trace = trace

    def run(self, row: int) -> Alive:
        """Admit a request and decode all of it; it stays alive."""
        while len(self.alive) >= self.concurrency:
            self.finish()
        trace = self._trace
        columns = trace.prompt, trace.output, trace.output_token, trace.salt
        prompt, output, first, salt = (int(column[row]) for column in columns)
        span = slice(*trace.run_rows[row : row + 2].tolist())
        runs = [*zip(trace.run_token[span].tolist(), trace.run_length[span].tolist(), strict=True)]
        held = Held(self.tree, salt, [*runs, (first, output)], prompt, prompt - 1)
        seq = Alive(held, prompt, output, held.path, held.path)
        self.alive.append(seq)
        self._extend(seq, prompt - held.path)
        if not seq.oom:
            held.keep()
        left = output - 1  # the last token is never stored
        while left and not seq.oom:
            portion = min(self.chunk or left, left)
            self._extend(seq, portion)
            left -= portion
        return seq

    def finish(self) -> None:
        """Finish the request admitted earliest."""
        seq = self.alive.popleft()
        seq.held.finish(seq.stored)

    def slots(self, seq: Alive) -> list[int]:
        """The slot of each token it stores."""
        ids: list[int] = slots(seq.held.pages(), self.page)[: seq.stored].tolist()
        return ids

    def _extend(self, seq: Alive, tokens: int) -> None:
        """Evict if need be, then take pages for `tokens` more; `oom` if there are too few."""
        evicted = self.tree.reserve(tokens)
        if evicted is not None:
            seq.evict_calls += 1
            seq.evicted += evicted
        pages = -(-(seq.stored + tokens) // self.page) - -(-seq.stored // self.page)
        seq.oom = pages > len(self.tree.free)
        if not seq.oom:
            seq.held.take(pages)
            seq.stored += tokens


def is_sglang(path: str | Path) -> bool:
    """Whether a recording's first line says so; False where it cannot be read."""
    try:
        with open(path, "rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if zipped else open(path, "rb") as file:
            header = msgspec.json.decode(file.readline(1 << 16), type=dict[str, Any])
    except (OSError, EOFError, zlib.error, msgspec.DecodeError):
        return False
    return header.get("engine") == "sglang"


def read_sglang(path: str | Path) -> Recorded:
    """Read a recording without steps, plain or .gz. Raises InputError with file and line."""
    path = Path(path)
    kinds: dict[str, list[dict[str, Any]]] = {}
    place = f"{path}"
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        for number, line in enumerate(data.splitlines(), 1):
            place = f"{path}:{number}"
            row = msgspec.json.decode(line, type=dict[str, Any])
            kinds.setdefault(row["kind"], []).append(row)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {reason}") from None
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        reason = "it has no 'kind'" if isinstance(error, KeyError) else error
        raise InputError(f"{place}: not a line of a recording: {reason}") from None
    for kind, what in (("header", "header"), ("req", "requests"), ("summary", "summary")):
        if not kinds.get(kind):
            raise InputError(f"{path}: no {what}; not a whole recording of SGLang")
    return Recorded(path, kinds["header"][0], [], kinds["req"], kinds["summary"][-1])


def verify_sglang(
    path: str | Path,
    *,
    trace: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Replay a recording and compare every field. Raises InputError where it cannot be replayed.

    `progress` is called with how many requests are done, of how many.
    """
    recorded = read_sglang(path)
    config = _config(recorded)
    requests = load(trace if trace is not None else trace_of(recorded.path))
    lines = len(recorded.requests)
    if lines != len(requests):
        where, rows = recorded.path, len(requests)
        raise InputError(f"{where}: {lines} requests are recorded, {requests.name} has {rows}")
    seen: dict[str, None] = {}
    difference = _compare(recorded, Driver(requests, config), seen, progress)
    return Outcome(
        path=str(recorded.path),
        engine=f"sglang {recorded.header.get('version')}",
        steps=0,
        requests=len(recorded.requests),
        fields=tuple(seen),
        difference=difference,
    )


def _config(recorded: Recorded) -> Config:
    """The header's configuration. InputError where it is incomplete or cannot be replayed."""
    path = recorded.path
    try:
        config = msgspec.convert(recorded.header.get("config", {}), Config)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}:1: config: {error}") from None
    if not config.page_size <= config.capacity <= MOST_PLACES * config.page_size:
        most = MOST_PLACES * config.page_size
        raise InputError(
            f"{path}:1: config: capacity is {config.capacity}, "
            f"must be >= {config.page_size} and <= {most}"
        )
    if config.eviction_policy not in POLICIES:
        known = ", ".join(POLICIES)
        raise InputError(
            f"{path}:1: config: eviction_policy is {config.eviction_policy!r}, "
            f"must be one of {known}"
        )
    if config.need_sort or config.disable:
        raise InputError(f"{path}: a run with need_sort or disable cannot be replayed")
    return config


def _compare(
    recorded: Recorded,
    driver: Driver,
    seen: dict[str, None],
    progress: Callable[[int, int], None] | None,
) -> Difference | None:
    """Run the requests; the first difference. `seen` collects the fields compared."""
    tree = driver.tree
    prompts = hits = evicted = 0
    for row, line in enumerate(recorded.requests):
        if progress is not None:
            progress(row, len(recorded.requests))
        seq = driver.run(row)
        prompts, hits, evicted = prompts + seq.prompt, hits + seq.hit, evicted + seq.evicted
        order = driver.slots(seq)
        ours = {
            "id": row,
            "oom": seq.oom,  # first, for what follows is then a consequence
            "prompt_len": seq.prompt,
            "output_len": seq.output,
            "hit": seq.hit,
            "evicted": seq.evicted,
            "evict_calls": seq.evict_calls,
            "available": tree.available,
            "evictable": tree.evictable,
            "protected": tree.protected,
            "slots_head": order[:6],
            "slots_tail": order[-4:],
            "slots_crc": zlib.crc32(",".join(map(str, order)).encode()),
        }
        if (difference := _first(f"request {row}", ours, line, seen)) or seq.oom:
            return difference
    while driver.alive:
        driver.finish()
    ours = {
        "requests": len(recorded.requests),
        "prompt_tokens": prompts,
        "hit_tokens": hits,
        "evicted_tokens": evicted,
        "final_available": tree.available,
        "final_evictable": tree.evictable,
    }
    return _first("summary", ours, recorded.summary, seen)


def _first(
    where: str, ours: dict[str, Any], line: dict[str, Any], seen: dict[str, None]
) -> Difference | None:
    for field, mine in ours.items():
        if field in line:
            seen[field] = None
            if mine != line[field]:
                return Difference(where, field, mine, line[field])
    return None


__all__ = ["Alive", "Driver", "is_sglang", "read_sglang", "verify_sglang"]
