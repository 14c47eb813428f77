"""Scenes: what is written down of every step is what the allocator showed, slot by slot.

The oracle is an observer of its own on the reference engine, and the account that it recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from agreement import Fixed, expand
from forked import forking_traces
from hypothesis import given, settings
from hypothesis import strategies as st
from test_prefix_agrees import setups, sharing_traces, steptimes

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.radix import Radix
from pagedsim.alloc.slots import Slots
from pagedsim.analysis.scene.make import with_terms
from pagedsim.analysis.scene.paint import pictures
from pagedsim.analysis.scene.record import Limits, Over, Recorder
from pagedsim.analysis.scene.values import Lane
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import Recording
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Static, Vllm
from pagedsim.errors import ContractError, SpecError
from pagedsim.trace.trace import Trace

TERMS = ("live", "reserved", "internal", "external", "cached")
ALL = (0, 1 << 62)
MANY = Limits(1 << 30, 1 << 30)


class Shown:
    """What the allocator shows of those that run, at every step: (request, slots up to room)."""

    def __init__(self, allocator: Any) -> None:
        self.allocator = allocator
        self.steps: list[list[tuple[int, list[int]]]] = []

    def scheduled(self, step: int, plan: Any, view: Any, /) -> None:
        self.steps.append(
            sorted(
                (seq.id, self.allocator.slots(seq).tolist()[: self.allocator.room(seq)])
                for seq in view.running
            )
        )

    def finished(self, step: int, done: Any, /) -> None:
        pass


def record(
    engine: Any,
    trace: Trace,
    allocator: Any,
    scheduler: Any,
    steptime: Any,
    max_len: int,
    **more: Any,
) -> tuple[Lane, Recording, Shown]:
    stretch = more.pop("stretch", ALL)
    holds = getattr(scheduler, "hold", False)
    recorder = Recorder(allocator, "it", 0, stretch, MANY, holds=holds)
    shown = Shown(allocator)
    made = engine(
        trace, allocator, scheduler, steptime, max_len=max_len, observers=[shown, recorder], **more
    )
    recording = made.run()
    recorder.close()
    return with_terms(recorder), recording, shown


def agree(
    trace: Trace, make: Callable[[], Any], scheduler: Any, steptime: Any, max_len: int
) -> Lane:
    """AssertionError unless both engines' scenes are one, and it is what the reference shows."""
    lane, recording, shown = record(ReferenceEngine, trace, make(), scheduler(), steptime, max_len)
    fast, *_ = record(FastEngine, trace, make(), scheduler(), steptime, max_len)
    for ours, theirs in zip(fast.frames, lane.frames, strict=True):
        assert ours == theirs
    assert fast == lane
    rows = {row["step"]: row for row in expand(recording, steptime.ns)}
    drawn = 0
    for picture in pictures(lane):
        frame = picture.frame
        assert sum(frame.terms) == lane.capacity
        assert picture.terms() == frame.terms
        if frame.step < 0:
            assert not picture.held
            continue
        row = rows[frame.step]
        assert frame.start_ns == row["start_ns"]
        assert frame.running == row["batch"]
        assert (frame.decodes + frame.prefills, frame.prefills) == (
            row["sequences"],
            row["prefills"],
        )
        assert dict(zip(TERMS, frame.terms, strict=False)) == {name: row[name] for name in TERMS}
        running = [
            (lane.holders[index].request, (held.slots[: held.room] + lane.first).tolist())
            for index, held in picture.held.items()
            if not held.done
        ]
        assert sorted(running) == shown.steps[drawn]
        drawn += 1
    assert drawn == len(rows)
    return lane


FEW = settings(max_examples=min(60, settings().max_examples))


@FEW
@given(
    sharing_traces(), setups(), steptimes,
    st.sampled_from(["prefix", "prefix", "paged", "radix", "buddy", "first", "slots"]),
)  # fmt: skip
def test_every_frame_is_what_was_shown(trace: Trace, setup: Any, steptime: Any, kind: str) -> None:
    prefix, scheduler, max_len = setup
    blocks, block, slots = prefix().blocks, prefix().block, prefix().capacity

    def make() -> Any:
        if kind == "prefix":
            return prefix()
        if kind == "paged":
            return Paged(blocks, block=block)
        if kind == "radix":
            return Radix(slots, page=block)
        if kind == "slots":
            return Slots(2 * slots, n=2)
        return Contiguous(2 * slots, max_len=max_len, place=kind, reserve="pow2")

    try:
        make()
    except SpecError:
        return
    agree(trace, make, scheduler, steptime, max_len)


@FEW
@given(forking_traces(), setups(), steptimes, st.booleans())
def test_forks_are_drawn_as_they_share(
    trace: Trace, setup: Any, steptime: Any, prefix: bool
) -> None:
    make, given_scheduler, max_len = setup

    def scheduler() -> Any:
        made = given_scheduler()
        made.max_seqs = max(4, made.max_seqs)
        return made

    def pool() -> Any:
        found = make()
        return found if prefix else Paged(found.blocks, block=found.block)

    agree(trace, pool, scheduler, steptime, max_len)


