"""Hold a replay against a recorded run of a real engine, step by step.

A recording is JSON lines (docs/recordings.md): a header with the configuration, a line a step, a
line a request, a summary. The trace it names is replayed under that configuration with a constant
step of one nanosecond, so that a time is a step number, and every recorded field is compared.
The first difference ends a comparison, for what follows it is a consequence.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pagedsim.alloc.grouped import Grouped
from pagedsim.alloc.paged import Paged
from pagedsim.analysis.recorded import Recorded, read_recording, trace_of
from pagedsim.analysis.recorded_pool import Pool, config_of, pool_of
from pagedsim.analysis.simulate import engine_of
from pagedsim.device.steptime import Constant
from pagedsim.engine.recording import Recording, Requests
from pagedsim.engine.schedulers import Vllm
from pagedsim.errors import InputError
from pagedsim.protocols import Plan, View
from pagedsim.trace import load


class Difference(NamedTuple):
    """The first place where replay and recording part."""

    where: str  # "step 12", "request 7", "summary", "end"
    field: str
    ours: Any
    recorded: Any


class Outcome(NamedTuple):
    """What was compared; `difference` is None where all agrees."""

    path: str
    engine: str
    steps: int
    requests: int
    fields: tuple[str, ...]
    difference: Difference | None


class _Done(Exception):
    """Ends a replay at the first difference."""


def verify(
    path: str | Path,
    *,
    trace: str | Path | None = None,
    engine: str = "fast",
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Replay a recording and compare. `engine` is "fast" or "reference".

    `progress` is called with how many requests are done, of how many. Raises InputError where the
    recording needs what is not simulated.
    """
    from pagedsim.analysis.verify_sglang import is_sglang, verify_sglang  # which imports this file

    make = engine_of(engine)
    if is_sglang(path):
        return verify_sglang(path, trace=trace, progress=progress)

    recorded = read_recording(path)
    config = config_of(recorded)
    requests = load(trace if trace is not None else trace_of(recorded.path))
    allocator = pool_of(recorded, config)
    scheduler = Vllm(
        max_seqs=config.max_num_seqs,
        max_batched_tokens=config.max_num_batched_tokens,
        chunked=config.enable_chunked_prefill,
        long_prefill=config.long_prefill_token_threshold,
        watermark=config.watermark,
        full_input=config.scheduler_reserve_full_isl,
        policy=config.policy,
    )
    _whole(recorded, len(requests))
    referee = Referee(recorded, allocator)
    done = 0

    def tell(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, len(requests))

    run = make(
        requests,
        allocator,
        scheduler,
        Constant(ms=1e-6),
        max_len=config.max_model_len,
        observers=[referee],
        progress=tell,
    )
    with contextlib.suppress(_Done):
        referee.finish(run.run())
    return referee.outcome()


def _whole(recorded: Recorded, requests: int) -> None:
    """Each request of the trace has its line, or none has. InputError otherwise."""
    ids = [line.get("id") for line in recorded.requests]
    if ids and sorted(map(repr, ids)) != sorted(map(repr, range(requests))):
        raise InputError(
            f"{recorded.path}: its {len(ids)} request lines are not those of the trace's "
            f"{requests} requests, one each"
        )


