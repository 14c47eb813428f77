"""Plug-in parts that meet the mandatory contracts and nothing optional."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from pagedsim.engine.schedulers import Vllm
from pagedsim.protocols import Limit, Plan, Usage, batched


class Counter:
    """Counts slots in portions, and remembers no address. No optional protocol.

    `toll` slots of each portion are rounding, so that `lost` moves whenever somebody grows.
    """

    def __init__(self, capacity: int, *, portion: int = 3, toll: int = 0) -> None:
        self.capacity = capacity
        self._portion, self._toll = portion, toll
        self.longest = capacity // (portion + toll) * portion
        self._portions: dict[Any, int] = {}

    def cached(self, seq: Any, /) -> int:
        return 0

    def admit(self, seq: Any, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        assert seq not in self._portions
        if self._cost(max(tokens, whole)) + spare > self.capacity - self.usage().held:
            return False
        self._portions[seq] = self._cost(tokens) // (self._portion + self._toll)
        return True

    def grow(self, seq: Any, tokens: int, /) -> bool:
        want = self._cost(tokens) // (self._portion + self._toll)
        more = want - self._portions[seq]
        if more * (self._portion + self._toll) > self.capacity - self.usage().held:
            return False
        self._portions[seq] = max(want, self._portions[seq])
        return True

    def release(self, seq: Any, /) -> None:
        del self._portions[seq]

    def room(self, seq: Any, /) -> int:
        return self._portions[seq] * self._portion

    def usage(self) -> Usage:
        portions = sum(self._portions.values())
        return Usage(portions * (self._portion + self._toll), lost=portions * self._toll)

    def _cost(self, tokens: int) -> int:
        return -(-tokens // self._portion) * (self._portion + self._toll)


class Shared:
    """Blocks that are kept and found again by content: rows equal modulo `kinds` share a prompt.

    A block is keyed when the call that takes it fills it, and only inside the prompt, so that
    `grow` within `room` changes nothing and decoding makes nothing to be found.
    """

    def __init__(self, blocks: int, *, block: int = 2, kinds: int = 2) -> None:
        self.capacity = self.longest = blocks * block
        self._block, self._kinds = block, kinds
        self._free = list(range(blocks))
        self._kept: OrderedDict[int, None] = OrderedDict()  # keyed, held by none, oldest first
        self._key: dict[int, tuple[int, int]] = {}
        self._at: dict[tuple[int, int], int] = {}
        self._users: dict[int, int] = {}
        self._tables: dict[Any, list[int]] = {}

    def cached(self, seq: Any, /) -> int:
        return len(self._hits(seq)) * self._block

    def _hits(self, seq: Any) -> list[int]:
        most = min(seq.prompt, seq.tokens - 1) // self._block
        found = []
        for at in range(most):
            block = self._at.get((seq.id % self._kinds, at))
            if block is None:
                break
            found.append(block)
        return found

    def admit(self, seq: Any, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        assert seq not in self._tables
        hits = self._hits(seq)
        need = -(-max(tokens, whole) // self._block) - len(hits) + -(-spare // self._block)
        there = len(self._free) + sum(block not in hits for block in self._kept)
        if need > there:
            return False
        for block in hits:
            self._kept.pop(block, None)
            self._users[block] = self._users.get(block, 0) + 1
        self._tables[seq] = hits
        self._take(seq, tokens)
        return True

    def grow(self, seq: Any, tokens: int, /) -> bool:
        need = -(-tokens // self._block) - len(self._tables[seq])
        if need > len(self._free) + len(self._kept):
            return False
        self._take(seq, tokens)
        return True

    def _take(self, seq: Any, tokens: int) -> None:
        table = self._tables[seq]
        while len(table) * self._block < tokens:
            if self._free:
                block = self._free.pop()
            else:
                block, _ = self._kept.popitem(last=False)
                del self._at[self._key.pop(block)]
            self._users[block] = 1
            table.append(block)
            key = (seq.id % self._kinds, len(table) - 1)
            full = len(table) * self._block
            if full <= min(tokens, seq.prompt) and key not in self._at:
                self._key[block], self._at[key] = key, block

    def release(self, seq: Any, /) -> None:
        for block in reversed(self._tables.pop(seq)):
            self._users[block] -= 1
            if not self._users[block]:
                if block in self._key:
                    self._kept[block] = None
                else:
                    self._free.append(block)

    def room(self, seq: Any, /) -> int:
        return len(self._tables[seq]) * self._block

    def usage(self) -> Usage:
        users = [count for count in self._users.values() if count]
        shared = sum(count - 1 for count in users) * self._block
        return Usage(len(users) * self._block, len(self._kept) * self._block, shared)


class NoMore:
    """An allocator with groups of layers, of which nothing is seen but what both contracts ask."""

    def __init__(self, allocator: Any) -> None:
        self.capacity, self.longest = allocator.capacity, allocator.longest
        self.groups, self.block_bytes = allocator.groups, allocator.block_bytes
        self.windowed = allocator.windowed
        self.cached, self.admit, self.grow = allocator.cached, allocator.admit, allocator.grow
        self.release, self.room, self.usage = allocator.release, allocator.room, allocator.usage
        self.trim, self.tables, self.covered = allocator.trim, allocator.tables, allocator.covered
        self.group_blocks = allocator.group_blocks
        self.out_of_windows = allocator.out_of_windows
        self.state_block, self.unsettled = allocator.state_block, allocator.unsettled


class ShortestFirst:
    """The shortest known sequence first, in the batch and in the queue, past whom cannot join."""

    def __init__(self, *, max_seqs: int = 4) -> None:
        self._max_seqs = max_seqs

    def check(self, max_len: int, /) -> None:
        pass

    def plan(self, view: Any, /) -> Plan:
        plan = Plan()
        for seq in sorted(view.running, key=lambda seq: (seq.tokens, seq.id)):
            if seq in plan.preempted:
                continue
            while not view.grow(seq, seq.tokens):
                victim = max(view.running, key=lambda seq: (seq.tokens, seq.id))
                view.preempt(victim)
                plan.preempted.append(victim)
                plan.scheduled.pop(victim, None)
                if victim is seq:
                    break
            else:
                plan.scheduled[seq] = seq.tokens - seq.computed
        if plan.preempted:
            plan.blocked = True
        else:
            self._join(view, plan)
        if plan.blocked:
            plan.limit = Limit.MEMORY
        return plan

    def _join(self, view: Any, plan: Plan) -> None:
        for seq in sorted(view.waiting, key=lambda seq: (seq.tokens, seq.id)):
            if len(view.running) >= self._max_seqs:
                plan.limit = Limit.MAX_SEQS
                return
            hit = view.cached(seq)
            if view.admit(seq, seq.tokens):
                plan.admitted.append(seq)
                plan.scheduled[seq] = seq.tokens - hit
            else:
                plan.blocked = True


class TakingTurns:
    """Of those that run, `part` in a step, in turn by time; a new one joins if it fits whole."""

    def __init__(self, *, part: int = 2, max_seqs: int = 4) -> None:
        self._part, self._max_seqs = part, max_seqs
        self._turn = 0

    def check(self, max_len: int, /) -> None:
        pass

    def plan(self, view: Any, /) -> Plan:
        plan = Plan()
        self._turn += 1
        running = list(view.running)
        first = self._turn % len(running) if running else 0
        out: set[Any] = set()
        for seq in (running[first:] + running[:first])[: self._part]:
            if seq in out:
                continue
            while not view.grow(seq, seq.tokens):
                gone = view.preempt(view.running[-1])
                plan.preempted.append(gone[0])
                for each in gone:
                    out.add(each)
                    plan.scheduled.pop(each, None)
                if seq in gone:
                    break
            else:
                plan.scheduled[seq] = seq.tokens - seq.computed
        plan.blocked = bool(plan.preempted)
        taken = len(view.running) + view.pledged
        if view.waiting and not plan.preempted and taken < self._max_seqs:
            seq = view.waiting[0]
            if taken + view.width(seq) > self._max_seqs:
                return plan
            want = seq.tokens - view.cached(seq)
            if view.admit(seq, seq.tokens):
                plan.admitted.append(seq)
                plan.scheduled[seq] = want
            else:
                plan.blocked = True
        return plan


class Generous(Vllm):
    """One that takes slots for `ahead` tokens more when it admits, where there is room for them.

    It also grows a batch that decodes twice, which must change nothing.
    """

    def __init__(self, *, ahead: int = 7, **given: Any) -> None:
        super().__init__(**given)
        self._ahead = ahead

    def plan(self, view: Any, /) -> Plan:
        batch = batched(view)
        if batch is not None and not batch.prefilling and batch.decoding <= self.max_batched_tokens:
            batch.grow_all({})
        return super().plan(view)

    def _join(self, view: Any, *given: Any) -> None:
        super()._join(_Ahead(view, self._ahead), *given)


class _Ahead:
    """A view through which more is asked for."""

    def __init__(self, view: Any, ahead: int) -> None:
        self._view, self._more = view, ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def admit(self, seq: Any, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        more = tokens + self._more
        return self._view.admit(seq, more, whole=whole, spare=spare) or self._view.admit(
            seq, tokens, whole=whole, spare=spare
        )
