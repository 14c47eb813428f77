"""The reference engine: one step and one sequence at a time, nothing kept that can be recounted.

It is meant to be obviously right, and slow. `pagedsim.engine.fast` must equal it in every
recorded number, and shares no code with it. The loop is `ReferenceEngine.run`; one step::

    arrivals <= now   plan (takes slots)   count   time passes   yield   finish, release
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from pagedsim.engine.recording import BLOCKED, Recorder, Recording, Refusal, Window
from pagedsim.engine.reference_request import Request, results
from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import (
    Allocator,
    Load,
    Observer,
    Plan,
    Scheduler,
    StepTime,
    SupportsBlocks,
    SupportsHold,
    SupportsRank,
    SupportsSlots,
    fruitless_steps,
    headroom,
)
from pagedsim.trace.content import Content
from pagedsim.trace.trace import Trace

_ARRIVAL = attrgetter("arrival_ns", "id")


class ReferenceEngine:
    """One run. It is its own `View`: what a scheduler sees and does."""

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
    ) -> None:
        scheduler.check(max_len)
        self.trace, self.allocator, self.scheduler = trace, allocator, scheduler
        self.steptime, self.max_len = steptime, max_len
        self.observers, self.progress = list(observers), progress
        if concurrency and closed_loop:
            raise SpecError("concurrency and closed_loop contradict each other: give one")
        self.concurrency, self.closed_loop = concurrency, closed_loop
        self.now_ns = 0
        self.running: list[Any] = []
        self.waiting: Any = deque()
        self.done: list[Request] = []  # finished members of a batch that is held as a whole
        self.results: dict[int, Request] = {}
        self.refused: list[Refusal] = []
        self._coming: list[Request] = []  # in order of arrival, row
        self._unsent: deque[Request] = deque()  # under a fixed concurrency: not sent yet
        self._turns: dict[int, list[Request]] = {}  # in a closed loop: by row, those after it
        self.recorder = Recorder()
        self.steps = 0
        self._fruitless = 0
        self._rank = scheduler.rank if isinstance(scheduler, SupportsRank) else None
        self._hold = isinstance(scheduler, SupportsHold) and scheduler.hold

    # What a scheduler may do.

    def cached(self, seq: Any) -> int:
        return self.allocator.cached(seq)

    def headroom(self, share: float) -> int:
        return headroom(self.allocator, share)

    def admit(self, seq: Any, tokens: int, *, whole: int = 0, spare: int = 0) -> bool:
        hit = self.allocator.cached(seq)
        if not self.allocator.admit(seq, tokens, whole=whole, spare=spare):
            return False
        self.waiting.remove(seq)
        self.running.append(seq)
        seq.computed = hit
        if seq.admitted_ns < 0:
            seq.admitted_ns, seq.hit = self.now_ns, hit
        else:
            seq.resumed_hit += hit
        return True

    def grow(self, seq: Any, tokens: int) -> bool:
        return self.allocator.grow(seq, tokens)

    def preempt(self, seq: Any) -> None:
        self.allocator.release(seq)
        self.running.remove(seq)
        seq.computed = 0
        seq.preemptions += 1
        self._enqueue(seq, front=True)

    # The run.

    def run(self) -> Recording:
        """Replay the whole trace."""
        self._coming = self._accepted()
        while True:
            for seq in self._arrived():
                self._enqueue(seq, front=False)
                self._fruitless = 0
            if not self.running and not self.waiting:
                if not self._coming:
                    return self._recording()
                self.now_ns = self._coming[0].arrival_ns
                continue
            for seq in self._step():
                if self._unsent:
                    self._coming.append(self._send())
                self._turns_after(seq, self.now_ns)

    def _accepted(self) -> list[Request]:
        """Refuse what can never run; who arrives without waiting (in a closed loop refused too)."""
        good = []
        content = Content(self.trace)
        for row in range(len(self.trace)):
            request = Request(self.trace, content, row, self.max_len)
            self.results[row] = request
            if request.prompt >= self.max_len:
                self.refused.append(Refusal(row, "prompt", request.prompt, self.max_len - 1))
            elif request.final > self.allocator.longest:
                bound = self.allocator.longest
                self.refused.append(Refusal(row, "capacity", request.final, bound))
            else:
                good.append(request)
        if self.concurrency:
            self._unsent.extend(good)
            return [self._send() for _ in range(min(self.concurrency, len(good)))]
        if self.closed_loop:
            for seq in self.results.values():
                self._turns.setdefault(max(-1, int(self.trace.parent[seq.id])), []).append(seq)
            return self._turns.pop(-1, [])
        return good

    def _arrived(self) -> list[Request]:
        """Who has arrived by now, in order; a refused one is done when it arrives."""
        arrived = []
        while self._coming and self._coming[0].arrival_ns <= self.now_ns:
            seq = self._coming.pop(0)
            if self.closed_loop and any(refusal.row == seq.id for refusal in self.refused):
                self._turns_after(seq, seq.arrival_ns)
            else:
                arrived.append(seq)
        return sorted(arrived, key=_ARRIVAL)

    def _send(self) -> Request:
        """Under a fixed concurrency a request arrives when an earlier one is done."""
        request = self._unsent.popleft()
        request.arrival_ns = self.now_ns
        return request

    def _turns_after(self, seq: Request, done_ns: int) -> None:
        """In a closed loop: the turns after `seq`, which is done, have a time to arrive at."""
        for turn in self._turns.get(seq.id, []):
            think = int(self.trace.think_ns[turn.id])
            turn.arrival_ns = max(turn.arrival_ns, done_ns + (0 if think < 0 else think))
            bisect.insort(self._coming, turn, key=_ARRIVAL)

    def _step(self) -> list[Request]:
        """One step; returns the requests that returned their results."""
        plan = self.scheduler.plan(self)
        if not plan.scheduled and not plan.preempted:
            raise ContractError(
                f"step {self.steps}: nothing was scheduled while {len(self.waiting)} requests "
                f"wait and {len(self.running)} run ({type(self.scheduler).__name__} over "
                f"{type(self.allocator).__name__})"
            )
        for observer in self.observers:
            observer.scheduled(self.steps, plan, self)
        load = self._load(plan)
        duration = int(self.steptime.ns(load))
        if duration < 1:
            raise ContractError(f"step {self.steps}: {load} takes {duration} ns, must be >= 1")
        self._record(plan, load, duration)
        self.now_ns += duration
        self._fruitless += 1  # until a token is yielded
        finished = [seq for seq, tokens in plan.scheduled.items() if self._advance(seq, tokens)]
        self.done += finished
        released: list[Request] = []
        if not self._hold or not self.running:
            released = self._release(self.done)
        for observer in self.observers:
            observer.finished(self.steps, released)
        if self._fruitless > fruitless_steps(self.max_len):
            raise ContractError(
                f"step {self.steps}: no token in {self._fruitless} steps; {len(self.running)} "
                f"requests run, {len(self.waiting)} wait and preempt each other without end"
            )
        self.steps += 1
        if self.progress is not None:
            self.progress(len(released))
        return released

    def _load(self, plan: Plan) -> Load:
        prefills = tokens = pairs = context = 0
        for seq, count in plan.scheduled.items():
            stored = seq.computed
            prefills += not (count == 1 and stored + 1 == seq.tokens)
            tokens += count
            pairs += count * stored + count * (count + 1) // 2
            context += stored + count
        return Load(len(plan.scheduled), prefills, tokens, pairs, context)

    def _record(self, plan: Plan, load: Load, duration: int) -> None:
        """The account of every slot, counted from nothing."""
        held, cached, shared, lost = self.allocator.usage()
        stored_all = internal = reserved = 0
        for seq in self.running:
            stored = seq.computed + plan.scheduled.get(seq, 0)
            room = self.allocator.room(seq)
            stored_all += stored
            internal += max(0, room - max(seq.final, stored))
            reserved += max(0, min(room, seq.final) - stored)
        for seq in self.done:
            internal += self.allocator.room(seq)
        if self.done and shared:  # what the done share with others is theirs no longer
            shared = stored_all - self._distinct(plan)
            internal = held - lost - (stored_all - shared) - reserved
        live = stored_all - shared
        reserved = held - lost - live - internal
        free = self.allocator.capacity - held - cached
        if min(live, reserved, free) < 0:
            raise ContractError(
                f"step {self.steps}: live {live}, reserved {reserved}, internal {internal}, free "
                f"{free}: none may be negative ({type(self.allocator).__name__}, held {held}, "
                f"cached {cached}, shared {shared}, lost {lost})"
            )
        self.recorder.add(
            Window(
                step=self.steps,
                steps=1,
                start_ns=self.now_ns,
                end_ns=self.now_ns + duration,
                batch=len(self.running),
                **load._asdict(),
                live=live,
                reserved=reserved,
                internal=internal,
                external=lost + (free if plan.blocked else 0),
                cached=cached,
                shared=shared,
                ramp_ns=0,
                held=held,
                limit=plan.limit + (BLOCKED if plan.blocked else 0),
            )
        )

    def _distinct(self, plan: Plan) -> int:
        """Slots that hold a token of a running sequence, each once."""
        assert isinstance(self.allocator, SupportsSlots), "sharing without slots to show"
        slots: set[int] = set()
        for seq in self.running:
            stored = seq.computed + plan.scheduled.get(seq, 0)
            slots.update(self.allocator.slots(seq)[:stored].tolist())
        return len(slots)

    def _advance(self, seq: Any, count: int) -> bool:
        """Store `count` tokens, yield one if all are stored; True if that was the last."""
        seq.recomputed += max(0, min(seq.computed + count, seq.peak) - seq.computed)
        seq.computed += count
        seq.peak = max(seq.peak, seq.computed)
        if seq.computed < seq.tokens:
            return False
        seq.tokens += 1
        self._fruitless = 0
        if seq.first_token_ns < 0:
            seq.first_token_ns = self.now_ns
        if seq.tokens < seq.end:
            return False
        self.running.remove(seq)
        return True

    def _release(self, finished: list[Request]) -> list[Request]:
        for seq in finished:
            self.allocator.release(seq)
            seq.finish_ns = self.now_ns
        self.done = []
        return finished

    def _enqueue(self, seq: Any, *, front: bool) -> None:
        if self._rank is not None:
            ranks = [self._rank(other) for other in self.waiting]
            self.waiting.insert(bisect.bisect_right(ranks, self._rank(seq)), seq)
        elif front:
            self.waiting.appendleft(seq)
        else:
            self.waiting.append(seq)

    def _recording(self) -> Recording:
        rows = [self.results[row] for row in range(len(self.trace))]
        free = self.allocator.free_blocks() if isinstance(self.allocator, SupportsBlocks) else ()
        return Recording(
            capacity=self.allocator.capacity,
            max_len=self.max_len,
            windows=self.recorder.windows(),
            requests=results(rows, {refusal.row for refusal in self.refused}, self.max_len),
            refused=tuple(self.refused),
            free=tuple(free),
        )


__all__ = ["ReferenceEngine"]
