"""Groups of layers over one pool of equal blocks: a block table a group, windows that move.

Words beside those of `alloc.paged`: a *group* keeps one page a layer in each of its blocks
(`protocols.LayerGroup`); all groups take whole blocks of `block_bytes` from one pool, so the slots
of this allocator are bytes. A group whose layers read only a window gives its blocks back as the
window moves on; its table keeps its length, with the null block in their places::

    full      | 1 | 2 | 5 | 7 | 9 |
    sliding   | 0 | 0 | 6 | 8 | 10|      window of 2 blocks: 3 and 4 are free again
              0           computed

A *hit* of n tokens needs of each group what the token after them reads: all blocks of a full
group, of a windowed one those that its window reaches. The hit of a sequence is the longest that
all groups have, so that where windows differ all are searched again within the shortest.

These are the rules of vLLM 0.33; new blocks are handed out, and tables released, group by group in
the order of the groups.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from math import lcm

import numpy as np

from pagedsim.alloc.evict import POLICIES, Evict
from pagedsim.alloc.grouped_forks import Tails, together
from pagedsim.alloc.grouped_pool import NULL, GroupedPool
from pagedsim.alloc.grouped_ranked import RankedPool
from pagedsim.alloc.grouped_rules import (
    STATES,
    UNBOUND,
    Hit,
    blocks_for,
    check_groups,
    first_entry,
    longest_alone,
    most_held,
    moves,
    next_trim,
    rules_of,
    search,
    settled,
    wanted,
)
from pagedsim.alloc.grouped_shown import Shown
from pagedsim.alloc.grouped_tables import Held, Promised, Table
from pagedsim.alloc.paged import check_content
from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import Future, LayerGroup, Sequence

_NO_KEYS = np.zeros(0, np.int64)


class Grouped(Shown):
    """Tables of several groups over one pool; every operation is O(blocks that it moves or reads).

    `blocks` count the null block. `prefix`: whether content is found again. `in_flight`: most
    tokens that one sequence is given in a step, which bounds what a window needs at once; 0 for
    no bound. `block_bytes` is the widest group's page unless it is given. `evict` is a shipped
    policy's name or an `Evict`, and means something with `prefix` alone.

    With `prefix` a state group has a table by tokens too: of it the state after the last token is
    held, in the step that takes a new block the one before it, and a state at the end of a block,
    where a step ended there, is found again::

        states    | 0 | 0 | 5 | 0 | 9 |        9 is written from 5, which has a key and then goes

    `state_block`: tokens of such a block, 0 without any; a step that does not end at a multiple of
    it leaves no state to find.
    """

    def __init__(
        self,
        blocks: int,
        *,
        groups: tuple[LayerGroup, ...],
        prefix: bool = False,
        free_order: str = "0.33",
        in_flight: int = 0,
        block_bytes: int = 0,
        evict: str | Evict = "lru",
    ) -> None:
        check_groups(groups, blocks, free_order)
        widest = max(1, *(group.page_bytes for group in groups))
        if block_bytes and block_bytes < widest:
            raise SpecError(f"paged: a block of {block_bytes} bytes, must be >= {widest}")
        groups, self.prefix = tuple(groups), bool(prefix)
        self._rules = rules_of(groups) if prefix else groups
        self.windowed = any(map(moves, self._rules))
        pool = self._ordered(blocks, free_order, evict)
        tails = Tails(pool, self._rules)
        super().__init__(groups, pool, tails, blocks, block_bytes or widest)
        self.foresees = pool.foresees
        states = [one.block for one in self._rules if one.kind == STATES]
        self.state_block = lcm(*states) if states else 0
        self._caps = [most_held(group, in_flight) for group in self._rules]
        self._in_flight, self._settled = in_flight, settled(self._rules, in_flight)
        self._looked: tuple[Sequence | None, int, int, Hit] = (None, 0, 0, self._nothing())
        self._promised = Promised()
        self.longest = longest_alone(self._rules, in_flight, blocks)

    def cached(self, seq: Sequence, /) -> int:
        """Tokens that would be hit."""
        return self.hit(seq).tokens

    def hit(self, seq: Sequence) -> Hit:
        """The longest that all groups have; O(known blocks), O(1) again while nothing changes."""
        if not self.prefix:
            return self._nothing()
        who, tokens, version, hit = self._looked
        if who is not seq or tokens != seq.tokens or version != self._pool.version:
            hit = search(self._pool, self._rules, seq)
            self._looked = (seq, seq.tokens, self._pool.version, hit)
        return hit

    def admit(self, seq: Sequence, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        """Take the hits, and new blocks for the rest of `tokens`.

        Of `whole` a windowed group needs no more than its window and what is in flight.
        """
        if seq in self._tables:
            raise ContractError(f"paged: request {seq.id} is admitted twice")
        if self.state_block and self.unsettled(seq):
            return False
        hit = self.hit(seq)
        now, later, known, caps = 0, 0, max(tokens, whole), self._caps
        if known < self._settled:
            caps = [most_held(group, self._in_flight, known) for group in self._rules]
        for group, cap, found in zip(self._rules, caps, hit.blocks, strict=True):
            now += wanted(group, len(found), tokens)
            later += wanted(group, len(found), known, cap)
        need = max(now, later) + sum(map(self._pool.idle, hit.blocks))
        if need + -(-spare // self.block_bytes) > len(self._pool.free):
            return False
        tables = []
        for at, (group, blocks) in enumerate(zip(self.groups, hit.blocks, strict=True)):
            joined = self._pool.joined(blocks)
            self._pool.hold(at, blocks)
            self._pool.gone(at, blocks.count(NULL))
            keys = seq.keys(group.block) if self.prefix else _NO_KEYS
            tables.append(Table(blocks.copy(), blocks.count(NULL), keys, joined))
        if self.foresees:
            again = slice(len(hit.blocks[0]), seq.tokens // self.groups[0].block)
            self._pool.coming(seq.id, tables[0].keys[again].tolist())
        self._tables[seq] = held = Held(tables, tokens)
        self._cover(seq, held, tokens)
        return True

    def unsettled(self, seq: Sequence, /) -> bool:
        """Whether a state that would be hit is computed in the step being planned only.

        Nobody can go on from it in the same step, so `admit` is refused; O(hit look-up).
        """
        tokens = self.hit(seq).tokens
        for at, group in enumerate(self._rules if tokens else ()):
            if group.kind == STATES:
                key = int(seq.keys(group.block)[tokens // group.block - 1])
                if self._promised.after((at, key), tokens):
                    return True
        return False

    def trim(self, seq: Sequence, computed: int, /) -> bool:
        """Give back what has left the windows, the last of its blocks first."""
        freed = False
        tables = self._held(seq).tables
        firsts = [first_entry(group, computed) for group in self._rules]
        moved = [at for at, first in enumerate(firsts) if first > tables[at].dropped]
        if moved:
            self._pool.tick()
        for at in moved:
            table, first = tables[at], firsts[at]
            part = slice(table.dropped, first)
            freed = self._pool.give_back(at, table.blocks[part]) or freed
            self._pool.gone(at, first - table.dropped - table.blocks[part].count(NULL))
            table.blocks[part] = [NULL] * (first - table.dropped)
            table.dropped = first
        return freed

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        """Hold the blocks of `tokens`, and give keys to those that are full at it."""
        held = self._held(seq)
        need = sum(
            wanted(group, len(table.blocks), tokens)
            for group, table in zip(self._rules, held.tables, strict=True)
        )
        copies = bool(self._tails) and tokens > held.tokens
        if need + (self._tails.copies(held) if copies else 0) > len(self._pool.free):
            return False
        held.tokens = max(held.tokens, tokens)
        self._cover(seq, held, tokens, copies)
        return True

    def fork(self, parent: Sequence, child: Sequence, tokens: int, /) -> None:
        """`child` shares all blocks of `parent`, which has so many tokens stored; O(blocks)."""
        held = self._held(parent)
        reach = all(
            blocks_for(group, tokens) == len(table.blocks)
            for group, table in zip(self._rules, held.tables, strict=True)
        )
        if child in self._tables or not reach:
            raise ContractError(
                f"paged: request {parent.id} is forked at {tokens} tokens, but stores others, or "
                "its child holds something"
            )
        keys = [child.keys(group.block) if self.prefix else _NO_KEYS for group in self.groups]
        self._tables[child] = self._tails.fork(held, keys, tokens)

    def together(self, common: int, lengths: SequenceOf[int], /) -> int:
        """Slots of sequences of so many tokens, the first `common` of them shared; the most."""
        return self.block * together(self._rules, self._caps, common, lengths)

    def release(self, seq: Sequence, /) -> None:
        """Give all tables back, one after another.

        Of a sample, what it has not computed by ``seq.computed`` loses its keys: it was preempted
        for another one in the step that was to compute it.
        """
        held = self._held(seq)
        self._tails.given_back(held)
        self._pool.tick()
        for at, table in enumerate(held.tables):
            if held.forked and self.prefix:
                self._pool.unname(table.blocks[seq.computed // self._rules[at].block : table.named])
            self._pool.give_back(at, table.blocks)
            self._pool.gone(at, -table.blocks.count(NULL))
        self._promised.forget(seq)
        del self._tables[seq]

    def room(self, seq: Sequence, /) -> int:
        """Tokens until a block more is needed, one is full and gets its key, or one can go."""
        held = self._held(seq)
        room = UNBOUND
        for group, table in zip(self._rules, held.tables, strict=True):
            if group.kind == "state":
                continue
            end = len(table.blocks) * group.block
            if self.prefix:
                end = min(end, (table.named + 1) * group.block - 1)
            room = min(room, end, next_trim(group, table.dropped))
        if self._tails and self._tails.copies(held):
            return held.tokens
        return max(min(room, self.longest), held.tokens)

    def foresee(self, future: Future, /) -> None:
        """Before the run: what will be looked up. A policy that does not ask is told nothing."""
        if isinstance(self._pool, RankedPool):
            self._pool.foresee(future, self.groups[0].block)

    def _cover(self, seq: Sequence, held: Held, tokens: int, copies: bool = False) -> None:
        """New blocks and keys, as far as `tokens` tokens; there are enough. `copies`: of tails."""
        for at, (group, table) in enumerate(zip(self._rules, held.tables, strict=True)):
            if copies:
                self._tails.copy(at, table)
            if need := wanted(group, len(table.blocks), tokens):
                if passed := blocks_for(group, tokens) - len(table.blocks) - need:
                    self._pool.gone(at, passed)  # states between two steps' ends
                    table.dropped = table.dropped if table.blocks else passed
                    table.blocks += [NULL] * passed
                table.blocks += self._pool.take(at, need)
        if not self.prefix:
            return
        fulls = [tokens // group.block for group in self.groups]
        fresh = [at for at, full in enumerate(fulls) if full > held.tables[at].named]
        if fresh:
            self._pool.tick()
            self._promised.forget(seq)
        for at in fresh:
            group, table, full = self._rules[at], held.tables[at], fulls[at]
            check_content(seq, tokens, group.block, len(table.keys))
            first = table.named
            if group.kind == STATES:
                first = full if tokens % group.block else full - 1  # only where the step ends
            part = slice(first, full)
            for block, key in zip(table.blocks[part], table.keys[part].tolist(), strict=True):
                if block != NULL:
                    self._pool.name(at, block, key)
                    if group.kind == STATES:
                        self._promised.add(seq, (at, key))
            table.named = full

    def _ordered(self, blocks: int, free_order: str, evict: str | Evict) -> GroupedPool:
        """The pool, its free list in the order of a policy; SpecError where that means nothing."""
        groups = len(self._rules)
        if evict == "lru":
            return GroupedPool(blocks, groups, free_order)
        if not self.prefix:
            raise SpecError(f"paged: evict is {evict!r}, which needs prefix=on")
        pool = RankedPool(blocks, groups, free_order, evict)
        if pool.foresees and (groups > 1 or self.windowed):
            raise SpecError(
                "paged: evict needs the future, and of several groups or a window there is none to "
                "tell: which blocks a later request looks up depends on where its hit ends, and so "
                f"on what is evicted; give groups=off, or one of {', '.join(sorted(POLICIES))}"
            )
        return pool

    def _nothing(self) -> Hit:
        return Hit(0, tuple([] for _ in self.groups))


__all__ = ["Grouped"]
