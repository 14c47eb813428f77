"""The laws of an eviction policy, alone and in caches that evict by it.

Alone: ranks of entries that could be. In use: a prefix cache beside a model of which block goes
(`eviction_model`), then the state machine of the allocator suite over a small radix tree and a
small prefix cache, in which much is evicted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from pagedsim.alloc.radix import Radix
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.testing import allocator_laws
from pagedsim.testing.allocator import allocator_machine
from pagedsim.testing.eviction_model import MOVES, Beside, Move, Shown
from pagedsim.testing.explore import Suite
from pagedsim.testing.laws import Judge, Over
from pagedsim.testing.sizes import makers, name_of

LAWS = {
    "ranks": "every entry has a rank, which raises no error and leaves the entry as it was",
    "pure": "an entry's rank changes only when something of the entry does",
    "order": "any two ranks compare, and the order is one: a < b < c means a < c",
    "goes": "the smallest rank goes first, of equals what was given back first, ends before starts",
    **{law: said for law, said in allocator_laws.LAWS.items() if law != "pure"},
}


@st.composite
def entries(draw: st.DrawFn) -> Shown:
    """Made, then touched; used a few times; looked up again at some row, or never."""
    made, later = draw(st.integers(0, 30)), draw(st.integers(0, 30))
    ahead = draw(st.integers(0, 9) | st.just(1 << 62))
    return Shown(made + later, made, draw(st.integers(1, 4)), ahead)


def eviction_suite(make: Callable[..., Any], *, cache: Callable[..., Any] = RankedPaged) -> Suite:
    """All laws of an eviction policy over what `make` builds.

    `cache` makes a prefix cache of ``(blocks, block=…, evict=…)``. A policy that needs the future
    (``foresees``) is judged alone, and by `RankedPaged`'s own tests.
    """

    def run(judge: Judge, given: settings) -> None:
        @given
        @examples(makers(make), st.lists(entries(), min_size=3, max_size=4))
        def ranks(maker: Any, some: list[Shown]) -> None:
            judge.examples += 1
            with suppress(Over):
                _judge(judge, maker, some)

        @given
        @examples(makers(make), st.integers(6, 16), st.integers(1, 2), MOVES)
        def goes(maker: Any, blocks: int, block: int, moves: list[Move]) -> None:
            judge.examples += 1
            log = [f"policy = {maker}; cache of {blocks} blocks of {block}"]
            there = cache(blocks, block=block, evict=maker())
            with suppress(Over):
                Beside(there, maker().rank, judge, log).play(moves)

        ranks()
        judge.absent.clear()
        if judge.muted & {"ranks", "pure", "order"} or getattr(make(), "foresees", False):
            return
        if "goes" not in judge.muted:
            goes()

        def tree(capacity: int, page: int = 1) -> Radix:
            return Radix(capacity, page=page, evict=make())

        def table(blocks: int, block: int = 1) -> Any:
            return cache(blocks, block=block, evict=make())

        for build in (tree, table):
            build.__name__ = f"{'Radix' if build is tree else name_of(cache)} by {name_of(make)}"
            machine = allocator_machine(build, judge=judge)
            run_state_machine_as_test(machine, settings=settings(given, max_examples=_few(given)))
            judge.present.clear()
            judge.absent.clear()

    return Suite("eviction", name_of(make), LAWS, run)


def _few(given: settings) -> int:
    return max(1, int(given.max_examples) // 8)


def _judge(judge: Judge, maker: Any, some: list[Shown]) -> None:
    policy, log = maker(), [f"policy = {maker}"]

    def rank(entry: Shown) -> Any:
        judge.calls += 1
        before = replace(entry)
        try:
            answer = policy.rank(entry)
        except Exception as error:
            log.append(f"rank({before})")
            judge.hold("ranks", False, f"{type(error).__name__}: {error}", log)
            raise
        log.append(f"rank({before}) -> {answer}")
        judge.hold("ranks", entry == before, lambda: f"the entry became {entry}", log)
        return answer

    first = [rank(entry) for entry in some]
    again = [rank(entry) for entry in reversed(some)][::-1]
    judge.hold("pure", first == again, lambda: f"{first}, then {again}", log)
    for a in first:
        for b in first:
            try:
                one = (a < b) + (b < a) + (a == b)
            except Exception as error:
                judge.hold("order", False, f"{type(error).__name__}: {error}", log)
                raise
            judge.hold("order", one == 1, lambda: f"{a} and {b} are in no order", log)  # noqa: B023
            for c in first:
                chain = not (a < b and b < c) or a < c
                judge.hold("order", chain, lambda: f"{a} < {b} < {c}", log)  # noqa: B023


__all__ = ["LAWS", "entries", "eviction_suite"]
