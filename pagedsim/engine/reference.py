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
from typing import Any, cast

from pagedsim.engine.recording import Recorder, Recording, Refusal
from pagedsim.engine.reference_account import record
from pagedsim.engine.reference_request import Group, Inputs, Request, results
from pagedsim.engine.sampling import check_samples
from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import (
    Allocator,
    Observer,
    Scheduler,
    StepTime,
    SupportsBlocks,
    SupportsFork,
    SupportsGroups,
    SupportsHold,
    SupportsRank,
    evicted,
    fruitless_steps,
    headroom,
    nobody_scheduled,
    without_end,
)
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
        check_samples(trace, allocator, scheduler)
        self.trace, self.allocator, self.scheduler = trace, allocator, scheduler
        self._trims = isinstance(allocator, SupportsGroups)
        self.steptime, self.max_len = steptime, max_len
        self.observers, self.progress = list(observers), progress
        if concurrency and closed_loop:
            raise SpecError("concurrency and closed_loop contradict each other: give one")
        self.concurrency, self.closed_loop = concurrency, closed_loop
        self.now_ns = 0
        self.running: list[Any] = []
        self.waiting: Any = deque()
        self.done: list[Request] = []  # finished members of a batch that is held as a whole
        self.results: dict[int, Group] = {}
        self.refused: list[Refusal] = []
        self._coming: list[Group] = []  # in order of arrival, row
        self._unsent: deque[Group] = deque()  # under a fixed concurrency: not sent yet
        self._turns: dict[int, list[Group]] = {}  # in a closed loop: by row, those after it
        self.recorder = Recorder()
        self.steps = 0
        self._fruitless = 0
        self._rank = scheduler.rank if isinstance(scheduler, SupportsRank) else None
        self._hold = isinstance(scheduler, SupportsHold) and scheduler.hold
        self.state_block = getattr(allocator, "state_block", 0)

    # What a scheduler may do.

    def cached(self, seq: Any) -> int:
        return self.allocator.cached(seq)

    def headroom(self, share: float) -> int:
        return headroom(self.allocator, share)

    def admit(self, seq: Any, tokens: int, *, whole: int = 0, spare: int = 0) -> bool:
        hit = self.allocator.cached(seq)
        group = seq.group
        if whole and len(group.left) > 1 and group.first_token_ns >= 0:
            whole, spare = group.asks(whole, spare)
        if not self.allocator.admit(seq, tokens, whole=whole, spare=spare):
            return False
        self.waiting.remove(seq)
        self.running.append(seq)
        seq.computed = hit
        if group.admitted_ns < 0:
            group.admitted_ns, group.hit = self.now_ns, hit
        else:
            group.resumed_hit += hit
        return True

    def grow(self, seq: Any, tokens: int) -> bool:
        if self._trims:
            cast(SupportsGroups, self.allocator).trim(seq, seq.computed)
        return self.allocator.grow(seq, tokens)

    @property
    def pledged(self) -> int:
        return sum(self.width(seq) - 1 for seq in self.running if not seq.group.split)

    def width(self, seq: Any) -> int:
        return len(seq.group.left)

    def preempt(self, seq: Any) -> list[Request]:
        gone = [other for other in self.running if other.group is seq.group]
        for other in gone:
            self.allocator.release(other)
            self.running.remove(other)
        for other in seq.group.left:
            other.computed = 0
        seq.group.preemptions += 1
        seq.group.rejoin()
        self._enqueue(seq.group.left[0], front=True)
        return gone

    # The run.

    def run(self) -> Recording:
        """Replay the whole trace."""
        self._coming = self._accepted()
        while True:
            for request in self._arrived():
                self._enqueue(request.left[0], front=False)
                self._fruitless = 0
            if not self.running and not self.waiting:
                if not self._coming:
                    return self._recording()
                self.now_ns = self._coming[0].arrival_ns
                continue
            for request in self._step():
                if self._unsent:
                    self._coming.append(self._send())
                self._turns_after(request, self.now_ns)

    def _accepted(self) -> list[Group]:
        """Refuse what can never run; who arrives without waiting (in a closed loop refused too)."""
        good = []
        inputs = Inputs(self.trace, self.max_len, self.allocator, self.scheduler)
        for row in range(len(self.trace)):
            request = Group(inputs, row)
            self.results[row] = request
            if refusal := request.refusal(self.allocator.longest, self.allocator.capacity):
                self.refused.append(refusal)
            else:
                good.append(request)
        inputs.foresee(self.allocator, [refusal.row for refusal in self.refused])
        if self.concurrency:
            self._unsent.extend(good)
            return [self._send() for _ in range(min(self.concurrency, len(good)))]
        if self.closed_loop:
            for seq in self.results.values():
                self._turns.setdefault(max(-1, int(self.trace.parent[seq.id])), []).append(seq)
            return self._turns.pop(-1, [])
        return good

    def _arrived(self) -> list[Group]:
        """Who has arrived by now, in order; a refused one is done when it arrives."""
        arrived = []
        while self._coming and self._coming[0].arrival_ns <= self.now_ns:
            seq = self._coming.pop(0)
            if self.closed_loop and any(refusal.row == seq.id for refusal in self.refused):
                self._turns_after(seq, seq.arrival_ns)
            else:
                arrived.append(seq)
        return sorted(arrived, key=_ARRIVAL)

    def _send(self) -> Group:
        """Under a fixed concurrency a request arrives when an earlier one is done."""
        request = self._unsent.popleft()
        request.arrival_ns = self.now_ns
        return request

    def _turns_after(self, seq: Group, done_ns: int) -> None:
        """In a closed loop: the turns after `seq`, which is done, have a time to arrive at."""
        for turn in self._turns.get(seq.id, []):
            think = int(self.trace.think_ns[turn.id])
            turn.arrival_ns = max(turn.arrival_ns, done_ns + (0 if think < 0 else think))
            bisect.insort(self._coming, turn, key=_ARRIVAL)

    def _step(self) -> list[Group]:
        """One step; returns the requests that returned their results."""
        plan = self.scheduler.plan(self)
        if not plan.scheduled and not plan.preempted:
            raise ContractError(nobody_scheduled(self.steps, self, self.scheduler, self.allocator))
        for observer in self.observers:
            observer.scheduled(self.steps, plan, self)
        self.now_ns += record(self, plan)
        self._fruitless += 1  # until a token is yielded
        for seq, tokens in plan.scheduled.items():
            self.done += self._advance(seq, tokens)
        released, returned = list[Request](), list[Group]()
        if not self._hold or not self.running:
            released, self.done = self.done, []
            returned = self._release(released)
        for observer in self.observers:
            observer.finished(self.steps, released)
        if self._fruitless > fruitless_steps(self.max_len):
            raise ContractError(
                without_end(self.steps, self._fruitless, len(self.running), len(self.waiting))
            )
        self.steps += 1
        if self.progress is not None:
            self.progress(len(returned))
        return returned

    def _advance(self, seq: Any, count: int) -> list[Request]:
        """Store `count` tokens; whoever has stored all it knows yields one. Who is done by that."""
        group = seq.group
        group.recomputed += max(0, min(seq.computed + count, seq.peak) - seq.computed)
        seq.computed += count
        seq.peak = max(seq.peak, seq.computed)
        if seq.computed < seq.tokens:
            return []
        forks = not group.split
        together = group.left if forks or group.beam else [seq]
        if forks:
            group.split = True
            for other in together:
                other.computed = seq.computed
                other.peak = max(other.peak, seq.computed)
        ready = [other for other in together if other.computed == other.known]
        if group.beam and len(ready) < len(together):
            ready = []  # beams yield together
        for other in ready:
            other.known += 1
            self._fruitless = 0
            if group.first_token_ns < 0:
                group.first_token_ns = self.now_ns
        done = [other for other in ready if other.known == other.end]
        if done:
            group.left = [other for other in group.left if other not in done]
        if forks:
            self._fork(seq, [other for other in group.left if other is not seq])
        if ready and group.beam and not done:
            self._replace(group)
        ended = [other for other in done if other in self.running]
        for other in ended:
            self.running.remove(other)
        group.held += len(ended)
        return ended

    def _fork(self, seq: Any, others: list[Request]) -> None:
        """`others` of the request hold what `seq` stores, and follow it."""
        if others:
            at = self.running.index(seq) + 1
            for other in others:
                self._forks().fork(seq, other, seq.computed)
            self.running[at:at] = others

    def _replace(self, group: Group) -> None:
        """Beams that die are released, and forks of others take their places."""
        pairs = group.forks.get(group.left[0].known - group.prompt, [])
        for slot, _ in pairs:
            self.allocator.release(group.members[slot])
        for slot, parent in pairs:
            dead, alive = group.members[slot], group.members[parent]
            child = alive.fork()
            self._forks().fork(alive, child, alive.computed)
            self.running[self.running.index(dead)] = child
            group.left[group.left.index(dead)] = child
            group.members[slot] = child

    def _forks(self) -> SupportsFork:
        assert isinstance(self.allocator, SupportsFork)
        return self.allocator

    def _release(self, finished: list[Request]) -> list[Group]:
        """Give back what they hold; requests of which nothing is left."""
        returned = []
        for seq in finished:
            self.allocator.release(seq)
            seq.group.held -= 1
            if not seq.group.left and not seq.group.held:
                seq.group.finish_ns = self.now_ns
                returned.append(seq.group)
        return returned

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
            **self.recorder.tables(),
            requests=results(rows, {refusal.row for refusal in self.refused}, self.max_len),
            refused=tuple(self.refused),
            free=tuple(free),
            evicted=evicted(self.allocator),
        )


__all__ = ["ReferenceEngine"]
