"""Which block of a prefix cache goes first: histories beside a model that is a dictionary.

The model keeps, for each block, its content, who holds it, and what a policy sees of it; what it
knows of the cache is what `pagedsim.alloc.ranked` says: a block is ranked when it is given back;
the smallest rank goes first, of equals what was given back first, and of one release the table's
last block first; blocks without content go before all.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from pagedsim.testing.laws import Judge
from pagedsim.testing.sequences import SHAPES, Library, Seq, Shape, described, shaped

_NEVER = 1 << 62
_PICK = st.integers(0, 7)
Move = tuple[int, int, Shape]
MOVES: st.SearchStrategy[list[Move]] = st.lists(
    st.tuples(_PICK, _PICK, SHAPES), min_size=12, max_size=36
)


@dataclass
class Shown:
    """What a policy sees of an entry."""

    touched: int
    made: int
    uses: int
    next_use: int = _NEVER


@dataclass
class Block:
    """A block: `content` numbers the prefix that it ends, -1 for none."""

    content: int = -1
    holders: int = 0
    made: int = 0
    uses: int = 0
    came: tuple[Any, int] = (0, 0)  # its rank, and its place among all that were given back


class Model:
    """A prefix cache of blocks of one size, told what a cache did and asked what it should do."""

    def __init__(self, ids: list[int], size: int, rank: Callable[[Any], Any]) -> None:
        self.blocks = {at: Block() for at in ids}
        self.size, self.rank = size, rank
        self.tables: dict[Seq, list[int]] = {}
        self.named: dict[Seq, int] = {}
        self.found: dict[int, list[int]] = {}
        self.clock = self.serial = 0

    def going(self) -> list[int]:
        """Free blocks with content, the first to go first."""
        idle = [at for at, b in self.blocks.items() if not b.holders and b.content >= 0]
        return sorted(idle, key=lambda at: self.blocks[at].came)

    def empty(self) -> set[int]:
        """Free blocks without content."""
        return {at for at, b in self.blocks.items() if not b.holders and b.content < 0}

    def hits(self, seq: Seq) -> list[int]:
        """The blocks that hold the start of what is known, but for its last token."""
        hits = []
        for content in seq.prefixes[self.size - 1 : seq.tokens - 1 : self.size]:
            if not self.found.get(content):
                break
            hits.append(self.found[content][0])
        return hits

    def admit(self, seq: Seq, hits: list[int]) -> None:
        """`hits` are held once more, and used once more."""
        for at in hits:
            self.blocks[at].holders += 1
            self.blocks[at].uses += 1
        self.tables[seq], self.named[seq] = list(hits), len(hits)

    def take(self, seq: Seq, taken: list[int], tokens: int) -> None:
        """Blocks are taken for `seq`, and those that `tokens` fill get their content."""
        for at in taken:
            block = self.blocks[at]
            if block.content >= 0:
                self.found[block.content].remove(at)
            self.blocks[at] = Block(holders=1)
        self.tables[seq] += taken
        full = range(self.named[seq], tokens // self.size)
        self.clock += bool(full)
        for at in full:
            number = self.tables[seq][at]
            content = seq.prefixes[(at + 1) * self.size - 1]
            self.blocks[number] = Block(content, 1, self.clock, 1)
            self.found.setdefault(content, []).append(number)
            self.named[seq] = at + 1

    def release(self, seq: Seq) -> None:
        """Its blocks, the last one first; those that nobody holds are ranked."""
        self.clock += 1
        for at in reversed(self.tables.pop(seq)):
            block = self.blocks[at]
            block.holders -= 1
            if not block.holders and block.content >= 0:
                self.serial += 1
                rank = self.rank(Shown(self.clock, block.made, block.uses))
                block.came = (deepcopy(rank), self.serial)


class Beside:
    """A cache and its model, driven by moves: who comes, decodes, leaves."""

    def __init__(self, cache: Any, rank: Callable[[Any], Any], judge: Judge, log: list[str]):
        self.cache, self.judge, self.log = cache, judge, log
        self.model = Model(list(cache.free_blocks()), cache.block, rank)
        self.library, self.recent = Library(), list[Seq]()

    def play(self, moves: list[Move]) -> None:
        """BrokenLaw at the first block that is not the one."""
        for number, (kind, pick, shape) in enumerate(moves):
            running = list(self.model.tables)
            if kind < 4 or not running:
                self._come(number, shape)
            elif kind < 6:
                self._decode(running[pick % len(running)])
            else:
                self._leave(running[pick % len(running)])
            free = list(self.cache.free_blocks())
            going = self.model.going()
            kept = free[len(free) - len(going) :]
            self._hold(kept == going, f"{kept} are to go in this order, it should be {going}")

    def _come(self, number: int, shape: Shape) -> None:
        seq = shaped(shape, self.cache.longest, self.library, number, self.recent)
        self.recent = [*self.recent, seq][-4:]
        hits = self.model.hits(seq)
        granted = self.cache.admit(seq, seq.tokens)
        self.log += [described(seq, self.recent[:-1]), f"admit({seq}, {seq.tokens}) -> {granted}"]
        if granted:
            table = list(self.cache.table(seq))
            self._hold(table[: len(hits)] == hits, f"{seq} holds {table}, {hits} are its hits")
            self.model.admit(seq, hits)
            self._took(seq, table[len(hits) :])

    def _decode(self, seq: Seq) -> None:
        if seq.computed == seq.final:
            return self._leave(seq)
        before = len(self.model.tables[seq])
        granted = self.cache.grow(seq, seq.tokens)
        self.log.append(f"grow({seq}, {seq.tokens}) -> {granted}")
        if granted:
            self._took(seq, list(self.cache.table(seq))[before:])
        return None

    def _took(self, seq: Seq, taken: list[int]) -> None:
        empty, going = self.model.empty(), self.model.going()
        first, then = taken[: len(empty)], taken[len(empty) :]
        good = set(first) <= empty and then == going[: len(then)]
        self._hold(good, f"{seq} took {taken}; {sorted(empty)} are empty, then {going} go")
        self.model.take(seq, taken, seq.tokens)
        seq.store(seq.tokens)

    def _leave(self, seq: Seq) -> None:
        self.log.append(f"release({seq})")
        self.cache.release(seq)
        self.model.release(seq)

    def _hold(self, good: bool, said: str) -> None:
        self.judge.hold("goes", good, said, self.log)


__all__ = ["MOVES", "Beside", "Model", "Move", "Shown"]
