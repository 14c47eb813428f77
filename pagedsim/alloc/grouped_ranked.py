"""Blocks of several groups whose eviction is a policy's: any `Evict`, over all groups together.

All is as in `alloc.grouped_pool` but for the order of the free list, which is that of
`alloc.ranked`: blocks without a key first, then those with one by the rank that they got when they
were given back, of equal ranks what was given back first. Of one release that is group by group in
their order, and of each the table's last block first. A block that its window leaves behind is
given back then, and ranked then.

The clock ticks at each call that names blocks or gives some back, once for all groups.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pagedsim.alloc.evict import Evict
from pagedsim.alloc.foresight import NEVER, Foresight
from pagedsim.alloc.freelist import shared_memory
from pagedsim.alloc.grouped_pool import NULL, GroupedPool
from pagedsim.alloc.ranked import looked_up, policy_of, push_runs
from pagedsim.alloc.rankedlist import RankedList
from pagedsim.errors import ContractError
from pagedsim.protocols import Future, Int64


class RankedPool(GroupedPool):
    """`GroupedPool` with `evict`: a shipped policy's name, or an `Evict`.

    A policy that needs the future can have it where there is one full group: a key is then looked
    up whenever its prompt is. With windows, which blocks a prompt needs depends on where its hit
    ends, and that on what was evicted.
    """

    def __init__(self, blocks: int, groups: int, free_order: str, evict: str | Evict) -> None:
        super().__init__(blocks, groups, free_order)
        policy = policy_of(evict)
        self.foresees = bool(getattr(policy, "foresees", False))
        self._rank = policy.rank
        self._ranks = RankedList(1, blocks)
        self.free = self._ranks
        self._made, self._all_made = shared_memory(blocks)
        self._uses, self._all_uses = shared_memory(blocks)
        self._clock = 0
        self._foresight: Foresight | None = None

    def foresee(self, future: Future, block: int) -> None:
        """What will be looked up, in blocks of so many tokens of the one group."""
        self._foresight = Foresight(future, block)

    def tick(self) -> None:
        self._clock += 1

    def hold(self, group: int, blocks: Iterable[int]) -> None:
        blocks = list(blocks)
        super().hold(group, blocks)
        for block in blocks:
            if block != NULL:
                self._uses[block] += 1

    def name(self, group: int, block: int, key: int) -> None:
        super().name(group, block, key)
        self._made[block], self._uses[block] = self._clock, 1

    def coming(self, row: int, keys: list[int]) -> None:
        """What is computed again is good for nothing any more where it lies now."""
        if self._foresight is None:
            return
        self._foresight.admitted(row)
        firsts = [self.find(0, key) for key in keys]
        again = self._ranks.ranked(np.array([block for block in firsts if block], np.int64))
        if len(again):
            self._ranks.remove(again)
            self._push(again[::-1], np.full(len(again), NEVER))

    def _keep(self, blocks: Int64) -> None:
        if not self.foresees:
            self._push(blocks, np.full(len(blocks), NEVER))
            return
        if self._foresight is None:
            raise ContractError("paged: its policy needs the future; call foresee before the run")
        keys = [self._key[block] for block in blocks.tolist()]  # one group: as they were given
        ahead = self._foresight.next_use(np.array(keys, np.int64))
        firsts = np.array([self.find(0, key) for key in keys], np.int64)
        self._push(*looked_up(self._ranks, blocks, ahead, firsts))

    def _push(self, blocks: Int64, ahead: Int64) -> None:
        """Rank `blocks`, free ones with keys, in the order in which equals are to go."""
        shown = self._all_made[blocks], self._all_uses[blocks], ahead
        push_runs(self._ranks, self._rank, self._clock, blocks, shown)


__all__ = ["RankedPool"]
