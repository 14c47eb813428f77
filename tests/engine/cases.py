"""Random runs: small pools under long requests, so that all that can happen does happen often.

A `Case` is what both engines are given, as plain values that a failure prints.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import simpy
from agreement import Fixed, Odd, Rising, assert_equal
from hypothesis import example
from hypothesis import strategies as st
from plugins import Counter, Generous, Shared, ShortestFirst, TakingTurns

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.slots import Slots
from pagedsim.device.steptable import Table
from pagedsim.device.steptime import Affine
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import BLOCKED, Recording
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import SpecError
from pagedsim.protocols import Limit
from pagedsim.trace.trace import Trace

_OTHERS = ["turns", "orca", "static", "shortest"]
_SCHEDULERS = [name for other in _OTHERS for name in ("vllm", other)] + ["vllm", "static"]

_GRID = [
    (s, p, c, 1e-6 * (3 + s + 2 * p + c // 7)) for s in (1, 8) for p in (0, 9) for c in (0, 99)
]
STEPTIMES = {
    "odd": (Odd, 15),
    "rising": (Rising, 15),
    "one": (lambda: Fixed(1), 1),
    "ten": (lambda: Fixed(10), 10),
    "affine": (
        lambda: Affine(
            base_ms=9e-6, per_seq_ms=2e-6, per_prefill_token_us=3e-4, per_context_token_ns=0.37
        ),
        15,
    ),
    "table": (lambda: Table(_GRID), 15),
}  # name -> (maker, ns of about a step)


class Endless(Exception):
    """A run that takes many times the steps that its tokens could need.

    Under priorities it may be for ever: of two sequences with equal priority and arrival the first
    of the batch makes room, which may be the one in whose favour the other did so just before.
    """


@dataclass(frozen=True)
class Case:
    """A run. Rows are (arrival_ns, prompt, output, priority); parts are (class, arguments)."""

    rows: tuple[tuple[int, int, int, int], ...]
    max_len: int
    allocator: tuple[Any, dict[str, Any]]
    scheduler: tuple[Any, dict[str, Any]]
    steptime: str
    concurrency: int = 0
    foreign: tuple[int, ...] = ()

    def run(self, engine: type[Any], **more: Any) -> Recording:
        arrivals, prompts, outputs, priorities = zip(*self.rows, strict=True)
        trace = Trace.build("t", arrivals, prompts, outputs, columns={"priority": priorities})
        allocator, scheduler = (part(**given) for part, given in (self.allocator, self.scheduler))
        if self.foreign and issubclass(engine, FastEngine):
            more["env"] = simpy.Environment()
            more["env"].process(_ticks(more["env"], self.foreign))
        turns = iter(range(100 + 8 * sum(prompts) + 8 * sum(outputs)))

        def progress(_: int) -> None:
            if next(turns, None) is None:
                raise Endless

        return engine(
            trace,
            allocator,
            scheduler,
            STEPTIMES[self.steptime][0](),
            max_len=self.max_len,
            concurrency=self.concurrency,
            progress=progress,
            **more,
        ).run()

    def check(self, fast: type[Any] = FastEngine) -> tuple[Recording, Recording]:
        """AssertionError unless `fast` equals the reference engine; what both recorded."""
        try:
            reference: Any = self.run(ReferenceEngine)
        except Endless as endless:
            reference = endless
        try:
            ours = self.run(fast)
        except Endless:
            assert isinstance(reference, Endless), "runs for ever, the reference engine does not"
            raise
        except Exception as error:
            raise AssertionError(f"fails, the reference engine does not: {error!r}") from error
        if isinstance(reference, Endless):
            raise AssertionError("ends, the reference engine does not")
        assert_equal(ours, reference, STEPTIMES[self.steptime][0]().ns)
        return ours, reference


def _ticks(env: simpy.Environment, times: tuple[int, ...]) -> Iterator[Any]:
    """Somebody else's events, two at each time."""
    for time in times:
        env.timeout(time - env.now)
        yield env.timeout(time - env.now)


