"""What lies outside of windows: bytes of stored tokens that no layer of their group reads again."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import TypeAlias

from pagedsim.alloc.grouped_pool import GroupedPool
from pagedsim.alloc.grouped_tables import Held, Table
from pagedsim.protocols import LayerGroup, Narrow, Sequence

Alike: TypeAlias = tuple[Narrow, int, list[tuple[int, int]]]


def windows_of(groups: SequenceOf[LayerGroup]) -> list[Alike]:
    """Windows that are alike, tokens of their blocks, and (group, bytes a token) of each.

    All groups of one entry have given back as many blocks of a sequence.
    """
    found: dict[tuple[Narrow, int, bool], list[tuple[int, int]]] = {}
    for at, group in enumerate(groups):
        own = Narrow(group.kind, group.window, group.token_bytes)
        for part in (own,) if group.window else group.narrow:
            key = (part._replace(token_bytes=0), group.block, group.window > 0)
            found.setdefault(key, []).append((at, part.token_bytes))
    return [(part, size, places) for (part, size, _), places in found.items()]


def bytes_outside(
    windows: list[Alike], pool: GroupedPool, seqs: SequenceOf[Sequence], all_held: list[Held]
) -> int:
    """Of `seqs`, which hold `all_held`; each byte once."""
    lost = 0
    for one, size, places in windows:
        token = sum(token for _, token in places)
        first = places[0][0]
        for seq, held in zip(seqs, all_held, strict=True):
            left = one.first_read(seq.computed) - held.tables[first].dropped * size
            if left > 0:
                lost += left * token
        for at, token in places:
            if pool.shares(at):
                tables = [held.tables[at] for held in all_held]
                lost -= token * _counted_twice(one, pool, size, seqs, tables)
    return lost


def _counted_twice(
    one: Narrow, pool: GroupedPool, size: int, seqs: SequenceOf[Sequence], tables: list[Table]
) -> int:
    """Of a group's tokens out of a window, those in shared blocks, but for what nobody reads."""
    outs: dict[int, list[int]] = {}
    for seq, table in zip(seqs, tables, strict=True):
        left = one.first_read(seq.computed) - table.dropped * size
        for index in range(table.dropped, table.dropped - (-left // size)):
            if pool.holders(table.blocks[index]) > 1:
                outs.setdefault(table.blocks[index], []).append(min(left, size))
            left -= size
    twice = 0
    for block, each in outs.items():
        none_reads = min(each) if len(each) == pool.holders(block) else 0
        twice += sum(each) - none_reads
    return twice


__all__ = ["bytes_outside", "windows_of"]
