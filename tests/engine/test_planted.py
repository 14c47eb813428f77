"""Mistakes planted in the fast engine, each of which the property must find within its examples.

A plant replaces one method by one that is wrong in one way. Where the engine's parts are renamed
a plant fails loudly, for there is nothing left to replace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cases import Endless, cases, examples
from hypothesis import HealthCheck, Phase, given, settings

from pagedsim.engine import fast as fast_module
from pagedsim.engine import glide as glide_module
from pagedsim.engine import jump as jump_module
from pagedsim.engine.batch import Batch
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.jump import Pricer
from pagedsim.engine.recording import Recorder
from pagedsim.engine.schedulers import orca as orca_module
from pagedsim.engine.schedulers import vllm as vllm_module
from pagedsim.engine.source import Source
from pagedsim.engine.state import State
from pagedsim.protocols import Load

Plant = Callable[[pytest.MonkeyPatch], None]
PLANTS: dict[str, Plant] = {}


def plant(function: Plant) -> Plant:
    PLANTS[function.__name__.replace("_", " ").strip()] = function
    return function


def wrap(patch: pytest.MonkeyPatch, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace ``owner.name`` by ``make(what it was)``."""
    patch.setattr(owner, name, make(getattr(owner, name)))


def wrap_jump(patch: pytest.MonkeyPatch, make: Any) -> None:
    """Wherever a jump is made from."""
    for module in (fast_module, glide_module):
        wrap(patch, module, "jump", make)


@plant
def one_step_too_many(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, Batch, "steps_left", lambda was: lambda self: was(self) + 1)


