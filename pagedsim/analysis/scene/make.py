"""Scenes out of runs: each allocator replays the trace as far as the stretch of time reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from pagedsim.analysis.scene.paint import pictures
from pagedsim.analysis.scene.record import Limits, Over, Recorder
from pagedsim.analysis.scene.values import Frame, Lane, Scene
from pagedsim.analysis.simulate import Setup, allocator_of, run, scheduler_of
from pagedsim.errors import ContractError, SpecError
from pagedsim.trace import Trace

LIMITS = Limits(frames=2_000, numbers=400_000)  # of a scene's lane; some 2 MB of a page
SLOTS = 1 << 22  # of a pool that a page can draw: four bytes and a look at each in every frame


def make_scene(
    trace: Trace,
    allocators: Sequence[str],
    setup: Setup,
    *,
    from_s: float = 0.0,
    seconds: float | None = None,
    limits: Limits = LIMITS,
) -> Scene:
    """The pool of each allocator from `from_s` (after the first arrival) on, for `seconds`.

    Without `seconds`, as much as `limits` allow for all of them. `setup` is resolved. SpecError
    where an allocator cannot be shown, no step starts, or `seconds` are more than a scene holds.
    """
    origin = 0 if setup.concurrency or not len(trace) else int(trace.arrival_ns[0])
    limits = Limits(limits.frames, limits.numbers // max(len(allocators), 1))
    begin = origin + round(from_s * 1e9)
    end = 1 << 62 if seconds is None else begin + round(seconds * 1e9)
    lanes: list[Lane] = []
    refused: dict[str, None] = {}
    cut = False
    for spec in allocators:
        recorder = _record(trace, spec, setup, origin, (begin, end), limits, refused)
        if recorder.full:
            if seconds is not None:
                raise SpecError(_too_many(recorder, spec, begin, seconds, limits))
            cut, end = True, min(end, recorder.until_ns)
        lanes.append(with_terms(recorder))
    if not any(lane.frames for lane in lanes):
        why = ""
        if len(refused) == len(trace) * len(allocators):
            why = f": all {len(trace):,} requests are refused ({next(iter(refused))})"
        raise SpecError(f"no step starts from {from_s:g} s on{_within(seconds)}{why}")
    last = max(lane.frames[-1].start_ns for lane in lanes if lane.frames)
    reached = end - origin if end < 1 << 62 else last
    return Scene(
        trace=trace.name,
        requests=len(trace),
        load=trace.load,
        from_ns=begin - origin,
        to_ns=reached,
        cut=cut,
        lanes=[_before(lane, reached) if cut else lane for lane in lanes],
        notes=list(setup.notes),
        refused=list(refused),
    )


def _record(
    trace: Trace,
    spec: str,
    setup: Setup,
    origin: int,
    stretch: tuple[int, int],
    limits: Limits,
    refused: dict[str, None],
) -> Recorder:
    """One run, ended where the stretch does."""
    slots = allocator_of(spec, setup)
    holds = bool(getattr(scheduler_of(setup), "hold", False))
    recorder = Recorder(slots, spec, origin, stretch, limits, holds=holds)
    if slots.capacity > SLOTS:
        raise SpecError(
            f"{spec}: a pool of {slots.capacity:,} slots, a map draws at most {SLOTS:,}; give a"
            " smaller one (--kv-tokens)"
        )
    watched = replace(setup, observers=(*setup.observers, recorder))
    try:
        report = run(trace, slots, watched, name=spec)
    except Over:
        return recorder
    recorder.close()
    for refusal in report.recording.refused:
        text = f"request {refusal.row}: {refusal.reason}, {refusal.value:,} > {refusal.bound:,}"
        refused[f"{spec}: {text}"] = None
    return recorder


def with_terms(recorder: Recorder) -> Lane:
    """The lane with the account of every frame, counted from its slots.

    ContractError where the allocator's own counts are others.
    """
    lane = recorder.lane()
    frames: list[Frame] = []
    for picture, usage in zip(pictures(lane), recorder.usages, strict=True):
        terms = picture.terms()
        live, reserved, internal, _, cached, _ = terms
        held = live + reserved + internal + picture.lost
        counted = (held, cached, picture.lost)
        if counted != (usage.held, usage.cached, usage.lost) or (
            picture.saved != usage.shared and not picture.ended
        ):
            raise ContractError(
                f"{lane.name}: step {picture.frame.step}: its slots have {held} held, {cached}"
                f" cached, {picture.lost} lost, {picture.saved} saved, its account {usage}"
            )
        frames.append(msgspec.structs.replace(picture.frame, terms=terms))
    return msgspec.structs.replace(lane, frames=frames)


def _before(lane: Lane, end_ns: int) -> Lane:
    """What starts before `end_ns`."""
    frames = [frame for frame in lane.frames if frame.start_ns < end_ns]
    return msgspec.structs.replace(lane, frames=frames)


def _too_many(recorder: Recorder, spec: str, begin: int, seconds: float, limits: Limits) -> str:
    reached = (recorder.until_ns - begin) / 1e9
    return (
        f"{spec}: {seconds:g} s are too many steps for a map, which holds {limits.frames:,} of an"
        f" allocator and {limits.numbers:,} numbers; they are reached after {reached:.3g} s: give"
        f" --seconds {reached * 0.99:.3g} or less"
    )


def _within(seconds: float | None) -> str:
    return "" if seconds is None else f" within {seconds:g} s"


__all__ = ["LIMITS", "SLOTS", "make_scene", "with_terms"]
