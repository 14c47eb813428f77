"""A small run on either engine, its steps as plain values, to hold against a hand-worked case."""

from __future__ import annotations

from typing import Any, NamedTuple

from agreement import Fixed, assert_equal, expand

from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import Recording, Window
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.protocols import Plan, SupportsBlocks
from pagedsim.trace.trace import Trace

ENGINES = [ReferenceEngine, FastEngine]


class Step(NamedTuple):
    """What was planned in a step. Requests are rows; tables are those right after scheduling."""

    now: int
    scheduled: dict[int, int]
    preempted: list[int]
    admitted: list[int]
    running: list[int]
    waiting: list[int]
    blocked: bool
    limit: str
    used: int  # slots held
    finished: list[int]
    tables: list[tuple[int, ...]]  # of those that run
    free: tuple[int, ...]


class Watch:
    """An observer that writes down."""

    def __init__(self, made: list[Any]) -> None:
        self.made = made  # its last is the run's allocator
        self.steps: list[Step] = []

    def scheduled(self, step: int, plan: Plan, view: Any, /) -> None:
        allocator = self.made[-1]
        blocks = isinstance(allocator, SupportsBlocks)
        self.steps.append(
            Step(
                now=view.now_ns,
                scheduled={seq.id: tokens for seq, tokens in plan.scheduled.items()},
                preempted=[seq.id for seq in plan.preempted],
                admitted=[seq.id for seq in plan.admitted],
                running=[seq.id for seq in view.running],
                waiting=[seq.id for seq in view.waiting],
                blocked=plan.blocked,
                limit=plan.limit.name,
                used=allocator.usage().held,
                finished=[],
                tables=[tuple(allocator.table(seq)) for seq in view.running] if blocks else [],
                free=tuple(allocator.free_blocks()) if blocks else (),
            )
        )

    def finished(self, step: int, done: Any, /) -> None:
        self.steps[-1].finished.extend(seq.id for seq in done)


class Kept:
    """An allocator class whose instances are kept."""

    def __init__(self, part: type[Any], made: list[Any]) -> None:
        self._part, self._made = part, made
        self.__name__ = part.__name__

    def __call__(self, **given: Any) -> Any:
        self._made.append(self._part(**given))
        return self._made[-1]


class Played(NamedTuple):
    steps: list[Step]
    recording: Recording
    windows: list[Window]

    @property
    def scheduled(self) -> list[dict[int, int]]:
        return [step.scheduled for step in self.steps]


def play(
    engine: Any,
    requests: list[tuple[int, ...]],
    make_allocator: Any,
    scheduler: Any,
    *,
    max_len: int = 100,
    ns: int = 1,
    concurrency: int = 0,
) -> Played:
    """Run `requests`, rows of (arrival, prompt, output) or with a priority, in steps of `ns`.

    The run is repeated without an observer, and must record the same. `windows` has a row a step.
    """
    rows = [(*row, 0)[:4] for row in requests]
    arrivals, prompts, outputs, priorities = zip(*rows, strict=True)
    trace = Trace.build("t", arrivals, prompts, outputs, columns={"priority": priorities})
    recordings = []
    for watched in (True, False):
        allocator = make_allocator()
        watch = Watch([allocator])
        made = engine(
            trace,
            allocator,
            scheduler,
            Fixed(ns),
            max_len=max_len,
            concurrency=concurrency,
            observers=[watch] if watched else [],
        )
        recordings.append(made.run())
        if watched:
            steps = watch.steps
    assert_equal(recordings[1], recordings[0], Fixed(ns).ns)
    windows = [Window(**row) for row in expand(recordings[0], Fixed(ns).ns)]
    assert len(windows) == len(steps)
    return Played(steps, recordings[0], windows)
