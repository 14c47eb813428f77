"""Random runs in a closed loop: forests of sessions in small pools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import simpy
from agreement import Fixed, Odd, Rising, assert_equal
from hypothesis import strategies as st
from play import Watch
from plugins import ShortestFirst

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import Recording
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.trace.trace import Trace


@dataclass(frozen=True)
class Case:
    trace: Trace
    allocator: Callable[[], Any]
    scheduler: Callable[[], Any]
    steptime: Any
    max_len: int
    foreign: tuple[int, ...]

    def run(self, engine: Any, *, watched: bool = False, **more: Any) -> tuple[Recording, Any]:
        """What is recorded, and the steps that an observer sees."""
        allocator = self.allocator()
        watch = Watch([allocator])
        if self.foreign and engine is FastEngine:
            more["env"] = simpy.Environment()
            more["env"].process(_ticks(more["env"], self.foreign))
        recording = engine(
            self.trace,
            allocator,
            self.scheduler(),
            self.steptime,
            max_len=self.max_len,
            closed_loop=True,
            observers=[watch] if watched else [],
            **more,
        ).run()
        return recording, watch.steps

    def check(self, *, watched: bool = False) -> tuple[Recording, Recording]:
        """AssertionError unless the engines agree; what both recorded."""
        reference, theirs = self.run(ReferenceEngine, watched=watched)
        try:
            fast, ours = self.run(FastEngine, watched=watched)
        except Exception as error:
            raise AssertionError(f"fails, the reference engine does not: {error!r}") from error
        assert_equal(fast, reference, self.steptime.ns)
        assert ours == theirs
        return fast, reference


def _ticks(env: simpy.Environment, at: tuple[int, ...]) -> Iterator[Any]:
    for time in at:
        yield env.timeout(time - env.now)


@st.composite
def forests(draw: st.DrawFn) -> Trace:
    """Sessions whose turns hold what was said before them, now and then edited or dropped."""
    rows = draw(st.integers(2, 12))
    parents, runs, outputs, arrivals, salts = [], [], [], [], []
    spread = draw(st.sampled_from([0, 60, 200, 500]))
    for row in range(rows):
        first = row == 0 or draw(st.sampled_from([True, False, False, False]))
        parent = -1 if first else draw(st.integers(max(0, row - 3), row - 1))
        outputs.append(draw(st.integers(1, 14)))
        fresh = 1000 * (row + 1)
        before: list[tuple[int, int]] = []
        too_long = parent >= 0 and sum(length for _, length in runs[parent]) > 50
        if parent >= 0 and not too_long and draw(st.sampled_from([True, True, True, False])):
            before = [*runs[parent], (1000 * (parent + 1) + 500, outputs[parent])]
            if draw(st.sampled_from([False, False, True])):
                at = draw(st.integers(0, len(before) - 1))
                begin, length = before[at]
                cut = draw(st.integers(0, length - 1))
                parts = [(begin, cut), (fresh + 400, 1), (begin + cut + 1, length - cut - 1)]
                before[at : at + 1] = [part for part in parts if part[1]]
        own = draw(st.sampled_from([0, fresh])) if first else fresh
        length = draw(st.integers(1, 9))
        if draw(st.sampled_from([False] * 7 + [True])):
            length += 60  # more than some maximum lengths
        runs.append([*before, (own, length)])
        parents.append(parent)
        salts.append(draw(st.sampled_from([0, 0, 0, 1])) if first else salts[parent])
        arrivals.append(draw(st.integers(0, spread)))
    if draw(st.sampled_from([True, True, True, False])):  # as files have it
        arrivals.sort()
    thinks = st.sampled_from([-1, 0, 1, 7, 10, 30, 100])
    flat = [run for each in runs for run in each]
    counts = [0]
    for each in runs:
        counts.append(counts[-1] + len(each))
    return Trace.build(
        "t",
        arrivals,
        [sum(length for _, length in each) for each in runs],
        outputs,
        runs=(counts, [first for first, _ in flat], [length for _, length in flat]),
        output_token=[1000 * (row + 1) + 500 for row in range(rows)],
        columns={
            "parent": parents,
            "think_ns": [draw(thinks) for _ in range(rows)],
            "salt": salts,
            "priority": [draw(st.integers(0, 2)) for _ in range(rows)],
        },
    )


@st.composite
def sessions(draw: st.DrawFn) -> Case:
    """Small pools, in which few fit at once, and a maximum length that some turns pass."""
    trace = draw(forests())
    max_len = draw(st.sampled_from([60, 30, 120]))
    block = draw(st.sampled_from([1, 2, 3, 4]))
    slots = max_len * draw(st.sampled_from([7, 10, 15, 25])) // 10
    kind = draw(st.sampled_from(["vllm", "vllm", "static", "orca", "shortest"]))
    few = {"max_seqs": draw(st.sampled_from([1, 2, 3, 8]))}
    vllm = {
        "max_batched_tokens": draw(st.sampled_from([2, 5, 12, 80])),
        "long_prefill": draw(st.sampled_from([0, 0, 3])),
        "full_input": draw(st.booleans()),
        "policy": draw(st.sampled_from(["fcfs", "fcfs", "priority"])),
    }
    makers: dict[str, Callable[[], Any]] = {
        "vllm": lambda: Vllm(**few, **vllm),
        "orca": lambda: Orca(**few),
        "static": lambda: Static(**few),
        "shortest": lambda: ShortestFirst(**few),
    }
    prefix = lambda: PrefixPaged(slots // block + 1, block=block)  # noqa: E731
    allocators: list[Callable[[], Any]] = [
        *(prefix, prefix, prefix, lambda: Paged(slots // block + 1, block=block)),
        lambda: Contiguous(2 * slots, max_len=max_len, place="buddy", reserve="exact"),
    ]
    steptime = draw(st.sampled_from([Odd(), Rising(), Fixed(1), Fixed(10)]))
    foreign = draw(st.sampled_from([(), (), (), (3, 20, 21, 300, 1111)]))
    allocator = draw(st.sampled_from(allocators))
    return Case(trace, allocator, makers[kind], steptime, max_len, foreign)
