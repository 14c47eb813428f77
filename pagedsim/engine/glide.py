"""Window after window while the queue is empty and all that run decode: nobody need be asked.

Until the next arrival every plan would be the same: each gets its token. So a finish only starts
the next window, and the scheduler is not called; it has promised as much (`SupportsSteady`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pagedsim.engine.account import terms
from pagedsim.engine.jump import Pricer, jump
from pagedsim.engine.recording import Recorder
from pagedsim.engine.request import Request
from pagedsim.engine.state import State
from pagedsim.protocols import Limit, Load

_NOBODY: Final[dict[Any, int]] = {}


def glide(
    state: State,
    horizon: Callable[[], int],
    pricer: Pricer,
    recorder: Recorder,
    step: int,
    finish: Callable[[list[Request]], None],
) -> int:
    """Take steps from ``state.now_ns`` on, and move it; `step` is the number of the first.

    `horizon` says for how many ns nothing comes from outside. Ends at an arrival, when nothing
    runs any more, or before a step in which somebody might be refused room: that one needs a plan.
    `finish` is called at the end of each window that somebody finishes at. Returns the number of
    the next step.
    """
    batch, groups = state.batch, state.groups
    while batch.decoding:
        now = state.now_ns
        until = horizon()
        if until <= 0 or not state.grow_all(_NOBODY):
            break
        decoding = batch.decoding
        stored = batch.stored + decoding
        live, reserved, spill, lost, cached, shared, held, _ = terms(state, decoding, _NOBODY, step)
        # half the time of Load(…)
        load = tuple.__new__(Load, (decoding, 0, decoding, stored, stored))
        steps, duration, ramp_ns = jump(state, pricer, recorder, load, until)
        end = now + duration
        recorder.windows.add(
            (steps, now, end, decoding, decoding, 0, decoding, stored, stored,
             live, reserved, spill, lost, cached, shared, ramp_ns, held, Limit.ARRIVALS)
        )  # fmt: skip
        if groups is not None:
            recorder.add_apart(groups.apart)
        step += steps
        state.now_ns = end
        batch.advance(steps)
        if finished := batch.finished():
            finish(finished)
    return step


__all__ = ["glide"]
