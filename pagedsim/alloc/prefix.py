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

from array import array
from collections.abc import Sequence as SequenceOf

import numpy as np

from pagedsim.alloc.freelist import FEW, FreeList, shared_memory
from pagedsim.alloc.paged import check_pool
from pagedsim.errors import ContractError
from pagedsim.protocols import Int64, Sequence, Usage

_NONE = np.zeros(0, np.int64)


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
        self._tables: dict[Sequence, array[int]] = {}
        self._named: dict[Sequence, int] = {}  # blocks of a table that have got their key
        self._holders, self._all_holders = shared_memory(np.zeros(blocks))
        self._key, self._all_key = shared_memory(np.full(blocks, -1))
        self._first, self._all_first = shared_memory(np.full(1024, -1))  # what a look-up finds
        self._more: dict[int, dict[int, None]] = {}  # key -> blocks after it, in order
        self._keys = 0  # distinct keys that can be hit
        self._cached = 0  # free blocks with a key
        self._shared = 0  # Σ (holders - 1) over held blocks
        self._changes = 0  # of the keys; a look-up stays true while there is none
        self._looked: tuple[Sequence | None, int, int, Int64] = (None, 0, 0, _NONE)

    def hits(self, seq: Sequence) -> Int64:
        """The blocks that `seq`, waiting with its known tokens, would hit. O(known blocks)."""
        who, changes, tokens, found = self._looked
        if who is seq and changes == self._changes and tokens == seq.tokens:
            return found
        keys = seq.keys(self.block)[: (seq.tokens - 1) // self.block]
        if len(keys):
            self._reach(int(keys.max()))
        found = self._all_first[keys]
        missing = found < 0
        if missing.any():
            found = found[: int(missing.argmax())]
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
        hits, block = self.hits(seq), self.block
        idle = hits[self._all_holders[hits] == 0]
        need = -(-max(tokens, whole) // block) - len(hits) + len(idle)
        if need + -(-spare // block) > len(self._free):
            return False
        self._free.remove(idle)
        self._cached -= len(idle)
        self._shared += len(hits) - len(idle)
        self._all_holders[hits] += 1
        table = array("q", hits.tobytes())
        self._append(table, -(-tokens // block) - len(hits))
        self._tables[seq] = table
        self._named[seq] = len(hits)
        self._name(seq, tokens)
        return True

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        """Hold the blocks of `tokens`, and give keys to those that are full at it."""
        table = self._table(seq)
        need = -(-tokens // self.block) - len(table)
        if need > len(self._free):
            return False
        if need > 0:
            self._append(table, need)
        self._name(seq, tokens)
        return True

    def extend(self, seqs: SequenceOf[Sequence], /) -> int:
        """One block to each of `seqs`, in order; how many got one."""
        seqs = seqs[: len(self._free)]
        taken = self._free.take(len(seqs))
        for seq, block in zip(seqs, taken, strict=True):
            self._hand_out(int(block))
            self._tables[seq].append(int(block))
        return len(seqs)

    def fill(self, seqs: SequenceOf[Sequence], /) -> None:
        """The last block of each of `seqs` is full, in order: it gets its key."""
        for seq in seqs:
            self._name(seq, len(self._tables[seq]) * self.block)

    def release(self, seq: Sequence, /) -> None:
        """Give the table back; what nobody else holds is free, and cached if it has a key."""
        table = np.frombuffer(self._table(seq), np.int64)[::-1]
        del self._tables[seq], self._named[seq]
        self._all_holders[table] -= 1
        nobodys = table[self._all_holders[table] == 0]
        self._shared -= len(table) - len(nobodys)
        keyed = self._all_key[nobodys] >= 0
        self._cached += int(keyed.sum())
        if self._to_front:
            self._free.push_back(nobodys[keyed])
            self._free.push_front(nobodys[~keyed][::-1].tolist())
        else:
            self._free.push_back(nobodys)

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
        return self._keys

    def slots(self, seq: Sequence, /) -> Int64:
        """The slot of every position up to `room`."""
        table = np.array(self._table(seq), np.int64)  # a copy
        return (table[:, None] * self.block + np.arange(self.block)).ravel()

    def _append(self, table: array[int], blocks: int) -> None:
        """New blocks off the front of the free list; their keys are dropped."""
        taken = self._free.take(blocks)
        if isinstance(taken, list):
            for block in taken:
                self._hand_out(block)
            table.extend(taken)
            return
        self._all_holders[taken] = 1
        table.frombytes(taken.tobytes())
        keyed = taken[self._all_key[taken] >= 0]
        if self._more:  # some key may have several blocks, so they must go in order
            for block in keyed.tolist():
                self._forget(block)
        elif len(keyed):
            self._all_first[self._all_key[keyed]] = -1
            self._all_key[keyed] = -1
            self._keys -= len(keyed)
            self._cached -= len(keyed)
            self._changes += 1

    def _hand_out(self, block: int) -> None:
        self._holders[block] = 1
        if self._key[block] >= 0:
            self._forget(block)

    def _name(self, seq: Sequence, tokens: int) -> None:
        """Give keys to the blocks of `seq` that are full at `tokens` and have none yet."""
        full, done = tokens // self.block, self._named[seq]
        if full <= done:
            return
        self._named[seq] = full
        self._changes += 1
        table, keys = self._tables[seq], seq.keys(self.block)
        if full - done <= FEW:
            for at in range(done, full):
                self._name_one(table[at], int(keys[at]))
            return
        keys = keys[done:full]
        self._reach(int(keys.max()))
        blocks = np.frombuffer(table, np.int64)[done:full]
        self._all_key[blocks] = keys
        fresh = self._all_first[keys] < 0
        self._all_first[keys[fresh]] = blocks[fresh]
        self._keys += int(fresh.sum())
        for key, block in zip(keys[~fresh].tolist(), blocks[~fresh].tolist(), strict=True):
            self._more.setdefault(key, {})[block] = None

    def _name_one(self, block: int, key: int) -> None:
        if key >= len(self._first):
            self._reach(key)
        self._key[block] = key
        if self._first[key] < 0:
            self._first[key] = block
            self._keys += 1
        else:
            self._more.setdefault(key, {})[block] = None

    def _forget(self, block: int) -> None:
        """A free `block` is taken for something else: look-ups find the next one under its key."""
        key = self._key[block]
        self._key[block] = -1
        self._cached -= 1
        self._changes += 1
        more = self._more.get(key)
        if self._first[key] != block:
            assert more is not None
            del more[block]
        elif more:
            self._first[key] = next(iter(more))
            del more[self._first[key]]
        else:
            self._first[key] = -1
            self._keys -= 1
        if more is not None and not more:
            del self._more[key]

    def _reach(self, key: int) -> None:
        """Make sure that `key` can be looked up."""
        old = self._all_first
        if key < len(old):
            return
        longer = np.full(max(2 * len(old), key + 1), -1)
        longer[: len(old)] = old
        self._first, self._all_first = shared_memory(longer)

    def _table(self, seq: Sequence) -> array[int]:
        try:
            return self._tables[seq]
        except KeyError:
            raise ContractError(f"paged: request {seq.id} holds nothing") from None


__all__ = ["PrefixPaged"]
