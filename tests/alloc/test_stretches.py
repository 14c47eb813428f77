"""Blocks that are kept as stretches, beside the same pool block by block."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from stretches_play import play

from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.stretches import Stretch


@given(data=st.data())
def test_as_block_by_block(data: st.DataObject) -> None:
    play(data, forks=False)


@given(data=st.data())
def test_as_block_by_block_with_forks(data: st.DataObject) -> None:
    play(data, forks=True)


# Planted mistakes, each of which the play must find.


class CutsLoose(PrefixPaged):
    """What is cut off belongs to nobody, whoever held it."""

    def _cut(self, stretch: Stretch, count: int) -> Stretch:
        rest = super()._cut(stretch, count)
        rest.holders = 0
        return rest


class FindsNoOther(PrefixPaged):
    """Equal content that is still there is not found once the first is gone."""

    def _find_next(self, family: Any, start: int, end: int) -> None:
        pass


class FindsTheLast(PrefixPaged):
    """Of equal content what got its keys last."""

    def _find_next(self, family: Any, start: int, end: int) -> None:
        family.others.reverse()
        super()._find_next(family, start, end)
        family.others.reverse()


class JoinsOthers(PrefixPaged):
    """What look-ups do not find is joined to what they find."""

    def _join(self, stretch: Stretch, rest: Stretch) -> bool:
        first, rest.first = rest.first, stretch.first
        joined = super()._join(stretch, rest)
        rest.first = first
        return joined


class RemembersTooLong(PrefixPaged):
    """A look-up is believed though what it found was taken."""

    def _take(self, blocks: int, table: list[int]) -> None:
        looked = self._looked
        super()._take(blocks, table)
        self._looked = looked


class NoticesNoKey(PrefixPaged):
    """A look-up is believed though the key came up that it lacked."""

    def _name(self, held: Any, full: int) -> None:
        self._wanted = -1
        super()._name(held, full)


class GoesOnInWhatOthersHold(PrefixPaged):
    """A block more in a stretch that others list as it was."""

    def fill(self, seqs: Any, /) -> None:
        for seq in seqs:
            held = self._tables[seq]
            last = held.open
            if last is not None and last.holders > 1:
                others, last.holders = last.holders, 1
                super().fill([seq])
                last.holders = others
            else:
                super().fill([seq])


class GivesBackForwards(PrefixPaged):
    """The first stretch of a table comes first."""

    def _join(self, stretch: Stretch, rest: Stretch) -> bool:
        if joined := super()._join(stretch, rest):
            stretch.ids.reverse()
        return joined


class KeepsKeysOfSamples(PrefixPaged):
    """A preempted sample's blocks are found though nobody computed them."""

    def _unname(self, held: Any, full: int) -> None:
        pass


PLANTED = [
    CutsLoose,
    FindsNoOther,
    FindsTheLast,
    JoinsOthers,
    RemembersTooLong,
    NoticesNoKey,
    GoesOnInWhatOthersHold,
    GivesBackForwards,
    KeepsKeysOfSamples,
]


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_mistake_is_found(planted: type[PrefixPaged]) -> None:
    @settings(
        max_examples=4000,
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        play(data, True, planted)

    with pytest.raises((AssertionError, IndexError, KeyError, ValueError)):  # a crash is a find too
        run()
