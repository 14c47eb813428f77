"""What an allocator with groups of layers shows of its pool and tables, and never changes."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

from pagedsim.alloc.grouped_forks import Tails
from pagedsim.alloc.grouped_pool import NULL, GroupedPool
from pagedsim.alloc.grouped_tables import Held
from pagedsim.alloc.grouped_windows import outside, windows_of
from pagedsim.errors import ContractError
from pagedsim.protocols import GroupBlocks, LayerGroup, Outside, Sequence, Usage


class Shown:
    """Tables of `groups` over a pool of `blocks` blocks, null block included."""

    def __init__(
        self,
        groups: tuple[LayerGroup, ...],
        pool: GroupedPool,
        tails: Tails,
        blocks: int,
        block_bytes: int,
    ) -> None:
        self.groups, self._pool, self._tails = groups, pool, tails
        self.blocks, self.block_bytes = blocks, block_bytes
        self.block = self.block_bytes  # slots a block: bytes
        self.capacity = (self.blocks - 1) * self.block_bytes
        self._windows = windows_of(groups)
        self._tables: dict[Sequence, Held] = {}

    def covered(self, seq: Sequence, /) -> int:
        """Tokens that the tables reach."""
        return self._held(seq).tokens

    def shares_tail(self, seq: Sequence, /) -> bool:
        """Whether others hold its last blocks too, which are not full."""
        return bool(self._tails) and self._tails.copies(self._held(seq)) > 0

    def usage(self) -> Usage:
        """In bytes; `shared` leaves out the padding of the blocks that were saved."""
        shared = 0
        for at, group in enumerate(self.groups):
            if saved := self._pool.shares(at):
                shared += saved * group.page_bytes - self._pool.lacking(at) * group.token_bytes
        held = self.capacity - len(self._pool.free) * self.block_bytes
        return Usage(held, self._pool.cached * self.block_bytes, shared)

    @property
    def evicted(self) -> int:
        """Bytes of cached blocks that were taken for something else."""
        return self._pool.evicted * self.block_bytes

    def group_blocks(self) -> tuple[GroupBlocks, ...]:
        """Blocks of each group."""
        return tuple(map(self._pool.blocks_of, range(len(self.groups))))

    def out_of_windows(self, seqs: SequenceOf[Sequence], /) -> int:
        """As `outside` has them."""
        return self.outside(seqs).bytes

    def outside(self, seqs: SequenceOf[Sequence], /) -> Outside:
        """O(sequences · kinds of windows), and of blocks out of them as many as can be shared."""
        return outside(self._windows, self._pool, seqs, [self._held(seq) for seq in seqs])

    def tables(self, seq: Sequence, /) -> tuple[tuple[int, ...], ...]:
        """A table a group, NULL where a block was given back."""
        return tuple(tuple(table.blocks) for table in self._held(seq).tables)

    def table(self, seq: Sequence, /) -> tuple[int, ...]:
        """All ids that `seq` holds, group after group."""
        return tuple(block for table in self.tables(seq) for block in table if block != NULL)

    def free_blocks(self) -> tuple[int, ...]:
        """The free list, front first, cached blocks among it."""
        return self._pool.free.in_order()

    def keys_cached(self) -> int:
        """Distinct (group, key) pairs that can be hit."""
        return self._pool.keys_cached()

    def _held(self, seq: Sequence) -> Held:
        try:
            return self._tables[seq]
        except KeyError:
            raise ContractError(f"paged: request {seq.id} holds nothing") from None


__all__ = ["Shown"]