@plant
def a_jump_passes_the_next_arrival(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        return lambda self: self.env.peek() - self.state.now_ns

    wrap(patch, FastEngine, "_horizon", make)


@plant
def an_arrival_on_a_step_is_seen_a_step_late(patch: pytest.MonkeyPatch) -> None:
    """By a jump: it takes the step that starts when the request arrives."""
    wrap(patch, FastEngine, "_horizon", lambda was: lambda self: was(self) + 1)


@plant
def an_arrival_at_a_planned_step_is_seen_late(patch: pytest.MonkeyPatch) -> None:
    """By the queue, however long the window is."""

    def make(was: Any) -> Any:
        def arrived(self: Source, now_ns: int) -> Any:
            idle = now_ns == self.next_ns() and now_ns != self.__dict__.get("last")
            self.__dict__["last"] = now_ns
            return [] if idle and now_ns else was(self, now_ns)

        return arrived

    wrap(patch, Source, "arrived", make)


@plant
def an_arrival_ahead_of_an_ordered_queue_ends_no_jump(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        def horizon(self: FastEngine) -> float:
            rank, self.state.rank = self.state.rank, None
            try:
                return float(was(self))
            finally:
                self.state.rank = rank

        return horizon

    wrap(patch, FastEngine, "_horizon", make)


@plant
def the_price_of_the_first_step_for_all(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        def jump(state: Any, pricer: Any, recorder: Any, load: Load, *more: Any) -> Any:
            price = pricer.one(load)
            same = Pricer(pricer)
            same.one = lambda _: price  # type: ignore[method-assign]
            same.ramp = None
            return was(state, same, recorder, load, *more)

        return jump

    patch.setattr(Pricer, "ns", Pricer.one, raising=False)
    wrap_jump(patch, make)


@plant
def a_ramp_is_priced_one_step_late(patch: pytest.MonkeyPatch) -> None:
    """Only jumps beyond a few steps ask for ramps."""

    def make(was: Any) -> Any:
        def init(self: Pricer, steptime: Any) -> None:
            was(self, steptime)
            if self.ramp is not None:
                ramp = self.ramp

                def late(load: Load, steps: int) -> Any:
                    more = load.sequences
                    return ramp(
                        load._replace(pairs=load.pairs + more, context=load.context + more), steps
                    )

                self.ramp = late

        return init

    wrap(patch, Pricer, "__init__", make)


@plant
def pairs_do_not_grow_in_a_jump(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        def jump(state: Any, pricer: Any, recorder: Any, load: Load, *more: Any) -> Any:
            one = pricer.one
            pricer.one = lambda later: one(later._replace(pairs=load.pairs))
            try:
                return was(state, pricer, recorder, load, *more)
            finally:
                pricer.one = one

        return jump

    wrap_jump(patch, make)


def _places(shift: int) -> Any:
    """`place` that notes another tick, by way of the room that it reads."""

    def make(was: Any) -> Any:
        def place(self: Batch, seq: Any) -> None:
            seq.given += shift
            was(self, seq)
            seq.given -= shift

        return place

    return make


@plant
def blocks_start_a_step_late(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, Batch, "place", _places(1))


@plant
def blocks_start_a_step_early(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, Batch, "place", _places(-1))


@plant
def a_start_is_recorded_a_step_late(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        return lambda self, offset, at_ns, grown: was(self, offset + 1, at_ns, grown)

    wrap(patch, Recorder, "add_start", make)


@plant
def a_start_is_not_recorded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recorder, "add_start", lambda self, offset, at_ns, grown: None)


@plant
def a_start_spills_nothing(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        return lambda self, offset, at_ns, grown: was(
            self, offset, at_ns, (grown[0], 0, *grown[2:])
        )

    wrap(patch, Recorder, "add_start", make)


@plant
def a_start_belongs_to_the_window_before(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        def add_start(self: Recorder, *row: Any) -> None:
            self.windows._count -= 1
            was(self, *row)
            self.windows._count += 1

        return add_start

    wrap(patch, Recorder, "add_start", make)


@plant
def spill_is_one_too_many(patch: pytest.MonkeyPatch) -> None:
    """As if the last token were stored."""

    def make(was: Any) -> Any:
        def fit(self: State, seq: Any, tokens: int) -> None:
            seq.final += 1
            was(self, seq, tokens)
            seq.final -= 1

        return fit

    wrap(patch, State, "fit", make)


@plant
def spill_stays_after_a_release(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        def release(self: State, seq: Any) -> None:
            seq.spill = 0
            was(self, seq)

        return release

    wrap(patch, State, "release", make)


@plant
def held_members_keep_their_reserve(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, State, "keep", lambda was: lambda self, seq: None)


@plant
def stale_entries_of_the_preempted(patch: pytest.MonkeyPatch) -> None:
    """Who has left still asks for room when it would have run out of it."""
    wrap(patch, Batch, "unplace", lambda was: lambda self, seq: None)


@plant
def the_preempted_spill_all_the_same(patch: pytest.MonkeyPatch) -> None:
    """What the last block of one that is preempted would have spilt is counted at its tick."""
    wrap(patch, State, "_unspill", lambda was: lambda self, seq: None)


@plant
def those_left_out_spill_as_if_they_had_not_been(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        def hold_back(self: State, seq: Any) -> None:
            seq.given = self.allocator.room(seq)
            self.batch.hold_back(seq)

        return hold_back

    wrap(patch, State, "hold_back", make)


@plant
def all_who_are_due_together_lack_a_block(patch: pytest.MonkeyPatch) -> None:
    """Though some have theirs already."""
    wrap(patch, Batch, "ahead", lambda was: lambda self, *given: None)


@plant
def nobody_has_more_than_a_block_ahead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Batch, "uneven", property(lambda self: False, lambda self, value: None), False)


@plant
def who_is_served_asks_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "_served", property(lambda self: -1, lambda self, tick: None), False)


@plant
def a_stale_last_step_of_the_preempted(patch: pytest.MonkeyPatch) -> None:
    """Who has left still ends a window, and one that is back finishes when it would have."""

    def make(was: Any) -> Any:
        def leave(self: Batch, seq: Any) -> None:
            last = seq.last
            was(self, seq)
            seq.last = last

        return leave

    def finished(was: Any) -> Any:
        def done(self: Batch) -> Any:
            running = set(self.running)
            self._last = [entry for entry in self._last if entry[2] in running]
            return was(self)

        return done

    wrap(patch, Batch, "leave", make)
    wrap(patch, Batch, "finished", finished)


@plant
def those_left_out_of_a_step_move_on(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, Batch, "hold_back", lambda was: lambda self, seq: None)


@plant
def those_left_out_keep_their_last_step(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        def hold_back(self: Batch, seq: Any) -> None:
            last = seq.last
            was(self, seq)
            seq.last = last

        return hold_back

    wrap(patch, Batch, "hold_back", make)


@plant
def the_finished_in_no_order(patch: pytest.MonkeyPatch) -> None:
    """Those that decode first, then the others, as they are found."""
    patch.setattr(fast_module, "_RANK", lambda seq: 0)


@plant
def the_finished_in_running_order_whatever_the_plan(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        def complete(self: FastEngine, *given: Any) -> None:
            self._order = None
            was(self, *given)

        return complete

    wrap(patch, FastEngine, "_complete", make)


@plant
def recomputation_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        def preempt(self: State, seq: Any) -> None:
            peak = seq.peak
            was(self, seq)
            seq.peak = peak

        return preempt

    wrap(patch, State, "preempt", make)


@plant
def the_preempted_go_to_the_back(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, State, "enqueue", lambda was: lambda self, seq, *, front=False: was(self, seq))


@plant
def a_jump_beside_those_left_out(patch: pytest.MonkeyPatch) -> None:
    """It forgets that some decode and have no part in it."""
    wrap(
        patch,
        fast_module,
        "step_of",
        lambda was: lambda plan, batch: was(plan, batch)._replace(behind=[]),
    )


@plant
def a_concurrency_sends_one_too_few(patch: pytest.MonkeyPatch) -> None:
    wrap(
        patch,
        Source,
        "done",
        lambda was: lambda self, requests, now_ns: was(self, max(1, requests - 1), now_ns),
    )


def test_a_sound_engine_is_not_found_wrong() -> None:
    hunt(60)


@plant
def the_first_of_the_batch_makes_room(patch: pytest.MonkeyPatch) -> None:
    def grow_together(batch: Any, plan: Any, wants: dict[Any, int]) -> bool:
        while not batch.grow_all(wants):
            first = batch.running[0]
            batch.preempt(first)
            plan.preempted.append(first)
            wants.pop(first, None)
        return True

    for module in (vllm_module, orca_module):
        patch.setattr(module, "grow_together", grow_together)


@plant
def one_preemption_is_taken_to_be_enough(patch: pytest.MonkeyPatch) -> None:
    def grow_together(batch: Any, plan: Any, wants: dict[Any, int]) -> bool:
        if not batch.grow_all(wants):
            last = batch.running[-1]
            batch.preempt(last)
            plan.preempted.append(last)
            wants.pop(last, None)
        return True

    for module in (vllm_module, orca_module):
        patch.setattr(module, "grow_together", grow_together)


def hunt(most: int) -> None:
    """AssertionError at the first example on which the engines differ."""

    @settings(
        max_examples=most,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(case=cases(short=True))
    @examples
    def search(case: Any) -> None:
        try:
            case.check()
        except Endless:
            return

    search()


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[name](monkeypatch)
    with pytest.raises(AssertionError):
        hunt(600)


@pytest.mark.parametrize("few", [1, 2, 3])
def test_the_number_of_steps_priced_singly_does_not_matter(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ramps from the first steps on: no mistake, and so not found."""
    monkeypatch.setattr(jump_module, "_FEW", few)
    monkeypatch.setattr(jump_module, "_MANY", 2 * few)
    hunt(60)
