"""A state machine that drives an allocator as an engine would, and judges it after each call.

The subject and its twin must look alike after each call, so a refusal that changes anything is
caught by what it changes, at once or later, and so is any dependence on chance, and an `extend` or
`fill` that is not what the same calls one by one would be.

A sequence is admitted with a part or all of what it knows, computed, grown a chunk or a token at a
time, preempted, and released. Numbers are drawn without regard to the state, and taken modulo what
there is to choose from.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pagedsim.testing.allocator_laws import LAWS
from pagedsim.testing.allocator_play import Play
from pagedsim.testing.explore import Suite
from pagedsim.testing.laws import Judge, Over
from pagedsim.testing.sequences import MOST, SHAPES, Seq, Shape, stretched
from pagedsim.testing.sizes import Maker, makers, name_of

_F = TypeVar("_F", bound=Callable[..., None])
_SPARES = (0, 0, 0, 0, 0, 1, 2, 5, 1 << 40)
_PICK = st.integers(0, 7)
_ANY = st.integers(0, MOST - 1)


def judged(function: _F) -> _F:
    """A rule that does nothing more in a history that is over."""

    @functools.wraps(function)
    def run(self: Any, *args: Any, **values: Any) -> None:
        if not self.over:
            try:
                function(self, *args, **values)
            except Over:
                self.over = True

    return run  # type: ignore[return-value]


class AllocatorMachine(RuleBasedStateMachine):
    """Admits, grows, preempts, finishes and misuses.

    `play` is what there is to see: `subject`, `twin`, `stored`. Subclass it to judge more, in
    `answered`, or by more invariants.
    """

    makers: ClassVar[st.SearchStrategy[Maker]]
    judge: ClassVar[Judge]
    play: Play

    def __init__(self) -> None:
        super().__init__()
        self.over = False

    @initialize(data=st.data())
    @judged
    def build(self, data: st.DataObject) -> None:
        make = data.draw(self.makers, label="make")
        self.judge.examples += 1
        self.play = Play(make, self.judge)

    def answered(
        self, seq: Seq, tokens: int, whole: int, spare: int, granted: bool, before: dict[str, Any]
    ) -> None:
        """Override to judge an answer to `admit` by more than the contract.

        `before`: what the subject showed before the call (`Laws.seen`).
        """

    @rule(shape=SHAPES, pick=_PICK, part=st.booleans(), whole=st.booleans(), spare=_PICK, ask=_ANY)
    @judged
    def admit(self, shape: Shape, pick: int, part: bool, whole: bool, spare: int, ask: int) -> None:
        """A new sequence, or one that was preempted or refused before."""
        play = self.play
        seq = play.waiting[pick - 1] if 0 < pick <= len(play.waiting) else play.draw(shape)
        hit = play.hit(seq)
        tokens = hit + 1 if part else seq.tokens
        whole_tokens = seq.tokens if whole else 0
        slots = min(_SPARES[spare], play.subject.capacity)
        before = play.seen()
        granted = play.admit(seq, tokens, whole_tokens, slots, hit)
        self.answered(seq, tokens, whole_tokens, slots, granted, before)
        if granted:
            play.compute(seq, tokens)
        elif ask % 2:
            play.still_refused(ask, "admit", seq, tokens, whole=whole_tokens, spare=slots)

    @rule(shapes=st.lists(SHAPES, min_size=1, max_size=3))
    @judged
    def crowd(self, shapes: list[Shape]) -> None:
        """New ones with a token each for now, so that they will soon want more than there is."""
        for shape in shapes:
            seq = self.play.draw(shape)
            hit = self.play.hit(seq)
            before = self.play.seen()
            granted = self.play.admit(seq, hit + 1, 0, 0, hit)
            self.answered(seq, hit + 1, 0, 0, granted, before)
            if granted:
                self.play.compute(seq, hit + 1)

    def grow(self, seq: Seq, tokens: int, pick: int) -> None:
        """As an engine does: if it is refused somebody makes room, at last itself."""
        play = self.play
        if not play.grow(seq, tokens):
            if pick % 2:
                play.still_refused(8 * pick, "grow", seq, tokens)
            play.preempt(seq if pick % 4 > 1 else list(play.stored)[-1])

    @precondition(lambda self: not self.over and self.play.stored)
    @rule(rounds=st.integers(1, 4), pick=_PICK, together=st.booleans())
    @judged
    def steps(self, rounds: int, pick: int, together: bool) -> None:
        """All that run, in order, as an engine does: the rest of what is known, then a token."""
        stored = self.play.stored
        for _ in range(rounds):
            running = list(stored)
            if together:
                running = self.at_once(running)
            for seq in running:
                if seq in stored and seq.computed < seq.final:
                    self.grow(seq, seq.tokens, pick)
                    self.play.holds()
                elif seq in stored:
                    self.play.release(seq)

    @precondition(lambda self: not self.over and self.play.unfinished())
    @rule(who=_PICK, part=_ANY, pick=_PICK)
    @judged
    def chunk(self, who: int, part: int, pick: int) -> None:
        """One sequence, a part of what it knows."""
        seqs = self.play.unfinished()
        seq = seqs[who % len(seqs)]
        part = stretched(part, self.play.most)
        self.grow(seq, seq.computed + 1 + part % (seq.tokens - seq.computed), pick)

    def at_once(self, running: list[Seq]) -> list[Seq]:
        """Those that start a block get it in one call, those that fill one in another.

        Returns who is left.
        """
        full, filling = self.full(), self.filling()
        if full:
            served = full[: self.play.extend(full)]
            if len(served) < len(full):
                self.play.preempt(list(self.play.stored)[-1])
        filling = [seq for seq in filling if seq in self.play.stored]
        if filling:
            self.play.fill(filling)
        return [seq for seq in running if seq not in full and seq not in filling]

    @precondition(lambda self: not self.over and self.play.stored)
    @rule(who=_PICK, how=_PICK)
    @judged
    def leave(self, who: int, how: int) -> None:
        """Preempted or done; or a call that the contract forbids."""
        seqs = list(self.play.stored)
        seq = seqs[who % len(seqs)]
        if how == 7:
            self.play.misuse(who)
        elif how % 2 and not seq.done:
            self.play.preempt(seq)
        else:
            self.play.release(seq)

    @precondition(lambda self: not self.over and self.full())
    @rule(turn=_PICK, back=st.booleans())
    @judged
    def extend(self, turn: int, back: bool) -> None:
        """A block more for each that is full."""
        self.play.extend(_turned(self.full(), turn, back))

    @precondition(lambda self: not self.over and self.filling())
    @rule(turn=_PICK, back=st.booleans())
    @judged
    def fill(self, turn: int, back: bool) -> None:
        """The last block of each is full with this step's token."""
        self.play.fill(_turned(self.filling(), turn, back))

    @precondition(lambda self: not self.over and self.decoding())
    @rule(who=_PICK, output=st.integers(1, 6))
    @judged
    def fork(self, who: int, output: int) -> None:
        """Another that goes on where one that decodes stands."""
        seqs = self.decoding()
        parent = seqs[who % len(seqs)]
        longest = min(self.play.subject.longest, MOST)
        self.play.fork(parent, 1 + output % (longest - parent.computed + 1))

    def decoding(self) -> list[Seq]:
        """Who decodes, if there is `fork`."""
        if not self.play.laws.has_forks:
            return []
        return [seq for seq in self.play.unfinished() if seq.computed == seq.tokens - 1]

    def full(self) -> list[Seq]:
        """Who decodes and has no room for the next token, if there is `extend`."""
        subject = self.play.subject
        if not hasattr(subject, "extend"):
            return []
        seqs = self.play.unfinished()
        return [seq for seq in seqs if seq.computed == subject.room(seq) == seq.tokens - 1]

    def filling(self) -> list[Seq]:
        """Who decodes and fills its room with the next token, if there is `fill`."""
        subject = self.play.subject
        if not getattr(subject, "fills", False):
            return []
        seqs = self.play.unfinished()
        return [seq for seq in seqs if seq.tokens == subject.room(seq) == seq.computed + 1]

    @invariant()
    @judged
    def holds(self) -> None:
        if hasattr(self, "play"):
            self.play.holds()
            self.play.looks_like_its_twin()

    def teardown(self) -> None:
        """Released, everything is free, and the promise of `longest` holds again."""
        if hasattr(self, "play") and not self.over:
            try:
                for seq in list(self.play.stored):
                    self.play.release(seq)
                self.play.holds()
                self.play.keeps_its_promise()
                self.play.holds()
            except Over:
                pass


def _turned(seqs: list[Seq], turn: int, back: bool) -> list[Seq]:
    """Some of them, in another order."""
    turn %= len(seqs)
    some = [*seqs[turn:], *seqs[:turn]]
    return some[::-1][: 1 + turn] if back else some


def allocator_machine(
    make: Callable[..., Any],
    *,
    base: type[AllocatorMachine] = AllocatorMachine,
    judge: Judge | None = None,
) -> type[AllocatorMachine]:
    """A machine for what `make` builds; its ``TestCase`` is one for unittest and pytest.

    Sizes that `make` wants are drawn (`pagedsim.testing.sizes`).
    """
    own = {"makers": makers(make), "judge": judge or Judge(LAWS)}
    return type(base.__name__, (base,), own)


def allocator_suite(
    make: Callable[..., Any], *, base: type[AllocatorMachine] = AllocatorMachine
) -> Suite:
    """All laws of an allocator over what `make` builds."""

    def run(judge: Judge, given: Any) -> None:
        run_state_machine_as_test(allocator_machine(make, base=base, judge=judge), settings=given)

    return Suite("allocator", name_of(make), LAWS, run)


__all__ = ["AllocatorMachine", "allocator_machine", "allocator_suite", "judged"]
