"""The block tables of a prefix cache, block by block: what sequences hold, together or alone.

Who shares which blocks, and what a *tail* is: as in `alloc.prefix_tables`. Why the two have no base
in common: the pools over them are held to each other (docs/design.md), and a mistake in an account
that both inherit would show in neither.
"""

from __future__ import annotations

from array import array

import numpy as np
from mypy_extensions import mypyc_attr

from pagedsim.alloc.freelist import FreeList, shared_memory
from pagedsim.alloc.paged import check_fork
from pagedsim.alloc.rankedlist import RankedList
from pagedsim.errors import ContractError
from pagedsim.protocols import Int64, Sequence, Usage


class Held:
    """A sequence's block table, its keys, and how many of its blocks have got theirs.

    The first `named` blocks have a key, and nobody else has the ones behind them. `forked`: it is
    one of several samples, or was.
    """

    __slots__ = ("forked", "items", "keys", "named", "table")

    def __init__(self, table: array[int], keys: Int64, named: int) -> None:
        self.table, self.keys, self.named = table, keys, named
        self.items = memoryview(keys.data)  # the same keys, for single ones
        self.forked = False


@mypyc_attr(allow_interpreted_subclasses=True)
class Tables:
    """Tables over a pool, and how many hold each block."""

    def __init__(self, blocks: int, block: int, null: int) -> None:
        self.block = block
        self.blocks = blocks
        self.capacity = self.longest = (blocks - null) * block
        self._free: FreeList | RankedList = FreeList(null, blocks)
        self._tables: dict[Sequence, Held] = {}
        self._holders, self._all_holders = shared_memory(blocks)
        self._cached = 0  # free blocks with a key
        self._evicted = 0  # blocks whose key was dropped
        self._shared = 0  # Σ (holders - 1) over held blocks
        self._tails: dict[int, int] = {}  # shared block that is not full -> its stored tokens
        self._short = 0  # slots of `_shared` that hold nothing, in such blocks

    def fork(self, parent: Sequence, child: Sequence, tokens: int, /) -> None:
        """`child` shares the blocks of the first `tokens` tokens, all that `parent` stores.

        The full ones have their keys already; a last one that is not is a *tail*, as in
        `alloc.paged`.
        """
        held = self._held(parent)
        check_fork(parent, child in self._tables, held.table, tokens, self.block, self._tails)
        self._tables[child] = other = Held(held.table[:], child.keys(self.block), held.named)
        held.forked = other.forked = True
        self._all_holders[np.array(held.table)] += 1
        self._shared += len(held.table)
        if filled := tokens % self.block:
            self._tails[held.table[-1]] = filled
            self._short += self.block - filled

    def room(self, seq: Sequence, /) -> int:
        """Slots of the table; of a tail that is shared, only those that are stored in."""
        table = self._held(seq).table
        room = len(table) * self.block
        return room - self.block + self._tails.get(table[-1], self.block) if self._tails else room

    def usage(self) -> Usage:
        """Blocks that are free without a key are all that is neither held nor cached."""
        held = self.capacity - len(self._free) * self.block
        shared = self._shared * self.block - self._short
        # half the time of Usage(…)
        return tuple.__new__(Usage, (held, self._cached * self.block, shared, 0))

    @property
    def evicted(self) -> int:
        """Slots of cached blocks that were taken for something else."""
        return self._evicted * self.block

    def table(self, seq: Sequence, /) -> tuple[int, ...]:
        """Block ids in token order."""
        return tuple(self._held(seq).table)

    def free_blocks(self) -> tuple[int, ...]:
        """The free list, front first, cached blocks among it."""
        return self._free.in_order()

    def slots(self, seq: Sequence, /) -> Int64:
        """The slot of every position up to `room`."""
        table = np.array(self._held(seq).table, np.int64)  # a copy
        return (table[:, None] * self.block + np.arange(self.block)).ravel()

    def _copies(self, table: array[int], tokens: int) -> bool:
        """Whether to hold `tokens`, the last block of `table` must be copied."""
        stored = self._tails.get(table[-1])
        return stored is not None and tokens > (len(table) - 1) * self.block + stored

    def _leave_tail(self, tail: int) -> None:
        """A table lists `tail` no longer, but others do."""
        self._holders[tail] -= 1
        self._shared -= 1
        self._short -= self.block - self._tails[tail]
        if self._holders[tail] == 1:
            del self._tails[tail]

    def _held(self, seq: Sequence) -> Held:
        try:
            return self._tables[seq]
        except KeyError:
            raise ContractError(f"paged: request {seq.id} holds nothing") from None


__all__ = ["Held", "Tables"]
