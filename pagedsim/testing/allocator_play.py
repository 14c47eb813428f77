"""What a machine over an allocator does, and how it judges it; the rules are in `allocator`.

A third allocator is brought to the same state where a question is asked that would change the
answer to later ones.
"""

from __future__ import annotations

from typing import Any

from pagedsim.testing.allocator_calls import Call, Calls
from pagedsim.testing.sequences import MOST, Seq, Shape, described, shaped
from pagedsim.testing.sizes import grain

_GRAINS = 6  # of the longest sequences
QUEUE = 3  # sequences that wait at most
_TAIL = 24  # tokens that are generated one by one where a promise is tried


class Play(Calls):
    """One history, from an empty allocator that keeps its promise."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.most = max(MOST, _GRAINS * grain(self.make))  # tokens of a sequence
        self.keeps_its_promise()

    def draw(self, shape: Shape) -> Seq:
        """A new sequence, which may begin as a recent one does."""
        longest, most = self.subject.longest, self.most
        seq = shaped(shape, longest, self.library, self.count, self.recent, most=most)
        self.count += 1
        self.log.append(described(seq, self.recent))
        self.recent = [*self.recent, seq][-4:]
        return seq

    def unfinished(self) -> list[Seq]:
        return [seq for seq in self.stored if seq.computed < seq.final]

    # Calls, and what they must do.

    def hit(self, seq: Seq) -> int:
        """What would be hit: content that was stored, and less than what is known."""
        before = self.seen()
        hit = int(self.call(self.subject, "cached", seq))
        self.hold("hits", 0 <= hit < seq.tokens, f"cached({seq}) is {hit} of {seq.tokens} known")
        real = not hit or seq.prefixes[hit - 1] in self.laws.model.ever
        self.hold("hits", real, f"cached({seq}) is {hit}: nobody ever stored that")
        self.laws.same("hits", before, self.seen(), f"cached({seq}) changed something")
        return hit

    def admit(self, seq: Seq, tokens: int, whole: int, spare: int, hit: int) -> bool:
        """Admit and compute; what a refusal must be like."""
        capacity, before = self.subject.capacity, self.seen()
        said = f"admit({seq}, {tokens}, whole={whole}, spare={spare})"
        if self.call(self.subject, "admit", seq, tokens, whole=whole, spare=spare, said=said):
            self.take("admit", seq, tokens, whole, spare)
            if seq in self.waiting:
                self.waiting.remove(seq)
            self.stored[seq] = hit
            room, held = self.subject.room(seq), self.subject.usage().held
            self.hold("enough", room >= tokens, f"{seq} was given {tokens}, its room is {room}")
            more = 0 if self.laws.groups else max(0, whole - room)  # groups have no such sum
            left = capacity - held - more
            self.hold("spare", left >= spare, lambda: f"only {left} are left over")
            seq.computed = hit
            return True
        self.laws.same("refusal", before, self.seen(), f"a refused admission of {seq}")
        self.hold("longest", self.stored or spare, "refused though nothing is held")
        if self.laws.has_blocks and not self.laws.groups:
            block = self.subject.block
            self.free_blocks_are_below(-(-max(tokens, whole) // block) + -(-spare // block))
        if seq not in self.waiting:
            self.waiting = [*self.waiting, seq][-QUEUE:]
        return False

    def grow(self, seq: Seq, tokens: int) -> bool:
        """Grow and compute; what a refusal must be like."""
        room = self.subject.room(seq)
        self.trim(seq, tokens <= room)
        before = self.seen()
        if self.call(self.subject, "grow", seq, tokens, said=f"grow({seq}, {tokens})"):
            if tokens <= room and not getattr(self.subject, "fills", False):
                self.laws.same("within room", before, self.seen(), f"{seq}, of room {room}")
            self.take("grow", seq, tokens)
            room = self.subject.room(seq)
            self.hold("enough", room >= tokens, f"{seq} was given {tokens}, its room is {room}")
            self.compute(seq, tokens)
            return True
        self.hold("within room", tokens > room, f"refused {tokens} within a room of {room}")
        self.hold("longest", len(self.stored) > 1, "refused though no other holds anything")
        self.laws.same("refusal", before, self.seen(), f"a refused growth of {seq}")
        if self.laws.has_blocks and not self.laws.groups:
            have, block = len(self.subject.table(seq)), self.subject.block
            copies = self.laws.has_forks and room < have * block
            self.free_blocks_are_below(-(-tokens // block) - have + copies)
        return False

    def trim(self, seq: Seq, within: bool) -> None:
        """Before a growth, `within` room or not: what has left the windows is given back."""
        if self.laws.groups is None:
            return
        before = self.seen()
        said = f"trim({seq}, {seq.computed})"
        self.call(self.subject, "trim", seq, seq.computed, said=said)
        self.call(self.twin, "trim", seq, seq.computed)
        self.calls.append(Call("trim", seq, seq.computed, 0, 0, seq.tokens, seq.computed))
        self.look(self.laws.groups.after_trim, seq, seq.computed)
        if within:
            self.laws.same("within room", before, self.seen(), f"{said} within its room")

    def free_blocks_are_below(self, need: int) -> None:
        free = len(self.subject.free_blocks())
        self.hold("no timid refusal", free < need, lambda: f"{need} blocks refused, {free} free")

    def take(self, kind: str, seq: Seq, tokens: int, whole: int = 0, spare: int = 0) -> None:
        """The subject granted it: so must the twin."""
        more: dict[str, Any] = {"whole": whole, "spare": spare} if kind == "admit" else {}
        good = self.call(self.twin, kind, seq, tokens, **more)
        self.hold("determinism", good, f"an equal allocator refuses {kind}({seq}, {tokens})")
        self.calls.append(Call(kind, seq, tokens, whole, spare, seq.tokens, seq.computed))

    def compute(self, seq: Seq, tokens: int) -> None:
        """The step is over: what was not stored yet is, in slots that nobody else holds."""
        self.look(self.laws.write, seq, tokens)
        seq.store(tokens)

    def preempt(self, seq: Seq) -> None:
        self.release(seq)
        self.waiting = [*self.waiting, seq][-QUEUE:]

    def release(self, seq: Seq) -> None:
        self.call(self.subject, "release", seq, said=f"release({seq})")
        self.call(self.twin, "release", seq)
        self.calls.append(Call("release", seq, 0, 0, 0, seq.tokens, seq.computed))
        self.laws.model.drop(seq)
        seq.computed = 0

    def extend(self, seqs: list[Seq]) -> int:
        """A block more for each that is full; the twin grows one by one. How many were served.

        A block of one is full at once, so `fill` follows where there is one.
        """
        count = int(self.call(self.subject, "extend", seqs, said=f"extend({seqs})"))
        if self.subject.block == 1 and getattr(self.subject, "fills", False):
            self.call(self.subject, "fill", seqs[:count], said=f"fill({seqs[:count]})")
        granted = 0
        while granted < len(seqs):
            seq = seqs[granted]
            if not self.call(self.twin, "grow", seq, seq.tokens):
                break
            granted += 1
        said = f"extend gave to {count} of {seqs}, growing one by one to {granted}"
        self.hold("extend", count == granted, said)
        self.looks_like_its_twin("extend")
        for seq in seqs[:granted]:
            self.calls.append(Call("grow", seq, seq.tokens, 0, 0, seq.tokens, seq.computed))
            self.compute(seq, seq.tokens)
        return granted

    def fill(self, seqs: list[Seq]) -> None:
        """The last block of each is full with this step's token; the twin grows one by one."""
        self.call(self.subject, "fill", seqs, said=f"fill({seqs})")
        for seq in seqs:
            grown = self.call(self.twin, "grow", seq, seq.tokens)
            self.hold("within room", grown, f"the twin refuses {seq} its room")
            self.calls.append(Call("grow", seq, seq.tokens, 0, 0, seq.tokens, seq.computed))
        self.looks_like_its_twin("fill")
        for seq in seqs:
            self.compute(seq, seq.tokens)

    def fork(self, parent: Seq, output: int) -> None:
        """A child with what its parent stores, and an output of its own."""
        stored, first = parent.computed, 1000 * (self.count + 1)
        content = (*parent.content[:stored], *range(first, first + output))
        child = Seq(self.count, parent.prompt, content, self.library, salt=parent.salt)
        child.tokens, child.computed = stored + 1, stored
        self.count += 1
        before = self.seen()
        self.call(
            self.subject, "fork", parent, child, stored, said=f"fork({parent}, {child}, {stored})"
        )
        self.call(self.twin, "fork", parent, child, stored)
        after = self.seen()
        held, now = before["usage"].held, after["usage"].held
        self.hold("fork", held == now, lambda: f"a fork took slots: {held} -> {now}")
        for key in ("slots", "tables"):
            if key in before:
                self.hold("fork", before[key][parent] == after[key][parent], f"{key} of {parent}")
        self.calls.append(Call("fork", parent, stored, 0, 0, parent.tokens, stored, child))
        self.stored[child] = stored
        if self.laws.has_slots:
            self.laws.model.shown[child] = self.look(self.subject.slots, child).tolist()
        if self.laws.groups is not None:
            self.look(self.laws.groups.forked, child)

    def misuse(self, pick: int) -> None:
        """What breaks the contract raises, and changes nothing."""
        before = self.seen()
        stranger = Seq(25, 1, (-1, -2), self.library)
        wrong = [("release", stranger), ("grow", stranger), *(("admit", s) for s in self.stored)]
        kind, seq = wrong[pick % len(wrong)]
        try:
            getattr(self.subject, kind)(seq, *([] if kind == "release" else [1]))
        except Exception:
            accepted = False
        else:
            accepted = True
        said = f"{kind}({seq}) {'a second time' if kind == 'admit' else 'though it holds nothing'}"
        self.hold("misuse", not accepted, f"{said} was accepted")
        self.laws.same("misuse", before, self.seen(), said)

    # Questions to others in the same state.

    def again(self) -> Any:
        """A third allocator in the same state: everything that was granted, once more.

        Sequences show then what they showed: what they know, and what all of them have stored.
        """
        third = self.make()
        everyone = {call.seq for call in self.calls} | {call.child for call in self.calls} - {None}
        now = {seq: (seq.tokens, seq.computed) for seq in everyone if seq is not None}
        for kind, seq, tokens, whole, spare, known, computed, child in self.calls:
            seq.tokens, seq.computed = known, computed
            if kind == "release":
                self.call(third, "release", seq)
                seq.computed = 0
            elif kind == "trim":
                self.call(third, "trim", seq, tokens)
            elif kind == "fork":
                self.call(third, "fork", seq, child, tokens)
            else:
                more: dict[str, Any] = {"whole": whole, "spare": spare} if kind == "admit" else {}
                good = self.call(third, kind, seq, tokens, **more)
                self.hold("determinism", good, f"an equal allocator refuses {kind}({seq})")
                seq.computed = tokens
        for each, (known, computed) in now.items():
            each.tokens, each.computed = known, computed
        return third

    def still_refused(self, pick: int, kind: str, seq: Seq, tokens: int, **more: Any) -> None:
        """Less room never turns a no into a yes: from this state, after others came.

        They are small, and have no content that anybody else has.
        """
        third = self.again()
        came = 0
        for at, final in enumerate((1, 1, 2, 1 + pick % min(self.most, self.subject.longest))):
            other = Seq(24, final, range(-100 * at - final - 1, -100 * at), self.library)
            if self.call(third, "admit", other, final):
                came += final
                yes = self.call(third, kind, seq, tokens, **more)
                said = f"{kind}({seq}, {tokens}), refused now, is granted after others took {came}"
                self.hold("less room", not yes, said)

    def keeps_its_promise(self) -> None:
        """`longest` fits, however prompt and output share it."""
        longest = int(self.subject.longest)
        for prompt in sorted({max(1, longest - _TAIL), (longest + 1) // 2, longest}):
            if prompt < longest - _TAIL:
                continue
            seq = Seq(23, prompt, range(-longest - 2, -1), self.library)
            for allocator in (self.subject, self.twin):
                calls = self._longest(allocator, seq, longest)
            self.calls += calls

    def _longest(self, allocator: Any, seq: Seq, longest: int) -> list[Call]:
        seq.tokens, seq.computed = seq.prompt, 0
        calls: list[Call] = []
        for tokens in range(seq.prompt, longest + 1):
            kind = "grow" if seq.computed else "admit"
            whole = 0 if seq.computed else tokens
            more: dict[str, Any] = {"whole": whole} if whole else {}
            if self.laws.groups is not None and seq.computed:
                self.call(allocator, "trim", seq, seq.computed)
                calls.append(Call("trim", seq, seq.computed, 0, 0, tokens, seq.computed))
            good = self.call(allocator, kind, seq, tokens, **more)
            said = f"{kind} to {tokens} tokens is refused though nobody else holds anything"
            self.hold("longest", good, f"{said}; longest is {longest}")
            calls.append(
                Call(kind, seq, tokens, tokens * (kind == "admit"), 0, tokens, seq.computed)
            )
            seq.store(tokens)
        room = allocator.room(seq)
        self.hold("longest", room >= longest, f"{longest} tokens, but a room of {room}")
        self.call(allocator, "release", seq)
        return [*calls, Call("release", seq, 0, 0, 0, seq.tokens, seq.computed)]


__all__ = ["QUEUE", "Play"]
