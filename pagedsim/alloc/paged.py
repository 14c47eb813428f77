"""A pool of equal blocks and a block table a sequence: PagedAttention's allocator.

Words: a *block* is `block` slots; block b holds slots ``b·block : (b + 1)·block``. A *table* lists
a sequence's blocks in token order, so token t lives in slot
``table[t // block]·block + t % block``. The *free list* is ordered. It starts in id order; blocks
come off its front. The first `null` blocks are placeholders that are never handed out.

A release puts the whole table back at once. With ``free_order="0.33"`` it goes to the front, so
that the list then begins with the table's last block; with "0.11" to the back, last block first
(vLLM's versions of those numbers; none of the blocks here has content worth keeping).

A *fork* lets a second table list the first one's blocks. What more than one table lists is copied
before it is written: a block that is shared and full never is, and of those that share a partial
last block (a *tail*) each that grows takes a new one in its place, but for the last, who keeps it::

    parent   | 1 | 2 | 3. |          | 1 | 2 | 5. |      grew first: 5 for 3
    child    | 1 | 2 | 3. |    ->    | 1 | 2 | 3. |      holds 3 alone now
    held by    2   2   2               2   2

Why not a deque: what comes off the front is nearly always a slice, and a list gives and takes
slices at its end in one go. So the list is held back to front: ``free[-1]`` is its front.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from itertools import takewhile
from typing import Any

import numpy as np
from mypy_extensions import mypyc_attr

from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import Int64, Sequence, Usage


def check_pool(blocks: int, block: int, null: int, free_order: str) -> None:
    """SpecError where these make no pool, with the bound."""
    if block < 1:
        raise SpecError(f"paged: block is {block}, must be >= 1")
    if null not in (0, 1):
        raise SpecError(f"paged: null is {null}, must be 0 or 1")
    if blocks - null < 1:
        raise SpecError(f"paged: a pool of {blocks} blocks (null {null}) has none to give")
    if free_order not in ("0.33", "0.11"):
        raise SpecError(f"paged: free_order is {free_order}, must be 0.33 or 0.11")


def check_fork(
    parent: Sequence,
    held: bool,
    table: SequenceOf[int],
    tokens: int,
    block: int,
    tails: dict[int, int],
) -> None:
    """ContractError unless the child holds nothing, and `tokens` is all that `parent` stores."""
    if held:
        raise ContractError(f"paged: request {parent.id} is forked into one that holds blocks")
    filled = tokens % block
    if len(table) != -(-tokens // block) or tails.get(table[-1], filled) != filled:
        raise ContractError(
            f"paged: request {parent.id} is forked at {tokens} tokens, but stores others"
        )


def check_content(seq: Sequence, tokens: int, block: int, keys: int) -> None:
    """ContractError if `tokens` fill blocks for which `seq` has no content, and so no key."""
    if tokens // block > keys:
        raise ContractError(
            f"paged: request {seq.id} asks for {tokens} tokens with prefix=on, which fill "
            f"{tokens // block} blocks of {block}, but its prompt and output fill {keys}: a "
            "scheduler must ask for no more than a sequence knows, as keys are of content"
        )


@mypyc_attr(allow_interpreted_subclasses=True)
class Paged:
    """Blocks over a pool, shared by forks alone. Every operation is O(blocks that it moves).

    (Except a release under ``free_order="0.11"``, which is O(blocks that are free).)

    `blocks`: blocks in the pool, the `null` ones included. A remainder of a pool smaller than a
    block is no part of it: ``capacity = (blocks - null) · block``.
    """

    def __init__(
        self, blocks: int, *, block: int = 16, null: int = 1, free_order: str = "0.33"
    ) -> None:
        check_pool(blocks, block, null, free_order)
        self.block = block
        self.blocks = blocks
        self.capacity = self.longest = (blocks - null) * block
        self._to_front = free_order == "0.33"
        self._free = list(range(blocks - 1, null - 1, -1))  # back to front
        self._tables: dict[Sequence, list[int]] = {}
        self._more: dict[int, int] = {}  # shared block -> tables that list it, less one
        self._tails: dict[int, int] = {}  # shared block that is not full -> its stored tokens
        self._shared = 0  # tokens of shared blocks, each as often as `_more` says

    def cached(self, seq: Sequence, /) -> int:
        """Nothing is kept."""
        return 0

    def admit(self, seq: Sequence, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        """Take the blocks of `tokens`; refused unless all of `whole` and `spare` would fit."""
        if seq in self._tables:
            raise ContractError(f"paged: request {seq.id} is admitted twice")
        need = -(-max(tokens, whole) // self.block) + -(-spare // self.block)
        if need > len(self._free):
            return False
        self._tables[seq] = self._take(-(-tokens // self.block))
        return True

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        """Hold the blocks of `tokens`."""
        table = self._table(seq)
        need = -(-tokens // self.block) - len(table)
        copies = bool(self._tails) and table[-1] in self._tails and tokens > self.room(seq)
        if need + copies > len(self._free):
            return False
        if copies:
            tail, table[-1] = table[-1], self._free.pop()
            self._leave(tail)
        if need > 0:
            table += self._take(need)
        return True

    def fork(self, parent: Sequence, child: Sequence, tokens: int, /) -> None:
        """`child` shares the blocks of the first `tokens` tokens, all that `parent` stores."""
        table, filled = self._table(parent), tokens % self.block
        check_fork(parent, child in self._tables, table, tokens, self.block, self._tails)
        for block in table:
            self._more[block] = self._more.get(block, 0) + 1
        if filled:
            self._tails[table[-1]] = filled
        self._shared += tokens
        self._tables[child] = table.copy()

    def extend(self, seqs: SequenceOf[Sequence], /) -> int:
        """One block to each of `seqs`, in order; how many got one."""
        if self._tails:
            needs = [self.room(seq) + 1 for seq in seqs]  # before any of them leaves a tail
            return sum(takewhile(bool, map(self.grow, seqs, needs)))
        free: list[Any] = self._free  # compiled, an int is unpacked and packed again
        tables: dict[Any, list[Any]] = self._tables
        if len(seqs) > len(free):
            seqs = seqs[: len(free)]
        for seq in seqs:
            tables[seq].append(free.pop())
        return len(seqs)

    def release(self, seq: Sequence, /) -> None:
        """Give the whole table back, but for what others hold too."""
        table = self._table(seq)
        del self._tables[seq]
        if self._more:
            table = [block for block in table if self._leave(block)]
        if self._to_front:
            self._free += table
        else:
            self._free[:0] = table

    def room(self, seq: Sequence, /) -> int:
        """Slots of the table; of a tail that is shared, only those that are stored in."""
        table = self._table(seq)
        if self._tails and table[-1] in self._tails:
            return (len(table) - 1) * self.block + self._tails[table[-1]]
        return len(table) * self.block

    def usage(self) -> Usage:
        """All blocks that are not free are held."""
        held = self.capacity - len(self._free) * self.block
        return tuple.__new__(Usage, (held, 0, self._shared, 0))  # half the time of Usage(…)

    def table(self, seq: Sequence, /) -> tuple[int, ...]:
        """Block ids in token order."""
        return tuple(self._table(seq))

    def free_blocks(self) -> tuple[int, ...]:
        """The free list, front first."""
        return tuple(reversed(self._free))

    def slots(self, seq: Sequence, /) -> Int64:
        """The slot of every position up to `room`."""
        table = np.array(self._table(seq), np.int64)
        return (table[:, None] * self.block + np.arange(self.block)).ravel()

    def _leave(self, block: int) -> bool:
        """A table lists `block` no longer; whether it was the only one."""
        others = self._more.get(block)
        if others is None:
            return True
        self._shared -= self._tails.get(block, self.block)
        if others > 1:
            self._more[block] = others - 1
        else:
            del self._more[block]
            self._tails.pop(block, None)
        return False

    def _take(self, blocks: int) -> list[int]:
        if not blocks:
            return []
        taken = self._free[-blocks:]
        del self._free[-blocks:]
        taken.reverse()
        return taken

    def _table(self, seq: Sequence) -> list[int]:
        try:
            return self._tables[seq]
        except KeyError:
            raise ContractError(f"paged: request {seq.id} holds nothing") from None


__all__ = ["Paged", "check_content", "check_fork", "check_pool"]
