"""The account of groups of layers over one pool, in bytes, for the fast engine.

What is held is counted by the allocator (`GroupBlocks`), what is stored follows from how far each
sequence has come: with w bytes a token and group, and page p of a group's block::

    stored    Σ groups  w · (Σ tokens stored - tokens of entries given back) - p · shared
    reserved  Σ sequences, groups  w · (what its last block will still take)
    internal  held pages - stored - reserved            live   stored - outside, and all states

Blocks that are shared are full, and stored in by all who hold them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from pagedsim.engine.recording import BLOCKED, Recorder
from pagedsim.engine.step import Step
from pagedsim.errors import ContractError
from pagedsim.protocols import Allocator, LayerGroup, Narrow, Plan, SupportsGroups


class Terms(NamedTuple):
    """Bytes of a step, right after its allocations; `free` is not parted yet."""

    live: int
    reserved: int
    internal: int
    cached: int
    padding: int
    outside: int
    free: int


class GroupAccount:
    """Counts an allocator with groups; O(sequences that run · groups with windows) a step."""

    def __init__(self, allocator: Any) -> None:
        self._allocator: SupportsGroups = allocator
        self._usage = cast(Allocator, allocator).usage
        self._capacity = cast(Allocator, allocator).capacity
        self._sizes: dict[int, int] = {}  # tokens of a block -> bytes a token of such groups
        for group in allocator.groups:
            if group.kind != "state":
                size = self._sizes.get(group.block, 0)
                self._sizes[group.block] = size + group.token_bytes

    def record(
        self,
        recorder: Recorder,
        began: tuple[int, ...],
        step: Step,
        plan: Plan,
        running: list[Any],
        done: list[Any],
    ) -> None:
        """Add the row of one step, which begins with `began`: its number, time, batch and load."""
        terms = self.terms(step, running, done, began[0])
        held, _, shared, _ = self._usage()
        external, limit = (terms.free, BLOCKED) if plan.blocked else (0, 0)
        row = (terms.live, terms.reserved, terms.internal, external, terms.cached, shared, 0, held)
        recorder.add((*began, *row, plan.limit + limit))
        recorder.add_apart((terms.padding, terms.outside))

    def terms(self, step: Step, running: list[Any], done: list[Any], number: int) -> Terms:
        """Of the planned `step`, whose blocks are taken; `done` still hold theirs."""
        allocator = self._allocator
        held, keys, _, _ = self._usage()
        pages = states = cached = padding = 0
        for group, count in zip(allocator.groups, allocator.group_blocks(), strict=True):
            pages += count.held * group.page_bytes
            cached += count.cached * group.page_bytes
            padding += (count.held + count.cached) * (allocator.block_bytes - group.page_bytes)
            if group.kind == "state":
                states += count.held * group.page_bytes
        after = stored_after(step, running)
        reserved = 0
        for seq, tokens in zip(running, after, strict=True):
            reach = allocator.covered(seq)
            for size, token in self._sizes.items():
                end = -(-reach // size) * size
                reserved += max(0, min(end, seq.final) - tokens) * token
        if done:
            stored, states, outside = self._distinct(running, after)
        else:
            stored, outside = self._stored(sum(after)), allocator.out_of_windows(running)
        live = stored + states - outside
        internal = pages - stored - states - reserved
        free = self._capacity - held - keys
        if min(live, reserved, internal, outside, free) < 0:
            raise ContractError(
                f"step {number}: live {live}, reserved {reserved}, internal {internal}, outside "
                f"{outside}, free {free} bytes: none may be negative ({type(allocator).__name__})"
            )
        return Terms(live, reserved, internal, cached, padding, outside, free)

    def _stored(self, tokens: int) -> int:
        """Bytes of distinct stored tokens, where all that hold blocks run."""
        stored = 0
        for group, count in zip(
            self._allocator.groups, self._allocator.group_blocks(), strict=True
        ):
            if group.kind != "state":
                stored += group.token_bytes * (tokens - count.gone * group.block)
                stored -= group.page_bytes * count.shared
        return stored

    def _distinct(self, running: list[Any], after: list[int]) -> tuple[int, int, int]:
        """Stored, states and outside, where others hold blocks too. O(blocks held)."""
        stored, outside, states = dict[int, int](), dict[int, int](), 0
        for seq, tokens in zip(running, after, strict=True):
            tables = self._allocator.tables(seq)
            for group, table in zip(self._allocator.groups, tables, strict=True):
                if group.kind == "state":
                    states += len(table) * group.page_bytes
                    continue
                size = group.block
                parts: tuple[LayerGroup | Narrow, ...] = (group, *group.narrow)
                for at, block in enumerate(table):
                    if block:
                        fill = group.token_bytes * min(size, max(0, tokens - at * size))
                        stored[block] = max(stored.get(block, 0), fill)
                        out = sum(
                            part.token_bytes
                            * min(size, max(0, part.first_read(seq.computed) - at * size))
                            for part in parts
                        )
                        outside[block] = min(outside.get(block, out), out)
        return sum(stored.values()), states, sum(outside.values())


def account_of(allocator: Allocator) -> GroupAccount | None:
    """None for an allocator whose layers are all alike."""
    return GroupAccount(allocator) if isinstance(allocator, SupportsGroups) else None


def stored_after(step: Step, running: Iterable[Any]) -> list[int]:
    """Tokens that each of `running` has stored at the end of `step`."""
    behind = set(step.behind)
    decodes = step.decoding > 0
    return [
        seq.computed + (1 if decodes and seq not in behind else 0)
        if seq.decoding
        else seq.base + step.others.get(seq, 0)
        for seq in running
    ]


__all__ = ["GroupAccount", "account_of"]
