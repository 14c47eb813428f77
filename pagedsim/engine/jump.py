"""Many steps at once: how far nothing but lengths can change, each step priced for itself.

The first step of the window is planned and has its slots. Step j joins it if it starts before the
next event from outside that matters, nobody finishes before it, and all who ask for room in it
get it::

    start_ns                            horizon (an arrival, say)
    | step 0 | step 1 |  ...  | step k-1  |      step k-1 starts before, so it did not see it
"""

from __future__ import annotations

from typing import Final

from pagedsim.engine.recording import Recorder
from pagedsim.engine.state import State
from pagedsim.engine.watch import Watch
from pagedsim.errors import ContractError
from pagedsim.protocols import Load, StepTime, SupportsFew, SupportsRamp

_FIRST: Final = 4  # steps are priced in portions, a small one first, for most windows are short
_FEW: Final = 16  # from there on an array is worth its cost
_MANY: Final = 1 << 16


class Pricer:
    """A step-time model, held to its contract."""

    def __init__(self, steptime: StepTime) -> None:
        self._ns = steptime.ns
        self.few = steptime.few if isinstance(steptime, SupportsFew) else None
        self.ramp = steptime.ramp if isinstance(steptime, SupportsRamp) else None

    def one(self, load: Load) -> int:
        """ns of one step."""
        duration = int(self._ns(load))
        if duration < 1:
            raise ContractError(f"step time: {load} takes {duration} ns, must be >= 1")
        return duration

    def ahead(self, load: Load, steps: int) -> list[int]:
        """ns of `load` and of the next decode steps of the same sequences, the last of them first.

        At most `steps`, but fewer where they can only be had one by one: few may be wanted.
        """
        if steps > _FEW and self.ramp is not None:
            durations: list[int] = self.ramp(load, steps).tolist()
        elif self.few is not None:
            durations = self.few(load, steps)
        else:
            return [self.one(load)]
        if len(durations) != steps or min(durations) < 1:
            raise ContractError(
                f"step time: {steps} steps from {load} are {len(durations)}, the shortest of "
                f"{min(durations, default=0)} ns; must be {steps} of >= 1"
            )
        durations.reverse()
        return durations


def jump(
    state: State,
    pricer: Pricer,
    recorder: Recorder,
    load: Load,
    horizon: int,
    watch: Watch | None = None,
) -> tuple[int, int, int]:
    """Take as many whole steps as nothing can change in, at least one: steps, ns, Σ j · ns of j.

    `horizon` is the ns from now until something from outside could change a step. Slots taken on
    the way are recorded as starts of the window to be added next.
    What was taken before a refusal stays: planning that step takes the same, in the same order.
    """
    batch = state.batch
    left, tick, due, period = batch.steps_left(), batch.clock.tick, batch.due, batch.period
    fills = state.fills
    sequences, prefills, tokens, pairs, context = load
    portion = min(_FIRST, left)
    prices = pricer.ahead(load, portion)  # of the next steps, the nearest last
    elapsed = prices.pop()
    steps, ramp_ns, stirs = 1, 0, False
    while steps < left and elapsed < horizon:
        if watch is not None:
            watch.next_ends(elapsed)
        at = tick + steps
        if at % period in due or (fills and (at + 1) % period in due):
            grown = state.grow_decoding(steps)
            stirs = grown is not None and state.head_stirs()
            if grown is None or (stirs and not state.head_first):
                break
            if grown:
                recorder.add_start(steps, elapsed, grown)
        if not prices:
            portion = min(4 * portion, left - steps, _MANY)
            more = steps * sequences
            ahead = tuple.__new__(Load, (sequences, prefills, tokens, pairs + more, context + more))
            prices = pricer.ahead(ahead, portion)
        duration = prices.pop()
        if watch is not None:
            watch.next_begins()
        ramp_ns += steps * duration
        elapsed += duration
        steps += 1
        if stirs:
            break
    return steps, elapsed, ramp_ns


__all__ = ["Pricer", "jump"]
