"""A state machine that holds any allocator to its contract, beside a dictionary model.

`make_machine(make_allocator)` drives two equal allocators. The *subject* sees every call; its
*twin* sees the granted ones alone. They must look alike after each step, so a refusal that changes
anything is caught by what it changes, at once or later, and so is any dependence on chance.

The model knows of each held sequence how many tokens are stored and which slots it was shown,
nothing about how slots are chosen. A subclass may add that in `judge`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pagedsim.errors import ContractError
from pagedsim.protocols import Allocator, SupportsBlocks, SupportsHoles, SupportsSlots, Usage

MakeAllocator = Callable[[], Allocator]
MISUSE = (ContractError, AssertionError)


@dataclass(eq=False)
class Seq:
    """A sequence; the machine moves `tokens` and `computed` as an engine would."""

    id: int
    prompt: int
    output: int
    tokens: int = 0
    computed: int = 0
    arrival_ns: int = 0
    priority: int = 0

    def __post_init__(self) -> None:
        self.tokens = self.tokens or self.prompt

    @property
    def final(self) -> int:
        return self.prompt + self.output - 1


class AllocatorMachine(RuleBasedStateMachine):
    """Admits, grows, preempts, finishes and misuses; checks the contract after each."""

    factories: st.SearchStrategy[MakeAllocator]
    whole_life = False

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.stored: dict[Seq, int] = {}
        self.shown: dict[Seq, list[int]] = {}
        self.waiting: list[Seq] = []

    @initialize(data=st.data())
    def build(self, data: st.DataObject) -> None:
        self.make = data.draw(self.factories, label="allocator")
        self.subject, self.twin = self.make(), self.make()
        self.has_slots = isinstance(self.subject, SupportsSlots)
        self.has_blocks = isinstance(self.subject, SupportsBlocks)
        self.has_holes = isinstance(self.subject, SupportsHoles)
        assert self.subject.usage() == Usage(0)
        self.promise_is_kept()

    def sequence(self, prompt: int, output: int) -> Seq:
        """Override to give sequences content."""
        self.count += 1
        return Seq(self.count, prompt, output)

    def draw_sequence(self, data: st.DataObject) -> Seq:
        """Mostly short ones, so that many are held at once."""
        longest = self.subject.longest
        bound = data.draw(st.sampled_from([max(1, longest // 8), max(1, longest // 4), longest]))
        final = data.draw(st.integers(1, bound), label="final")
        prompt = data.draw(st.integers(1, final), label="prompt")
        return self.sequence(prompt, final + 1 - prompt)

    def judge(self, seq: Seq, tokens: int, whole: int, spare: int, granted: bool) -> None:
        """Override to check each answer to `admit` against an oracle."""

    def observe(self, allocator: Any) -> tuple[Any, ...]:
        """All that an allocator shows of its state."""
        return (
            allocator.usage(),
            allocator.capacity,
            allocator.longest,
            [allocator.cached(seq) for seq in self.waiting],
            {seq.id: allocator.room(seq) for seq in self.stored},
            {seq.id: allocator.slots(seq).tolist() for seq in self.stored if self.has_slots},
            {seq.id: list(allocator.table(seq)) for seq in self.stored if self.has_blocks},
            list(allocator.free_blocks()) if self.has_blocks else None,
            allocator.largest_hole() if self.has_holes else None,
        )

    @rule(data=st.data())
    def admit(self, data: st.DataObject) -> None:
        """A new sequence, or one that was preempted and must be computed again."""
        preempted = data.draw(st.sampled_from([None, None, *self.waiting[-2:]]), label="preempted")
        seq = preempted or self.draw_sequence(data)
        hit = self.subject.cached(seq)
        assert 0 <= hit < seq.tokens, "at least one token must be computed"
        tokens = data.draw(st.integers(hit + 1, seq.tokens), label="tokens")
        whole = data.draw(st.sampled_from([0, seq.tokens]), label="whole")
        spares = [0, 0, 0, 0, 0, 1, 2, 5, self.subject.capacity]
        spare = data.draw(st.sampled_from(spares), label="spare")
        before = self.observe(self.subject)
        granted = self.subject.admit(seq, tokens, whole=whole, spare=spare)
        assert granted in (True, False)
        if granted:
            if seq is preempted:
                self.waiting.remove(seq)
            self.store(seq, tokens)
            assert self.twin.admit(seq, tokens, whole=whole, spare=spare), "the twin refuses"
            room, held = self.subject.room(seq), self.subject.usage().held
            assert room >= tokens
            assert not self.whole_life or room >= seq.final
            assert self.subject.capacity - held - max(0, whole - room) >= spare
        else:
            assert self.observe(self.subject) == before, "a refusal changed something"
            assert self.stored or spare, "refused though nothing is held"
        self.judge(seq, tokens, whole, spare, granted)

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def grow(self, data: st.DataObject) -> None:
        """By any number of tokens, up to the sequence's final, which it may have reached."""
        seq = data.draw(st.sampled_from(list(self.stored)), label="seq")
        tokens = data.draw(st.integers(min(self.stored[seq] + 1, seq.final), seq.final))
        room, before = self.subject.room(seq), self.observe(self.subject)
        granted = self.subject.grow(seq, tokens)
        assert granted in (True, False)
        if granted:
            assert self.twin.grow(seq, tokens), "the twin refuses"
            self.store(seq, tokens)
            assert self.subject.room(seq) >= tokens
            assert tokens > room or self.subject.usage().held == before[0].held
        else:
            assert tokens > room, "refused within room"
            assert len(self.stored) > 1, "refused though no other holds anything"
            assert not self.whole_life, "refused though all was taken at admission"
            assert self.observe(self.subject) == before, "a refusal changed something"

    @precondition(lambda self: self.stored)
    @rule(data=st.data(), preempted=st.booleans())
    def release(self, data: st.DataObject, preempted: bool) -> None:
        seq = data.draw(st.sampled_from(list(self.stored)), label="seq")
        self.drop(seq)
        if preempted:
            seq.computed = 0
            self.waiting.append(seq)

    @rule(data=st.data())
    def misuse(self, data: st.DataObject) -> None:
        """What breaks the contract raises, and changes nothing."""
        before = self.observe(self.subject)
        stranger = Seq(0, 1, 1)
        calls = [
            lambda: self.subject.release(stranger),
            lambda: self.subject.grow(stranger, 1),
            *[lambda seq=seq: self.subject.admit(seq, 1) for seq in self.stored],
        ]
        call = data.draw(st.sampled_from(calls), label="misuse")
        try:
            call()
        except MISUSE:
            accepted = False
        else:
            accepted = True
        assert not accepted, "misuse was accepted"
        assert self.observe(self.subject) == before

    def teardown(self) -> None:
        """Released, everything is free, and the promise of `longest` holds again."""
        if not hasattr(self, "subject"):
            return
        for seq in list(self.stored):
            self.drop(seq)
        assert (self.subject.usage().held, self.subject.usage().lost) == (0, 0)
        self.promise_is_kept()

    def promise_is_kept(self) -> None:
        """`longest` fits, however prompt and output share it."""
        longest = self.subject.longest
        for prompt in {1, (longest + 1) // 2, longest}:
            seq = self.sequence(prompt, longest + 1 - prompt)
            for allocator in (self.subject, self.twin):
                assert allocator.admit(seq, prompt, whole=prompt), f"{prompt} of {longest} refused"
                assert allocator.grow(seq, longest), f"{longest} refused"
                assert allocator.room(seq) >= longest
                allocator.release(seq)
                assert allocator.usage().held == 0

    @invariant()
    def conserves(self) -> None:
        usage = self.subject.usage()
        assert min(usage) >= 0
        assert usage.lost <= usage.held <= usage.held + usage.cached <= self.subject.capacity
        if self.has_blocks:
            tables = [self.subject.table(seq) for seq in self.stored]
            assert usage.held == self.subject.block * len({i for table in tables for i in table})
        if self.has_holes:
            hole = self.subject.largest_hole()
            assert 0 <= hole <= self.subject.capacity - usage.held - usage.cached

    @invariant()
    def shows_slots(self) -> None:
        """In range, never moved, never handed out twice, and exactly those that are held."""
        if not self.has_slots:
            return
        usage, end = self.subject.usage(), self.subject.capacity
        if self.has_blocks:
            end = self.subject.block * self.subject.blocks
        held: set[int] = set()
        live: set[int] = set()
        for seq, stored in self.stored.items():
            slots = self.subject.slots(seq)
            assert slots.dtype == "int64"
            assert len(slots) >= self.subject.room(seq)
            now = slots.tolist()
            assert len(set(now)) == len(now)
            assert all(0 <= slot < end for slot in now)
            shown = self.shown.get(seq, [])
            assert now[: len(shown)] == shown, "a slot moved"
            self.shown[seq] = now
            held.update(now[: self.subject.room(seq)])
            live.update(now[:stored])
        assert len(held) == usage.held - usage.lost
        assert sum(self.stored.values()) - len(live) == usage.shared

    @invariant()
    def is_deterministic(self) -> None:
        assert self.observe(self.subject) == self.observe(self.twin)

    def store(self, seq: Seq, tokens: int) -> None:
        """The step is over: `tokens` are stored, and a complete cache yields one more."""
        self.stored[seq] = tokens
        seq.computed = tokens
        seq.tokens = max(seq.tokens, min(tokens + 1, seq.final))

    def drop(self, seq: Seq) -> None:
        self.subject.release(seq)
        self.twin.release(seq)
        del self.stored[seq]
        self.shown.pop(seq, None)


def make_machine(
    make_allocator: MakeAllocator | st.SearchStrategy[MakeAllocator],
    *,
    whole_life: bool = False,
    base: type[AllocatorMachine] = AllocatorMachine,
) -> type[AllocatorMachine]:
    """A machine for what `make_allocator()` builds, each time the same; or a strategy of such.

    `whole_life`: what is taken at admission lasts until the end, so `grow` is never refused.
    """
    factories = st.just(make_allocator) if callable(make_allocator) else make_allocator
    return type("Machine", (base,), {"factories": factories, "whole_life": whole_life})


SETTINGS = settings(deadline=None, database=None, derandomize=True, stateful_step_count=30)


def run(machine: type[AllocatorMachine], *, examples: int = 40) -> None:
    """Run a machine, the same way each time."""
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=examples))


def assert_rejects(machine: type[AllocatorMachine], *, examples: int = 400) -> None:
    """A planted bug must be found: the first failure will do."""
    once = settings(
        SETTINGS, max_examples=examples, phases=[Phase.generate], report_multiple_bugs=False
    )
    with pytest.raises(MISUSE):
        run_state_machine_as_test(machine, settings=once)
