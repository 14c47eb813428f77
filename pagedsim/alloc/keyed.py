"""The prefix cache of `alloc.prefix` block by block, for policies that rank blocks by themselves.

Its rules are the same: hits, keys, holders, a free list that blocks with a key join at the back.
What differs is what is kept: the key, the holders and the place on the list of every block, in
arrays, so that a policy can see each (`alloc.ranked`, the only one to serve with it). Work is on
the blocks of a call at once, and on single ones where they are few.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence as SequenceOf
from itertools import takewhile

import numpy as np
from mypy_extensions import mypyc_attr

from pagedsim.alloc.freelist import FEW, shared_memory
from pagedsim.alloc.keyed_tables import Held, Tables
from pagedsim.alloc.paged import check_content, check_pool
from pagedsim.errors import ContractError
from pagedsim.protocols import Int64, Sequence

_NOBODY = -1  # a key that no block has
_KEYS = 1 << 12  # room for so many at first


@mypyc_attr(allow_interpreted_subclasses=True)
class KeyedPaged(Tables):
    """A `PrefixPaged` whose blocks can be told apart."""

    fills = True

    def __init__(
        self, blocks: int, *, block: int = 16, null: int = 1, free_order: str = "0.33"
    ) -> None:
        check_pool(blocks, block, null, free_order)
        super().__init__(blocks, block, null)
        self._to_front = free_order == "0.33"
        self._key, self._all_key = shared_memory(blocks, -1)
        self._found = np.empty(_KEYS, np.int64)  # by key, what a look-up finds; as far as they go:
        self._all_first: Int64 = self._found[:0]
        self._first = memoryview(self._all_first.data)  # the same, for single ones
        self._more: dict[int, dict[int, None]] = {}  # key -> blocks after it, in order
        self._keys = 0  # distinct keys that can be hit
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

    def kept(self) -> Int64:
        """int64: slots of the free blocks that have a key. O(blocks)."""
        blocks = np.flatnonzero((self._all_holders == 0) & (self._all_key >= 0))
        slots: Int64 = (blocks[:, None] * self.block + np.arange(self.block)).ravel()
        return slots

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
        self._taking(seq, hits)
        held = Held(array("q", hits.tobytes()), seq.keys(block), len(hits))
        check_content(seq, tokens, block, len(held.items))
        self._append(held.table, -(-tokens // block) - len(hits))
        self._tables[seq] = held
        self._name(held, tokens // block)
        return True

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        """Hold the blocks of `tokens`, and give keys to those that are full at it."""
        held = self._held(seq)
        copies = bool(self._tails) and self._copies(held.table, tokens)
        need = -(-tokens // self.block) - len(held.table) + copies
        if need > len(self._free):
            return False
        check_content(seq, tokens, self.block, len(held.items))
        if copies:
            self._leave_tail(held.table.pop())
        if need > 0:
            self._append(held.table, need)
        self._name(held, tokens // self.block)
        return True

    def extend(self, seqs: SequenceOf[Sequence], /) -> int:
        """One block to each of `seqs`, in order; how many got one."""
        if self._tails:
            needs = [self.room(seq) + 1 for seq in seqs]  # before any of them leaves a tail
            return sum(takewhile(bool, map(self.grow, seqs, needs)))
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
        for seq in seqs:
            held = self._held(seq)
            self._name(held, len(held.table))

    def release(self, seq: Sequence, /) -> None:
        """Give the table back; what nobody else holds is free, and cached if it has a key.

        A sample's that are not full at ``seq.computed`` lose theirs (docs/forks.md).
        """
        held = self._held(seq)
        if held.forked and held.named * self.block > seq.computed:
            self._unname(held, seq.computed // self.block)
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
        self._keep(nobodys)

    def keys_cached(self) -> int:
        """Distinct keys that can be hit."""
        return self._keys

    def _taking(self, seq: Sequence, hits: Int64) -> None:
        """For a policy: `seq` has its hits; new blocks follow."""

    def _keep(self, blocks: Int64) -> None:
        """`blocks`, which have a key, belong to nobody any more; the table's last comes first."""
        self._free.push_back(blocks)

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
            self._evicted += len(keys)

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

    def _unname(self, held: Held, full: int) -> None:
        """What lies behind its first `full` blocks has no key any more, but for what others hit."""
        kept = held.named  # what lies before a block that others hit has a key too
        while kept > full and self._holders[held.table[kept - 1]] == 1:
            kept -= 1
        for block in held.table[kept : held.named]:
            self._lose_key(block)
        held.named = kept
        self._looked = (None, 0, self._looked[2])

    def _forget(self, block: int) -> None:
        """A free `block` is taken for something else."""
        self._cached -= 1
        self._evicted += 1
        self._lose_key(block)

    def _lose_key(self, block: int) -> None:
        """Look-ups find the next one under its key."""
        key = self._key[block]
        self._key[block] = -1
        more = self._more.get(key)
        if more is None:
            self._first[key] = -1
            self._keys -= 1
            return
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
        """Make sure that `key` can be looked up. Memory that no key reaches is not touched."""
        old = len(self._all_first)
        if key < old:
            return
        reach = key + 1 + old // 8
        if reach > len(self._found):
            larger = np.empty(4 * reach, np.int64)
            larger[:old] = self._all_first
            self._found = larger
        self._found[old:reach] = -1
        self._all_first = self._found[:reach]
        self._first = memoryview(self._all_first.data)


__all__ = ["KeyedPaged"]
