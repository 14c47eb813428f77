"""``--check``: the whole structure of an allocator, held to its contract at every step of a replay.

A *shadow* of the pool says of each slot which prefix was computed into it last, as a fingerprint of
64 bits. In every step what is computed is written to the slots that the allocator shows, and every
sequence that holds something is read back whole. Lengths are counted here, from what was scheduled.
What leaves a slot that a fork holds too takes the content that is there along, as its copy would.
Each step costs O(tokens stored + blocks).
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedsim.alloc.radix import Radix
from pagedsim.alloc.radix_check import check as check_tree
from pagedsim.errors import ContractError
from pagedsim.protocols import (
    Allocator,
    Int64,
    Plan,
    Sequence,
    SupportsBlocks,
    SupportsFork,
    SupportsHoles,
    SupportsKept,
    SupportsLost,
    SupportsSlots,
    View,
)

_NONE: Int64 = np.zeros(0, np.int64)
Prints = npt.NDArray[np.uint64]
_A, _B, _C = (
    np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class Checked:
    """An observer of one run over `allocator`. ContractError at the first law broken."""

    def __init__(self, allocator: Allocator) -> None:
        self.allocator: Any = allocator
        self.steps = 0
        self._size = (allocator.capacity, allocator.longest)
        self._blocks = isinstance(allocator, SupportsBlocks)
        self._slots = isinstance(allocator, SupportsSlots)
        self._forks = isinstance(allocator, SupportsFork)
        self._holes = isinstance(allocator, SupportsHoles)
        self._stored: dict[Sequence, int] = {}
        self._prints: dict[Sequence, Prints] = {}
        self._last: dict[Sequence, Int64] = {}  # slots of what was stored a step before
        self._memory = np.zeros(self._end() if self._slots else 0, np.uint64)
        self._plan: Plan | None = None
        self._view: View | None = None

    def scheduled(self, step: int, plan: Plan, view: View, /) -> None:
        """Right after a step's allocations."""
        for seq in plan.preempted:
            self._drop(seq)
        if self._forks:
            running = set(view.running)
            for seq in [one for one in self._stored if one not in running]:
                if not self._holds(seq):  # a beam that died
                    self._drop(seq)
        for seq in view.running:
            if seq not in self._stored:
                self._stored[seq] = seq.computed
                if self._forks and seq.computed:
                    self._born(seq)
        begins = {}
        for seq, count in plan.scheduled.items():
            begin = begins[seq] = self._stored[seq]
            self._hold(step, plan is self._plan or seq.computed == begin, seq,
                       f"has {seq.computed} tokens computed, {begin} were scheduled")  # fmt: skip
            self._stored[seq] = begin + count
        self._plan, self._view = plan, view
        self.steps += 1
        try:
            self._usage(step)
            if self._slots:
                self._read(step, begins)
            if isinstance(self.allocator, Radix):
                held = self.allocator.held.values()
                ends, own = [one.node for one in held], sum(len(one.own) for one in held)
                check_tree(self.allocator.tree, ends, own)
        except AssertionError as error:
            raise self._error(step, str(error)) from error

    def finished(self, step: int, done: SequenceOf[Sequence], /) -> None:
        """Right after a step's releases."""
        for seq in done:
            self._drop(seq)
        running = self._view.running if self._forks and self._view else ()  # forks not seen yet
        if not running and not any(self._holds(seq) for seq in self._stored):
            usage = self.allocator.usage()
            good = (usage.held, usage.shared, usage.lost) == (0, 0, 0)
            self._hold(step, good, None, f"nobody holds anything, but {usage}")

    def _usage(self, step: int) -> None:
        allocator = self.allocator
        usage = held, cached, _, lost = allocator.usage()
        good = min(usage) >= 0 and lost <= held and held + cached <= allocator.capacity
        self._hold(step, good, None, f"{usage} of a capacity of {allocator.capacity}")
        same = (allocator.capacity, allocator.longest) == self._size
        self._hold(step, same, None, "capacity or longest changed")
        for seq, stored in self._stored.items():
            room = allocator.room(seq)
            self._hold(step, room >= stored, seq, f"stores {stored} tokens in a room of {room}")
        if self._holes:
            hole = allocator.largest_hole()
            free = allocator.capacity - held - cached
            self._hold(step, 0 <= hole <= free, None, f"a hole of {hole} in {free} free slots")
        if self._blocks:
            free = allocator.free_blocks()
            tables = [block for seq in self._stored for block in allocator.table(seq)]
            owned, loose = set(tables), set(free)
            both = len(owned) + len(loose) - len(owned | loose)
            self._hold(step, not both, None, f"{both} blocks are held and free")
            self._hold(step, len(loose) == len(free), None, "a block is on the free list twice")
            self._hold(step, held == allocator.block * len(owned), None,
                       f"{held} slots held, but tables have {len(owned)} blocks")  # fmt: skip
            left = allocator.capacity - held - allocator.block * len(free)
            self._hold(step, left in (0, cached), None, f"{left} slots are nowhere")

    def _read(self, step: int, begins: dict[Any, int]) -> None:
        """Write what is computed, then read everything back."""
        allocator, memory = self.allocator, self._memory
        places = {}
        for seq in self._stored:
            where = places[seq] = allocator.slots(seq)
            inside = len(where) == 0 or 0 <= where.min() <= where.max() < len(memory)
            self._hold(step, inside, seq, "has slots outside the pool")
        self._apart(step, places)
        if self._forks:
            self._copy(places)
            self._last = {seq: where[: self._stored[seq]] for seq, where in places.items()}
        for seq, begin in begins.items():
            end = self._stored[seq]
            memory[places[seq][begin:end]] = self._of(seq)[begin:end]
        live = []
        for seq, stored in self._stored.items():
            where = places[seq][:stored]
            wrong = np.flatnonzero(memory[where] != self._of(seq)[:stored])
            said = f"token {wrong[0]} reads back as another's" if len(wrong) else ""
            self._hold(step, not said, seq, said)
            live.append(where)
        if live:
            slots = np.concatenate(live)
            usage, distinct = allocator.usage(), len(np.unique(slots))
            saved = len(slots) - distinct
            said = f"shared is {usage.shared}, the slots say {saved}"
            self._hold(step, usage.shared == saved, None, said)

    def _apart(self, step: int, places: dict[Any, Int64]) -> None:
        """What is kept for nobody, or lost, is as much as the account says, and nobody's room."""
        allocator, usage = self.allocator, self.allocator.usage()
        kept = allocator.kept() if isinstance(allocator, SupportsKept) else _NONE
        lost = [_NONE]
        if isinstance(allocator, SupportsLost):
            lost += [allocator.lost(seq) for seq in places]
            size = sum(map(len, lost))
            self._hold(step, size == usage.lost, None, f"{size} slots are shown as lost: {usage}")
        if isinstance(allocator, SupportsKept):
            self._hold(step, len(kept) == usage.cached, None,
                       f"{len(kept)} slots are shown as kept: {usage}")  # fmt: skip
        apart = np.concatenate([kept, *lost])
        if len(apart):
            rooms = [_NONE, *(where[: allocator.room(seq)] for seq, where in places.items())]
            both = len(apart) - len(np.unique(apart))
            both += int(np.isin(apart, np.concatenate(rooms)).sum())
            self._hold(step, not both, None, f"{both} slots are kept or lost, and something else")

    def _born(self, seq: Sequence) -> None:
        """A fork held, before this step, what one of its request that knows the same held."""
        count = seq.computed
        known = self._of(seq)[count - 1]
        for other, shown in self._last.items():
            if (
                other.id == seq.id
                and len(shown) >= count
                and fingerprints(other)[count - 1] == known
            ):
                self._last[seq] = shown[:count]
                return

    def _copy(self, places: dict[Sequence, Int64]) -> None:
        """What left a slot that others held too was copied on write, all at once."""
        if not self._last:
            return
        slots, holders = np.unique(np.concatenate(list(self._last.values())), return_counts=True)
        shared = slots[holders > 1]
        copies = []
        for seq, before in self._last.items():
            if len(shared) and seq in places:
                now = places[seq][: len(before)]
                before = before[: len(now)]
                moved = (before != now) & np.isin(before, shared)
                copies.append((now[moved], self._memory[before[moved]]))
        for where, content in copies:
            self._memory[where] = content

    def _holds(self, seq: Sequence) -> bool:
        """Whether it holds anything; without forks nobody lets go unseen."""
        if not self._forks:
            return True
        try:
            self.allocator.room(seq)
        except ContractError:
            return False
        return True

    def _of(self, seq: Sequence) -> Prints:
        if seq not in self._prints:
            self._prints[seq] = fingerprints(seq)
        return self._prints[seq]

    def _end(self) -> int:
        allocator = self.allocator
        return int(allocator.blocks * allocator.block if self._blocks else allocator.capacity)

    def _drop(self, seq: Sequence) -> None:
        self._stored.pop(seq, None)
        self._prints.pop(seq, None)

    def _hold(self, step: int, good: object, seq: Sequence | None, said: str) -> None:
        if not good:
            raise self._error(step, said if seq is None else f"request {seq.id} {said}")

    def _error(self, step: int, said: str) -> ContractError:
        return ContractError(f"step {step}: {said} ({type(self.allocator).__name__})")


def fingerprints(seq: Sequence) -> Prints:
    """uint64[prompt + output]: of each prefix, by tokens, positions and salt. O(tokens)."""
    tokens = np.concatenate(
        [np.arange(first, first + length, dtype=np.int64) for first, length in seq.runs()]
    ).astype(np.uint64)
    mixed = tokens * _A + np.arange(1, len(tokens) + 1, dtype=np.uint64) * _B
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _B
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _C
    salt = np.array([seq.salt + 1], np.int64).astype(np.uint64) * _C
    return np.cumsum(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64) ^ salt


__all__ = ["Checked", "fingerprints"]
