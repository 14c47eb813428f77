"""What happens in a step, in words: who arrives, is admitted, refused, preempted, done, and why."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pagedsim.analysis.scene.values import Said
from pagedsim.analysis.scene.where import Table
from pagedsim.protocols import (
    Allocator,
    Limit,
    Plan,
    SupportsBlocks,
    SupportsFork,
    SupportsHoles,
    View,
    evicted,
)


class Seen(NamedTuple):
    """What a recorder knows of a step."""

    before: Mapping[Any, int]  # tokens stored a frame ago
    tables: Mapping[Any, Table]
    moved: list[Any]  # whose earlier tokens lie elsewhere now
    forked: list[int]  # requests of sequences that were forked


class Captions:
    """Of one run over `allocator`, whose blocks are of `block` slots, from `from_ns` on.

    `called` is the name of a sequence.
    """

    def __init__(
        self, allocator: Allocator, block: int, from_ns: int, called: Callable[[Any], str]
    ) -> None:
        self._allocator, self._block, self._called = allocator, block, called
        self._unit = "slot" if block == 1 else "block"
        self._blocks = isinstance(allocator, SupportsBlocks)
        self._now = from_ns - 1
        self._pending: list[Said] = []
        self._evicted = evicted(allocator) or 0
        self._preempted: set[int] = set()
        self._waited: tuple[str, int] = ("", -1)  # why, and who, in the step before

    def done(self, done: Iterable[Any], tables: Mapping[Any, Table], kept: int) -> None:
        """`done` gave back what they held, in this order; `kept` slots more are cached now."""
        left = dict(tables)
        for seq in done:
            if seq not in left:
                continue
            table, final = left.pop(seq), seq.tokens - 1
            back = f"its {self._count(table.slots)} come back"
            if not self._blocks and (never := table.slots - final) > 0:
                back += f", {never:,} of which {'was' if never == 1 else 'were'} never used"
            elif shared := self._shared(table, left.values()):
                back = f"{self._count(table.slots - shared)} come back, others hold the rest"
            text = f"{self._called(seq)} is done: {back}."
            self._pending.append(Said("done", text, seq.id))
        if kept > 0:
            text = f"The content of {self._count(kept)} is kept for reuse."
            self._pending.append(Said("kept", text))

    def _shared(self, table: Table, others: Iterable[Table]) -> int:
        """Slots of whole blocks that others hold too."""
        if not self._blocks:
            return 0
        held = set().union(*(set(other.shown) for other in others))
        return self._block * len(held.intersection(table.shown))

    def rest(self) -> list[Said]:
        """Nothing runs any more."""
        said, self._pending = self._pending, []
        return said

    def step(self, plan: Plan, view: View, seen: Seen) -> list[Said]:
        """What came before the step and in its planning, in that order."""
        said, self._pending = [*self._pending, *self._arrived(plan, view)], []
        said += [self._lost(seq, seen) for seq in plan.preempted]
        said += [self._admitted(seq, seen.tables[seq]) for seq in plan.admitted]
        for request, count in Tally(seen.forked).items():
            text = f"Request {request} forks: {count} more sequence{'s' * (count > 1)} share"
            text += f"{'s' * (count == 1)} its blocks."
            said.append(Said("forked", text, request))
        for seq in seen.moved:
            text = f"Request {seq.id} goes on with what is stored already, and frees its own copy."
            if isinstance(self._allocator, SupportsFork):
                text = "copies its last block before it writes: others hold it."
                text = f"{self._called(seq)} {text}"
            said.append(Said("copied", text, seq.id))
        said += self._dropped()
        if (waits := self._waits(plan, view)) is not None:
            said.append(waits)
        self._now = view.now_ns
        return said

    def _arrived(self, plan: Plan, view: View) -> list[Said]:
        here = [*view.waiting, *plan.admitted]
        new = {seq.id: seq for seq in here if self._now < seq.arrival_ns <= view.now_ns}
        return [
            Said("arrives", f"Request {row} arrives: a prompt of {new[row].prompt:,} tokens.", row)
            for row in sorted(new)
            if row not in self._preempted
        ]

    def _lost(self, seq: Any, seen: Seen) -> Said:
        self._preempted.add(seq.id)
        tokens = seen.before.get(seq, 0)
        text = f"Request {seq.id} is preempted: no {self._unit} is left."
        if tokens:
            text += f" Its {tokens:,} tokens have to be computed again."
        return Said("preempted", text, seq.id)

    def _admitted(self, seq: Any, table: Table) -> Said:
        again = seq.id in self._preempted
        text = f"Request {seq.id} is {'back' if again else 'admitted'}: "
        if self._blocks:
            text += self._count(table.slots)
            if seq.computed:
                text += f", {seq.computed // self._block:,} reused:"
                text += f" {seq.computed:,} tokens need not be computed"
            kind = "hit" if seq.computed else "admitted"
            return Said(kind, f"{text}.", seq.id)
        text += f"{self._count(table.room)} set aside"
        if table.lost:
            text += f", and {table.lost:,} lost in rounding"
        return Said("admitted", f"{text}.", seq.id)

    def _dropped(self) -> list[Said]:
        count = (evicted(self._allocator) or 0) - self._evicted
        self._evicted += count
        if not count:
            return []
        some = f"{self._count(count)} of cached content {'are' if count > self._block else 'is'}"
        return [Said("evicted", f"{some} evicted to make room.")]

    def _waits(self, plan: Plan, view: View) -> Said | None:
        """Why the head of the queue is not admitted."""
        if not len(view.waiting):
            self._waited = ("", -1)
            return None
        head = view.waiting[0]
        kind, text = "waits", ""
        if plan.blocked and plan.preempted:
            kind, text = "refused", f"Nobody is admitted in a step that preempts: {head.id} waits."
        elif plan.blocked:
            kind, text = "refused", f"Request {head.id} is refused for now: {self._why(head)}."
        elif plan.limit == Limit.MAX_SEQS:
            text = f"Request {head.id} waits: {len(view.running):,} run, and no more may."
        elif plan.limit == Limit.BUDGET:
            text = f"Request {head.id} waits: the step computes as many tokens as it may."
        if not text:
            self._waited = ("", -1)
            return None
        again = self._waited == (kind, head.id)
        self._waited = (kind, head.id)
        return Said(kind, text, head.id, again)

    def _why(self, head: Any) -> str:
        """Why there is no room for it."""
        allocator = self._allocator
        usage = allocator.usage()
        free = allocator.capacity - usage.held - usage.cached
        if isinstance(allocator, SupportsHoles):
            hole = allocator.largest_hole()
            if hole < free:
                return f"{free:,} slots are free, the largest hole is {hole:,}"
            return f"{free:,} slots are free, in one hole" if free else "no slot is free"
        most = (free + usage.cached) // self._block
        hit = allocator.cached(head)
        need = -(-(head.tokens - hit) // self._block)
        left = f"{most:,} {'is' if most == 1 else 'are'} free" if most else "none is free"
        more = f"{hit:,} of its {head.tokens:,} tokens are stored, " if hit else ""
        text = f"{more}it needs {need:,} {self._unit}{'s' * (need != 1)}{' more' * (hit > 0)}"
        return f"{text}, {left}" + (", but some are spoken for" if need <= most else "")

    def _count(self, slots: int) -> str:
        units = -(-slots // self._block)
        return f"{units:,} {self._unit}{'s' * (units != 1)}"


__all__ = ["Captions", "Seen"]
