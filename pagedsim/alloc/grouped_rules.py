"""What a group needs, keeps and finds: arithmetic over `LayerGroup`, without a pool's state."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from math import lcm
from typing import NamedTuple

from pagedsim.alloc.grouped_pool import NULL, GroupedPool
from pagedsim.errors import SpecError
from pagedsim.protocols import LayerGroup, Sequence

UNBOUND = 1 << 62
STATES = (
    "states"  # a state group whose states are found again: the last, and some at ends of blocks
)
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


def moves(group: LayerGroup) -> bool:
    """Whether blocks at the front of its tables are given back as they grow."""
    return group.window > 0 or group.kind == STATES


def rules_of(groups: SequenceOf[LayerGroup]) -> tuple[LayerGroup, ...]:
    """The same with states that are found again."""
    return tuple(one._replace(kind=STATES) if one.kind == "state" else one for one in groups)


def most_held(group: LayerGroup, in_flight: int, tokens: int = UNBOUND) -> int:
    """Blocks that it holds at most of a sequence that is given `in_flight` tokens at once.

    Of one that reaches `tokens` fewer may do, where chunks are no whole blocks.
    """
    if group.kind == STATES:
        return 2  # the state before a step, and that after it
    return group.most_held(tokens, in_flight) if group.window and in_flight else UNBOUND


def settled(groups: SequenceOf[LayerGroup], in_flight: int) -> int:
    """Tokens from which `most_held` is the same for any more, where that is not so from 1 on."""
    uneven = [one for one in groups if one.kind == "chunked" and one.window % one.block]
    return max((lcm(one.window, one.block) + one.window + in_flight for one in uneven), default=0)


def blocks_for(group: LayerGroup, tokens: int) -> int:
    """Entries of a table that reaches `tokens` tokens."""
    return group.kept if group.kind == "state" else -(-tokens // group.block)


def wanted(group: LayerGroup, there: int, tokens: int, most: int = UNBOUND) -> int:
    """New blocks for a table of `there` entries to reach `tokens`; at most `most` are held.

    Of states it is one, that after `tokens`: what lies between is passed over.
    """
    entries = blocks_for(group, tokens)
    return int(entries > there) if group.kind == STATES else max(0, min(entries, most) - there)


def first_entry(group: LayerGroup, computed: int) -> int:
    """Entries below this can go with `computed` tokens stored."""
    if group.kind == STATES:
        return max(0, computed - 1) // group.block
    return group.first_read(computed) // group.block


def next_trim(group: LayerGroup, dropped: int) -> int:
    """Computed tokens with which the block after `dropped` ones can go."""
    end = (dropped + 1) * group.block
    if group.kind == STATES:
        return end + 1
    if group.kind == "sliding":
        return end + group.window - 1
    if group.kind == "chunked":
        return -(-end // group.window) * group.window
    return UNBOUND


def longest_alone(groups: SequenceOf[LayerGroup], in_flight: int, blocks: int) -> int:
    """Tokens of the longest sequence that fits alone, given `in_flight` tokens at once.

    SpecError where not even one token fits.
    """
    low, high = 0, (blocks - 1) * max(group.block for group in groups)
    if all(most_held(group, in_flight) < UNBOUND or group.kind == "state" for group in groups):
        high = UNBOUND  # it takes as much however long it is
    while low < high:
        middle = (low + high + 1) // 2
        need = sum(
            min(blocks_for(group, middle), most_held(group, in_flight, middle)) for group in groups
        )
        low, high = (middle, high) if need < blocks else (low, middle - 1)
    if not low:
        raise SpecError(
            f"paged: a pool of {blocks} blocks (null 1) holds no token of all {len(groups)} groups"
        )
    return low


def search(pool: GroupedPool, groups: SequenceOf[LayerGroup], seq: Sequence) -> Hit:
    """The longest hit that all groups have, full ones first. O(blocks looked at).

    Whole blocks of every group, and fewer than all known tokens, so that one is computed. What full
    groups have of a length they have of every shorter one, so they are looked at once; windows
    until all of them agree.
    """
    align = lcm(*(group.block for group in groups))
    tokens = (seq.tokens - 1) // align * align
    keys = [seq.keys(group.block)[: tokens // group.block].tolist() for group in groups]
    found: list[list[int]] = [[] for _ in groups]
    for at, group in enumerate(groups):
        if not moves(group):
            for key in keys[at][: tokens // group.block]:
                if (block := pool.find(at, key)) == NULL:
                    break
                found[at].append(block)
            tokens = min(tokens, len(found[at]) * group.block // align * align)
    turn = [at for at, group in enumerate(groups) if moves(group)]
    agreed = 0  # windows one after another that have so much
    while tokens and agreed < len(turn):
        at = turn[0]
        turn = [*turn[1:], at]
        most = longest_hit(pool, groups[at], at, keys[at], tokens, align)
        agreed = agreed + 1 if most == tokens else 1
        tokens = most
    blocks = []
    for at, group in enumerate(groups):
        out, end = first_entry(group, tokens), tokens // group.block
        there = (
            [pool.find(at, key) for key in keys[at][out:end]] if moves(group) else found[at][:end]
        )
        blocks.append([NULL] * out + there)
    return Hit(tokens, tuple(blocks))


def longest_hit(
    pool: GroupedPool,
    group: LayerGroup,
    at: int,
    keys: SequenceOf[int],
    tokens: int,
    align: int,
) -> int:
    """Most of `tokens` that the group `at` has: all that is read after them is found.

    What lies before the window, or the last state, need not be there. The rightmost one counts.
    """
    size = group.block
    while tokens:
        first = first_entry(group, tokens)
        places = range(tokens // size - 1, first - 1, -1)
        missing = next((place for place in places if pool.find(at, keys[place]) == NULL), None)
        if missing is None:
            break
        tokens = missing * size // align * align
    return tokens


__all__ = [
    "STATES",
    "UNBOUND",
    "Hit",
    "blocks_for",
    "check_groups",
    "first_entry",
    "longest_alone",
    "longest_hit",
    "most_held",
    "moves",
    "next_trim",
    "rules_of",
    "search",
    "settled",
    "wanted",
]
