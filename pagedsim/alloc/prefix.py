"""Paged blocks with a prefix cache, as vLLM keeps one: content is found again by chained keys.

Words beside those of `alloc.paged`: a block that is full has a *key*, which stands for its tokens
and all before them in its sequence (`Sequence.keys`). A *hit* is the longest run of blocks from
the start of a sequence whose keys are known. A block is *free* when no table holds it; a free
block with a key is *cached*: it can be hit until it is taken for something else, which drops the
key, and that is eviction::

    table    | hit | hit | own, full | own, full | own, filling |
    key         k0    k1       k2          k3           –
    held by     3     1        1           1            1           `_holders`

Keys are given when a step is planned: after `admit` or `grow` to n tokens every block that is full
at n has its key, decode blocks included. Equal content computed twice is held twice under one key;
a look-up finds the first that got it, of those still there. Of n known tokens at most
``(n - 1) // block`` blocks are hit, so that at least one token is computed.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import numpy as np

from pagedsim.alloc.freelist import FreeList
from pagedsim.alloc.paged import check_pool
from pagedsim.errors import ContractError
from pagedsim.protocols import Int64, Sequence, Usage


class PrefixPaged:
    """Blocks over a pool, full ones shared by content; the free list makes eviction LRU.

    `free_order` says where blocks without a key go when they are released: "0.33" to the front,
    as one group with the table's last block first; "0.11" to the back with all others. Blocks
    with a key go to the back, the table's last block first.
    """

    fills = True

    def __init__(
        self, blocks: int, *, block: int = 16, null: int = 1, free_order: str = "0.33"
    ) -> None:
        check_pool(blocks, block, null, free_order)
        self.block = block
        self.blocks = blocks
        self.capacity = self.longest = (blocks - null) * block
        self._to_front = free_order == "0.33"
        self._free = FreeList(null, blocks)
        self._tables: dict[Sequence, list[int]] = {}
        self._keyed: dict[Sequence, int] = {}  # blocks of a table that were looked at for a key
        self._holders = [0] * blocks
        self._key = [-1] * blocks
        self._first: dict[int, int] = {}  # key -> the block that a look-up finds
        self._more: dict[int, dict[int, None]] = {}  # key -> blocks after it, in order
        self._cached = 0  # free blocks with a key
        self._shared = 0  # Σ (holders - 1) over held blocks
        self._changes = 0  # of the keys; a look-up stays true while there is none
        self._looked: tuple[Sequence | None, int, int, list[int]] = (None, 0, 0, [])

    def hits(self, seq: Sequence) -> list[int]:
        """The blocks that `seq`, waiting with its known tokens, would hit. O(hits + 1)."""
        who, changes, tokens, found = self._looked
        if who is seq and changes == self._changes and tokens == seq.tokens:
            return found
        keys, first = seq.keys(self.block), self._first
        found = []
        for at in range((seq.tokens - 1) // self.block):
            there = first.get(keys[at])
            if there is None:
                break
            found.append(there)
        self._looked = (seq, self._changes, seq.tokens, found)
        return found

    def cached(self, seq: Sequence, /) -> int:
        """Tokens of the blocks that would be hit."""
        return len(self.hits(seq)) * self.block

    def admit(self, seq: Sequence, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        """Take the hits, and new blocks for the rest of `tokens`.

        Hit blocks that nobody holds come off the free list first, and count.
        """
        if seq in self._tables:
            raise ContractError(f"paged: request {seq.id} is admitted twice")
        hits, block, holders = self.hits(seq), self.block, self._holders
        idle = [at for at in hits if not holders[at]]
        need = -(-max(tokens, whole) // block) - len(hits) + len(idle)
        if need + -(-spare // block) > len(self._free):
            return False
        for at in idle:
            self._free.remove(at)
        self._cached -= len(idle)
        self._shared += len(hits) - len(idle)
        for at in hits:
            holders[at] += 1
        self._tables[seq] = hits + self._take(-(-tokens // block) - len(hits))
        self._keyed[seq] = len(hits)
        self._name(seq, tokens)
        return True

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        """Hold the blocks of `tokens`, and give keys to those that are full at it."""
        table = self._table(seq)
        need = -(-tokens // self.block) - len(table)
        if need > len(self._free):
            return False
        if need > 0:
            table += self._take(need)
        self._name(seq, tokens)
        return True

    def extend(self, seqs: SequenceOf[Sequence], /) -> int:
        """One block to each of `seqs`, in order; how many got one."""
        seqs = seqs[: len(self._free)]
        for seq, block in zip(seqs, self._take(len(seqs)), strict=True):
            self._tables[seq].append(block)
        return len(seqs)

    def fill(self, seqs: SequenceOf[Sequence], /) -> None:
        """The last block of each of `seqs` is full, in order: it gets its key."""
        for seq in seqs:
            self._name(seq, len(self._tables[seq]) * self.block)

    def release(self, seq: Sequence, /) -> None:
        """Give the table back; what nobody else holds is free, and cached if it has a key."""
        table = self._table(seq)
        del self._tables[seq], self._keyed[seq]
        holders, keys = self._holders, self._key
        kept, plain = [], []
        for block in reversed(table):
            holders[block] -= 1
            if holders[block]:
                self._shared -= 1
            elif keys[block] < 0 and self._to_front:
                plain.append(block)
            else:
                kept.append(block)
                self._cached += keys[block] >= 0
        self._free.push_back(kept)
        self._free.push_front(reversed(plain))

    def room(self, seq: Sequence, /) -> int:
        """Slots of the table."""
        return len(self._table(seq)) * self.block

    def usage(self) -> Usage:
        """Blocks that are free without a key are all that is neither held nor cached."""
        free = len(self._free) * self.block
        return Usage(self.capacity - free, self._cached * self.block, self._shared * self.block)

    def table(self, seq: Sequence, /) -> tuple[int, ...]:
        """Block ids in token order."""
        return tuple(self._table(seq))

    def free_blocks(self) -> tuple[int, ...]:
        """The free list, front first, cached blocks among it."""
        return self._free.in_order()

    def keys_cached(self) -> int:
        """Distinct keys that can be hit."""
        return len(self._first)

    def slots(self, seq: Sequence, /) -> Int64:
        """The slot of every position up to `room`."""
        table = np.array(self._table(seq), np.int64)
        return (table[:, None] * self.block + np.arange(self.block)).ravel()

    def _take(self, blocks: int) -> list[int]:
        """New blocks off the front; their keys are dropped."""
        taken = self._free.take(blocks)
        keys, holders = self._key, self._holders
        for block in taken:
            holders[block] = 1
            if keys[block] >= 0:
                self._forget(block)
                self._cached -= 1
        return taken

    def _name(self, seq: Sequence, tokens: int) -> None:
        """Give keys to the blocks of `seq` that are full at `tokens` and have none yet."""
        full, done = tokens // self.block, self._keyed[seq]
        if full <= done:
            return
        table, keys = self._tables[seq], seq.keys(self.block)
        for at in range(done, full):
            block, key = table[at], keys[at]
            self._key[block] = key
            if key in self._first:
                self._more.setdefault(key, {})[block] = None
            else:
                self._first[key] = block
        self._keyed[seq] = full
        self._changes += 1

    def _forget(self, block: int) -> None:
        """`block` is taken for something else: look-ups find the next one under its key."""
        key = self._key[block]
        self._key[block] = -1
        self._changes += 1
        more = self._more.get(key)
        if self._first[key] != block:
            assert more is not None
            del more[block]
        elif more:
            self._first[key] = next(iter(more))
            del more[self._first[key]]
        else:
            del self._first[key]
        if more is not None and not more:
            del self._more[key]

    def _table(self, seq: Sequence) -> list[int]:
        try:
            return self._tables[seq]
        except KeyError:
            raise ContractError(f"paged: request {seq.id} holds nothing") from None


__all__ = ["PrefixPaged"]
