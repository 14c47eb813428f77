"""The blocks of one pool that several groups of layers draw from, and their keys.

A *key* is (group, key of the content): equal content of two groups is two blocks. Blocks are taken
from the front of one free list whatever their group was, which drops their key; released ones go to
its back if they have a key, else to its front as one set (`free_order="0.33"`; under "0.11" all go
to the back). So eviction is least recently used over all groups together. Another order is another
list (`alloc.grouped_ranked`).
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf

import numpy as np

from pagedsim.alloc.freelist import FreeList
from pagedsim.alloc.rankedlist import RankedList
from pagedsim.protocols import GroupBlocks, Int64

NULL = 0  # stands in a table where a block was given back; never handed out
_NONE = -1


class GroupedPool:
    """Ids 1 … blocks - 1, and what each of `groups` groups has of them. O(blocks moved) a call."""

    foresees = False

    def __init__(self, blocks: int, groups: int, free_order: str) -> None:
        self.free: FreeList | RankedList = FreeList(1, blocks)
        self._to_front = free_order == "0.33"
        self._groups = groups
        self._holders = [0] * blocks
        self._key = [_NONE] * blocks
        self._group = [_NONE] * blocks
        self._found: dict[int, dict[int, None]] = {}  # key -> blocks, the first that got it first
        self._held = [0] * groups
        self._cached = [0] * groups
        self._shared = [0] * groups
        self._gone = [0] * groups
        self._short = [0] * groups
        self.cached = 0  # free blocks with a key, of all groups
        self.evicted = 0  # blocks whose key was dropped
        self.version = 0  # changes whenever a look-up may find something else

    def blocks_of(self, group: int) -> GroupBlocks:
        """What a group has now."""
        held, cached, shared = (
            self._held[group],
            self._cached[group],
            self._shared[group],
        )
        return GroupBlocks(held, cached, shared, self._gone[group], self._short[group])

    def gone(self, group: int, entries: int) -> None:
        """So many NULLs more stand in the tables of a group."""
        self._gone[group] += entries

    def lack(self, group: int, tokens: int) -> None:
        """Shared blocks of a group have so many tokens more that are not there."""
        self._short[group] += tokens

    def lacking(self, group: int) -> int:
        """Those tokens, a block's as often as `shares` counts it."""
        return self._short[group]

    def keys_cached(self) -> int:
        """Distinct (group, key) pairs that can be found."""
        return len(self._found)

    def shares(self, group: int) -> int:
        """What sharing saved, in blocks."""
        return self._shared[group]

    def holders(self, block: int) -> int:
        """Tables that list `block`."""
        return self._holders[block]

    def find(self, group: int, key: int) -> int:
        """The block under a key, NULL if there is none."""
        there = self._found.get(key * self._groups + group)
        return NULL if there is None else next(iter(there))

    def idle(self, blocks: Iterable[int]) -> int:
        """How many of found `blocks` are on the free list."""
        return sum(block != NULL and not self._holders[block] for block in blocks)

    def joined(self, blocks: SequenceOf[int]) -> int:
        """Up to where found `blocks` are held by others."""
        at = len(blocks)
        while at and not (blocks[at - 1] != NULL and self._holders[blocks[at - 1]]):
            at -= 1
        return at

    def hold(self, group: int, blocks: Iterable[int]) -> None:
        """One table more lists found `blocks`; those on the free list leave it."""
        idle = []
        for block in blocks:
            if block == NULL:
                continue
            if self._holders[block]:
                self._shared[group] += 1
            else:
                idle.append(block)
            self._holders[block] += 1
        if idle:
            self._held[group] += len(idle)
            self._cached[group] -= len(idle)
            self.cached -= len(idle)
            self.free.remove(np.array(idle, np.int64))

    def share(self, group: int, table: Iterable[int]) -> None:
        """One table more lists all that `table` lists, which is held."""
        for block in table:
            if block == NULL:
                self._gone[group] += 1
            else:
                self._holders[block] += 1
                self._shared[group] += 1

    def leave(self, group: int, block: int) -> None:
        """A table lists `block` no longer, which others do."""
        self._holders[block] -= 1
        self._shared[group] -= 1

    def take(self, group: int, blocks: int) -> list[int]:
        """New ones off the front of the free list, which has as many."""
        taken = self.free.take(blocks)
        for block in taken:
            if self._key[block] != _NONE:
                self._forget(block)
            self._holders[block] = 1
            self._group[block] = group
        self._held[group] += blocks
        return taken

    def name(self, group: int, block: int, key: int) -> None:
        """`block`, full, has its key."""
        self._key[block] = key = key * self._groups + group
        there = self._found.get(key)
        if there is None:
            self._found[key] = {block: None}
            self.version += 1
        else:
            there[block] = None

    def unname(self, blocks: Iterable[int]) -> None:
        """What of `blocks` one table lists alone has no key any more."""
        for block in blocks:
            if block != NULL and self._holders[block] == 1 and self._key[block] != _NONE:
                self._lose_key(block)

    def give_back(self, group: int, part: list[int]) -> bool:
        """A table lists `part` of it, in token order, no longer; whether any is free by that."""
        keyed, keyless = [], []
        for block in reversed(part):
            if block == NULL:
                continue
            self._holders[block] -= 1
            if self._holders[block]:
                self._shared[group] -= 1
            elif self._key[block] == _NONE:
                keyless.append(block)
            else:
                self._cached[group] += 1
                keyed.append(block)
        self._held[group] -= len(keyed) + len(keyless)
        self.cached += len(keyed)
        if self._to_front:
            self.free.push_front(keyless[::-1])
        elif keyless:
            self.free.push_back(np.array(keyless, np.int64))
        if keyed:
            self._keep(np.array(keyed, np.int64))
        return bool(keyed or keyless)

    def tick(self) -> None:
        """A call begins that names blocks or gives some back."""

    def coming(self, row: int, keys: list[int]) -> None:
        """Row `row` of the trace is admitted, and will compute what `keys` stand for."""

    def _keep(self, blocks: Int64) -> None:
        """`blocks`, which have a key, belong to nobody any more; the table's last comes first."""
        self.free.push_back(blocks)

    def _forget(self, block: int) -> None:
        self._lose_key(block)
        self._cached[self._group[block]] -= 1
        self.cached -= 1
        self.evicted += 1

    def _lose_key(self, block: int) -> None:
        key = self._key[block]
        self._key[block] = _NONE
        there = self._found[key]
        del there[block]
        if not there:
            del self._found[key]
        self.version += 1


__all__ = ["NULL", "GroupedPool"]
