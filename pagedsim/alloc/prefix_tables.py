"""The block tables of a prefix cache, in stretches: what sequences hold, together or alone.

Full blocks are shared by content, and by forks; a block that is not full only by forks, and is then
a *tail*, as in `alloc.paged`: whoever grows into it takes another in its place, but for the last to
hold it.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
from mypy_extensions import mypyc_attr

from pagedsim.alloc.paged import check_fork
from pagedsim.alloc.stretches import Family, FreeStretches, Stretch, keys_of
from pagedsim.errors import ContractError
from pagedsim.protocols import Int64, Sequence, Usage


class Held:
    """A sequence's block table: the first `named` blocks have a key, those of `loose` have none.

    ::

        table     | stretch |   stretch   | stretch | 5 | 9 |
        content   |   key ...   |  key ...     ^key, left    |    where the next key comes from

    `stretches` are listed with the `counts` of blocks that they had then; what was cut off one
    since is its `rest`. `open`: the last of them, of `family`, if it got its keys here; the next
    key may go on in it while nobody else lists it. `forked`: it is one of several samples, or was.

    `content`: all its keys, as `keys_of` has them; `full`: how many. The next is `key`, of the
    family of `start`; `left` of that stretch are to come, and so many stretches were `begun`.
    """

    __slots__ = (
        "begun",
        "content",
        "counts",
        "family",
        "forked",
        "full",
        "key",
        "left",
        "loose",
        "named",
        "open",
        "start",
        "stretches",
    )

    def __init__(self, content: list[tuple[int, int]]) -> None:
        self.content = content
        self.full = 0
        for _, count in content:
            self.full += count
        self.begun = 0
        self.start = self.key = self.left = 0
        self.stretches: list[Stretch] = []
        self.counts: list[int] = []
        self.named = 0
        self.loose: list[int] = []
        self.open: Stretch | None = None
        self.family: Family | None = None
        self.forked = False

    def __len__(self) -> int:
        return self.named + len(self.loose)

    def begin(self) -> None:
        """The next key is the first of the next stretch of `content`, and so of its family."""
        self.start, self.left = self.content[self.begun]
        self.key = self.start
        self.begun += 1

    def advance(self, blocks: int) -> None:
        """So many blocks more have their keys. O(stretches that they pass)."""
        self.named += blocks
        while blocks:
            if not self.left:
                self.begin()
            step = min(blocks, self.left)
            self.key += step
            self.left -= step
            blocks -= step

    def append(self, stretch: Stretch, count: int) -> None:
        """List `stretch`, which has `count` blocks, behind the others: it has one holder more."""
        stretch.holders += 1
        self.stretches.append(stretch)
        self.counts.append(count)

    def listed(self) -> list[Stretch]:
        """All stretches as they are now, in order. O(stretches)."""
        found: list[Stretch] = []
        for at, stretch in enumerate(self.stretches):
            found.append(stretch)
            count = self.counts[at] - len(stretch.ids)
            while count:
                rest = stretch.rest
                assert rest is not None
                stretch = rest
                found.append(stretch)
                count -= len(stretch.ids)
        return found

    def table(self) -> list[int]:
        """Block ids. O(blocks)."""
        return [*chain.from_iterable(part.ids for part in self.listed()), *self.loose]


@mypyc_attr(allow_interpreted_subclasses=True)
class Tables:
    """Tables over a pool and its free list, and what several hold together."""

    def __init__(self, blocks: int, block: int, null: int) -> None:
        self.block = block
        self.blocks = blocks
        self.capacity = self.longest = (blocks - null) * block
        self._free = FreeStretches(list(range(blocks - 1, null - 1, -1)))
        self._tables: dict[Sequence, Held] = {}
        self._cached = 0  # free blocks with a key
        self._evicted = 0  # blocks whose key was dropped
        self._shared = 0  # Σ (holders - 1) over held blocks
        self._tails: dict[int, int] = {}  # shared block that is not full -> its stored tokens
        self._tail_holders: dict[int, int] = {}  # of each of these, two at least
        self._short = 0  # slots of `_shared` that hold nothing, in such blocks

    def fork(self, parent: Sequence, child: Sequence, tokens: int, /) -> None:
        """`child` shares the blocks of the first `tokens` tokens, all that `parent` stores.

        The full ones have their keys already; a last one that is not is a *tail*, as in
        `alloc.paged`.
        """
        held = self._held(parent)
        table = held.table()
        check_fork(parent, child in self._tables, table, tokens, self.block, self._tails)
        assert held.named == tokens // self.block
        self._tables[child] = other = Held(keys_of(child, self.block))
        held.forked = other.forked = True
        for stretch in held.listed():
            other.append(stretch, len(stretch.ids))
        other.advance(held.named)
        other.loose = held.loose[:]
        self._shared += len(table)
        if filled := tokens % self.block:
            tail = table[-1]
            self._tails[tail] = filled
            self._tail_holders[tail] = self._tail_holders.get(tail, 1) + 1
            self._short += self.block - filled

    def room(self, seq: Sequence, /) -> int:
        """Slots of the table; of a tail that is shared, only those that are stored in."""
        held = self._held(seq)
        room = len(held) * self.block
        if self._tails and held.loose:
            return room - self.block + self._tails.get(held.loose[-1], self.block)
        return room

    def usage(self) -> Usage:
        """Blocks that are free without a key are all that is neither held nor cached."""
        held = self.capacity - self._free.blocks * self.block
        shared = self._shared * self.block - self._short
        # half the time of Usage(…)
        return tuple.__new__(Usage, (held, self._cached * self.block, shared, 0))

    @property
    def evicted(self) -> int:
        """Slots of cached blocks that were taken for something else."""
        return self._evicted * self.block

    def table(self, seq: Sequence, /) -> tuple[int, ...]:
        """Block ids in token order."""
        return tuple(self._held(seq).table())

    def free_blocks(self) -> tuple[int, ...]:
        """The free list, front first, cached blocks among it."""
        return tuple(chain.from_iterable(reversed(stretch.ids) for stretch in self._free))

    def slots(self, seq: Sequence, /) -> Int64:
        """The slot of every position up to `room`."""
        return self._slots(self._held(seq).table())

    def kept(self) -> Int64:
        """int64: slots of the free blocks that have a key. O(blocks)."""
        keyed = [stretch.ids for stretch in self._free if stretch.family is not None]
        return self._slots(sorted(chain.from_iterable(keyed)))

    def _slots(self, blocks: list[int]) -> Int64:
        ids = np.array(blocks, np.int64)
        return (ids[:, None] * self.block + np.arange(self.block)).ravel()

    def _copies(self, held: Held, tokens: int) -> bool:
        """Whether to hold `tokens`, the last block of `held` must be copied."""
        stored = self._tails.get(held.loose[-1]) if held.loose else None
        return stored is not None and tokens > (len(held) - 1) * self.block + stored

    def _leave_tail(self, tail: int) -> None:
        """A table lists `tail` no longer, but others do."""
        self._tail_holders[tail] -= 1
        self._shared -= 1
        self._short -= self.block - self._tails[tail]
        if self._tail_holders[tail] == 1:
            del self._tails[tail], self._tail_holders[tail]

    def _held(self, seq: Sequence) -> Held:
        try:
            return self._tables[seq]
        except KeyError:
            raise ContractError(f"paged: request {seq.id} holds nothing") from None


__all__ = ["Held", "Tables"]
