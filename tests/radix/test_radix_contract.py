"""What `Radix` does with each call of an engine, by cases worked by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest
from radix_play import Seq

from pagedsim.alloc.evict import Entry
from pagedsim.alloc.radix import Radix
from pagedsim.errors import SpecError
from pagedsim.protocols import SupportsBlocks, SupportsExtend, SupportsSlots, headroom


def seq(prompt: int, output: int = 5, *, first: int = 100, salt: int = 0, answer: int = 900) -> Seq:
    content = (*range(first, first + prompt), *range(answer, answer + output))
    return Seq(first, prompt, content, salt)


def compute(radix: Radix, one: Seq, tokens: int) -> None:
    assert radix.grow(one, tokens)
    one.step(tokens)


def admit(radix: Radix, one: Seq) -> int:
    """Admit with all that is known and compute it; the hit."""
    hit = radix.cached(one)
    assert radix.admit(one, one.tokens, whole=one.tokens)
    one.step(one.tokens)
    return hit


def serve(radix: Radix, one: Seq) -> int:
    hit = admit(radix, one)
    while one.tokens < len(one.content):
        compute(radix, one, one.tokens)
    radix.release(one)
    return hit


def test_a_prompt_is_found_from_the_step_after_it_was_computed() -> None:
    radix = Radix(100)
    one, two = seq(10), seq(10)
    admit(radix, one)
    assert radix.cached(two) == 0, "nobody says yet that it is computed"
    compute(radix, one, 11)
    assert radix.cached(two) == 9, "the last token is always computed"
    assert radix.usage() == (11, 0, 0, 0)
    assert admit(radix, two) == 9
    assert radix.usage() == (12, 0, 9, 0), "nine slots twice; the tenth is computed again"
    compute(radix, two, 11)
    assert radix.usage() == (12, 0, 10, 0), "its copy of the tenth came back"
    assert radix.table(one)[:10] == radix.table(two)[:10]
    assert radix.table(one)[10] != radix.table(two)[10]


def test_parts_of_a_prompt_are_not_stored() -> None:
    radix = Radix(100)
    one, two = seq(10), seq(10)
    assert radix.admit(one, 4, whole=10)
    one.computed = 4
    for tokens in (6, 10):
        assert radix.cached(two) == 0
        assert radix.usage().held == one.computed
        compute(radix, one, tokens)
    assert radix.cached(two) == 0
    compute(radix, one, 11)
    assert radix.cached(two) == 9


def test_a_prompt_cut_short_leaves_nothing() -> None:
    radix = Radix(100)
    one = seq(10)
    assert radix.admit(one, 4, whole=10)
    one.computed = 4
    radix.release(one)
    assert radix.usage() == (0, 0, 0, 0)
    assert radix.free_blocks()[-4:] == (1, 2, 3, 4)


def test_room_ends_at_the_prompt_until_that_is_stored() -> None:
    """So that an engine asks in the first step of decode, whatever the page."""
    radix = Radix(64, page=16)
    one = seq(10)
    admit(radix, one)
    assert (radix.room(one), len(radix.slots(one)), radix.usage().held) == (10, 16, 16)
    compute(radix, one, 11)
    assert (radix.room(one), radix.usage().held) == (16, 16)


def test_all_but_the_last_token_is_kept_at_the_end() -> None:
    radix = Radix(100)
    one = seq(10, 5)
    assert serve(radix, one) == 0
    assert radix.usage() == (0, 14, 0, 0)
    follows = Seq(1, 18, (*one.content, 7, 8, 9, 1))
    assert radix.cached(follows) == 14
    assert radix.cached(Seq(2, 18, follows.content, salt=3)) == 0


def test_an_output_of_one_token_is_kept_at_its_release() -> None:
    radix = Radix(100, page=4)
    one = seq(10, 1)
    admit(radix, one)
    radix.release(one)
    assert radix.usage() == (0, 8, 0, 0)
    assert radix.free_blocks()[:2] == (3, 4)


def test_a_preempted_one_finds_what_it_computed() -> None:
    """Its goal is then all that it knows, and that enters the tree at the first token after it."""
    radix = Radix(100)
    one = seq(10, 9)
    admit(radix, one)
    for tokens in (11, 12, 13):
        compute(radix, one, tokens)
    assert radix.grow(one, 14), "taken, but the step is not done when it falls victim"
    radix.release(one)
    one.computed = 0
    assert (one.tokens, radix.usage()) == (14, (0, 13, 0, 0))
    assert radix.cached(one) == 13
    assert radix.admit(one, 14, whole=14)
    assert radix.room(one) == 14
    one.step(14)
    assert radix.usage().cached == 0
    compute(radix, one, 15)
    assert radix.cached(seq(10, 9)) == 9
    assert radix.cached(Seq(5, 16, (*one.content, 3, 3))) == 14


def test_it_refuses_before_it_evicts() -> None:
    radix = Radix(20)
    serve(radix, seq(6, 3, first=100))
    held = seq(6, 9, first=300)
    admit(radix, held)
    assert radix.usage() == (6, 8, 0, 0)
    before = radix.free_blocks()
    large = seq(15, first=500)
    assert not radix.admit(large, 15)
    assert not radix.admit(large, 4, whole=15)
    assert not radix.admit(large, 4, spare=11)
    assert (radix.usage(), radix.free_blocks()) == ((6, 8, 0, 0), before)
    assert radix.admit(large, 14, spare=0)
    assert radix.usage() == (20, 0, 0, 0)
    assert not radix.grow(large, 15)
    assert not radix.grow(held, 7), "and its prompt is not stored by a refusal"
    assert radix.cached(seq(6, first=300)) == 0


def test_what_it_hits_is_not_counted_as_evictable() -> None:
    """8 of 12 are stored and evictable, 4 free: 5 more than the hit do not fit."""
    radix = Radix(12)
    serve(radix, seq(6, 3))
    one = seq(13)
    one.content = (*range(100, 106), 900, 901, *range(500, 510))
    assert radix.cached(one) == 8
    assert not radix.admit(one, 13)
    assert radix.admit(one, 12)
    assert radix.usage() == (12, 0, 0, 0)


def test_a_copy_that_comes_back_counts_as_room() -> None:
    """Full, but of two equal prompts one is not needed: its first decoded token fits."""
    radix = Radix(9)
    one, two = seq(4), seq(4, answer=700)
    admit(radix, one)
    admit(radix, two)
    compute(radix, one, 5)
    assert radix.usage() == (9, 0, 0, 0)
    compute(radix, two, 5)
    assert radix.usage() == (6, 0, 4, 0)
    assert radix.table(two)[:4] == radix.table(one)[:4]


def test_the_protocols_it_meets() -> None:
    radix = Radix(67, page=16)
    assert (radix.capacity, radix.longest) == (64, 64)
    assert isinstance(radix, SupportsBlocks)
    assert isinstance(radix, SupportsSlots)
    assert not isinstance(radix, SupportsExtend), "growing may store a prompt"
    assert (radix.block, radix.blocks, radix.free_blocks()) == (16, 5, (1, 2, 3, 4))
    assert headroom(radix, 0.5) == 32


class Longest:
    """The longest idle first, as a policy of one's own."""

    def rank(self, entry: Entry, /) -> Any:
        return (entry.touched - entry.made, entry.made)


