"""A prefix cache whose eviction is a policy's: any `Evict`, and the clairvoyant one.

All is as in `alloc.prefix` but for the order of the free list. Blocks without a key go first, in
the order that `free_order` says. Then those with one, by the rank that the policy gave them when
they were given back, the smallest first; of equal ranks what was given back first, and of one
release the table's last block first. With `Lru` that is what `PrefixPaged` does.

Blocks of one release that are alike in all that a policy sees of them are ranked once, as a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pagedsim.alloc.evict import BLOCK_POLICIES, Evict, make_evict
from pagedsim.alloc.foresight import NEVER, Foresight
from pagedsim.alloc.freelist import shared_memory
from pagedsim.alloc.keyed import KeyedPaged
from pagedsim.alloc.keyed_tables import Held
from pagedsim.alloc.rankedlist import RankedList
from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import Future, Int64, Sequence


class Kept(NamedTuple):
    """An `Entry`: blocks that were given back together, and are alike."""

    touched: int
    made: int
    uses: int
    next_use: int


class RankedPaged(KeyedPaged):
    """`PrefixPaged` with `evict`: a shipped policy's name, or an `Evict`.

    The clock ticks at each call that gives keys, and at each release. A block is `made` when it
    gets its key, `touched` when it is given back, and has a use of the sequence that stored it and
    of each that hit it (one that comes back after a preemption counts again).
    """

    def __init__(
        self,
        blocks: int,
        *,
        block: int = 16,
        null: int = 1,
        free_order: str = "0.33",
        evict: str | Evict = "lru",
    ) -> None:
        super().__init__(blocks, block=block, null=null, free_order=free_order)
        policy = policy_of(evict)
        self.foresees = bool(getattr(policy, "foresees", False))
        self._rank = policy.rank
        self._ranks = RankedList(null, blocks)
        self._free = self._ranks
        self._made, self._all_made = shared_memory(blocks)
        self._uses, self._all_uses = shared_memory(blocks)
        self._clock = 0
        self._foresight: Foresight | None = None

    def foresee(self, future: Future, /) -> None:
        """Before the run: what will be looked up. A policy that does not ask is told nothing."""
        if self.foresees:
            self._foresight = Foresight(future, self.block)

    def _name(self, held: Held, full: int) -> None:
        done = held.named
        super()._name(held, full)
        if full > done:
            self._clock += 1
            blocks = np.frombuffer(held.table, np.int64)[done:full]
            self._all_made[blocks] = self._clock
            self._all_uses[blocks] = 1

    def _taking(self, seq: Sequence, hits: Int64) -> None:
        self._all_uses[hits] += 1
        if self._foresight is None:
            return
        self._foresight.admitted(seq.id)
        keys = seq.keys(self.block)[len(hits) : seq.tokens // self.block]
        firsts = self._firsts(keys)
        again = self._ranks.ranked(firsts[firsts >= 0])
        if len(again):  # it will compute them again, so these are good for nothing any more
            self._ranks.remove(again)
            self._push(again[::-1], np.full(len(again), NEVER))

    def _keep(self, blocks: Int64) -> None:
        self._clock += 1
        if not self.foresees:
            self._push(blocks, np.full(len(blocks), NEVER))
            return
        if self._foresight is None:
            raise ContractError("paged: its policy needs the future; call foresee before the run")
        keys = self._all_key[blocks]
        ahead = self._foresight.next_use(keys)
        self._push(*looked_up(self._ranks, blocks, ahead, self._all_first[keys]))

    def _push(self, blocks: Int64, ahead: Int64) -> None:
        """Rank `blocks`, free ones with keys, in the order in which equals are to go."""
        alike = self._all_made[blocks], self._all_uses[blocks], ahead
        push_runs(self._ranks, self._rank, self._clock, blocks, alike)


def policy_of(evict: str | Evict) -> Evict:
    """The shipped policy of that name, or the one given."""
    try:
        return make_evict(evict, BLOCK_POLICIES) if isinstance(evict, str) else evict
    except SpecError as error:
        raise SpecError(f"paged: {error}") from None


def looked_up(ranks: RankedList, blocks: Int64, ahead: Int64, firsts: Int64) -> tuple[Int64, Int64]:
    """What to rank as `blocks` are given back, and when each is looked up next.

    That is a key's, `ahead`, of the block that is found under it, `firsts`, and never of another.
    A free one that was good for nothing while its content was computed again takes its place.
    """
    other = firsts != blocks
    again = other & (ahead != NEVER) & np.isin(firsts, ranks.ranked(firsts))
    ranks.remove(firsts[again])
    kept, left = np.where(again, firsts, blocks), blocks[again]
    ahead = np.where(other & ~again, NEVER, ahead)
    return np.concatenate((kept, left)), np.concatenate((ahead, np.full(len(left), NEVER)))


def push_runs(
    ranks: RankedList,
    rank_of: Callable[[Kept], Any],
    touched: int,
    blocks: Int64,
    shown: tuple[Int64, Int64, Int64],
) -> None:
    """Rank `blocks`, in the order in which equals are to go, those alike in `shown` once.

    `shown` are `made`, `uses` and `next_use` of each. O(blocks).
    """
    if not len(blocks):
        return
    made, uses, ahead = shown
    differs = (made[1:] != made[:-1]) | (uses[1:] != uses[:-1]) | (ahead[1:] != ahead[:-1])
    start, ranked = 0, None
    for at in (0, *(np.flatnonzero(differs) + 1).tolist()):
        rank = rank_of(Kept(touched, int(made[at]), int(uses[at]), int(ahead[at])))
        if at and rank != ranked:
            ranks.push_ranked(ranked, blocks[start:at])
            start = at
        ranked = rank
    ranks.push_ranked(ranked, blocks[start:])


__all__ = ["Kept", "RankedPaged", "looked_up", "policy_of", "push_runs"]