def marks(case: Case, fast: Recording, reference: Recording) -> Tally[str]:
    """What happened in a run, each once."""
    seen = Tally[str]()
    windows = fast.column("steps")
    limit = reference.column("limit")
    arrivals = [row[0] for row in case.rows]
    starts = set(reference.column("start_ns").tolist())
    requests = reference.requests
    facts = {
        "preempted": requests.preemptions.any(),
        "recomputed": requests.recomputed.any(),
        "preempted twice": (requests.preemptions > 1).any(),
        "blocked": (limit >= BLOCKED).any(),
        "not blocked": (limit < BLOCKED).any(),
        "starts": len(fast.starts),
        "internal starts": len(fast.starts) and fast.starts[:, 4].any(),
        "jumps": (windows > 1).any(),
        "jumps of 16": (windows > 16).any(),
        "jumps of 1000": (windows > 1000).any(),
        "jumps while blocked": ((windows > 1) & (fast.column("limit") >= BLOCKED)).any(),
        "jumps of many": ((windows > 1) & (fast.column("batch") > 2)).any(),
        "waits": (requests.admitted_ns > requests.arrival_ns).any(),
        "ties": len(set(arrivals)) < len(arrivals),
        "arrives on a step": any(a and a in starts for a in arrivals) and not case.concurrency,
        "idles": (fast.column("start_ns")[1:] > fast.column("end_ns")[:-1]).any(),
        "refused": len(reference.refused),
        "truncated": (requests.status == 1).any(),
        "limit budget": (limit % BLOCKED == Limit.BUDGET).any(),
        "limit max_seqs": (limit % BLOCKED == Limit.MAX_SEQS).any(),
        "left out of a step": (reference.column("sequences") < reference.column("batch")).any(),
        "hits": requests.hit.any(),
        "shares": reference.column("shared").any(),
        "cached": reference.column("cached").any(),
        "foreign": bool(case.foreign),
        "concurrency": bool(case.concurrency),
    }
    seen.update(name for name, fact in facts.items() if fact)
    seen[case.allocator[0].__name__] = seen[case.scheduler[0].__name__] = 1
    return seen


def _whole(draw: st.DrawFn, low: int, high: int) -> int:
    return draw(st.integers(low, max(low, high)))


EXAMPLES = [
    # An urgent and short arrival goes ahead of a blocked head, and there is room for it.
    Case(
        ((0, 2, 20, 1), (0, 22, 2, 1), (5, 1, 2, 0)),
        40,
        (Paged, {"blocks": 6, "block": 5}),
        (Vllm, {"policy": "priority"}),
        "one",
    ),
    # One that computes the last of its prompt's chunks, and one behind it that decodes, both end.
    Case(
        ((0, 6, 1, 0), (0, 1, 3, 0), (0, 2, 9, 0)),
        40,
        (Paged, {"blocks": 40, "block": 1}),
        (Vllm, {"long_prefill": 2}),
        "one",
    ),
    # The same with the batch's order against that of arrival, after a preemption.
    Case(
        ((0, 4, 9, 2), (0, 3, 9, 2), (2, 2, 9, 0), (3, 1, 5, 0)),
        40,
        (Paged, {"blocks": 9, "block": 2, "free_order": "0.11"}),
        (Vllm, {"policy": "priority", "long_prefill": 3}),
        "ten",
    ),
    # Both end in one step, and the scheduler has the second of the batch first.
    Case(
        ((0, 5, 4, 0), (1, 2, 3, 0)),
        40,
        (Paged, {"blocks": 12, "block": 2}),
        (ShortestFirst, {}),
        "one",
    ),
    # Slots whose rounding grows, so that more than what is held changes inside a jump.
    Case(
        ((0, 3, 40, 0), (0, 5, 30, 0), (40, 2, 9, 0)),
        99,
        (Counter, {"capacity": 90, "portion": 2, "toll": 1}),
        (Orca, {}),
        "rising",
    ),
    # Blocks found again, by those that wait and by those that come back.
    Case(
        tuple((15 * i, 9, 12, 0) for i in range(6)),
        99,
        (Shared, {"blocks": 14, "block": 3, "kinds": 1}),
        (Vllm, {"max_batched_tokens": 8}),
        "odd",
    ),
]


def examples(test: Any) -> Any:
    """`test`, on `EXAMPLES` first."""
    for case in EXAMPLES:
        test = example(case=case)(test)
    return test


