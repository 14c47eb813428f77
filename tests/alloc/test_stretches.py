"""Blocks that are kept as stretches, beside the same pool block by block."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from stretches_play import Both, Seq, Told, play

from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.stretches import Family, Stretch


@given(data=st.data())
def test_as_block_by_block(data: st.DataObject) -> None:
    play(data, forks=False)


@given(data=st.data())
def test_as_block_by_block_with_forks(data: st.DataObject) -> None:
    play(data, forks=True)


def told(id: int, keys: list[int], computed: int = 0) -> Told:
    """A sequence of blocks of one token."""
    seq = Told(id, tuple(keys), len(keys), keys)
    seq.computed = computed
    return seq


def start(both: Both, seq: Seq, tokens: int) -> None:
    assert both.same(lambda pool: pool.admit(seq, tokens))
    both.running.append(seq)


def abreast(count: int, in_turn: bool, made_of: Any = PrefixPaged) -> tuple[int, int]:
    """Three compute the same `count` blocks, of which those of the first to do so are taken for
    something else; how many stretches look-ups found, and did not, before.
    """
    both = Both(1, 5 * count, "0.33", made_of)
    alike = [told(id, list(range(count))) for id in range(3)]
    for seq in alike:
        start(both, seq, 0)
    for tokens in range(1, count + 1):
        for seq in alike[:1] + (alike[:0:-1] if in_turn and tokens % 2 else alike[1:]):
            assert both.same(lambda pool, seq=seq, upto=tokens: pool.grow(seq, upto))
    (family,) = both.pools[0]._families.values()
    stretches = len(family.found), len(family.others)
    for seq in alike:
        both.release(seq)
    # all that never had a key, and all that the first one had
    start(both, told(3, list(range(count, 4 * count - 1))), 3 * count - 1)
    both.check()
    assert both.same(lambda pool: pool.keys_cached()) == 4 * count - 1
    start(both, told(4, list(range(count))), count)
    both.check()
    return stretches


def test_equal_content_computed_together_is_few_stretches() -> None:
    assert abreast(500, in_turn=False) == (1, 2)


def test_equal_content_in_thousands_of_stretches() -> None:
    """Who finds what next is no deeper a search for it."""
    assert abreast(3000, in_turn=True) == (1, 3001)


def test_what_others_hit_of_a_preempted_sample_keeps_its_keys() -> None:
    """The third block was hit, the second not: others found that one with somebody else."""
    both = Both(1, 20, "0.33")
    first, sample, sibling = told(0, [0, 1]), told(1, [0, 1, 2], 1), told(2, [0, 1, 2], 1)
    for seq in (first, sample):
        start(both, seq, 0)
    for seq in (first, sample):
        both.same(lambda pool, seq=seq: pool.grow(seq, 1))
    both.same(lambda pool: pool.fork(sample, sibling, 1))
    both.running.append(sibling)
    both.release(sibling)
    both.same(lambda pool: pool.grow(first, 2))
    both.same(lambda pool: pool.grow(sample, 3))
    start(both, told(3, [0, 1, 2, 9]), 4)
    for seq in (sample, first, both.running[-1]):
        both.release(seq)
        both.check()
    assert both.same(lambda pool: pool.keys_cached()) == 4


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


class CutsOnlyTheLast(PrefixPaged):
    """Of stretches that are hit all but the last are believed to be hit as a whole."""

    def _share(self, hit: Any) -> None:
        hit.counts[:-1] = [len(each.ids) for each in hit.stretches[:-1]]
        super()._share(hit)


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
    CutsOnlyTheLast,
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


def test_a_planted_overtaking_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: equal content goes on in its stretch whoever got the same keys since that began."""
    monkeypatch.setattr(Family, "goes_on", lambda *_: True)
    with pytest.raises(AssertionError):
        abreast(20, in_turn=True)
