"""The account of every slot: counted one by one, and in closed form where there is one."""

from __future__ import annotations

from collections import Counter as Tally
from functools import partial
from typing import Any

import pytest
from agreement import expand
from cases import STEPTIMES, Case, Endless, cases
from hypothesis import given, settings
from hypothesis import strategies as st
from play import ENGINES, Kept, play
from plugins import Generous

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.slots import Slots
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import BLOCKED, Window
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.protocols import Plan

TERMS = ("live", "reserved", "internal", "external", "cached")


class Census:
    """An observer that asks the allocator where each token is, and says what each slot is for."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.held: dict[int, Any] = {}
        self.stored: dict[int, int] = {}
        self.rows: list[dict[str, int]] = []
        self.made: list[Any] = []

    def final(self, row: int) -> int:
        _, prompt, output, _ = self.case.rows[row]
        return min(prompt + output, self.case.max_len) - 1

    def scheduled(self, step: int, plan: Plan, view: Any, /) -> None:
        allocator = self.made[-1]
        for seq in plan.preempted:
            self.held.pop(seq.id, None)
            del self.stored[seq.id]
        self.held.update({seq.id: seq for seq in view.running})
        for seq, tokens in plan.scheduled.items():
            self.stored[seq.id] = self.stored.get(seq.id, 0) + tokens
        kinds: dict[int, str] = {}
        for row, seq in self.held.items():
            slots = allocator.slots(seq).tolist()[: allocator.room(seq)]
            running = seq in view.running
            stored = self.stored.get(row, 0)
            for position, slot in enumerate(slots):
                assert slot not in kinds, "one slot, two owners"
                if not running:
                    kinds[slot] = "internal"
                elif position < stored:
                    kinds[slot] = "live"
                else:
                    kinds[slot] = "reserved" if position < self.final(row) else "internal"
        usage = allocator.usage()
        found = Tally(kinds.values())
        counts = {name: found[name] for name in TERMS}
        free = allocator.capacity - len(kinds) - usage.lost
        counts["external"] = usage.lost + (free if plan.blocked else 0)
        counts["held"] = len(kinds) + usage.lost
        counts["idle"] = 0 if plan.blocked else free
        self.rows.append(counts)

    def finished(self, step: int, done: Any, /) -> None:
        for seq in done:
            del self.held[seq.id], self.stored[seq.id]


OWN = (Paged, Contiguous, Slots)  # those that show where each token is


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=min(100, settings().max_examples))
@given(case=cases(short=True).filter(lambda case: case.allocator[0] in OWN))
def test_every_slot_is_counted_once(engine: Any, case: Case) -> None:
    """live + reserved + internal + external + cached + idle = capacity, at every step."""
    census = Census(case)
    made, given = case.allocator
    watched = Case(**case.__dict__ | {"allocator": (Kept(made, census.made), given)})
    try:
        recording = watched.run(engine, observers=[census])
    except Endless:
        return
    windows = expand(recording, STEPTIMES[case.steptime][0]().ns)
    assert len(windows) == len(census.rows)
    for window, counted in zip(windows, census.rows, strict=True):
        idle = recording.capacity - sum(window[name] for name in TERMS)
        assert counted == {name: window[name] for name in (*TERMS, "held")} | {"idle": idle}
        assert sum(counted[name] for name in (*TERMS, "idle")) == recording.capacity


@given(case=cases())
def test_no_term_is_negative(case: Case) -> None:
    """For plug-ins too, with sharing and caching; free slots are external or idle, never both."""
    try:
        recording = case.run(FastEngine)
    except Endless:
        return
    for row in recording.windows.tolist():
        window = Window(*row)
        terms = [getattr(window, name) for name in TERMS]
        idle = recording.capacity - sum(terms)
        assert min(*terms, idle) >= 0
        assert window.limit < BLOCKED or idle == 0


@pytest.mark.parametrize("engine", ENGINES)
@given(
    prompt=st.integers(1, 40),
    output=st.integers(1, 40),
    max_len=st.integers(2, 90),
    place=st.sampled_from(["first", "best", "buddy"]),
    reserve=st.sampled_from(["max", "pow2", "exact"]),
)
def test_one_request_in_a_contiguous_pool(
    engine: Any, prompt: int, output: int, max_len: int, place: Any, reserve: Any
) -> None:
    """Alone in 128 slots, a request holds what its policy says from its first step to its last.

    In step j = 0, 1, … it stores prompt + j of final = min(prompt + output, max_len) - 1 slots:
    live is that, reserved what is left up to final, internal what is beyond, and external what a
    buddy adds to a power of two.
    """
    if prompt >= max_len:
        return
    make = partial(Contiguous, 128, max_len=max_len, place=place, reserve=reserve)
    played = play(engine, [(0, prompt, output)], make, Vllm(), max_len=max_len)
    final = min(prompt + output, max_len) - 1
    power = next(power for power in (1, 2, 4, 8, 16, 32, 64) if power >= output)
    size = {"max": max_len, "pow2": min(prompt + power, max_len), "exact": final}[reserve]
    held = size if place != "buddy" else next(p for p in (1, 2, 4, 8, 16, 32, 64, 128) if p >= size)
    assert [(w.live, w.reserved, w.internal, w.external, w.held) for w in played.windows] == [
        (prompt + j, final - prompt - j, size - final, held - size, held)
        for j in range(final - prompt + 1)
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("make", [Vllm, Orca, Static])
@given(prompt=st.integers(1, 40), output=st.integers(1, 40), block=st.integers(1, 17))
def test_one_request_in_a_paged_pool(
    engine: Any, make: Any, prompt: int, output: int, block: int
) -> None:
    """It holds ceil(stored / block) blocks; what is empty is internal or reserved."""
    pool = partial(Paged, 200, block=block)
    played = play(engine, [(0, prompt, output)], pool, make())
    final = prompt + output - 1
    for j, window in enumerate(played.windows):
        held = -(-(prompt + j) // block) * block
        internal = max(0, held - final)
        assert (window.live, window.held, window.internal) == (prompt + j, held, internal)
        assert window.reserved == held - internal - prompt - j
        assert internal < block
    assert len(played.windows) == output


@given(
    case=cases().filter(
        lambda case: case.allocator[0] is Paged and case.scheduler[0] not in (Static, Generous)
    )
)
def test_paged_waste_is_less_than_a_block_a_sequence(case: Case) -> None:
    """Internal waste of a paged pool: the unused rest of last blocks, of those that have one."""
    try:
        recording = case.run(FastEngine)
    except Endless:
        return
    block = case.allocator[1]["block"]
    for row in recording.windows.tolist():
        window = Window(*row)
        assert window.internal <= window.batch * (block - 1)
        # a chunk is stored in the step that takes its blocks; only who was left out has none
        assert window.internal + window.reserved <= window.batch * (block - 1)
        assert window.held == window.live + window.reserved + window.internal


@pytest.mark.parametrize("engine", ENGINES)
def test_seven_of_max(engine: Any) -> None:
    """15,728 slots in extents of 2,048: seven requests run, and an eighth is blocked.

    7 · 2,048 = 14,336 are held; 15,728 - 14,336 = 1,392 are external, which is 8.85 %.
    """
    make = partial(Contiguous, 15_728, max_len=2048, place="buddy", reserve="max")
    played = play(engine, [(0, 20, 4)] * 8, make, Orca(), max_len=2048)
    first = played.windows[0]
    assert (first.batch, first.held, first.external) == (7, 14_336, 1392)
    assert round(100 * first.external / 15_728, 2) == 8.85
    assert (first.live, first.reserved) == (7 * 20, 7 * 3)
    assert first.internal == 14_336 - 7 * 23
