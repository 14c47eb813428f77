"""What holds of an allocator with groups of layers: a table a group, windows that move.

Each group's tables are judged by content, as slots are: `memory` has for each place of a block
which group wrote which prefix there last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import Any

from pagedsim.protocols import Narrow, SupportsFork, SupportsOutside
from pagedsim.testing.sequences import Seq

GROUP_LAWS = {
    "groups": "tables, group counts and free list are all the blocks, each in one group",
    "windows": "what the next token reads is held with its content; trimmed, nothing else is kept",
    "states": "the state after the last stored token is held, and a hit ends where one is kept",
    "unread": "`out_of_windows` is the stored tokens that nobody will read again, each once",
    "outside": "`outside` is that too, and what it says of each of its steps comes to be so",
}
_STEPS = 8  # steps ahead in which `outside` is held to what it said


class GroupLaws:
    """Holds one allocator to both, between any two calls; `hold` raises where one breaks."""

    def __init__(self, allocator: Any, hold: Callable[[str, object, Any], None]) -> None:
        self.allocator, self.hold = allocator, hold
        self.memory: dict[tuple[int, int], tuple[int, int]] = {}
        self.finds_states = getattr(allocator, "state_block", 0) > 0
        self.forks = isinstance(allocator, SupportsFork)
        self.foretells = isinstance(allocator, SupportsOutside)
        self.windows = [_windows(group) for group in allocator.groups]
        self.shown: dict[Seq, list[list[int]]] = {}

    def seen(self, allocator: Any, held: Collection[Seq]) -> dict[str, Any]:
        """What an allocator shows of its groups."""
        return {
            "groups": {seq: [list(table) for table in allocator.tables(seq)] for seq in held},
            "counts": [tuple(count) for count in allocator.group_blocks()],
        }

    def forked(self, child: Seq) -> None:
        """It holds what its parent does."""
        self.shown[child] = [table for _, table in self._tables(child)]

    def write(self, seq: Seq, tokens: int, others: Collection[Seq]) -> None:
        """A step stores the tokens of `seq` from its `computed` up to so many."""
        theirs = {block for other in others for table in self.allocator.tables(other)
                  for block in table}  # fmt: skip
        self._copies(seq, theirs)
        self._outside([seq, *others])  # an engine asks when all have grown and none has stored
        for at, (group, table) in enumerate(self._tables(seq)):
            if group.kind == "state" and not self.finds_states:
                continue
            begin = tokens - 1 if group.kind == "state" else seq.computed  # states: the last alone
            for position in range(begin, tokens):
                block = table[position // group.block]
                said = f"{seq} writes token {position} of group {at} to block {block}"
                self.hold("windows", block, f"{said}, which was given back")
                self.hold("no alias", block not in theirs, f"{said}, which another holds")
                place = 0 if group.kind == "state" else position % group.block
                self.memory[block, place] = (at, seq.prefixes[position])

    def between_calls(self, stored: Mapping[Seq, int]) -> None:
        """Every table reads back, and every block is somewhere."""
        allocator = self.allocator
        for seq in list(self.shown):
            if seq not in stored:
                del self.shown[seq]
        owner: dict[int, int] = {}
        entries = [0] * len(allocator.groups)
        for seq, tokens in stored.items():
            for at, (group, table) in enumerate(self._tables(seq)):
                entries[at] += len(table)
                for block in filter(None, table):
                    said = f"block {block} is in groups {owner.get(block)} and {at}"
                    self.hold("groups", owner.setdefault(block, at) == at, said)
                self._reads_back(seq, at, group, table, tokens)
        for at, count in enumerate(allocator.group_blocks()):
            held = sum(group == at for group in owner.values())
            self.hold("groups", count.held == held, lambda: f"group {at}: {count}, held {held}")  # noqa: B023
            whole = count.held + count.shared + count.gone
            said = f"group {at}: {count}, but its tables have {entries[at]} entries"
            self.hold("groups", whole == entries[at], said)
        usage, size = allocator.usage(), allocator.block_bytes
        cached = sum(count.cached for count in allocator.group_blocks())
        self.hold("groups", usage.held == size * len(owner), f"{usage}, {len(owner)} blocks held")
        self.hold("groups", usage.cached == size * cached, f"{usage}, {cached} blocks cached")
        saved = self._saved(stored)
        self.hold("groups", usage.shared == saved, f"{usage}, but sharing saves {saved}")
        self._outside(list(stored))

    def _outside(self, seqs: list[Seq]) -> None:
        """What is out of windows, now and in the steps that it is foretold for."""
        if not any(self.windows):
            return
        found, now = self.allocator.out_of_windows(seqs), self._unread(seqs, 0)
        self.hold("unread", found == now, f"{found} bytes of {seqs}, but nobody reads {now}")
        decoding = all(seq.computed == seq.tokens - 1 for seq in seqs)
        if not self.foretells or not decoding:
            return
        told = self.allocator.outside(seqs)
        self.hold("outside", told.bytes == now, f"{told} of {seqs}, but nobody reads {now}")
        self.hold("outside", told.steps >= 1, f"{told} of {seqs}: not even this step")
        for ahead in range(1, min(told.steps, _STEPS, self._steady(seqs))):
            then, said = self._unread(seqs, ahead), told.bytes + ahead * told.more
            self.hold(
                "outside",
                said == then,
                lambda: f"{told} of {seqs}, but {ahead} steps on nobody reads {then}",  # noqa: B023
            )

    def _unread(self, seqs: list[Seq], ahead: int) -> int:
        """Bytes of tokens that nobody reads so many steps from now, by tables as they are."""
        sums = 0
        for at, windows in enumerate(self.windows):
            size = self.allocator.groups[at].block
            tables = [list(self.allocator.tables(seq)[at]) for seq in seqs]
            for window in windows:
                least: dict[object, int] = {}  # block, or a place that has none yet -> tokens
                for seq, table in zip(seqs, tables, strict=True):
                    first = window.first_read(seq.computed + ahead)
                    for index in range(max(len(table), -(-first // size))):
                        place = table[index] if index < len(table) else (seq, index)
                        tokens = min(size, max(0, first - index * size))
                        if place:
                            least[place] = min(least.get(place, size), tokens)
                sums += window.token_bytes * sum(least.values())
        return sums

    def _steady(self, seqs: list[Seq]) -> int:
        """Steps until one of `seqs` is done, a window begins to move or a chunk is full."""
        steps = min((seq.final - seq.computed for seq in seqs), default=0)
        for window in {window for windows in self.windows for window in windows}:
            for seq in seqs:
                reads = [window.first_read(seq.computed + ahead) for ahead in range(_STEPS)]
                moves = [later - sooner for sooner, later in pairwise(reads)]
                begun = moves[0] if window.kind == "sliding" else 0
                changed = [ahead for ahead, move in enumerate(moves, 1) if move != begun]
                steps = min(steps, *changed[:1], _STEPS)
        return steps

    def _saved(self, stored: Mapping[Seq, int]) -> int:
        """Bytes that are stored in shared blocks and counted once; a state is a whole page."""
        sums = 0
        most: dict[int, int] = {}
        for seq, tokens in stored.items():
            for group, table in self._tables(seq):
                for index, block in enumerate(table):
                    if block and group.kind == "state":
                        fill = group.page_bytes
                    else:
                        inside = tokens - index * group.block
                        fill = group.token_bytes * min(group.block, max(0, inside))
                    if block:
                        sums += fill
                        most[block] = max(most.get(block, 0), fill)
        return sums - sum(most.values())

    def _copies(self, seq: Seq, theirs: Collection[int]) -> None:
        """Where it left a block that others hold for one that nobody does, it took it along."""
        now = [table for _, table in self._tables(seq)]
        for at, (was, table) in enumerate(zip(self.shown.get(seq, now), now, strict=True)):
            for old, new in zip(was, table, strict=False):
                if old == new or not old or not new:
                    continue
                copied = self.forks and old in theirs and new not in theirs
                said = f"{seq}: block {old} of group {at} became {new}"
                self.hold("no move", copied, said)
                for place in range(self.allocator.groups[at].block):
                    if (old, place) in self.memory:
                        self.memory[new, place] = self.memory[old, place]
        self.shown[seq] = now

    def after_trim(self, seq: Seq, computed: int) -> None:
        """What the next token reads is there, and nothing that lies wholly before it."""
        for at, (group, table) in enumerate(self._tables(seq)):
            self._reads_back(seq, at, group, table, computed)
            if group.window or (group.kind == "state" and self.finds_states):
                first = self._reads(group, computed).start // group.block
                kept = [block for block in table[:first] if block]
                said = f"{seq}, {computed} stored: group {at} keeps {kept} that nothing reads"
                self.hold("windows", not kept, said)

    def _reads_back(self, seq: Seq, at: int, group: Any, table: list[int], stored: int) -> None:
        for position in self._reads(group, stored):
            index = position // group.block
            block = table[index] if index < len(table) else 0
            place = 0 if group.kind == "state" else position % group.block
            found = self.memory.get((block, place))
            self.hold(
                "states" if group.kind == "state" else "windows",
                block and found == (at, seq.prefixes[position]),
                lambda: f"{seq}: token {position} of group {at} is not in block {block}: {found}",  # noqa: B023
            )

    def _reads(self, group: Any, stored: int) -> range:
        """Positions that the next token reads; of states the last, if they have a table at all."""
        if group.kind == "state":
            return range(stored - 1 if self.finds_states and stored else stored, stored)
        return range(group.first_read(stored), stored)

    def _tables(self, seq: Seq) -> list[tuple[Any, list[int]]]:
        tables = [list(table) for table in self.allocator.tables(seq)]
        return list(zip(self.allocator.groups, tables, strict=True))


def _windows(group: Any) -> tuple[Narrow, ...]:
    """Of a group, what is read less of than it keeps, or than is stored."""
    if group.window:
        return (Narrow(group.kind, group.window, group.token_bytes),)
    return tuple(group.narrow)


__all__ = ["GROUP_LAWS", "GroupLaws"]
