"""What lies outside of windows: bytes of stored tokens that no layer of their group reads again."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import TypeAlias

from pagedsim.alloc.grouped_pool import GroupedPool
from pagedsim.alloc.grouped_tables import Held, Table
from pagedsim.protocols import LayerGroup, Narrow, Outside, Sequence

UNBOUND = 1 << 62
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


def outside(
    windows: list[Alike], pool: GroupedPool, seqs: SequenceOf[Sequence], all_held: list[Held]
) -> Outside:
    """Of `seqs`, which hold `all_held`; each byte once. See `SupportsOutside`."""
    lost, more, steps = 0, 0, UNBOUND
    for one, size, places in windows:
        reads = [one.first_read(seq.computed) for seq in seqs]
        moves = [one.kind == "sliding" and seq.computed + 1 >= one.window for seq in seqs]
        first, token = places[0][0], sum(token for _, token in places)
        for read, held in zip(reads, all_held, strict=True):
            lost += token * max(0, read - held.tables[first].dropped * size)
        more += token * sum(moves)
        for at, token in places:
            if pool.shares(at):
                tables = [held.tables[at] for held in all_held]
                twice, grows, until = _counted_twice(pool, size, reads, moves, tables)
                lost, more = lost - token * twice, more - token * grows
                steps = min(steps, until)
    return Outside(lost, more, steps)


def _counted_twice(
    pool: GroupedPool, size: int, reads: list[int], moves: list[bool], tables: list[Table]
) -> tuple[int, int, int]:
    """Of a group's tokens out of a window, those in shared blocks, but for what nobody reads.

    And how many more each step, for how many steps. Only the entries below the most that anybody
    has `joined` can be shared; of a block that several have out, the one who reads most of it tells
    what nobody reads::

        out of it      8 of 8, 8 of 8, 3 of 8         twice 16, and none more a step
    """
    outs: dict[int, list[tuple[int, int]]] = {}  # block -> of each holder: tokens out, more a step
    end, steps = max(table.joined for table in tables), UNBOUND
    holders = pool.holders
    for read, moving, table in zip(reads, moves, tables, strict=True):
        if table.dropped >= end or not (read or moving):
            continue
        blocks, whole = table.blocks, read // size
        if whole > table.dropped:
            for block in blocks[table.dropped : min(whole, end)]:
                if holders(block) > 1:
                    outs.setdefault(block, []).append((size, 0))
        if whole >= end or whole >= len(blocks):
            continue
        part = read - whole * size
        if moving and size - part < steps:
            steps = size - part + 1
        if (part or moving) and holders(blocks[whole]) > 1:
            outs.setdefault(blocks[whole], []).append((part, int(moving)))
    twice = grows = 0
    for block, each in outs.items():
        all_out, all_grow = min(each) if len(each) == holders(block) else (0, 0)
        twice += sum(out for out, _ in each) - all_out
        grows += sum(more for _, more in each) - all_grow
    return twice, grows, steps


__all__ = ["outside", "windows_of"]
