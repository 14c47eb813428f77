"""Requests of several samples in the fast engine: made, forked, preempted and finished together.

Only runs whose trace has such requests come here, and in them every row is a `Group` of `Member`
sequences. Until it has computed what all have in common a group is one running sequence; then the
others join the batch behind it, and each goes its own way::

    queue      batch
    | 0 |      | 0 |  ...  | 0 |   fork   | 0 | 1 | 2 |      ranks r, r + 1, r + 2

A member that has just been forked counts as prefilling, though it wants one token: it may have to
copy its last block (`tail`), so it is asked for by itself, and decodes like anyone after that.
Beams wait for each other in every step, so they never count as decoding, and no jump passes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, cast

import numpy as np

from pagedsim.engine.groups import Group, Member, slots_of
from pagedsim.engine.request import STOPPED, Request
from pagedsim.engine.sampling import parts_samples
from pagedsim.engine.state import State
from pagedsim.protocols import Allocator, Int64, Scheduler, SupportsFork, SupportsForkedGroups
from pagedsim.trace.content import Content
from pagedsim.trace.lineage import members
from pagedsim.trace.samples import forking, no_forks, outputs
from pagedsim.trace.trace import Trace

_RANK = attrgetter("rank")


class ForkState(State):
    """A `State` whose sequences are members of groups."""

    def __init__(self, allocator: Allocator, scheduler: Scheduler, max_len: int) -> None:
        super().__init__(allocator, scheduler, max_len)
        self.forking = cast(SupportsFork, allocator)
        grouped = isinstance(allocator, SupportsForkedGroups)
        self.together = allocator.together if grouped else None  # type: ignore[attr-defined]

    def width(self, seq: Any) -> int:
        return len(seq.group.left)

    def admit(self, seq: Any, tokens: int, *, whole: int = 0, spare: int = 0) -> bool:
        group = seq.group
        if whole and len(group.left) > 1 and group.forked_ns >= 0:
            known = [member.own for member in group.left]
            if self.together is not None:
                spare += self.together(group.common, known) - self.together(0, [whole])
            else:
                whole = max(whole, slots_of(group.common, known, self.forking.block))
        seq.admitted_ns, seq.resumed_hit = group.admitted_ns, group.resumed_hit
        if not super().admit(seq, tokens, whole=whole, spare=spare):
            return False
        if group.admitted_ns < 0:
            group.hit = seq.hit
        group.admitted_ns, group.resumed_hit = seq.admitted_ns, seq.resumed_hit
        if not group.split:
            self.pledged += len(group.left) - 1
            self.batch.reserve(len(group.left) - 1)
        return True

    def grow(self, seq: Any, tokens: int) -> bool:
        if not super().grow(seq, tokens):
            return False
        if seq.tail:
            seq.tail = False
            self.refit(seq.group)
        return True

    def preempt(self, seq: Any) -> tuple[Any, ...]:
        group = seq.group
        gone = tuple(group.left if group.split else group.left[:1])
        if not group.split:
            self.pledged -= len(group.left) - 1
        for member in gone:
            member.peak = max(member.peak, member.computed)
            self.leave(member)
            self.release(member)
        for member in group.left:
            member.base = 0
            if not group.split:
                member.known = member.own
        group.preemptions += 1
        group.rejoin()
        self.enqueue(group.left[0], front=True)
        return gone

    def release(self, seq: Any) -> None:
        super().release(seq)
        if seq.tail:
            seq.tail = False
            self.refit(seq.group)

    def keep(self, seq: Any) -> None:
        super().keep(seq)
        if seq in seq.group.left:
            seq.group.left.remove(seq)
            seq.group.held += 1

    def refit(self, group: Group) -> None:
        """Whoever may share a last block has more room if nobody else holds it any more."""
        for member in group.members:
            if member.tail and member.clock is STOPPED:
                room = self.allocator.room(member)
                final = member.final if member in group.left else 0
                spill = max(0, room - final)
                if self.groups is not None:  # what is done has spilt all that it holds
                    spill = self.groups.spill(member) if member in group.left else member.spill
                self.spill += spill - member.spill
                member.spill, member.given = spill, room

    def fork(self, parent: Member, child: Member, rank: int) -> None:
        """`child` holds what `parent` has stored and runs at `rank`; `refit` is due then."""
        child.base = parent.base
        self.forking.fork(parent, child, parent.base)
        parent.tail = child.tail = True
        child.rank = rank
        self.batch.insert(child)


class Forks:
    """The groups of a run."""

    def __init__(self, trace: Trace, state: ForkState, scheduler: Scheduler) -> None:
        made = members(trace)
        self.first, self.content = made.first, Content(made.trace)
        self._trace, self.state = trace, state
        self._outputs = outputs(trace).tolist()
        self._at = [0, *np.cumsum(trace.samples).tolist()]
        self._forks = trace.forks or no_forks(len(trace))
        allocator = state.allocator
        together, block = state.together, state.forking.block
        slots = together or (lambda alike, known: slots_of(alike, known, block))
        parts = parts_samples(trace, scheduler)
        self.wide = needs(trace, state.max_len, slots, parts=parts), allocator.capacity

    def request(self, row: int, priority: int, salt: int, arrival_ns: int) -> Member:
        """The sequence that stands in the queue for a row that arrives."""
        prompt, beam = int(self._trace.prompt[row]), int(self._trace.beam[row]) == 1
        group = Group(row, prompt, arrival_ns, beam, self._forks.of(row))
        given = Request(row, prompt, 1, priority, salt, 1, arrival_ns, self.content)
        for output in self._outputs[self._at[row] : self._at[row + 1]]:
            group.members.append(self._member(group, output, given))
        group.left = list(group.members)
        group.split = len(group.left) == 1
        return group.left[0]

    def _member(self, group: Group, output: int, given: Request) -> Member:
        line = self.first[group.id] + group.born
        group.born += 1
        return Member(group, line, output, given, self.state.max_len)

    def alone(self, seq: Member) -> bool:
        """Whether what `seq` has computed concerns no other."""
        return seq.group.split and not seq.group.beam

    def arrive(self, seq: Member, now: int) -> tuple[list[Member], bool]:
        """`seq` has computed all it was to, and others of its group wait for that.

        Who is done and held slots, in order, and whether any token was yielded.
        """
        group, state = seq.group, self.state
        together = group.left
        if forks := not group.split:
            group.split = True
            state.pledged -= len(together) - 1
            for member in together:
                member.known, member.base = member.own, seq.base
        ready = [member for member in together if member.base == member.known]
        if len(ready) < len(together) and group.beam:
            ready = []
        if ready and group.forked_ns < 0:
            group.forked_ns = now
        holding = [seq] if forks else together
        for member in ready:
            member.known += 1
        done = [member for member in ready if member.known == member.end]
        if done:
            group.left = [member for member in together if member not in done]
        if forks:
            for at, member in enumerate(together):
                if member is not seq and member in group.left:
                    state.fork(seq, member, seq.rank + at)
            state.refit(group)
        if ready and group.beam and not done:
            self._replace(group)
        ended = [member for member in done if member in holding]
        for member in ended:
            state.batch.leave(member)
            member.trigger = seq
        group.held += len(ended)
        return ended, bool(ready)

    def _replace(self, group: Group) -> None:
        """Beams that die are released, and forks of others take their places."""
        state = self.state
        pairs = group.forks.get(group.left[0].known - group.prompt, ())
        for slot, _ in pairs:
            dead = group.members[slot]
            state.leave(dead)
            state.release(dead)
        for slot, parent in pairs:
            dead, alive = group.members[slot], group.members[parent]
            child = self._member(group, alive.output, alive)
            child.known = alive.known
            group.recomputed_by_dead += dead.recomputed
            group.members[slot] = child
            group.left[group.left.index(dead)] = child
            state.fork(alive, child, dead.rank)
        state.refit(group)

    def returned(self, done: Iterable[Any]) -> list[Any]:
        """The requests of which nothing is left, now that `done` are released."""
        found = []
        for member in done:
            group = member.group
            if member in group.left:  # it ended alone, just now
                group.left.remove(member)
            else:
                group.held -= 1
            if not group.left and not group.held:
                found.append(group)
        return found


def in_turn(turn: Callable[[Any], int]) -> Callable[[Any], int]:
    """A key of those who end in one step: who is done with others stands with the last of them."""
    return lambda seq: turn(seq.trigger or seq)


def forks_of(
    trace: Trace, allocator: Allocator, scheduler: Scheduler, max_len: int
) -> Forks | None:
    """What a run of `trace` needs if some request has several samples, else None."""
    if not forking(trace):
        return None
    return Forks(trace, ForkState(allocator, scheduler, max_len), scheduler)


def needs(
    trace: Trace, max_len: int, slots: Callable[[int, list[int]], int], *, parts: bool = False
) -> Int64:
    """int64[rows]: the most slots that a request of several samples takes when alone, else 0.

    `slots` says how many sequences of so many tokens take that share the first ones. `parts`:
    whether one sample may be ahead of another. All may then be at their largest at once, but for
    those of one token, which hold nothing.
    """
    found = np.zeros(len(trace), np.int64)
    lengths, at = outputs(trace), np.concatenate(([0], np.cumsum(trace.samples)))
    for row in np.flatnonzero(trace.samples > 1).tolist():
        prompt = int(trace.prompt[row])
        ends = np.minimum(prompt + lengths[at[row] : at[row + 1]], max_len)
        finals = np.sort(ends - 1)[::-1].tolist()  # as one ends, those before it are there too
        found[row] = max(slots(prompt, [final] * alive) for alive, final in enumerate(finals, 1))
        if parts:
            apart = slots(prompt, [final for final in finals if final > prompt])
            found[row] = max(int(found[row]), apart)
    return found


__all__ = ["ForkState", "Forks", "forks_of", "in_turn", "needs"]
