"""An observer that writes down, step by step, who holds which slots: a lane in the making.

It looks only at steps that start in its stretch of time; those before cost it next to nothing, and
after it it ends the run with `Over`. Inside a jump of the fast engine counters stand still, so a
sequence's tokens are those of the jump's first step and one for every step since.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from typing import Any, NamedTuple, cast

import numpy as np

from pagedsim.analysis.scene.said import Captions, Seen
from pagedsim.analysis.scene.values import Change, Frame, Holder, Lane
from pagedsim.analysis.scene.where import Places, Table, runs
from pagedsim.errors import ContractError
from pagedsim.protocols import (
    Allocator,
    Foreseen,
    Int64,
    Plan,
    Sequence,
    SupportsHoles,
    Usage,
    View,
)

QUEUE = 12  # waiting requests that a frame names


class Over(Exception):
    """The stretch is over, or nothing more can be held; the run need not go on."""


class Limits(NamedTuple):
    """What a lane may hold: frames, and numbers in them."""

    frames: int
    numbers: int


class Rest(NamedTuple):
    """The pool when nothing runs any more, from `now_ns` on."""

    now_ns: int
    hole: int
    usage: Usage
    cached: Int64


class Recorder:
    """Records one run over `allocator` from `from_ns` on, before `to_ns` (ns of the run's clock).

    `holds`: the scheduler holds batches as a whole. SpecError if the allocator does not show where
    its slots are.
    """

    def __init__(
        self,
        allocator: Allocator,
        name: str,
        origin_ns: int,
        stretch: tuple[int, int],
        limits: Limits,
        *,
        holds: bool = False,
    ) -> None:
        self._places = Places(allocator, name)
        self._allocator, self._name = allocator, name
        self._origin, (self._from, self._to), self._limits = origin_ns, stretch, limits
        self._holes = allocator if isinstance(allocator, SupportsHoles) else None
        self._holds = holds
        self._holding: dict[Any, None] = {}  # of batches that are held as a whole
        self._plan, self._witness, self._since = Plan(), (None, 0), 0
        self._indices: dict[Any, int] = {}
        self._samples: dict[int, int] = {}
        self._holders: list[Holder] = []
        self._tables: dict[Any, Table] = {}
        self._stored: dict[Any, int] = {}
        self._done: set[Any] = set()
        self._moved: list[Any] = []  # whose earlier tokens lie elsewhere now
        self._cached: Int64 = np.zeros(0, np.int64)
        self._numbers = 0
        self._view: View | None = None
        self._rest: Rest | None = None  # as it was when nothing ran any more
        self._said = Captions(allocator, self._places.block, self._from, self._called)
        self.frames: list[Frame] = []
        self.usages: list[Usage] = []
        self.until_ns = self._to  # where it ended
        self.full = False  # whether a limit ended it

    def scheduled(self, step: int, plan: Plan, view: View, /) -> None:
        """Right after a step's allocations."""
        self._view = view
        since = self._in_jump(plan)
        if self._holds:
            for seq in plan.preempted:
                self._holding.pop(seq, None)
            self._holding.update(dict.fromkeys(view.running))
        now = view.now_ns
        if self._rest is not None and self._rest.now_ns < now:
            self._close(self._rest)
        self._rest = None
        if now >= self._to:
            raise Over
        if now >= self._from:
            self._room_for_more(now)
            self._frame(step, plan, view, since)

    def finished(self, step: int, done: SequenceOf[Sequence], /) -> None:
        """Right after a step's releases."""
        for seq in done:
            self._holding.pop(seq, None)
        assert self._view is not None
        if self.frames:
            kept = self._allocator.usage().cached - self.usages[-1].cached
            self._said.done(done, self._tables, kept)
        if self.frames and not self._view.running and not self._holding:
            cached = self._places.cached(())
            usage = self._allocator.usage()
            self._rest = Rest(self._view.now_ns, self._hole(), usage, cached)

    def close(self) -> None:
        """The run is over."""
        if self._rest is not None:
            self._close(self._rest)

    def lane(self) -> Lane:
        """What was recorded. The account of the frames is still missing."""
        return Lane(
            name=self._name,
            capacity=self._allocator.capacity,
            first=self._places.first,
            block=self._places.block,
            holders=self._holders,
            frames=self.frames,
        )

    def _in_jump(self, plan: Plan) -> int:
        """Steps since the counters of sequences were moved."""
        seq = next(iter(plan.scheduled), None)
        witness = (seq, seq.computed if seq is not None else 0)
        if plan is self._plan and witness == self._witness:
            self._since += 1
        else:
            self._plan, self._witness, self._since = plan, witness, 0
        return self._since

    def _room_for_more(self, now: int) -> None:
        if len(self.frames) >= self._limits.frames or self._numbers >= self._limits.numbers:
            self.full, self.until_ns = True, now
            raise Over

    def _close(self, rest: Rest) -> None:
        """A frame in which nobody holds anything."""
        if rest.now_ns >= self._to:
            return
        gone = self._gone(())
        kept, dropped = self._kept(rest.cached)
        frame = Frame(
            start_ns=rest.now_ns - self._origin,
            terms=[],
            hole=rest.hole,
            gone=gone,
            kept=kept,
            dropped=dropped,
            said=self._said.rest(),
        )
        self._add(frame, rest.usage)

    def _frame(self, step: int, plan: Plan, view: View, since: int) -> None:
        counts = plan.scheduled
        prefills = sum(n > 1 or seq.computed + 1 < seq.tokens for seq, n in counts.items())
        holders = list(self._holding) if self._holds else list(view.running)
        if self._holds:
            running = set(view.running)
            holders = [seq for seq in holders if seq in running or self._is_held(seq)]
        else:
            running = set(holders)
        before = dict(self._stored)
        self._moved = []
        gone = self._gone(holders, plan.preempted)
        changes, stored, done, forked = [], list[int](), list[int](), list[int]()
        for seq in holders:
            index = self._index(seq)
            if self._holders[index].sample and seq not in self._tables:
                forked.append(seq.id)
            if seq not in running:
                if seq not in self._done:
                    self._done.add(seq)
                    done.append(index)
            else:
                tokens = seq.computed + counts.get(seq, 0) * (1 + since)
                if tokens != before.get(seq, 0) + 1 or index in gone or seq not in self._tables:
                    stored += (index, tokens)
                self._stored[seq] = tokens
            if (change := self._change(seq, index, plan)) is not None:
                changes.append(change)
        kept, dropped = self._kept(self._places.cached(self._tables.values()))
        usage = self._allocator.usage()
        frame = Frame(
            start_ns=view.now_ns - self._origin,
            terms=[],
            step=step,
            running=len(view.running),
            decodes=len(counts) - prefills,
            prefills=prefills,
            waiting=len(view.waiting),
            queue=[seq.id for seq, _ in zip(view.waiting, range(QUEUE), strict=False)],
            blocked=plan.blocked,
            hole=self._hole(),
            shared=usage.shared,
            changes=changes,
            stored=stored,
            done=done,
            gone=gone,
            kept=kept,
            dropped=dropped,
            said=self._said.step(plan, view, Seen(before, self._tables, self._moved, forked)),
        )
        self._add(frame, usage)

    def _hole(self) -> int:
        return -1 if self._holes is None else self._holes.largest_hole()

    def _add(self, frame: Frame, usage: Usage) -> None:
        self.frames.append(frame)
        self.usages.append(usage)
        said = sum(20 + len(one.text) // 6 for one in frame.said if not one.again)
        extents = sum(6 + len(change.extents) for change in frame.changes)
        lists = (frame.stored, frame.gone, frame.kept, frame.dropped, frame.queue)
        self._numbers += 12 + extents + said + sum(map(len, lists))

    def _gone(self, holders: Iterable[Any], preempted: Iterable[Any] = ()) -> list[int]:
        """Who holds nothing any more, or what it holds now is not what it held."""
        lost = set(preempted)
        stay = {seq for seq in holders if seq not in lost}
        left = [seq for seq in self._tables if seq not in stay]
        for seq in left:
            del self._tables[seq]
            self._stored.pop(seq, None)
            self._done.discard(seq)
        return [self._indices[seq] for seq in left]

    def _is_held(self, seq: Any) -> bool:
        """A beam that died is released unseen."""
        try:
            self._allocator.room(seq)
        except ContractError:
            self._holding.pop(seq, None)
            return False
        return True

    def _index(self, seq: Any) -> int:
        if seq not in self._indices:
            assert self._view is not None
            output = cast(Foreseen, seq).output
            sample = self._samples[seq.id] = self._samples.get(seq.id, -1) + 1
            self._indices[seq] = len(self._holders)
            self._holders.append(
                Holder(
                    request=seq.id,
                    prompt=seq.prompt,
                    output=output,
                    final=min(seq.prompt + output, self._view.max_len) - 1,
                    arrival_ns=seq.arrival_ns - self._origin,
                    sample=sample,
                )
            )
        return self._indices[seq]

    def _called(self, seq: Any) -> str:
        sample = self._holders[self._index(seq)].sample
        return f"Sample {sample} of request {seq.id}" if sample else f"Request {seq.id}"

    def _change(self, seq: Any, index: int, plan: Plan) -> Change | None:
        """What is new about where it has its tokens."""
        old = self._tables.get(seq)
        new = self._places.of(seq, old)
        if new is old:
            return None
        before, extents = [] if old is None else old.extents, new.extents
        keep = 0
        while extents[keep : keep + 2] == before[keep : keep + 2] and keep < len(extents):
            keep += 2
        self._tables[seq] = new
        hit = seq.computed if old is None and seq in plan.admitted else 0
        if old is not None and not new.continues(old):
            self._moved.append(seq)
        return Change(
            holder=index, room=new.room, keep=keep // 2, extents=extents[keep:], lost=new.lost,
            hit=hit,
        )  # fmt: skip

    def _kept(self, now: Int64) -> tuple[list[int], list[int]]:
        """What is cached now, or no longer."""
        kept = np.setdiff1d(now, self._cached, assume_unique=True)
        dropped = np.setdiff1d(self._cached, now, assume_unique=True)
        self._cached = now
        return runs(kept, 1), runs(dropped, 1)


__all__ = ["QUEUE", "Limits", "Over", "Recorder"]
