"""The account of groups of layers over one pool, in bytes, for the fast engine.

What is held is counted by the allocator (`GroupBlocks`), what is stored follows from how far each
sequence has come: with w bytes a token and group, and page p of a group's block::

    stored    Σ groups  w · (Σ tokens stored - tokens of entries given back) - p · shared
    outside   Σ windows  w · (Σ first read - tokens of entries given back), of shared blocks once
    internal  Σ sequences, groups  w · (what its last block will never take)
    reserved  held pages - stored - states - internal     live   stored - outside, and all states

Blocks that are shared are full, and stored in by all who hold them, but for the last ones of forks:
those lack `short` tokens, and what is empty in them is reserved, once.

The sums are kept as sequences come, move and go (`engine.reach`, `Rooms.spill`), so a step costs
O(groups), and inside a window of many steps each adds the same to what is live and outside, until a
window begins to move.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from pagedsim.engine.batch import Batch
from pagedsim.engine.reach import FOR_EVER, Reach
from pagedsim.engine.request import Request
from pagedsim.engine.step import Step, stored_after
from pagedsim.errors import ContractError
from pagedsim.protocols import (
    Allocator,
    GroupBlocks,
    LayerGroup,
    Narrow,
    SupportsForkedGroups,
    SupportsGroups,
    SupportsOutside,
    Usage,
)


class Part(NamedTuple):
    """Layers with one window, and bytes of a token in all of them."""

    reach: Reach
    layers: Narrow
    token: int


class Weights(NamedTuple):
    """Bytes that a block of a group counts for."""

    page: int  # held or cached
    padding: int
    stored: int  # given back: so much less is stored
    outside: int  # and so much less is outside
    token: int
    state: bool


class GroupAccount:
    """Counts an allocator with groups, whose sequences run in `batch`."""

    def __init__(self, allocator: Any, batch: Batch) -> None:
        self._allocator: SupportsGroups = allocator
        self.covered = self._allocator.covered
        self._usage = cast(Allocator, allocator).usage
        self._capacity = cast(Allocator, allocator).capacity
        ahead = isinstance(allocator, SupportsOutside)
        self._outside = allocator.outside if ahead else None
        forks = isinstance(allocator, SupportsForkedGroups)
        self._shares_tail = allocator.shares_tail if forks else None
        self._batch = batch
        self._groups = self._allocator.groups
        self._token = sum(group.token_bytes for group in self._groups)
        self._parts = _parts(self._groups)
        batch.reaches = [part.reach for part in self._parts]
        self._weights: list[Weights] = []
        wide = self._allocator.block_bytes
        sizes: dict[int, int] = {}  # tokens of a block -> bytes a token of such groups
        for group in self._groups:
            state = group.kind == "state"
            page, token = group.page_bytes, group.token_bytes
            windows = token if group.window else sum(each.token_bytes for each in group.narrow)
            self._weights.append(
                Weights(page, wide - page, group.block * token, group.block * windows, token, state)
            )
            if not state:
                sizes[group.block] = sizes.get(group.block, 0) + token
        self._sizes = list(sizes.items())
        self._widest = max(sizes, default=1)
        # Of sequences that are done and held with their batch:
        self._kept: dict[Request, list[int]] = {}  # a group: entries given back, or states
        self._done = [0] * len(self._groups)  # the same of all
        self.apart = (0, 0, 0, 0)  # the row of `Apart` of what `terms` counted last

    # What `Rooms` notes of single sequences.

    def spill(self, seq: Request) -> int:
        """Bytes of its last blocks that a running `seq` will never fill."""
        reach, final = self.covered(seq), seq.final
        if reach + self._widest <= final:
            return 0
        if self._shares_tail is not None and self._shares_tail(seq):
            return 0
        spilt = 0
        for size, token in self._sizes:
            end = -(-reach // size) * size
            if end > final:
                spilt += (end - final) * token
        return spilt

    def keep(self, seq: Request) -> int:
        """`seq` is done and keeps its blocks: their bytes."""
        pages, kept = 0, []
        for weights, table in zip(self._weights, self._allocator.tables(seq), strict=True):
            there = sum(1 for block in table if block)
            pages += there * weights.page
            kept.append(there if weights.state else len(table) - there)
        self._kept[seq] = kept
        self._done = [one + more for one, more in zip(self._done, kept, strict=True)]
        return pages

    def release(self, seq: Request) -> None:
        """`seq` holds nothing any more."""
        if seq in self._kept:
            kept = self._kept.pop(seq)
            self._done = [one - less for one, less in zip(self._done, kept, strict=True)]

    # What is held by all.

    def blocks(self) -> tuple[GroupBlocks, ...]:
        """What each group has now."""
        return self._allocator.group_blocks()

    def change(
        self, usage: Usage, blocks: tuple[GroupBlocks, ...], internal: int
    ) -> tuple[int, ...] | None:
        """The amounts of a row of `Start` since those were; empty where nothing has changed.

        None where more has changed than what sequences hold alone.
        """
        pages = cached = padding = stored = outside = 0
        for weights, was, now in zip(self._weights, blocks, self.blocks(), strict=True):
            held, kept, gone = now.held - was.held, now.cached - was.cached, now.gone - was.gone
            if now.shared != was.shared or (weights.state and held):
                return None
            pages += held * weights.page
            cached += kept * weights.page
            padding += (held + kept) * weights.padding
            stored -= gone * weights.stored
            outside -= gone * weights.outside
        reserved = pages - stored - internal
        held = self._usage().held - usage.held
        found = (held, internal, cached, reserved, padding, outside)
        return found if any(found) else ()

    def terms(
        self, spill: int, decoding: int, others: dict[Any, int], number: int, ended: Step | None
    ) -> tuple[int, int, int, int, int, int, int, int]:
        """What `engine.account.terms` says; `apart` has the rest.

        O(groups + others), but O(running) where what a window leaves behind is shared. Sets
        ``batch.until``, for what each step adds is the same up to there.
        """
        batch = self._batch
        usage, blocks = self._usage(), self.blocks()
        tokens = batch.stored + decoding + sum(others.values())
        tokens += sum(seq.base for seq in batch.prefilling)
        stored, outside, leaving, steps = self._token * tokens, *self._first_reads()
        pages = states = cached = padding = 0
        shared = mixed = False
        for weights, count, done in zip(self._weights, blocks, self._done, strict=True):
            pages += count.held * weights.page
            cached += count.cached * weights.page
            padding += (count.held + count.cached) * weights.padding
            if weights.state:
                states += (count.held - done) * weights.page
                shared = shared or count.shared > 0
                continue
            stored -= (count.gone - done) * weights.stored + count.shared * weights.page
            stored += count.short * weights.token
            outside -= (count.gone - done) * weights.outside
            if count.shared:
                shared = True
                mixed = mixed or weights.outside > 0
        if shared and self._kept:
            assert ended is not None
            stored, states, outside, reserved = self._distinct(ended)
            spill, steps = pages - stored - states - reserved, 1
        elif mixed and self._outside is not None and not batch.prefilling:
            outside, leaving, until = self._outside(batch.running)
            steps = min(steps, until)
        elif mixed:
            outside, steps = self._allocator.out_of_windows(batch.running), 1
        live = stored + states - outside
        reserved = pages - stored - states - spill
        free = self._capacity - usage.held - usage.cached
        if min(live, reserved, spill, outside, free) < 0:
            raise ContractError(
                f"step {number}: live {live}, reserved {reserved}, internal {spill}, outside "
                f"{outside}, free {free} bytes: none may be negative "
                f"({type(self._allocator).__name__})"
            )
        batch.until = batch.clock.tick + steps
        self.apart = (padding, outside, self._token * decoding - leaving, leaving)
        return live, reserved, spill, 0, cached, usage.shared, usage.held, free

    def _first_reads(self) -> tuple[int, int, int]:
        """Bytes that no window of the running reads again, what a step adds, for how many."""
        tick, prefilling = self._batch.clock.tick, self._batch.prefilling
        outside, leaving, steps = 0, 0, FOR_EVER
        for reach, layers, token in self._parts:
            read = reach.first_reads(tick)
            for seq in prefilling:
                read += layers.first_read(seq.base)
            outside += token * read
            leaving += token * reach.moving
            steps = min(steps, reach.steps(tick))
        return outside, leaving, steps

    def _distinct(self, step: Step) -> tuple[int, int, int, int]:
        """Stored, states, outside and reserved, where others hold blocks too. O(blocks held)."""
        blocks: dict[int, list[int]] = {}  # id -> stored, ever stored, outside, holders, token
        states: dict[int, int] = {}
        for seq in self._kept:
            for group, table in zip(self._groups, self._allocator.tables(seq), strict=True):
                for block in table:
                    if block and group.kind != "state":
                        seen = blocks.setdefault(block, [0, 0, group.page_bytes, 0, 0])
                        seen[3] += 1
        running = self._batch.running
        for seq, tokens in zip(running, stored_after(step, running), strict=True):
            tables = self._allocator.tables(seq)
            for group, table in zip(self._groups, tables, strict=True):
                if group.kind == "state":
                    states.update((block, group.page_bytes) for block in table if block)
                    continue
                size = group.block
                parts: tuple[LayerGroup | Narrow, ...] = (group, *group.narrow)
                for at, block in enumerate(table):
                    if block:
                        seen = blocks.setdefault(block, [0, 0, group.page_bytes, 0, 0])
                        out = sum(
                            part.token_bytes
                            * min(size, max(0, part.first_read(seq.computed) - at * size))
                            for part in parts
                        )
                        seen[0] = max(seen[0], min(size, max(0, tokens - at * size)))
                        seen[1] = max(seen[1], min(size, max(0, seq.final - at * size)))
                        seen[2] = min(seen[2], out)
                        seen[3:] = seen[3] + 1, group.token_bytes
                        if seen[3] > 1:
                            seen[1] = size
        stored = outside = reserved = 0
        for fill, ever, out, _, token in blocks.values():
            if token:
                stored += fill * token
                outside += out
                reserved += max(0, ever - fill) * token
        return stored, sum(states.values()), outside, reserved


def _parts(groups: tuple[LayerGroup, ...]) -> list[Part]:
    """Layers whose windows are alike, of all groups."""
    tokens: dict[tuple[str, int], int] = {}
    for group in groups:
        for each in (group,) if group.window else group.narrow:
            key = (each.kind, each.window)
            tokens[key] = tokens.get(key, 0) + each.token_bytes
    return [Part(Reach(*key), Narrow(*key, token), token) for key, token in tokens.items()]


__all__ = ["GroupAccount"]
