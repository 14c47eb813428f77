"""Observers beside the fast engine: shown every step of a window, jumps included.

A jump moves no counter of a sequence until it ends, so inside one only `now_ns`, the queue, and
what is held are those of the step that is shown; `computed` is that of the window's first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pagedsim.engine.request import Request
from pagedsim.engine.state import State
from pagedsim.protocols import Observer, Plan


class Watch:
    """Tells `observers` of each step once: `begin` after its allocations, `end` at its end.

    `arrive` puts what has arrived by now into the queue, as a step of its own would have seen it.
    """

    def __init__(
        self, observers: Iterable[Observer], state: State, arrive: Callable[[], None]
    ) -> None:
        self._observers = tuple(observers)
        self._state, self._arrive = state, arrive
        self._plan = Plan()
        self._step = self._start_ns = 0
        self._open = False

    def begin(self, step: int, plan: Plan) -> None:
        """The first step of a window has its slots."""
        self._plan, self._step, self._start_ns = self._spelt_out(plan), step, self._state.now_ns
        self._show()

    def next_ends(self, elapsed: int) -> None:
        """Inside a jump: a step is over, `elapsed` ns after the window's start."""
        self.end(())
        self._state.now_ns = self._start_ns + elapsed
        self._arrive()

    def next_begins(self) -> None:
        """Inside a jump: the step after it has its slots."""
        self._step += 1
        self._show()

    def end(self, done: Iterable[Request]) -> None:
        """The step shown last is over, if it is not known to be already."""
        if self._open:
            self._open = False
            for observer in self._observers:
                observer.finished(self._step, tuple(done))

    def _show(self) -> None:
        self._open = True
        for observer in self._observers:
            observer.scheduled(self._step, self._plan, self._state)

    def _spelt_out(self, plan: Plan) -> Plan:
        """The plan with everyone in `scheduled`, in scheduling order, which is running order."""
        if not plan.decoding:
            return plan
        scheduled = {
            seq: 1 if seq.decoding else plan.scheduled[seq]
            for seq in self._state.running
            if seq.decoding or seq in plan.scheduled
        }
        return Plan(scheduled, False, plan.preempted, plan.admitted, plan.blocked, plan.limit)


__all__ = ["Watch"]
