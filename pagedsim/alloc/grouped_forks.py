"""Forks over groups of layers: what several sequences hold together though nobody has filled it.

All blocks are shared, in every group. One that is not full, and a state, is then a *tail*: whoever
grows beyond what was stored at the fork takes another in its place, but for the last to hold it::

    full      | 1 | 2 |      | 1 | 2 |      | 1 | 5 |      parent and child of 6 tokens; the child
    sliding   | 0 | 4 |      | 0 | 4 |      | 0 | 6 |      grows, and copies 2 and 4
              parent         child          child
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

from pagedsim.alloc.grouped_pool import GroupedPool
from pagedsim.alloc.grouped_rules import STATES
from pagedsim.alloc.grouped_tables import Held, Table
from pagedsim.protocols import Int64, LayerGroup


class Tails:
    """The shared blocks of a pool that nobody has filled. O(blocks of a sequence) a fork."""

    def __init__(self, pool: GroupedPool, rules: SequenceOf[LayerGroup]) -> None:
        self._pool, self._rules = pool, rules
        self._lacking: dict[int, int] = {}  # id -> tokens that it lacks to be full

    def __bool__(self) -> bool:
        return bool(self._lacking)

    def fork(self, held: Held, keys: SequenceOf[Int64], tokens: int) -> Held:
        """What a child holds that shares all of `held`, in which `tokens` tokens are stored."""
        tables = []
        held.tokens = tokens
        for at, (group, table, own) in enumerate(zip(self._rules, held.tables, keys, strict=True)):
            self._pool.share(at, table.blocks)
            child = Table(table.blocks.copy(), table.dropped, own, len(table.blocks))
            child.named = table.named
            tables.append(child)
            filled = tokens % group.block
            lacks = 0 if group.kind in (STATES, "state") else group.block - filled
            for place in _last(group, table) if filled or group.kind == "state" else ():
                self._lacking[table.blocks[place]] = lacks
                self._pool.lack(at, lacks)
        other = Held(tables, tokens)
        held.forked = other.forked = True
        return other

    def of(self, at: int, table: Table) -> list[int]:
        """Places of those in a table of group `at`."""
        places = _last(self._rules[at], table)
        return [place for place in places if table.blocks[place] in self._lacking]

    def copies(self, held: Held) -> int:
        """Blocks that its next token takes beside new ones; 0 if it shares no tail."""
        return sum(len(self.of(at, table)) for at, table in enumerate(held.tables))

    def copy(self, at: int, table: Table) -> None:
        """It takes others in their place."""
        for place in self.of(at, table):
            (new,) = self._pool.take(at, 1)
            self._leaves(at, table.blocks[place])
            self._pool.leave(at, table.blocks[place])
            table.blocks[place] = new

    def given_back(self, held: Held) -> None:
        """All of `held` is about to be given back."""
        for at, table in enumerate(held.tables):
            for place in self.of(at, table):
                self._leaves(at, table.blocks[place])

    def _leaves(self, at: int, block: int) -> None:
        self._pool.lack(at, -self._lacking[block])
        if self._pool.holders(block) == 2:
            del self._lacking[block]


def together(
    groups: SequenceOf[LayerGroup],
    caps: SequenceOf[int],
    common: int,
    lengths: SequenceOf[int],
) -> int:
    """Blocks of sequences that store so many tokens, the first `common` of them shared; the most.

    `caps` are most blocks of one sequence in each group.
    """
    blocks = 0
    for group, cap in zip(groups, caps, strict=True):
        if group.kind in (STATES, "state"):
            blocks += len(lengths) * min(group.kept if group.kind == "state" else cap, cap)
            continue
        full = common // group.block
        apart = sum(-(-tokens // group.block) - full for tokens in lengths)
        blocks += min(full + apart, len(lengths) * cap)
    return blocks


def _last(group: LayerGroup, table: Table) -> range:
    """Places of a table that are written next: the last, or all states of a whole sequence."""
    end = len(table.blocks)
    return range(0 if group.kind == "state" else max(0, end - 1), end)


__all__ = ["Tails", "together"]
