"""What a group needs, keeps and finds: arithmetic over `LayerGroup`, without a pool's state."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from math import lcm
from typing import NamedTuple

from pagedsim.alloc.grouped_pool import NULL, GroupedPool
from pagedsim.errors import SpecError
from pagedsim.protocols import LayerGroup, Sequence

UNBOUND = 1 << 62
_KINDS = ("full", "sliding", "chunked", "state")


class Hit(NamedTuple):
    """What a waiting sequence would find: tokens, and the blocks of each group, NULLs included."""

    tokens: int
    blocks: tuple[list[int], ...]


def check_groups(groups: tuple[LayerGroup, ...], blocks: int, free_order: str) -> None:
    """SpecError where these make no pool, with the bound."""
    if not groups:
        raise SpecError("paged: there are no groups")
    if free_order not in ("0.33", "0.11"):
        raise SpecError(f"paged: free_order is {free_order}, must be 0.33 or 0.11")
    for at, group in enumerate(groups):
        said = f"paged: group {at} ({group.kind})"
        if group.kind not in _KINDS:
            raise SpecError(f"{said}: its kind must be one of {', '.join(_KINDS)}")
        if group.block < 1:
            raise SpecError(f"{said}: its block is {group.block} tokens, must be >= 1")
        if group.kind in ("sliding", "chunked") and group.window < 1:
            raise SpecError(f"{said}: its window is {group.window}, must be >= 1")
        if group.page_bytes < 0:
            raise SpecError(f"{said}: a block has {group.page_bytes} bytes, must be >= 0")
        if group.narrow and group.kind != "full":
            raise SpecError(f"{said}: narrow layers, which only a full group can have")
        if group.kind == "state" and group.kept < 1:
            raise SpecError(f"{said}: it keeps {group.kept} states, must be >= 1")
        if group.kind != "state" and group.page_bytes % group.block:
            raise SpecError(
                f"{said}: {group.page_bytes} bytes of a block are no whole bytes a token of "
                f"{group.block}"
            )
    if blocks < 2:
        raise SpecError(f"paged: a pool of {blocks} blocks (null 1) has none to give")


def blocks_for(group: LayerGroup, tokens: int) -> int:
    """Entries of a table that reaches `tokens` tokens."""
    return group.kept if group.kind == "state" else -(-tokens // group.block)


def next_trim(group: LayerGroup, dropped: int) -> int:
    """Computed tokens with which the block after `dropped` ones can go."""
    end = (dropped + 1) * group.block
    if group.kind == "sliding":
        return end + group.window - 1
    if group.kind == "chunked":
        return -(-end // group.window) * group.window
    return UNBOUND


def search(pool: GroupedPool, groups: SequenceOf[LayerGroup], seq: Sequence) -> Hit:
    """The longest hit that all groups have, full ones first. O(known blocks of all groups).

    Whole blocks of every group, and fewer than all known tokens, so that one is computed.
    """
    align = lcm(*(group.block for group in groups))
    order = sorted(range(len(groups)), key=lambda at: groups[at].window > 0)
    tokens = (seq.tokens - 1) // align * align
    found = []
    for at, group in enumerate(groups):
        keys = seq.keys(group.block)[: tokens // group.block].tolist()
        found.append([pool.find(at, key) for key in keys])
    agreed = 0  # groups one after another that have so much
    while tokens and agreed < len(groups):
        at = order[0]
        order = [*order[1:], at]
        most = longest_hit(groups[at], found[at], tokens, align)
        agreed = agreed + 1 if most == tokens else 1
        tokens = most
    blocks = []
    for group, there in zip(groups, found, strict=True):
        out = group.first_read(tokens) // group.block
        blocks.append([NULL] * out + there[out : tokens // group.block])
    return Hit(tokens, tuple(blocks))


def longest_hit(group: LayerGroup, found: SequenceOf[int], tokens: int, align: int) -> int:
    """Most of `tokens` that one group can hit: all that is read after them is found.

    A windowed group's is the rightmost; what lies before the window need not be there.
    """
    size = group.block
    while tokens:
        first = group.first_read(tokens) // size
        missing = [at for at in range(first, tokens // size) if found[at] == NULL]
        if not missing:
            break
        tokens = missing[-1 if group.window else 0] * size // align * align
    return tokens


__all__ = ["UNBOUND", "Hit", "blocks_for", "check_groups", "longest_hit", "next_trim", "search"]
