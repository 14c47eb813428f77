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
from itertools import takewhile

import numpy as np

from pagedsim.alloc.freelist import FEW, FreeList, shared_memory
from pagedsim.alloc.paged import check_fork, check_pool
from pagedsim.errors import ContractError
from pagedsim.protocols import Int64, Sequence, Usage

_NOBODY = -1  # a key that no block has


class Held:
    """A sequence's block table, its keys, and how many of its blocks have got theirs.

    The first `named` blocks have a key, and nobody else has the ones behind them.
    """

    __slots__ = ("items", "keys", "named", "table")

    def __init__(self, table: array[int], keys: Int64, named: int) -> None:
        self.table, self.keys, self.named = table, keys, named
        self.items = memoryview(keys.data)  # the same keys, for single ones


class PrefixPaged:
    """Blocks over a pool, full ones shared by content; the free list makes eviction LRU.

    `free_order` says where blocks without a key go when they are released: "0.33" to the front,
    as one group with the table's last block first; "0.11" to the back with all others. Blocks
    with a key go to the back, the table's last block first.

    Work is on the blocks of a call at once, and on single ones where a sequence only decodes.
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
        self._tables: dict[Sequence, Held] = {}
        self._holders, self._all_holders = shared_memory(blocks)
        self._key, self._all_key = shared_memory(blocks, -1)
        self._first, self._all_first = shared_memory(1024, -1)  # what a look-up finds
        self._more: dict[int, dict[int, None]] = {}  # key -> blocks after it, in order
        self._keys = 0  # distinct keys that can be hit
        self._cached = 0  # free blocks with a key
        self._shared = 0  # Σ (holders - 1) over held blocks
        self._tails: dict[int, int] = {}  # forked block that is not full -> its stored tokens
        self._short = 0  # slots of `_shared` that hold nothing, in such blocks
        self._looked: tuple[Sequence | None, int, Int64] = (None, 0, self._all_key[:0])
        self._mark = 0  # of the free list: before it, nothing that was found is taken
        self._wanted = _NOBODY  # the key that would make what was found longer
        self._wanted_at = 0

    def hits(self, seq: Sequence) -> Int64:
        """The blocks that `seq`, waiting with its known tokens, would hit.

        O(known blocks); O(1) if `seq` was the last to be looked up and it would find the same. It
        would, unless the key came up that ends its hit, or the free list was taken from up to where
        a block that was found may have stood.
        """
        who, tokens, found = self._looked
        if who is seq and tokens == seq.tokens and not self._free.passed(self._mark):
            return found
        tokens = seq.tokens
        keys = seq.keys(self.block)[: (tokens - 1) // self.block]
        found = self._firsts(keys)
        self._wanted = _NOBODY
        if len(found):
            count = int((found < 0).argmax())
            if found[count] < 0:
                found = found[:count]
                self._wanted, self._wanted_at = int(keys[count]), count
        self._mark = self._free.mark(found)
        self._looked = (seq, tokens, found)
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
        holders = self._all_holders[hits]
        idle = hits[holders == 0]
        need = -(-max(tokens, whole) // block) - len(hits) + len(idle)
        if need + -(-spare // block) > len(self._free):
            return False
        if len(hits):
            self._free.remove(idle)
            self._cached -= len(idle)
            self._shared += len(hits) - len(idle)
            self._all_holders[hits] = holders + 1
        held = Held(array("q", hits.tobytes()), seq.keys(block), len(hits))
        self._append(held.table, -(-tokens // block) - len(hits))
        self._tables[seq] = held
        self._name(held, tokens // block)
        return True

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        """Hold the blocks of `tokens`, and give keys to those that are full at it."""
        held = self._held(seq)
        need = -(-tokens // self.block) - len(held.table)
        copies = self._tails and held.table[-1] in self._tails and tokens > self.room(seq)
        if copies:
            need += 1
        if need > len(self._free):
            return False
        if copies:
            self._leave_tail(held.table.pop())
        if need > 0:
            self._append(held.table, need)
        self._name(held, tokens // self.block)
        return True

    def fork(self, parent: Sequence, child: Sequence, tokens: int, /) -> None:
        """`child` shares the blocks of the first `tokens` tokens, all that `parent` stores.

        The full ones have their keys already; a last one that is not is a *tail*, as in
        `alloc.paged`.
        """
        held = self._held(parent)
        check_fork(parent, child in self._tables, held.table, tokens, self.block, self._tails)
        self._tables[child] = Held(held.table[:], child.keys(self.block), held.named)
        self._all_holders[np.array(held.table)] += 1
        self._shared += len(held.table)
        if filled := tokens % self.block:
            self._tails[held.table[-1]] = filled
            self._short += self.block - filled

    def extend(self, seqs: SequenceOf[Sequence], /) -> int:
        """One block to each of `seqs`, in order; how many got one."""
        if self._tails:
            granted = (self.grow(seq, self.room(seq) + 1) for seq in seqs)
            return sum(1 for _ in takewhile(bool, granted))
        seqs = seqs[: len(self._free)]
        tables, key, holders = self._tables, self._key, self._holders
        for seq, block in zip(seqs, self._free.take(len(seqs)), strict=True):
            holders[block] = 1
            if key[block] >= 0:
                self._forget(block)
            tables[seq].table.append(block)
        return len(seqs)

    def fill(self, seqs: SequenceOf[Sequence], /) -> None:
        """The last block of each of `seqs` is full, in order: it gets its key."""
        tables, name = self._tables, self._name_one
        for seq in seqs:
            held = tables[seq]
            at = held.named
            if at + 1 == len(held.table):
                held.named = at + 1
                name(held.table[at], held.items[at])
            else:
                self._name(held, len(held.table))

    def release(self, seq: Sequence, /) -> None:
        """Give the table back; what nobody else holds is free, and cached if it has a key."""
        held = self._held(seq)
        if self._tails and held.table[-1] in self._tails:
            self._leave_tail(held.table.pop())
        del self._tables[seq]
        keyless = held.table[held.named :]
        for block in keyless:
            self._holders[block] = 0
        keyed = np.frombuffer(held.table, np.int64, held.named)[::-1]
        holders = self._all_holders[keyed] - 1
        self._all_holders[keyed] = holders
        nobodys = keyed[holders == 0]
        self._shared -= len(keyed) - len(nobodys)
        self._cached += len(nobodys)
        if self._to_front:
            self._free.push_front(keyless.tolist())
        else:
            keyless.reverse()
            self._free.push_back(np.array(keyless, np.int64))
        self._free.push_back(nobodys)

    def room(self, seq: Sequence, /) -> int:
        """Slots of the table; of a tail that is shared, only those that are stored in."""
        table = self._held(seq).table
        if self._tails and table[-1] in self._tails:
            return (len(table) - 1) * self.block + self._tails[table[-1]]
        return len(table) * self.block

    def usage(self) -> Usage:
        """Blocks that are free without a key are all that is neither held nor cached."""
        held = self.capacity - len(self._free) * self.block
        shared = self._shared * self.block - self._short
        return Usage(held, self._cached * self.block, shared)

    def table(self, seq: Sequence, /) -> tuple[int, ...]:
        """Block ids in token order."""
        return tuple(self._held(seq).table)

    def free_blocks(self) -> tuple[int, ...]:
        """The free list, front first, cached blocks among it."""
        return self._free.in_order()

    def keys_cached(self) -> int:
        """Distinct keys that can be hit."""
        return self._keys

    def slots(self, seq: Sequence, /) -> Int64:
        """The slot of every position up to `room`."""
        table = np.array(self._held(seq).table, np.int64)  # a copy
        return (table[:, None] * self.block + np.arange(self.block)).ravel()

    def _leave_tail(self, tail: int) -> None:
        """A table lists `tail` no longer, but others do."""
        self._holders[tail] -= 1
        self._shared -= 1
        self._short -= self.block - self._tails[tail]
        if self._holders[tail] == 1:
            del self._tails[tail]

    def _append(self, table: array[int], blocks: int) -> None:
        """New blocks off the front of the free list; their keys are dropped."""
        if blocks <= FEW:
            for block in self._free.take(blocks):
                self._holders[block] = 1
                if self._key[block] >= 0:
                    self._forget(block)
                table.append(block)
            return
        taken = self._free.take_many(blocks)
        self._all_holders[taken] = 1
        table.frombytes(taken.tobytes())
        keys = self._all_key[taken]
        if keys.min() < 0:
            taken = taken[keys >= 0]
            keys = keys[keys >= 0]
        if self._more and not self._more.keys().isdisjoint(keys.tolist()):
            for block in taken.tolist():  # some key has several blocks, so they must go in order
                self._forget(block)
        elif len(keys):
            self._all_first[keys] = -1
            self._all_key[taken] = -1
            self._keys -= len(keys)
            self._cached -= len(keys)

    def _name(self, held: Held, full: int) -> None:
        """Give keys to those of the first `full` blocks, all full, that have none yet."""
        done = held.named
        if full <= done:
            return
        held.named = full
        if full - done <= FEW:
            for at in range(done, full):
                self._name_one(held.table[at], held.items[at])
            return
        if done <= self._wanted_at < full and held.items[self._wanted_at] == self._wanted:
            self._looked = (None, 0, self._looked[2])
        keys = held.keys[done:full]
        blocks = np.frombuffer(held.table, np.int64)[done:full]
        self._all_key[blocks] = keys
        known = self._firsts(keys) >= 0
        if known.any():
            for key, block in zip(keys[known].tolist(), blocks[known].tolist(), strict=True):
                self._more.setdefault(key, {})[block] = None
            keys, blocks = keys[~known], blocks[~known]
        self._all_first[keys] = blocks
        self._keys += len(keys)

    def _name_one(self, block: int, key: int) -> None:
        if key == self._wanted:
            self._looked = (None, 0, self._looked[2])
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
        if key in self._more:
            self._forget_one_of(self._more[key], block, key)
        else:
            self._first[key] = -1
            self._keys -= 1

    def _forget_one_of(self, more: dict[int, None], block: int, key: int) -> None:
        if self._first[key] == block:
            block = self._first[key] = next(iter(more))
        del more[block]
        if not more:
            del self._more[key]

    def _firsts(self, keys: Int64) -> Int64:
        """What a look-up finds under each of `keys`, -1 where nothing; a copy."""
        try:
            return self._all_first[keys]
        except IndexError:  # seldom, and to ask before would cost as much as to look up
            self._reach(int(keys.max()))
            return self._all_first[keys]

    def _reach(self, key: int) -> None:
        """Make sure that `key` can be looked up."""
        old = self._all_first
        if key < len(old):
            return
        self._first, self._all_first = shared_memory(max(2 * len(old), key + 1), -1)
        self._all_first[: len(old)] = old

    def _held(self, seq: Sequence) -> Held:
        try:
            return self._tables[seq]
        except KeyError:
            raise ContractError(f"paged: request {seq.id} holds nothing") from None


__all__ = ["PrefixPaged"]
