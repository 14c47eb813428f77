"""The laws of an allocator, and a model of dictionaries that says what each sequence must have.

The model knows of each held sequence how many tokens are stored, and of each slot which prefix was
written into it last. It knows nothing about how slots are chosen, and takes no number from the
allocator that it judges but those that it compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pagedsim.protocols import (
    SupportsBlocks,
    SupportsExtend,
    SupportsFill,
    SupportsFork,
    SupportsGroups,
    SupportsHoles,
    SupportsOutside,
    SupportsSlots,
)
from pagedsim.testing.group_laws import GROUP_LAWS, GroupLaws
from pagedsim.testing.laws import Judge
from pagedsim.testing.sequences import Seq

LAWS = {
    "calls": "no call that the contract allows raises an error, or answers with something else",
    "determinism": "a twin that sees the granted calls alone looks the same after each",
    "conservation": "0 <= lost <= held, held + cached <= capacity; capacity and longest stay",
    "enough": "what was granted has room for its tokens",
    "spare": "an admission leaves `spare` slots over, besides room for `whole` tokens",
    "refusal": "a refusal changes nothing",
    "within room": "growing up to `room` is granted and changes nothing",
    "less room": "what was refused is refused too after somebody else was admitted",
    "longest": "a sequence of `longest` tokens fits when nothing else is held",
    "no timid refusal": "what free blocks suffice for is granted",
    "misuse": "to release or grow a stranger, or to admit twice, raises and changes nothing",
    "empty": "everything released means nothing held",
    "hits": "hits are content that was stored, below the known tokens; a look-up changes nothing",
    "slots": "slots are in range, and two sequences share one for equal content alone",
    "no move": "a stored token stays, goes to a slot of equal content, or is copied on write",
    "no alias": "no token is written to a slot that another sequence holds",
    "content": "every stored token reads back",
    "usage": "usage is what the slots and tables say",
    "blocks": "tables and free list are all the blocks, each once",
    "holes": "the largest hole is free",
    "extend": "`extend` equals growing each by a token on a twin, up to the first refusal",
    "fork": "a fork takes no slot, and its parent has what it had",
    "fill": "`fill` equals growing each to its room on a twin",
    **GROUP_LAWS,
}

PROTOCOLS: dict[str, Any] = {
    "SupportsBlocks": SupportsBlocks,
    "SupportsExtend": SupportsExtend,
    "SupportsFill": SupportsFill,
    "SupportsFork": SupportsFork,
    "SupportsGroups": SupportsGroups,
    "SupportsHoles": SupportsHoles,
    "SupportsOutside": SupportsOutside,
    "SupportsSlots": SupportsSlots,
}


class Model:
    """What must be so, as dictionaries: `stored` tokens of each sequence that holds something,
    the slots it was `shown`, the prefix in each slot of `memory`, and every prefix `ever` stored.
    """

    def __init__(self) -> None:
        self.stored: dict[Seq, int] = {}
        self.shown: dict[Seq, list[int]] = {}
        self.memory: dict[int, int] = {}
        self.ever: set[int] = set()

    def write(self, seq: Seq, at: int, tokens: int) -> None:
        """Compute the tokens from `at` to `tokens`, which have slots."""
        prefixes = seq.prefixes[at:tokens]
        self.ever.update(prefixes)
        self.memory.update(zip(self.shown.get(seq, [])[at:tokens], prefixes, strict=False))

    def drop(self, seq: Seq) -> None:
        del self.stored[seq]
        self.shown.pop(seq, None)


class Laws:
    """Holds one allocator to what can be said of it between any two calls.

    `log` is the history that a broken law is reported with.
    """

    def __init__(self, judge: Judge, allocator: Any, log: list[str]) -> None:
        self.judge, self.allocator, self.log = judge, allocator, log
        self.model = Model()
        self.size = (allocator.capacity, allocator.longest)
        self.has_slots = isinstance(allocator, SupportsSlots)
        self.has_blocks = isinstance(allocator, SupportsBlocks)
        self.has_holes = isinstance(allocator, SupportsHoles)
        self.has_forks = isinstance(allocator, SupportsFork)
        grouped = isinstance(allocator, SupportsGroups)
        self.groups = GroupLaws(allocator, self.hold) if grouped else None
        for key, protocol in PROTOCOLS.items():
            (judge.present if isinstance(allocator, protocol) else judge.absent).add(key)

    def hold(self, law: str, good: object, said: Any) -> None:
        self.judge.hold(law, good, said, self.log)

    def seen(self, allocator: Any, waiting: Iterable[Seq]) -> dict[str, Any]:
        """All that an allocator shows of its state."""
        held = self.model.stored
        found: dict[str, Any] = {
            "usage": allocator.usage(),
            "size": (allocator.capacity, allocator.longest),
            "cached": {seq: allocator.cached(seq) for seq in waiting},
            "room": {seq: allocator.room(seq) for seq in held},
        }
        if self.has_slots:
            found["slots"] = {seq: np.asarray(allocator.slots(seq)).tolist() for seq in held}
        if self.has_blocks:
            found["tables"] = {seq: list(allocator.table(seq)) for seq in held}
            found["free"] = list(allocator.free_blocks())
        if self.has_holes:
            found["hole"] = allocator.largest_hole()
        if self.groups is not None:
            found |= self.groups.seen(allocator, held)
        return found

    def same(self, law: str, before: dict[str, Any], after: dict[str, Any], said: str) -> None:
        self.hold(law, before == after, lambda: f"{said}: {_differing(before, after)}")

    def between_calls(self) -> None:
        """Everything that holds whatever was called last."""
        usage = self.allocator.usage()
        held, cached, shared, lost = usage
        capacity = self.size[0]
        self.hold(
            "conservation",
            min(usage) >= 0 and lost <= held and held + cached <= capacity,
            lambda: f"{usage} of a capacity of {capacity}",
        )
        self.hold(
            "conservation",
            (self.allocator.capacity, self.allocator.longest) == self.size,
            "capacity or longest changed",
        )
        for seq, stored in self.model.stored.items():
            room = self.allocator.room(seq)
            self.hold("enough", room >= stored, lambda: f"{seq} stores {stored} in {room}")  # noqa: B023
        if not self.model.stored:
            self.hold(
                "empty", (held, shared, lost) == (0, 0, 0), lambda: f"nothing is held, but {usage}"
            )
        if self.has_holes:
            hole = self.allocator.largest_hole()
            self.hold(
                "holes",
                0 <= hole <= capacity - held - cached,
                lambda: f"a hole of {hole} in {capacity - held - cached} free slots",
            )
        if self.has_blocks:
            self._blocks(held, cached)
        if self.has_slots:
            self._slots(held - lost, shared)
        if self.groups is not None:
            self.groups.between_calls(self.model.stored)

    def write(self, seq: Seq, tokens: int) -> None:
        """A step stores the tokens of `seq` up to so many, in slots that nobody else holds."""
        begin = seq.computed
        self.model.stored[seq] = tokens
        if self.has_slots:
            slots = self.allocator.slots(seq).tolist()
            self._moved(seq, slots)
            for other in self.model.stored:
                if other is seq:
                    continue
                both = set(slots[begin:tokens]).intersection(self.allocator.slots(other).tolist())
                said = f"{seq} writes to slots {sorted(both)}, which {other} holds"
                self.hold("no alias", not both, said)
            self.model.shown[seq] = slots
        if self.groups is not None:
            self.groups.write(
                seq, tokens, [other for other in self.model.stored if other is not seq]
            )
        self.model.write(seq, begin, tokens)

    def _blocks(self, held: int, cached: int) -> None:
        allocator = self.allocator
        free = list(allocator.free_blocks())
        owned = {block for seq in self.model.stored for block in allocator.table(seq)}
        for seq in self.model.stored:
            table = list(allocator.table(seq))
            self.hold("blocks", len(set(table)) == len(table), lambda: f"{seq}: {table}")  # noqa: B023
        self.hold("blocks", len(set(free)) == len(free), lambda: f"twice on the free list: {free}")
        ids = owned | set(free)
        self.hold(
            "blocks",
            all(0 <= block < allocator.blocks for block in ids),
            lambda: f"ids {sorted(ids)} of {allocator.blocks} blocks",
        )
        both = owned & set(free)
        self.hold("blocks", not both, lambda: f"held and free: {sorted(both)}")
        slots = allocator.block * len(free)
        self.hold(
            "blocks",
            allocator.capacity - held - slots in (0, cached),
            lambda: f"{held} slots held, {cached} cached, {slots} free of {allocator.capacity}",
        )
        self.hold(
            "usage",
            held == allocator.block * len(owned),
            lambda: f"held {held}, but tables have {len(owned)} blocks of {allocator.block}",
        )

    def _slots(self, held: int, shared: int) -> None:
        """Where each token is: judged against what was shown before, and read back."""
        model, allocator = self.model, self.allocator
        end = allocator.blocks * allocator.block if self.has_blocks else self.size[0]
        users: dict[int, list[tuple[Seq, int]]] = {}
        used: set[int] = set()
        live: set[int] = set()
        for seq, stored in model.stored.items():
            array = allocator.slots(seq)
            self.hold(
                "slots",
                isinstance(array, np.ndarray) and array.dtype == np.int64,
                lambda: f"slots({seq}) is no int64 array",  # noqa: B023
            )
            slots = array.tolist()
            room = allocator.room(seq)
            self.hold(
                "enough", len(slots) >= room, lambda: f"{seq}: {len(slots)} slots, room {room}"  # noqa: B023
            )  # fmt: skip
            good = len(set(slots)) == len(slots) and all(0 <= slot < end for slot in slots)
            self.hold("slots", good, lambda: f"slots({seq}) = {slots} of {end}")  # noqa: B023
            self._moved(seq, slots)
            model.shown[seq] = slots
            for at, slot in enumerate(slots):
                users.setdefault(slot, []).append((seq, at))
            used.update(slots[:room])
            live.update(slots[:stored])
            found = [model.memory.get(slot) for slot in slots[:stored]]
            self.hold(
                "content",
                found == seq.prefixes[:stored],
                lambda: f"{seq} has other content at position {_first(found, seq.prefixes)}",  # noqa: B023
            )
        for slot, who in users.items():
            if len(who) > 1:
                self._shares(slot, who)
        if not self.has_blocks:
            self.hold(
                "usage", held == len(used), lambda: f"{held} held, {len(used)} slots are shown"
            )
        saved = sum(model.stored.values()) - len(live)
        self.hold("usage", shared == saved, lambda: f"shared {shared}, the slots say {saved}")

    def _moved(self, seq: Seq, now: list[int]) -> None:
        """From what was shown before: only to a slot that holds the same."""
        memory, stored = self.model.memory, self.model.stored.get(seq, 0)
        for at, before in enumerate(self.model.shown.get(seq, [])):
            if at < len(now) and now[at] == before:
                continue
            equal = at < min(len(now), stored) and memory.get(now[at]) == seq.prefixes[at]
            good = equal or (at < len(now) and self._copied(seq, before, now[at]))
            if good and at < stored:
                memory[now[at]] = seq.prefixes[at]
            self.hold(
                "no move",
                good,
                lambda: f"position {at} of {seq} went from slot {before} to {now[at : at + 1]}",  # noqa: B023
            )
        self.judge.checked["no move"] += 1

    def _copied(self, seq: Seq, before: int, now: int) -> bool:
        """Whether it left a slot that others hold for one that nobody does."""
        shown = [slots for other, slots in self.model.shown.items() if other is not seq]
        held = any(before in slots for slots in shown)
        return self.has_forks and held and not any(now in slots for slots in shown)

    def _shares(self, slot: int, who: list[tuple[Seq, int]]) -> None:
        """A slot of several sequences: at the same position, stored in all, equal content."""
        stored = self.model.stored
        equal = {(at, seq.prefixes[at]) for seq, at in who if at < stored[seq]}
        good = len(equal) == 1 and all(at < stored[seq] for seq, at in who)
        if self.has_forks and not equal:  # the empty end of a block that forks share
            good = len({at for _, at in who}) == 1
        self.hold("slots", good, lambda: f"slot {slot} is that of {_spots(who)}")


def _spots(who: list[tuple[Seq, int]]) -> str:
    return " and ".join(f"{seq}[{at}]" for seq, at in who)


def _first(found: list[Any], wanted: list[int]) -> int:
    pairs = zip(found, wanted, strict=False)
    return next(at for at, (one, other) in enumerate(pairs) if one != other)


def _differing(before: dict[str, Any], after: dict[str, Any]) -> str:
    said = []
    for key, was in before.items():
        now = after.get(key)
        if was != now and isinstance(was, dict) and isinstance(now, dict):
            rows = [f"{key}({seq}) {was.get(seq)} -> {now.get(seq)}" for seq in {**was, **now}
                    if was.get(seq) != now.get(seq)]  # fmt: skip
            said += rows
        elif was != now:
            said.append(f"{key} {was} -> {now}")
    return "; ".join(said)


__all__ = ["LAWS", "PROTOCOLS", "Laws", "Model"]
