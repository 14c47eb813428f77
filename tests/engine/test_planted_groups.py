"""Mistakes planted in how the fast engine accounts for groups of layers, each of which is found.

As in `test_planted`: a plant replaces one thing by another that is wrong in one way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from grouped import check, families, runs
from hypothesis import HealthCheck, Phase, given, settings

from pagedsim.alloc import grouped_windows
from pagedsim.alloc.grouped_pool import GroupedPool
from pagedsim.engine.batch import Batch
from pagedsim.engine.grouped import GroupAccount
from pagedsim.engine.reach import FOR_EVER, Reach
from pagedsim.engine.rooms import Rooms
from pagedsim.engine.state import State
from pagedsim.errors import ContractError

Plant = Callable[[pytest.MonkeyPatch], None]
PLANTS: dict[str, Plant] = {}


def plant(function: Plant) -> Plant:
    PLANTS[function.__name__.replace("_", " ")] = function
    return function


def wrap(patch: pytest.MonkeyPatch, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace ``owner.name`` by ``make(what it was)``."""
    patch.setattr(owner, name, make(getattr(owner, name)))


def _terms(patch: pytest.MonkeyPatch, after: Callable[[GroupAccount], None]) -> None:
    """What is done once the terms of a step are counted."""

    def make(was: Any) -> Any:
        def terms(self: GroupAccount, *given: Any) -> Any:
            found = was(self, *given)
            after(self)
            return found

        return terms

    wrap(patch, GroupAccount, "terms", make)


@plant
def one_window_more_moves_than_do(patch: pytest.MonkeyPatch) -> None:
    def after(self: GroupAccount) -> None:
        padding, outside, live, leaving = self.apart
        self.apart = (padding, outside, live - 1, leaving + 1)

    _terms(patch, after)


@plant
def all_that_is_stored_stays_live(patch: pytest.MonkeyPatch) -> None:
    def after(self: GroupAccount) -> None:
        padding, outside, live, leaving = self.apart
        self.apart = (padding, outside, live + leaving, 0)

    _terms(patch, after)


@plant
def a_window_that_begins_to_move_ends_no_jump(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, Reach, "steps", lambda was: lambda self, tick: FOR_EVER)


@plant
def a_window_is_seen_to_move_a_step_late(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, Reach, "steps", lambda was: lambda self, tick: was(self, tick) + 1)


@plant
def a_window_is_one_token_wider(patch: pytest.MonkeyPatch) -> None:
    wrap(
        patch, Reach, "__init__", lambda was: lambda self, kind, window: was(self, kind, window + 1)
    )


@plant
def who_leaves_the_batch_keeps_its_window(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, Reach, "leave", lambda was: lambda self, base, tick: None)


@plant
def the_windows_of_those_left_out_move_on(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        def hold_back(self: Batch, seq: Any) -> None:
            reaches, self.reaches = self.reaches, []
            was(self, seq)
            self.reaches = reaches

        return hold_back

    wrap(patch, Batch, "hold_back", make)


@plant
def who_prefills_has_no_window(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        def first_reads(self: GroupAccount) -> Any:
            self._batch.prefilling, before = [], self._batch.prefilling
            try:
                return was(self)
            finally:
                self._batch.prefilling = before

        return first_reads

    wrap(patch, GroupAccount, "_first_reads", make)


def _twice(patch: pytest.MonkeyPatch, change: Callable[[int, int, int], Any]) -> None:
    """Tokens of shared blocks that are counted twice, more a step, for how many steps."""
    wrap(patch, grouped_windows, "_counted_twice", lambda was: lambda *given: change(*was(*given)))


@plant
def shared_blocks_are_outside_for_each(patch: pytest.MonkeyPatch) -> None:
    _twice(patch, lambda twice, more, steps: (0, more, steps))


@plant
def shared_blocks_leave_windows_for_each(patch: pytest.MonkeyPatch) -> None:
    _twice(patch, lambda twice, more, steps: (twice, 0, steps))


@plant
def who_comes_to_a_shared_block_ends_no_jump(patch: pytest.MonkeyPatch) -> None:
    _twice(patch, lambda twice, more, steps: (twice, more, FOR_EVER))


@plant
def who_leaves_a_shared_block_is_seen_a_step_late(patch: pytest.MonkeyPatch) -> None:
    _twice(patch, lambda twice, more, steps: (twice, more, steps + 1))


@plant
def what_is_hit_is_not_joined(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupedPool, "joined", lambda self, blocks: 0)


def _row(patch: pytest.MonkeyPatch, change: Callable[[list[int]], list[int]]) -> None:
    """The amounts of a row of `Start`: held, internal, cached, reserved, padding, outside."""

    def make(was: Any) -> Any:
        def changed(self: GroupAccount, *given: Any) -> Any:
            found = was(self, *given)
            return tuple(change(list(found))) if found else found

        return changed

    wrap(patch, GroupAccount, "change", make)


@plant
def what_is_trimmed_in_a_jump_stays_outside(patch: pytest.MonkeyPatch) -> None:
    _row(patch, lambda row: [*row[:3], row[3] + row[5], row[4], 0])


@plant
def blocks_that_start_have_no_padding(patch: pytest.MonkeyPatch) -> None:
    _row(patch, lambda row: [*row[:4], 0, row[5]])


@plant
def what_is_evicted_in_a_jump_stays_cached(patch: pytest.MonkeyPatch) -> None:
    _row(patch, lambda row: [*row[:2], 0, *row[3:]])


@plant
def blocks_that_start_are_never_filled(patch: pytest.MonkeyPatch) -> None:
    _row(patch, lambda row: [row[0], row[1] + 1, row[2], row[3] - 1, *row[4:]])


@plant
def a_jump_trims_by_what_its_first_step_had_computed(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        return lambda self, seq, tokens, computed: was(self, seq, tokens, seq.computed)

    wrap(patch, Rooms, "_grow", make)


@plant
def windows_are_trimmed_a_token_early(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        return lambda self, seq, tokens, computed: was(self, seq, tokens, computed + 1)

    wrap(patch, Rooms, "_grow", make)


@plant
def last_blocks_are_filled_to_the_end(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, GroupAccount, "spill", lambda was: lambda self, seq: 0)


@plant
def a_last_block_takes_a_token_more(patch: pytest.MonkeyPatch) -> None:
    def make(was: Any) -> Any:
        def spill(self: GroupAccount, seq: Any) -> int:
            seq.final += 1
            try:
                return int(was(self, seq))
            finally:
                seq.final -= 1

        return spill

    wrap(patch, GroupAccount, "spill", make)


@plant
def the_done_of_a_held_batch_hold_nothing(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, GroupAccount, "keep", lambda was: lambda self, seq: was(self, seq) * 0)


@plant
def the_done_of_a_held_batch_are_never_released(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, GroupAccount, "release", lambda was: lambda self, seq: None)


@plant
def what_windows_give_back_does_not_stir_the_head(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "_freed", property(lambda self: False, lambda self, value: None), False)


def test_a_sound_account_is_not_found_wrong() -> None:
    hunt(60)


def hunt(most: int) -> None:
    """AssertionError or ContractError at the first example on which the engines differ."""

    @settings(
        max_examples=most,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(run=runs() | families())
    def search(run: Any) -> None:
        check(run)

    search()


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[name](monkeypatch)
    with pytest.raises((AssertionError, ContractError)):
        hunt(600)