@st.composite
def cases(draw: st.DrawFn, *, short: bool = False) -> Case:
    long = draw(st.sampled_from([False] * 9 + [not short]))
    few = draw(st.sampled_from([False] * 7 + [True]))
    rows = draw(st.integers(1, 4) if few or long else st.integers(5, 12))
    longest = draw(st.sampled_from([14, 6, 30]))
    prompts = [draw(st.integers(1, longest)) for _ in range(rows)]
    longest = draw(st.sampled_from([24, 12, 60, 3])) if not long else 2500
    outputs = [draw(st.integers(longest // 4 + 1, longest)) for _ in range(rows)]
    for row in draw(st.lists(st.integers(0, rows - 1), max_size=4)):
        outputs[row] = draw(st.integers(1, 3))
    finals = [p + o - 1 for p, o in zip(prompts, outputs, strict=True)]
    max_len = max(finals) + 5
    if draw(st.sampled_from([False, False, False, True])):
        max_len = _whole(draw, 2, max(finals))
    steptime = draw(st.sampled_from(sorted(STEPTIMES)))
    scale = STEPTIMES[steptime][1]
    spread = draw(st.sampled_from([10, 3, 0, 30, 100])) * (10 if long else 1)
    arrivals = [scale * draw(st.integers(0, spread)) for _ in range(rows)]
    if scale > 1 and draw(st.booleans()):
        arrivals = [arrival + draw(st.integers(0, scale)) for arrival in arrivals]
    arrivals.sort()
    priorities = [draw(st.integers(0, 2)) for _ in range(rows)]
    final = min(max(finals), max_len - 1)
    if draw(st.booleans()):  # late, short and urgent
        for _ in range(draw(st.integers(1, 3))):
            arrivals.append(max(arrivals) + scale * draw(st.integers(1, 25)))
            prompts.append(draw(st.integers(1, 3)))
            outputs.append(draw(st.integers(1, 4)))
            priorities.append(draw(st.integers(-1, 0)))
    foreign = draw(st.sampled_from([(), (), (), (0, 1, 7), (3, 20, 21, 300, 1111)]))
    scheduler = draw(schedulers(max_len))
    # members of a held batch that are done count as internal whole, shared blocks or not
    sharing = scheduler[0] is not Static
    allocator = draw(allocators(final, max_len, sharing))
    ahead = 0
    if scheduler[0] is Vllm and allocator[0] in (Paged, Counter, Shared):
        ahead = draw(st.sampled_from([0, 0, 0, 1, 7, 20]))
    if ahead:
        scheduler = Generous, {"ahead": ahead, **scheduler[1]}
    return Case(
        rows=tuple(zip(arrivals, prompts, outputs, priorities, strict=True)),
        max_len=max_len,
        allocator=allocator,
        scheduler=scheduler,
        steptime=steptime,
        concurrency=draw(st.sampled_from([0] * 8 + [1, 3, 4])),
        foreign=foreign,
    )


@st.composite
def allocators(
    draw: st.DrawFn, final: int, max_len: int, sharing: bool
) -> tuple[Any, dict[str, Any]]:
    """Room for one to a few of the longest, and seldom for less."""
    kinds = ["paged", "counter", "paged", "contiguous", "paged", "slots", "paged", "contiguous"]
    kind = draw(st.sampled_from(["paged", "shared", *kinds] if sharing else kinds))
    slots = max(2, final * draw(st.sampled_from([13, 10, 16, 11, 20, 25, 8])) // 10)
    slots = _whole(draw, slots, slots + 4)
    if kind == "contiguous":
        place = draw(st.sampled_from(["first", "best", "buddy"]))
        reserve = draw(st.sampled_from(["max", "pow2", "exact"]))
        slots *= draw(st.sampled_from([1, 1, 2]))
        given = {"max_len": max_len, "place": place, "reserve": reserve}
        while True:
            try:
                Contiguous(slots, **given)
            except SpecError:
                slots = 2 * slots + 1
            else:
                return Contiguous, {"capacity": slots, **given}
    if kind == "slots":
        n = draw(st.integers(1, 4))
        return Slots, {"capacity": slots * n, "n": n}
    if kind == "counter":
        portion, toll = draw(st.integers(1, 4)), draw(st.integers(0, 1))
        capacity = -(-slots // portion) * (portion + toll)
        return Counter, {"capacity": capacity, "portion": portion, "toll": toll}
    block = draw(st.sampled_from([1, 2, 3, 4, 5, 16]))
    blocks = -(-slots // block)
    if kind == "shared":
        kinds = draw(st.integers(1, 3))
        return Shared, {"blocks": blocks, "block": block, "kinds": kinds}
    null = draw(st.sampled_from([0, 1]))
    order = draw(st.sampled_from(["0.33", "0.11"]))
    return Paged, {"blocks": blocks + null, "block": block, "null": null, "free_order": order}


@st.composite
def schedulers(draw: st.DrawFn, max_len: int) -> tuple[Any, dict[str, Any]]:
    kind = draw(st.sampled_from(_SCHEDULERS))
    max_seqs = draw(st.sampled_from([8, 8, 8, 4, 3, 2, 1]))
    watermark = draw(st.sampled_from([0.0, 0.0, 0.1, 0.3]))
    if kind == "shortest":
        return ShortestFirst, {"max_seqs": max_seqs}
    if kind == "turns":
        return TakingTurns, {"max_seqs": max_seqs, "part": draw(st.integers(1, 3))}
    if kind == "static":
        return Static, {"max_seqs": max_seqs}
    if kind == "orca":
        most = draw(st.sampled_from([0, max_len, max_len + 7]))
        return Orca, {"max_seqs": max_seqs, "max_prompt_tokens": most, "watermark": watermark}
    chunked = draw(st.sampled_from([True, True, True, False]))
    budget = draw(st.sampled_from([20, 40, 12, 8, 5, 3, 2, 1])) if chunked else max_len + 2
    return Vllm, {
        "max_seqs": max_seqs,
        "max_batched_tokens": budget,
        "chunked": chunked,
        "long_prefill": draw(st.sampled_from([0, 0, 3, 1, 5])),
        "watermark": watermark,
        "full_input": draw(st.booleans()),
        "policy": draw(st.sampled_from(["fcfs", "fcfs", "priority"])),
    }