def test_a_policy_of_ones_own() -> None:
    radix = Radix(30, evict=Longest())
    for first in (100, 200, 100):
        serve(radix, seq(5, 3, first=first))
    assert serve(radix, seq(20, first=500)) == 0
    assert radix.cached(seq(6, first=100)) == 5
    assert radix.cached(seq(6, first=200)) == 0


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"page": 0}, "radix: page is 0, must be >= 1"),
        ({"page": 16}, "radix: 9 slots have no page of 16"),
        ({"evict": "belady"}, "radix: evict is 'belady', must be one of fifo, lfu, lru, mru, slru"),
    ],
)
def test_what_cannot_be_made_says_why(about: Any, message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        Radix(9, **about)


def test_work_is_by_runs_not_by_tokens() -> None:
    """Prompts of a million tokens in a pool of four million, a hundred of them."""
    radix = Radix(1 << 22)
    for row in range(100):
        runs = [(0, 900_000), (1_000_000 * (row + 1), 100_000)]
        one = Long(row, runs)
        assert radix.cached(one) == (900_000 if row else 0)
        assert radix.admit(one, 1_000_000)
        one.computed = 1_000_000
        radix.release(one)
    assert radix.usage().cached <= 1 << 22


class Long(Seq):
    def __init__(self, row: int, runs: list[tuple[int, int]]) -> None:
        super().__init__(row, 1_000_000, ())
        self._runs = runs

    def runs(self) -> list[tuple[int, int]]:
        return self._runs
