"""A state machine that plays an engine: `Radix` beside the plain model and a shadow of every slot.

The shadow says of each slot which prefix was computed into it last, under which salt. That is what
KV depends on, so a table is right if, and only if, the slot of each position has the sequence's own
prefix up to it.
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
from radix_model import RANKS, Model

from pagedsim.alloc.radix import Radix
from pagedsim.alloc.radix_check import check, nodes
from pagedsim.errors import ContractError

FOUND = (AssertionError, ContractError, IndexError, KeyError)
Make = Callable[[int, int, str], Radix]


@dataclass(eq=False)
class Seq:
    """A sequence whose content is written out; `piece` cuts it into runs of at most so many."""

    id: int
    prompt: int
    content: tuple[int, ...]
    salt: int = 0
    piece: int = 1 << 30
    tokens: int = 0
    computed: int = 0
    arrival_ns: int = 0
    priority: int = 0

    def __post_init__(self) -> None:
        self.tokens = self.tokens or self.prompt

    def runs(self) -> list[tuple[int, int]]:
        runs: list[tuple[int, int]] = []
        for token in self.content:
            first, length = runs[-1] if runs else (0, 0)
            if length and token == first + length and length < self.piece:
                runs[-1] = (first, length + 1)
            else:
                runs.append((token, 1))
        return runs

    def keys(self, block: int) -> list[int]:
        raise AssertionError("a radix tree asks for runs, never for keys")

    def step(self, tokens: int) -> bool:
        """`tokens` are computed now; whether it is done."""
        self.computed = tokens
        if tokens == self.tokens:
            self.tokens += 1
        return self.tokens == len(self.content)


def sequence(prompt: list[int], output: list[int], **more: Any) -> Seq:
    return Seq(0, len(prompt), (*prompt, *output), **more)


class RadixMachine(RuleBasedStateMachine):
    make: Make

    @initialize(
        slots=st.integers(6, 36),
        page=st.sampled_from([1, 1, 2, 3, 4]),
        evict=st.sampled_from(sorted(RANKS)),
    )
    def build(self, slots: int, page: int, evict: str) -> None:
        self.subject = type(self).make(slots, page, evict)
        self.model = Model(slots, page, evict)
        self.page, self.slots = page, slots // page * page
        self.running: list[Seq] = []
        self.waiting: list[Seq] = []
        self.known: list[tuple[int, ...]] = [(0, 1, 2, 3, 4, 5, 6, 7), (0, 1, 2, 9, 8)]
        self.memory: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.count = 0

    def draw(self, data: st.DataObject) -> Seq:
        """Often one that runs, once more, or how an earlier one began and an end of its own."""
        self.count += 1
        twin = data.draw(st.sampled_from([None, None, *self.running[-2:]]), label="twin")
        if twin is not None:
            return Seq(self.count, twin.prompt, twin.content, twin.salt)
        base = data.draw(st.sampled_from(self.known[-5:]), label="base")
        kept = base[: len(base) - data.draw(st.sampled_from([0, 1, 2, 3, 5, 99]), label="less")]
        runs = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=2))
        fresh = [first + at for first, length in runs for at in range(length)]
        prompt = ((*kept, *fresh) or (7,))[: data.draw(st.sampled_from([4, 8, self.slots]))]
        prompt = prompt[: self.slots]
        most = self.slots + 1 - len(prompt)
        output = min(data.draw(st.sampled_from([1, 3, 6, 12, 20]), label="output"), most)
        content = (*prompt, *range(20, 20 + output))
        self.known += prompt, content
        salt = data.draw(st.sampled_from([0, 0, 0, 1]), label="salt")
        return Seq(self.count, len(prompt), content, salt, data.draw(st.sampled_from([1, 2, 99])))

    @rule(data=st.data())
    def admit(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from([None, *self.waiting]), label="resumed")
        seq = seq or self.draw(data)
        hit = self.subject.cached(seq)
        assert hit == self.model.cached(seq)
        assert hit < seq.tokens
        tokens = data.draw(st.sampled_from([hit + 1, seq.tokens, seq.tokens]), label="tokens")
        whole = data.draw(st.sampled_from([0, seq.tokens]), label="whole")
        spare = data.draw(st.sampled_from([0, 0, 0, 1, 3]), label="spare")
        before = self.seen()
        granted = self.subject.admit(seq, tokens, whole=whole, spare=spare)
        assert granted == self.model.admit(seq, tokens, whole, spare)
        if not granted:
            assert self.seen() == before, "a refusal changed something"
            assert self.running or spare, "refused though nothing is held"
            if seq not in self.waiting:
                self.waiting.append(seq)
            return
        if seq in self.waiting:
            self.waiting.remove(seq)
        self.running.append(seq)
        seq.computed = hit
        self.compute(seq, tokens, data)

    @rule(data=st.data(), rounds=st.integers(1, 3))
    def steps(self, data: st.DataObject, rounds: int) -> None:
        """All that run, in order, as an engine does: the rest of the prompt, then a token each."""
        for _ in range(rounds):
            for seq in list(self.running):
                if seq in self.running:
                    self.step(seq, seq.tokens, data)
                    self.holds()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def chunk(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(self.running), label="seq")
        self.step(seq, data.draw(st.integers(seq.computed + 1, seq.tokens)), data)

    def step(self, seq: Seq, tokens: int, data: st.DataObject) -> None:
        """Compute up to `tokens` of what is known; preempted where there is no room."""
        room, before = self.subject.room(seq), self.seen()
        granted = self.subject.grow(seq, tokens)
        assert granted == self.model.grow(seq, tokens)
        if granted:
            assert self.subject.room(seq) >= tokens
            assert tokens > room or self.seen() == before, "grow within room changed something"
            self.compute(seq, tokens, data)
        else:
            assert self.seen() == before, "a refusal changed something"
            assert len(self.running) > 1, "refused though no other holds anything"
            self.release(seq)
            self.waiting.append(seq)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def preempt(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(self.running), label="seq")
        self.release(seq)
        self.waiting.append(seq)

    @rule(data=st.data())
    def misuse(self, data: st.DataObject) -> None:
        before = self.seen()
        stranger = sequence([1], [2])
        calls = [
            lambda: self.subject.release(stranger),
            lambda: self.subject.grow(stranger, 1),
            lambda: self.subject.room(stranger),
            *[lambda seq=seq: self.subject.admit(seq, 1) for seq in self.running],
        ]
        with pytest.raises(ContractError, match="radix: request"):
            data.draw(st.sampled_from(calls), label="misuse")()
        assert self.seen() == before

    def compute(self, seq: Seq, tokens: int, data: st.DataObject) -> None:
        """Write what was not stored; a victim of the same step loses its slots before that."""
        slots = self.subject.slots(seq).tolist()
        others = {
            slot
            for other in self.running
            if other is not seq
            for slot in self.subject.slots(other).tolist()
        }
        for at in range(seq.computed, tokens):
            assert slots[at] not in others, "writes into a slot that another holds"
        if data.draw(st.integers(0, 15), label="victim") == 15:
            self.release(seq)
            self.waiting.append(seq)
            return
        for at in range(seq.computed, tokens):
            self.memory[slots[at]] = (seq.salt, seq.content[: at + 1])
        if seq.step(tokens):
            self.release(seq)

    def release(self, seq: Seq) -> None:
        self.subject.release(seq)
        self.model.release(seq)
        self.running.remove(seq)
        seq.computed = 0

    def seen(self) -> tuple[Any, ...]:
        """All that shows of the subject's state."""
        subject = self.subject
        return (
            subject.usage(),
            subject.free_blocks(),
            [(subject.room(seq), subject.table(seq)) for seq in self.running],
            [subject.cached(seq) for seq in self.waiting],
            self.tree(),
        )

    def tree(self) -> set[tuple[Any, ...]]:
        return {
            (node.serial, node.touched, node.made, node.uses, node.locks > 0, *node.pages)
            for node in nodes(self.subject.tree)
        }

    @invariant()
    def holds(self) -> None:
        """Everything that must be so between any two calls."""
        self.equals_the_model()
        self.every_slot_holds_its_token()
        self.counts_add_up()

    def equals_the_model(self) -> None:
        subject, model = self.subject, self.model
        assert list(subject.free_blocks()) == model.free
        for seq in self.running:
            assert list(subject.table(seq)) == model.table(seq)
            assert subject.room(seq) == model.room(seq)
        assert [subject.cached(seq) for seq in self.waiting] == [
            model.cached(seq) for seq in self.waiting
        ]
        assert self.tree() == {
            (node.serial, node.touched, node.made, node.uses, model.locked(node), *node.pages)
            for node in model.nodes
        }

    def every_slot_holds_its_token(self) -> None:
        for seq in self.running:
            slots = self.subject.slots(seq)
            assert slots.dtype == "int64"
            for at, slot in enumerate(slots[: seq.computed].tolist()):
                assert self.memory[slot] == (seq.salt, seq.content[: at + 1])

    def counts_add_up(self) -> None:
        subject, usage = self.subject, self.subject.usage()
        check(
            subject.tree,
            [held.node for held in subject.held.values()],
            sum(len(held.own) for held in subject.held.values()),
        )
        tables = [subject.table(seq) for seq in self.running]
        assert usage.held == self.page * len({page for table in tables for page in table})
        assert usage.cached == self.model.evictable()
        live = {
            slot for seq in self.running for slot in subject.slots(seq)[: seq.computed].tolist()
        }
        assert usage.shared == sum(seq.computed for seq in self.running) - len(live)
        own = sum(len(held.own) for held in subject.held.values()) * self.page
        tree = subject.tree
        assert tree.available + tree.evictable + tree.protected + own == self.slots
        assert subject.capacity == subject.longest == self.slots

    def teardown(self) -> None:
        """Released, nothing is held, and the longest sequence fits."""
        if not hasattr(self, "subject"):
            return
        for seq in list(self.running):
            self.release(seq)
        assert self.subject.usage().held == self.subject.usage().shared == 0
        seq = sequence([*range(500, 500 + self.slots)], [1])
        assert self.subject.admit(seq, self.slots, whole=self.slots)
        assert self.subject.usage() == (self.slots, 0, 0, 0)
        self.subject.release(seq)


def machine(make: Make) -> type[RadixMachine]:
    return type("Machine", (RadixMachine,), {"make": staticmethod(make)})


SETTINGS = settings(deadline=None, database=None, derandomize=True, stateful_step_count=25)


def run(make: Make, *, examples: int) -> None:
    run_state_machine_as_test(machine(make), settings=settings(SETTINGS, max_examples=examples))


def assert_rejects(make: Make, *, examples: int = 400) -> None:
    """A planted bug must be found: the first failure will do."""
    once = settings(
        SETTINGS, max_examples=examples, phases=[Phase.generate], report_multiple_bugs=False
    )
    with pytest.raises(FOUND):
        run_state_machine_as_test(machine(make), settings=once)