class Referee:
    """Compares as the replay goes: an `Observer` of one run."""

    def __init__(self, recorded: Recorded, allocator: Pool) -> None:
        self._recorded, self._allocator = recorded, allocator
        cached = recorded.header["config"]["enable_prefix_caching"]
        self._cache = allocator if cached and not isinstance(allocator, Paged) else None
        self._sizes = (  # tokens a block, of each group
            tuple(group.block for group in allocator.groups)
            if isinstance(allocator, Grouped)
            else (allocator.block,)
        )
        self._queries = [0, 0, 0, 0]  # tokens asked for and hit, first and after preemption
        self._lines = iter(recorded.steps)
        self._line: dict[str, Any] = {}
        self._held: dict[int, tuple[int, ...]] = {}  # blocks of each running row's tables
        self._where = ""
        self._steps = 0
        self._seen: dict[str, None] = {}
        self._sched: dict[int, tuple[int, int]] = {}  # row -> steps scheduled, tokens in all
        self._resumed: dict[int, list[int]] = {}  # row -> hit of each re-admission
        self._new_blocks = self._peak = 0
        self._difference: Difference | None = None

    def scheduled(self, _: int, plan: Plan, view: View, /) -> None:
        """Compare the counts, tables and free list right after scheduling."""
        line = next(self._lines, None)
        self._where = f"step {view.now_ns}"
        if line is None:
            self._differ("step", view.now_ns, "no further step")
        assert line is not None
        self._line = line
        self._steps += 1
        free = self._allocator.free_blocks()
        fresh = self._fresh(plan)
        resumed = [seq for seq in plan.admitted if seq.id in self._sched]
        first = [seq for seq in plan.admitted if seq not in resumed]
        for seq in resumed:
            self._resumed.setdefault(seq.id, []).append(seq.computed)
        for seq, tokens in plan.scheduled.items():
            steps, before = self._sched.get(seq.id, (0, 0))
            self._sched[seq.id] = (steps + 1, before + tokens)
        hits = sum(seq.computed // block for seq in plan.admitted for block in self._sizes)
        new_blocks = sum(len(new) for tables in fresh.values() for new in tables) - hits
        queries = self._asked(first) + self._asked(resumed)
        self._queries = [old + new for old, new in zip(self._queries, queries, strict=True)]
        self._new_blocks += new_blocks
        usable = self._allocator.capacity // self._allocator.block
        self._peak = max(self._peak, usable - len(free))
        self._compare({
            "step": lambda: view.now_ns,
            "preempted": lambda: [seq.id for seq in plan.preempted],
            "admitted": lambda: {str(seq.id): seq.computed for seq in first},
            "resumed": lambda: {str(seq.id): seq.computed for seq in resumed},
            "sched": lambda: {str(s.id): n for s, n in plan.scheduled.items()},
            "tokens": lambda: sum(plan.scheduled.values()),
            "running": lambda: len(view.running),
            "waiting": lambda: len(view.waiting),
            "used": lambda: usable - len(free),
            "free": lambda: len(free),
            "new_blocks": lambda: new_blocks,
            "q": lambda: queries[0],
            "h": lambda: queries[1],
            "pq": lambda: queries[2],
            "ph": lambda: queries[3],
            "block_ids": lambda: {
                str(row): new if len(new) > 1 else new[0] for row, new in fresh.items() if any(new)
            },
            "free_head": lambda: list(free[: len(line.get("free_head", []))]),
            "free_crc": lambda: _crc(free),
            "cached_hashes": lambda: 0 if self._cache is None else self._cache.keys_cached(),
        })  # fmt: skip

    def finished(self, _: int, done: Any, /) -> None:
        """Compare what was released."""
        free = self._allocator.free_blocks()
        for seq in done:
            self._held.pop(seq.id, None)
        self._compare({
            "finished": lambda: [seq.id for seq in done],
            "free_after": lambda: len(free),
            "free_crc_after": lambda: _crc(free),
        })  # fmt: skip

    def finish(self, recording: Recording) -> None:
        """Compare requests and totals after the run."""
        self._where = "end"
        if (line := next(self._lines, None)) is not None:
            self._differ("step", "no further step", line["step"])
        requests = recording.requests
        for line in self._recorded.requests:
            self._where, self._line = f"request {line['id']}", line
            self._compare(self._request(requests, line["id"]))
        self._where, self._line = "summary", self._recorded.summary
        steps = recording.column("steps")  # in a window of many, each has as many tokens
        self._compare({
            "steps": lambda: int(recording.column("end_ns")[-1]),
            "scheduled_tokens": lambda: int((recording.column("tokens") * steps).sum()),
            "request_steps": lambda: int((recording.column("sequences") * steps).sum()),
            "new_blocks": lambda: self._new_blocks,
            "queries": lambda: self._queries[0],
            "hits": lambda: self._queries[1],
            "preempted_queries": lambda: self._queries[2],
            "preempted_hits": lambda: self._queries[3],
            "preemptions": lambda: int(requests.preemptions.sum()),
            "peak_used": lambda: self._peak,
        })  # fmt: skip

    def _request(self, requests: Requests, row: int) -> dict[str, Callable[[], Any]]:
        steps, tokens = self._sched.get(row, (0, 0))
        return {
            "out_tokens": lambda: int(requests.generated[row]),
            "first_step": lambda: int(requests.admitted_ns[row]),
            "finish_step": lambda: int(requests.finish_ns[row]) - 1,
            "cached": lambda: int(requests.hit[row]),
            "resumed_cached": lambda: self._resumed.get(row, []),
            "preempt": lambda: int(requests.preemptions[row]),
            "sched_tokens": lambda: tokens,
            "n_sched": lambda: steps,
        }

    def outcome(self) -> Outcome:
        """What was compared and where it differed."""
        header = self._recorded.header
        return Outcome(
            path=str(self._recorded.path),
            engine=f"{header.get('engine')} {header.get('version')}",
            steps=self._steps,
            requests=len(self._recorded.requests),
            fields=tuple(self._seen),
            difference=self._difference,
        )

    def _asked(self, admitted: list[Any]) -> tuple[int, int]:
        """Known tokens of those admitted, and how many were hit; nothing without a cache."""
        if self._cache is None:
            return 0, 0
        return sum(seq.tokens for seq in admitted), sum(seq.computed for seq in admitted)

    def _tables(self, seq: Any) -> tuple[tuple[int, ...], ...]:
        if isinstance(self._allocator, Grouped):
            return self._allocator.tables(seq)
        return (self._allocator.table(seq),)

    def _fresh(self, plan: Plan) -> dict[int, list[list[int]]]:
        """Blocks new to each scheduled row's tables in this step."""
        for seq in plan.preempted:
            self._held.pop(seq.id, None)
        fresh = {}
        for seq in plan.scheduled:
            tables = self._tables(seq)
            before = self._held.get(seq.id, (0,) * len(tables))
            fresh[seq.id] = [list(t[at:]) for t, at in zip(tables, before, strict=True)]
            self._held[seq.id] = tuple(map(len, tables))
        return fresh

    def _compare(self, ours: dict[str, Callable[[], Any]]) -> None:
        for field, value in ours.items():
            if field in self._line:
                self._seen[field] = None
                if (mine := value()) != self._line[field]:
                    self._differ(field, mine, self._line[field])

    def _differ(self, field: str, ours: Any, recorded: Any) -> None:
        self._difference = Difference(self._where, field, ours, recorded)
        raise _Done


def _crc(ids: Iterator[int] | tuple[int, ...]) -> int:
    return zlib.crc32(",".join(map(str, ids)).encode())


__all__ = ["Difference", "Outcome", "Referee", "verify"]
