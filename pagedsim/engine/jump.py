"""Many steps at once: how far nothing but lengths can change, each step priced for itself.

The first step of the window is planned and has its slots. Step j joins it if it starts before the
next event from outside that matters, nobody finishes before it, and all who ask for room in it
get it::

    start_ns                            horizon (an arrival, say)
    | step 0 | step 1 |  ...  | step k-1  |      step k-1 starts before, so it did not see it
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pagedsim.engine.recording import Recorder
from pagedsim.engine.state import State
from pagedsim.errors import ContractError
from pagedsim.protocols import Load, StepTime, SupportsRamp, Usage

_FEW = 16  # so many steps are priced one by one, for most windows are short
_MANY = 1 << 16


class Jump(NamedTuple):
    """What a window spans: steps, ns, and Σ j · ns of step j."""

    steps: int
    duration: int
    ramp_ns: int


class Pricer:
    """A step-time model, held to its contract."""

    def __init__(self, steptime: StepTime) -> None:
        self._ns = steptime.ns
        self._ramp = steptime.ramp if isinstance(steptime, SupportsRamp) else None

    def one(self, load: Load) -> int:
        """ns of one step."""
        duration = int(self._ns(load))
        if duration < 1:
            raise ContractError(f"step time: {load} takes {duration} ns, must be >= 1")
        return duration

    def many(self, load: Load, steps: int) -> Iterator[int]:
        """ns of each of `steps` decode steps of the same sequences; few may be wanted of them."""
        sequences, prefills, tokens, pairs, context = load
        done, portion = 0, _FEW
        while done < steps:
            portion = min(portion, steps - done)
            if self._ramp is not None and done:
                yield from self._ramp(Load(*load[:3], pairs, context), portion).tolist()
                pairs += portion * sequences
                context += portion * sequences
            else:
                for _ in range(portion):
                    yield self.one(Load(sequences, prefills, tokens, pairs, context))
                    pairs += sequences
                    context += sequences
            done += portion
            portion = min(4 * portion, _MANY)


def jump(
    state: State, pricer: Pricer, recorder: Recorder, load: Load, usage: Usage, horizon: float
) -> Jump:
    """Take as many whole steps as nothing can change in, at least one.

    `usage` is that of the first step, `horizon` the ns from now until something from outside could
    change a step. Slots taken on the way are recorded as starts of the window to be added next.
    What was taken before a refusal stays: planning that step takes the same, in the same order.
    """
    batch, allocator = state.batch, state.allocator
    steps, elapsed, ramp = 0, 0, 0
    held, spill = usage.held, state.spill
    for duration in pricer.many(load, batch.steps_left()):
        if steps:
            if elapsed >= horizon:
                break
            asking = batch.starting(steps)
            if asking is not None:
                if not state.grow_decoding(asking, steps):
                    break
                now = allocator.usage()
                if now[1:] != usage[1:]:  # more than what is held has changed
                    break
                row = (len(recorder), steps, elapsed, now.held - held, state.spill - spill)
                recorder.add_starts(row)
                held, spill = now.held, state.spill
            ramp += steps * duration
        elapsed += duration
        steps += 1
    return Jump(steps, elapsed, ramp)


__all__ = ["Jump", "Pricer", "jump"]
