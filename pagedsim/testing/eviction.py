"""The laws of an eviction policy, alone and in a radix tree that evicts by it.

Alone: ranks of entries that could be. In use: the state machine of the allocator suite over a
small tree, in which much is evicted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from pagedsim.alloc.radix import Radix
from pagedsim.testing import allocator_laws
from pagedsim.testing.allocator import allocator_machine
from pagedsim.testing.explore import Suite
from pagedsim.testing.laws import Judge, Over
from pagedsim.testing.sizes import makers, name_of

LAWS = {
    "ranks": "every entry has a rank, which raises no error and leaves the entry as it was",
    "pure": "an entry's rank changes only when something of the entry does",
    "order": "any two ranks compare, and the order is one: a < b < c means a < c",
    **{law: said for law, said in allocator_laws.LAWS.items() if law != "pure"},
}


@dataclass
class Kept:
    """An entry: content that is kept though nobody holds it."""

    touched: int
    made: int
    uses: int

    @property
    def due(self) -> int:
        """For policies that know the future: never."""
        return 1 << 62


@st.composite
def entries(draw: st.DrawFn) -> Kept:
    """Made, then touched; used a few times."""
    made, later = draw(st.integers(0, 30)), draw(st.integers(0, 30))
    return Kept(made + later, made, draw(st.integers(1, 4)))


def eviction_suite(make: Callable[..., Any]) -> Suite:
    """All laws of an eviction policy over what `make` builds."""

    def run(judge: Judge, given: settings) -> None:
        @given
        @examples(makers(make), st.lists(entries(), min_size=3, max_size=4))
        def ranks(maker: Any, some: list[Kept]) -> None:
            judge.examples += 1
            with suppress(Over):
                _judge(judge, maker, some)

        ranks()
        judge.absent.clear()

        def tree(capacity: int, page: int = 1) -> Radix:
            return Radix(capacity, page=page, evict=make())

        tree.__name__ = f"Radix by {name_of(make)}"
        if not judge.muted & {"ranks", "pure", "order"}:
            machine = allocator_machine(tree, judge=judge)
            run_state_machine_as_test(machine, settings=settings(given, max_examples=_few(given)))
        judge.present.clear()
        judge.absent.clear()

    return Suite("eviction", name_of(make), LAWS, run)


def _few(given: settings) -> int:
    return max(1, int(given.max_examples) // 4)


def _judge(judge: Judge, maker: Any, some: list[Kept]) -> None:
    policy, log = maker(), [f"policy = {maker}"]

    def rank(entry: Kept) -> Any:
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


__all__ = ["LAWS", "Kept", "entries", "eviction_suite"]