def plain(arrivals: list[int], prompts: list[int], outputs: list[int]) -> Trace:
    return Trace.build("t", arrivals, prompts, outputs)


@pytest.mark.parametrize("engine", [FastEngine, ReferenceEngine])
def test_a_stretch_is_a_part_of_the_whole(engine: Any) -> None:
    """From the middle of a jump on, and up to the middle of another."""
    trace = plain([0, 10, 25, 90], [5, 7, 3, 2], [40, 30, 20, 5])

    def run(stretch: tuple[int, int]) -> Lane:
        pool = Paged(40, block=4)
        recorder = Recorder(pool, "it", 0, stretch, MANY)
        try:
            engine(trace, pool, Vllm(), Fixed(1), max_len=60, observers=[recorder]).run()
        except Over:
            pass
        else:
            recorder.close()
        return with_terms(recorder)

    whole = {picture.frame.start_ns: _held(picture) for picture in pictures(run(ALL))}
    for stretch in ((0, 13), (17, 44), (33, 1 << 62), (50, 91)):
        lane = run(stretch)
        part = {picture.frame.start_ns: _held(picture) for picture in pictures(lane)}
        assert part == {at: held for at, held in whole.items() if stretch[0] <= at < stretch[1]}


def _held(picture: Any) -> Any:
    held = sorted((one.slots.tolist(), one.stored, one.room) for one in picture.held.values())
    return held, picture.frame.terms, picture.frame.waiting


def test_what_is_done_and_still_held_is_internal() -> None:
    trace = plain([0, 0], [3, 3], [2, 6])
    lane, *_ = record(ReferenceEngine, trace, Paged(9, block=4), Static(), Fixed(1), 20)
    done = [
        picture.frame for picture in pictures(lane) if any(h.done for h in picture.held.values())
    ]
    assert [frame.terms[2] for frame in done] == [4 * 1] * 4
    assert lane.frames[-1].terms == [0, 0, 0, 0, 0, 32]
    assert lane.frames[-1].step == -1


def test_what_is_done_within_a_page_of_the_tree_is_internal() -> None:
    """Who is done with its prompt never says so to the tree: its page is held past its room."""
    trace = plain([0] * 5, [1] * 5, [1, 1, 2, 3, 1])
    runs = (list(range(6)), [0] * 5, [1] * 5)
    alike = Trace.build("t", [0] * 5, [1] * 5, [1, 1, 2, 3, 1], runs=runs)
    for each in (trace, alike):
        lane = agree(each, lambda: Radix(16, page=2), Static, Fixed(1), 30)
        assert [frame.terms[2] for frame in lane.frames] == [0, 3 * 2, 4 * 2 + 1, 0]


def test_an_account_that_is_not_the_slots_is_an_error() -> None:
    class Boasts(Paged):
        def usage(self) -> Any:
            return super().usage()._replace(cached=4)

    with pytest.raises(ContractError, match=r"step 0: its slots have .* cached"):
        record(FastEngine, plain([0], [3], [9]), _Kept(12, block=4), Vllm(), Fixed(1), 20)
    with pytest.raises(SpecError, match="does not show where"):
        record(FastEngine, plain([0], [3], [9]), Boasts(12, block=4), Vllm(), Fixed(1), 20)


class _Kept(Paged):
    """Says that it keeps content, and shows less of it."""

    def usage(self) -> Any:
        return super().usage()._replace(cached=8)

    def kept(self) -> Any:
        free = self.free_blocks()[-1]
        return self.slots_of(free)

    def slots_of(self, block: int) -> Any:
        import numpy as np

        return np.arange(block * self.block, (block + 1) * self.block)


def test_an_allocator_that_shows_nothing_has_no_map() -> None:
    class Hidden:
        capacity = longest = 8

    with pytest.raises(SpecError, match="SupportsSlots"):
        Recorder(Hidden(), "Hidden", 0, ALL, MANY)  # type: ignore[arg-type]


def test_where_the_prefix_cache_keeps_content() -> None:
    """`kept` is as large as the account says, and none of it is in a table."""
    trace = plain([0, 3, 6, 60], [9, 9, 9, 9], [4, 4, 4, 4])
    pool = PrefixPaged(9, block=2)
    lane, *_ = record(ReferenceEngine, trace, pool, Vllm(), Fixed(1), 20)
    assert max(frame.terms[4] for frame in lane.frames) > 0
    for picture in pictures(lane):
        cached = {slot for slot, kind in enumerate(picture.kinds.tolist()) if kind == 1}
        held = {slot for one in picture.held.values() for slot in one.slots.tolist()}
        assert len(cached) == picture.frame.terms[4]
        assert not cached & held
