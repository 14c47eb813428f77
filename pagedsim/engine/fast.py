"""The fast engine: a SimPy process that takes many steps at once where only lengths change.

The loop is `FastEngine._process`. A window is planned, recorded and waited for as a whole::

    arrivals <= now   plan   |  step 0  |  step 1  |  ...  |  step k-1  |   finish, release
                             start_ns                                end_ns

It ends before a step that an arrival could change or that somebody could be refused room in, and
where somebody finishes. Ending early is always right: it costs a window, never a number. The
process runs ahead of SimPy's clock as long as no other event is due before a window's end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from math import ceil
from operator import attrgetter
from typing import Any, Final

import simpy

from pagedsim.engine.account import terms
from pagedsim.engine.forks import forks_of, in_turn
from pagedsim.engine.glide import glide
from pagedsim.engine.jump import Pricer, jump
from pagedsim.engine.outcomes import Outcomes, recorded
from pagedsim.engine.reach import FOR_EVER
from pagedsim.engine.recording import BLOCKED, Recorder, Recording
from pagedsim.engine.request import Request
from pagedsim.engine.sampling import check_samples
from pagedsim.engine.source import Source, source_of
from pagedsim.engine.state import State
from pagedsim.engine.step import Step, load_of, step_of
from pagedsim.engine.watch import Watch
from pagedsim.errors import ContractError
from pagedsim.protocols import (
    Allocator,
    Observer,
    Scheduler,
    StepTime,
    SupportsHold,
    SupportsSteady,
    fruitless_steps,
    nobody_scheduled,
    without_end,
)
from pagedsim.trace.content import Content, foresee
from pagedsim.trace.trace import Trace

_RANK: Final = attrgetter("rank")


class FastEngine:
    """One run.

    `env`: a SimPy environment whose clock is whole ns; its other events bound a window as arrivals
    do, unless a `feed` (in the place of `source_of`) makes the source and is all that reaches this
    engine. Without one it has its own. `observers` are shown every step (`engine.watch`).
    """

    def __init__(
        self,
        trace: Trace,
        allocator: Allocator,
        scheduler: Scheduler,
        steptime: StepTime,
        *,
        max_len: int,
        concurrency: int = 0,
        closed_loop: bool = False,
        observers: Iterable[Observer] = (),
        progress: Callable[[int], None] | None = None,
        env: simpy.Environment | None = None,
        feed: Callable[..., Source] | None = None,
    ) -> None:
        scheduler.check(max_len)
        check_samples(trace, allocator, scheduler)
        self.env = simpy.Environment() if env is None else env
        self.trace, self.allocator, self.scheduler = trace, allocator, scheduler
        forks = self.forks = forks_of(trace, allocator, scheduler, max_len)
        self.state = forks.state if forks else State(allocator, scheduler, max_len)
        wide = forks.wide if forks else None
        self.source = (feed or source_of)(
            trace, allocator.longest, max_len, concurrency, closed_loop, int(self.env.now), wide
        )
        self._shared = not (env is None and feed is None)  # others may put events into it
        peek: Callable[[], int | float] = self.env.peek
        self._peek = peek if self._shared and feed is None else None
        self.pricer = Pricer(steptime)
        self.recorder = Recorder()
        self.steps, self._fruitless, self._patience = 0, 0, fruitless_steps(max_len)
        observers = tuple(observers)
        self._watch = Watch(observers, self.state, self._arrive) if observers else None
        self._progress = progress
        self._hold = isinstance(scheduler, SupportsHold) and scheduler.hold
        self._done: list[Request] = []  # finished members of a batch that is held as a whole
        steady = isinstance(scheduler, SupportsSteady) and scheduler.steady
        self._steady: SupportsSteady | None = scheduler if steady else None  # type: ignore[assignment]
        self._order: list[Any] | None = None  # of the plan, unless it is the running order
        self._outcomes = Outcomes(trace)
        self._content = Content(trace)
        content, first = (forks.content, forks.first) if forks else (self._content, None)
        foresee(allocator, content, trace.prompt, self.source.refused_ns, first)
        columns = (trace.prompt, trace.output, trace.priority, trace.salt, self.source.end)
        self._rows = tuple(column.data for column in columns)  # gives Python's integers

    def run(self) -> Recording:
        """Replay the whole trace."""
        self.env.run(until=self.start())
        return self.recording()

    def start(self) -> simpy.Process:
        """Let it run in its environment; what it records is whole when that process has ended."""
        return self.env.process(self._process())

    def _process(self) -> Generator[simpy.Event, Any, None]:
        env, state, source, shared = self.env, self.state, self.source, self._shared
        now = int(env.now)
        while True:
            state.now_ns = now
            self._arrive()
            if self._glides():
                before = self.steps
                self.steps = glide(
                    state, self._horizon, self.pricer, self.recorder, self.steps, self._finish
                )
                if self.steps > before:
                    now = state.now_ns
                    if shared and env.peek() < now:
                        yield env.timeout(now - env.now)
                    continue
            if state.running or state.waiting:
                step, steps, duration = self._window()
                now += duration
                if shared and env.peek() <= now:  # somebody else has something to do before that
                    yield env.timeout(now - env.now)
                state.now_ns = now
                self._complete(step, steps)
            elif (arrival := source.next_ns()) is not None:
                now = arrival
                if shared and env.peek() <= now:
                    yield env.timeout(now - env.now)
            else:
                break
        yield env.timeout(now - env.now)

    def _arrive(self) -> None:
        for row, arrival_ns in self.source.arrived(self.state.now_ns):
            self.state.enqueue(self._request(row, arrival_ns))
            self._fruitless = 0

    # One window.

    def _window(self) -> tuple[Step, int, int]:
        """Plan one, take what it needs and record it: the step, how many, ns in all."""
        state, now = self.state, self.state.now_ns
        state.forget()
        plan = self.scheduler.plan(state)
        step = step_of(plan, state.batch)
        self._order = None if plan.decoding else list(plan.scheduled)
        decoding, others, behind = step
        if not decoding and not others and not plan.preempted:
            raise ContractError(nobody_scheduled(self.steps, state, self.scheduler, self.allocator))
        if self._watch is not None:
            self._watch.begin(self.steps, plan)
        load = load_of(step, state.batch)
        live, reserved, spill, lost, cached, shared, held, free = terms(
            state, decoding, others, self.steps, step if self._done else None
        )
        alone = decoding and not (others or behind or plan.preempted)
        if alone and self._steady and not state.head_stirs():
            horizon = self._horizon()
            steps, duration, ramp_ns = jump(
                state, self.pricer, self.recorder, load, horizon, self._watch
            )
        else:
            steps, duration, ramp_ns = 1, self.pricer.one(load), 0
        external = lost + free if plan.blocked else lost
        limit = plan.limit + BLOCKED if plan.blocked else plan.limit
        self.recorder.windows.add(
            (steps, now, now + duration, len(state.running), *load,
             live, reserved, spill, external, cached, shared, ramp_ns, held, limit)
        )  # fmt: skip
        if state.groups is not None:
            self.recorder.add_apart(state.groups.apart)
        return step, steps, duration

    def _glides(self) -> bool:
        """Whether nobody need be asked for the next step: see `engine.glide`."""
        state = self.state
        return bool(
            self._steady is not None
            and self._watch is None
            and not state.waiting
            and not state.prefilling
            and state.running
            and self._steady.undisturbed(state)
            and (self._peek is None or self._others() == FOR_EVER)
        )

    def _others(self) -> int:
        """When the next event of others is due, rounded up."""
        until = self._peek() if self._peek is not None else FOR_EVER
        return FOR_EVER if until >= FOR_EVER else ceil(until)

    def _horizon(self) -> int:
        """Nanoseconds from now until something from outside could change a step.

        An arrival behind a waiting head cannot, unless the queue is ordered.
        """
        until = FOR_EVER if self._peek is None else self._others()
        if not self.state.waiting or self.state.rank is not None:
            arrival = self.source.next_ns()
            if arrival is not None and arrival < until:
                until = arrival
        return until - self.state.now_ns

    # The end of a window.

    def _complete(self, step: Step, steps: int) -> None:
        """Move the counters, yield, finish, release."""
        state, batch = self.state, self.state.batch
        now = state.now_ns
        finished: list[Request] = []
        self._fruitless += 1  # until a token is yielded
        if step.decoding:
            self._fruitless = 0
            batch.advance(steps)
            for seq in step.behind:
                state.hold_back(seq)
            finished = batch.finished()
        for seq, count in step.others.items():
            if seq.peak > seq.base:
                seq.recomputed += min(seq.base + count, seq.peak) - seq.base
            seq.base += count
            if seq.base < seq.known:
                continue
            if self.forks and not self.forks.alone(seq):
                ended, yielded = self.forks.arrive(seq, now)
                finished += ended
                if yielded:
                    self._fruitless = 0
                continue
            self._fruitless = 0
            if seq.first_token_ns < 0:
                seq.first_token_ns = now
            if seq.base < seq.final:
                state.decode(seq)
            else:
                batch.leave(seq)
                seq.known += 1
                finished.append(seq)
        if len(finished) > 1:
            turn = _RANK if self._order is None else self._order.index
            finished.sort(key=in_turn(turn) if self.forks else turn)
        if self._hold:
            for seq in finished:
                state.keep(seq)
            self._done += finished
            finished = []
            if not state.running:
                finished, self._done = self._done, []
        if finished:
            self._finish(finished)
        elif self._progress is not None:
            self._progress(0)
        if self._watch is not None:
            self._watch.end(finished)
        if self._fruitless > self._patience:
            raise ContractError(
                without_end(self.steps, self._fruitless, len(state.running), len(state.waiting))
            )
        self.steps += steps

    def _finish(self, done: list[Request]) -> None:
        """Give back what they hold, and their results."""
        state, now = self.state, self.state.now_ns
        for seq in done:
            state.release(seq)
        count = len(done)
        if self.forks:
            ended = self.forks.returned(done)
            count = len(ended)
            for group in ended:
                group.finish_ns = now
                self._outcomes.add_group(group)
                self.source.follow(group.id, now)
        else:
            for seq in done:
                seq.finish_ns = now
                self._outcomes.add(seq)
                self.source.follow(seq.id, now)
        self.source.done(count, now)
        self._fruitless = 0
        if self._progress is not None:
            self._progress(count)

    # Requests.

    def _request(self, row: int, arrival_ns: int) -> Request:
        prompt, output, priority, salt, end = self._rows
        if self.forks:
            return self.forks.request(row, priority[row], salt[row], arrival_ns)
        return Request(
            row, prompt[row], output[row], priority[row], salt[row], end[row], arrival_ns,
            self._content,
        )  # fmt: skip

    def recording(self) -> Recording:
        """What it recorded."""
        outcomes, max_len = self._outcomes, self.state.max_len
        return recorded(self.recorder, outcomes, self.source, self.allocator, max_len)


__all__ = ["FastEngine"]
