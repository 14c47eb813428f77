"""The account of every slot in a step of the reference engine, counted from nothing."""

from __future__ import annotations

from typing import Any

from pagedsim.engine.recording import BLOCKED, Window
from pagedsim.errors import ContractError
from pagedsim.protocols import Allocator, Load, Plan, SupportsSlots


def load_of(plan: Plan) -> Load:
    """What the planned step computes and reads."""
    prefills = tokens = pairs = context = 0
    for seq, count in plan.scheduled.items():
        stored = seq.computed
        prefills += not (count == 1 and stored + 1 == seq.tokens)
        tokens += count
        pairs += count * stored + count * (count + 1) // 2
        context += stored + count
    return Load(len(plan.scheduled), prefills, tokens, pairs, context)


def window_of(engine: Any, plan: Plan, load: Load, duration: int) -> Window:
    """The row of one step, whose slots are taken. ContractError where a term is negative."""
    allocator: Allocator = engine.allocator
    held, cached, shared, lost = allocator.usage()
    stored_all = internal = reserved = 0
    for seq in engine.running:
        stored = seq.computed + plan.scheduled.get(seq, 0)
        room = allocator.room(seq)
        stored_all += stored
        internal += max(0, room - max(seq.final, stored))
        reserved += max(0, min(room, seq.final) - stored)
    for seq in engine.done:
        internal += allocator.room(seq)
    if engine.done and shared:  # what the done share with others is theirs no longer
        shared = stored_all - _distinct(engine, plan)
        internal = held - lost - (stored_all - shared) - reserved
    live = stored_all - shared
    reserved = held - lost - live - internal
    free = allocator.capacity - held - cached
    if min(live, reserved, free) < 0:
        raise ContractError(
            f"step {engine.steps}: live {live}, reserved {reserved}, internal {internal}, free "
            f"{free}: none may be negative ({type(allocator).__name__}, held {held}, "
            f"cached {cached}, shared {shared}, lost {lost})"
        )
    return Window(
        step=engine.steps,
        steps=1,
        start_ns=engine.now_ns,
        end_ns=engine.now_ns + duration,
        batch=len(engine.running),
        **load._asdict(),
        live=live,
        reserved=reserved,
        internal=internal,
        external=lost + (free if plan.blocked else 0),
        cached=cached,
        shared=shared,
        ramp_ns=0,
        held=held,
        limit=plan.limit + (BLOCKED if plan.blocked else 0),
    )


def _distinct(engine: Any, plan: Plan) -> int:
    """Slots that hold a token of a running sequence, each once."""
    assert isinstance(engine.allocator, SupportsSlots), "sharing without slots to show"
    slots: set[int] = set()
    for seq in engine.running:
        stored = seq.computed + plan.scheduled.get(seq, 0)
        slots.update(engine.allocator.slots(seq)[:stored].tolist())
    return len(slots)


__all__ = ["load_of", "window_of"]
