"""The fast engine: a SimPy process that takes many steps at once where only lengths change.

The loop is `FastEngine._process`. A window is planned, recorded and waited for as a whole::

    arrivals <= now   plan   |  step 0  |  step 1  |  ...  |  step k-1  |   finish, release
                             start_ns                                end_ns

It ends before a step that an arrival could change, that somebody could be refused room in, or
that follows a finish. Each step in it is priced for itself. Ending early is always right: it
costs a window, never a number.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import simpy

from pagedsim.engine.batch import Batch, Request
from pagedsim.engine.recording import BLOCKED, Recorder, Recording, Requests, Status
from pagedsim.engine.source import Source
from pagedsim.errors import ContractError
from pagedsim.protocols import (
    Allocator,
    Load,
    Observer,
    Plan,
    Scheduler,
    StepTime,
    SupportsBlocks,
    SupportsHold,
    SupportsRamp,
    SupportsRank,
    SupportsSteady,
    Usage,
    headroom,
)
from pagedsim.trace.trace import Trace

_RESULTS = (
    "arrival_ns",
    "admitted_ns",
    "first_token_ns",
    "finish_ns",
    "hit",
    "resumed_hit",
    "preemptions",
    "recomputed",
)


class Planned(NamedTuple):
    """A window that was planned and recorded, and is being waited for."""

    duration: int  # ns
    steps: int
    decoding: int  # how many of those that decode step, all alike
    others: dict[Any, int]  # tokens of each of the others
    behind: list[Request]  # who decodes, but has no part in this window


class FastEngine:
    """One run. It is its own `BatchView`: what a scheduler sees and does.

    `env`: a SimPy environment to run in, whose clock is whole nanoseconds; its other events bound
    a window as arrivals do. With observers every window is one step.
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
        observers: Iterable[Observer] = (),
        progress: Callable[[int], None] | None = None,
        env: simpy.Environment | None = None,
    ) -> None:
        scheduler.check(max_len)
        self.env = simpy.Environment() if env is None else env
        self.trace, self.allocator, self.scheduler = trace, allocator, scheduler
        self.steptime, self.max_len = steptime, max_len
        self.source = Source(trace, allocator.longest, max_len, concurrency)
        self.batch = Batch()
        self.recorder = Recorder()
        self.steps = 0
        self.spill = 0  # slots that are held and never will be filled
        self._rank = scheduler.rank if isinstance(scheduler, SupportsRank) else None
        self.waiting: Any = deque() if self._rank is None else []
        self._observers, self._progress = list(observers), progress
        self._done: list[Request] = []  # finished members of a batch that is held as a whole
        self._requests: dict[int, Request] = {}
        columns = (trace.prompt, trace.output, trace.priority, self.source.end)
        self._columns = [column.tolist() for column in columns]
        self._hold = isinstance(scheduler, SupportsHold) and scheduler.hold
        self._jumps = isinstance(scheduler, SupportsSteady) and scheduler.steady
        self._jumps &= not self._observers
        self._ramp = steptime.ramp if isinstance(steptime, SupportsRamp) else None

    def run(self) -> Recording:
        """Replay the whole trace."""
        self.env.run(until=self.env.process(self._process()))
        return self._recording()

    def _process(self) -> Generator[simpy.Event, Any, None]:
        env, batch, source = self.env, self.batch, self.source
        while True:
            for row, arrival_ns in source.arrived(self.now_ns):
                self._enqueue(self._request(row, arrival_ns))
            if batch.running or self.waiting:
                window = self._window()
                yield env.timeout(window.duration)
                self._complete(window)
            elif (arrival := source.next_ns()) is not None:
                yield env.timeout(arrival - env.now)
            else:
                return

    # What a scheduler sees and does.

    @property
    def now_ns(self) -> int:
        return int(self.env.now)

    @property
    def running(self) -> list[Request]:
        return self.batch.running

    @property
    def decoding(self) -> int:
        return self.batch.decoding

    @property
    def prefilling(self) -> list[Request]:
        return self.batch.prefilling

    def cached(self, seq: Any) -> int:
        return self.allocator.cached(seq)

    def headroom(self, share: float) -> int:
        return headroom(self.allocator, share)

    def admit(self, seq: Any, tokens: int, *, whole: int = 0, spare: int = 0) -> bool:
        hit = self.allocator.cached(seq)
        if not self.allocator.admit(seq, tokens, whole=whole, spare=spare):
            return False
        if self.waiting[0] is seq:
            del self.waiting[0]
        else:
            self.waiting.remove(seq)
        self.batch.join(seq, hit)
        self._fit(seq)
        if seq.admitted_ns < 0:
            seq.admitted_ns, seq.hit = self.now_ns, hit
        else:
            seq.resumed_hit += hit
        return True

    def grow(self, seq: Any, tokens: int) -> bool:
        if tokens <= seq.room:
            return True
        if not self.allocator.grow(seq, tokens):
            return False
        self._fit(seq)
        return True

    def grow_all(self, wants: dict[Any, int]) -> bool:
        asking = self.batch.starting(0)
        if wants:
            asking = sorted([*asking, *wants], key=lambda seq: seq.rank)
        return all(self.grow(seq, seq.computed + wants.get(seq, 1)) for seq in asking)

    def preempt(self, seq: Any) -> None:
        seq.peak = max(seq.peak, seq.computed)
        self.batch.leave(seq)
        self._release(seq)
        seq.base = 0
        seq.preemptions += 1
        self._enqueue(seq, front=True)

    # One window.

    def _window(self) -> Planned:
        """Plan one, take what it needs and record it."""
        plan = self.scheduler.plan(self)
        decoding, others, behind = self._sort_out(plan)
        if not decoding and not others and not plan.preempted:
            raise ContractError(
                f"step {self.steps}: nothing was scheduled while {len(self.waiting)} requests "
                f"wait and {len(self.batch.running)} run ({type(self.scheduler).__name__} over "
                f"{type(self.allocator).__name__})"
            )
        for observer in self._observers:
            observer.scheduled(self.steps, self._spelt_out(plan), self)
        load = self._load(decoding, others, behind)
        usage = self.allocator.usage()
        held, cached, shared, lost = usage
        spill = self.spill
        live = self.batch.stored + decoding + sum(others.values()) - shared
        for seq in self.batch.prefilling:
            live += seq.base
        reserved = held - lost - live - spill
        free = self.allocator.capacity - held - cached
        if live < 0 or reserved < 0 or free < 0:
            raise ContractError(
                f"step {self.steps}: live {live}, reserved {reserved}, internal {spill}, free "
                f"{free}: none may be negative ({type(self.allocator).__name__}, {usage})"
            )
        if self._jumps and decoding and not others and not behind and not plan.preempted:
            steps, duration, ramp = self._jump(load, usage)
        else:
            steps, duration, ramp = 1, self._price(load), 0
        now = self.now_ns
        external = lost + free if plan.blocked else lost
        limit = plan.limit + BLOCKED if plan.blocked else plan.limit
        self.recorder.add(
            (self.steps, steps, now, now + duration, len(self.batch.running), *load,
             live, reserved, spill, external, cached, shared, ramp, held, limit)
        )  # fmt: skip
        return Planned(duration, steps, decoding, others, behind)

    def _sort_out(self, plan: Plan) -> tuple[int, dict[Any, int], list[Request]]:
        """How many of those that decode step, the others' tokens, and who decodes but waits."""
        if plan.decoding:
            return self.batch.decoding, plan.scheduled, []
        others = {seq: count for seq, count in plan.scheduled.items() if not seq.decoding}
        decoding = len(plan.scheduled) - len(others)
        behind: list[Request] = []
        if 0 < decoding < self.batch.decoding:
            behind = [s for s in self.batch.running if s.decoding and s not in plan.scheduled]
        return decoding, others, behind

    def _spelt_out(self, plan: Plan) -> Plan:
        """The plan with everyone in `scheduled`, in scheduling order, which is running order."""
        if not plan.decoding:
            return plan
        scheduled = {
            seq: 1 if seq.decoding else plan.scheduled[seq]
            for seq in self.batch.running
            if seq.decoding or seq in plan.scheduled
        }
        return Plan(scheduled, False, plan.preempted, plan.admitted, plan.blocked, plan.limit)

    def _load(self, decoding: int, others: dict[Any, int], behind: list[Request]) -> Load:
        context = self.batch.stored + self.batch.decoding if decoding else 0
        for seq in behind:
            context -= seq.computed + 1
        prefills, tokens, pairs = 0, decoding, context
        for seq, count in others.items():
            stored = seq.base
            prefills += count > 1 or stored + 1 < seq.known
            tokens += count
            pairs += count * stored + count * (count + 1) // 2
            context += stored + count
        return Load(decoding + len(others), prefills, tokens, pairs, context)

    def _price(self, load: Load) -> int:
        duration = int(self.steptime.ns(load))
        if duration < 1:
            raise ContractError(f"step {self.steps}: {load} takes {duration} ns, must be >= 1")
        return duration

    # Jumps.

    def _jump(self, load: Load, usage: Usage) -> tuple[int, int, int]:
        """Take as many whole steps as nothing can change in: steps, their ns, Σ j · ns of step j.

        Step 0 has its slots. Step j is taken if it starts before the next arrival that matters
        and everyone who asks for room in it gets it.
        """
        batch, window = self.batch, len(self.recorder)
        left = batch.steps_left()
        horizon = self._horizon()
        steps, elapsed, ramp = 0, 0, 0
        held, spill = usage.held, self.spill
        for duration in self._prices(load, left):
            if steps:
                if elapsed >= horizon:
                    break
                if asking := batch.starting(steps):
                    if not self._grow_ahead(asking, steps, usage):
                        break
                    now_held = self.allocator.usage().held
                    self.recorder.add_starts(
                        (window, steps, elapsed, now_held - held, self.spill - spill)
                    )
                    held, spill = now_held, self.spill
                ramp += steps * duration
            elapsed += duration
            steps += 1
        return steps, elapsed, ramp

    def _horizon(self) -> float:
        """Nanoseconds from now until something from outside could change a step."""
        until = self.env.peek()  # inf if there is no other event
        if not self.waiting or self._rank is not None:
            arrival = self.source.next_ns()
            if arrival is not None and arrival < until:
                until = arrival
        return until - self.env.now

    def _prices(self, load: Load, left: int) -> Iterator[int]:
        """ns of each of the next `left` steps; in portions, for few may be wanted."""
        sequences, prefills, tokens, pairs, context = load
        done, portion = 0, 16
        while done < left:
            portion = min(portion, left - done)
            if self._ramp is None or not done:
                for _ in range(portion):
                    yield self._price(Load(sequences, prefills, tokens, pairs, context))
                    pairs += sequences
                    context += sequences
            else:
                yield from self._ramp(
                    Load(sequences, prefills, tokens, pairs, context), portion
                ).tolist()
                pairs += sequences * portion
                context += sequences * portion
            done += portion
            portion = min(4 * portion, 1 << 16)

    def _grow_ahead(self, asking: list[Request], steps: int, usage: Usage) -> bool:
        """Slots for the step `steps` from now; False if it cannot be part of this window.

        What was taken before a refusal stays: planning that step takes the same, in the same order.
        """
        tokens = self.batch.clock.tick + steps + 1
        for seq in asking:
            if not self.grow(seq, seq.base + tokens):
                return False
        return self.allocator.usage()[1:] == usage[1:]

    # The end of a window.

    def _complete(self, window: Planned) -> None:
        """Move the counters, yield, finish, release."""
        batch = self.batch
        finished: list[Request] = []
        if window.decoding:
            batch.advance(window.steps)
            for seq in window.behind:
                batch.hold_back(seq)
            finished = batch.finished()
        for seq, count in window.others.items():
            seq.recomputed += max(0, min(seq.base + count, seq.peak) - seq.base)
            seq.base += count
            if seq.base == seq.known:
                if seq.first_token_ns < 0:
                    seq.first_token_ns = self.now_ns
                if seq.base == seq.final:
                    batch.leave(seq)
                    seq.known += 1
                    finished.append(seq)
                else:
                    batch.decode(seq)
        finished.sort(key=lambda seq: seq.rank)
        if self._hold:
            for seq in finished:  # done, but all that it holds stays held
                self.spill += seq.room - seq.spill
                seq.spill = seq.room
            self._done += finished
            finished = []
            if not batch.running:
                finished, self._done = self._done, []
        for seq in finished:
            self._release(seq)
            seq.finish_ns = self.now_ns
        self.source.done(len(finished), self.now_ns)
        for observer in self._observers:
            observer.finished(self.steps, finished)
        self.steps += window.steps
        if self._progress is not None:
            self._progress(len(finished))

    def _fit(self, seq: Request) -> None:
        """Note the room that `seq` has got, and what of it will never be filled."""
        seq.room = room = self.allocator.room(seq)
        spill = room - seq.final if room > seq.final else 0
        self.spill += spill - seq.spill
        seq.spill = spill
        if seq.decoding:
            self.batch.ask(seq)

    def _release(self, seq: Request) -> None:
        self.allocator.release(seq)
        self.spill -= seq.spill
        seq.room = seq.spill = 0

    # The queue and the results.

    def _request(self, row: int, arrival_ns: int) -> Request:
        prompt, output, priority, end = (column[row] for column in self._columns)
        request = Request(row, prompt, output, priority, arrival_ns, end)
        self._requests[row] = request
        return request

    def _enqueue(self, seq: Request, *, front: bool = False) -> None:
        if self._rank is not None:
            insort(self.waiting, seq, key=self._rank)
        elif front:
            self.waiting.appendleft(seq)
        else:
            self.waiting.append(seq)

    def _recording(self) -> Recording:
        refused = self.source.refused
        for row in (refusal.row for refusal in refused):
            self._request(row, int(self.trace.arrival_ns[row]))
        rows = [self._requests[row] for row in range(len(self.trace))]
        status = np.where(
            self.trace.prompt + self.trace.output > self.max_len, Status.TRUNCATED, Status.FINISHED
        ).astype(np.int64)
        status[[refusal.row for refusal in refused]] = Status.REFUSED
        columns = {
            name: np.array([getattr(seq, name) for seq in rows], np.int64) for name in _RESULTS
        }
        generated = np.array([seq.tokens - seq.prompt for seq in rows], np.int64)
        blocks = self.allocator if isinstance(self.allocator, SupportsBlocks) else None
        return Recording(
            capacity=self.allocator.capacity,
            max_len=self.max_len,
            windows=self.recorder.windows(),
            starts=self.recorder.starts(),
            requests=Requests(generated=generated, status=status, **columns),
            refused=tuple(refused),
            free=() if blocks is None else tuple(blocks.free_blocks()),
        )


__all__ = ["FastEngine"]
