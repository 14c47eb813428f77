"""The account of every slot in a step of the reference engine, counted from nothing."""

from __future__ import annotations

from typing import Any

from pagedsim.engine.recording import BLOCKED, Apart, Window
from pagedsim.errors import ContractError
from pagedsim.protocols import Allocator, LayerGroup, Load, Plan, SupportsGroups, SupportsSlots


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


def record(engine: Any, plan: Plan) -> int:
    """Add the row of one step, whose slots are taken; its ns. ContractError where one is wrong."""
    load = load_of(plan)
    duration = int(engine.steptime.ns(load))
    if duration < 1:
        raise ContractError(f"step {engine.steps}: {load} takes {duration} ns, must be >= 1")
    if isinstance(engine.allocator, SupportsGroups):
        window, apart = grouped_window_of(engine, plan, load, duration)
        engine.recorder.windows.add(window[1:])
        engine.recorder.add_apart(apart)
    else:
        engine.recorder.windows.add(window_of(engine, plan, load, duration)[1:])
    return duration


def window_of(engine: Any, plan: Plan, load: Load, duration: int) -> Window:
    """The six terms, sequence by sequence."""
    allocator: Allocator = engine.allocator
    held, cached, shared, lost = allocator.usage()
    stored_all = internal = reserved = 0
    for seq in engine.running:
        stored = seq.computed + plan.scheduled.get(seq, 0)
        room = allocator.room(seq)
        stored_all += stored
        internal += max(0, room - max(seq.final, stored))
        reserved += max(0, min(room, seq.final) - stored)
    for seq in engine.done:  # all that it holds, past its room too
        if isinstance(allocator, SupportsSlots):
            internal += len(allocator.slots(seq))
        else:
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
    external = lost + (free if plan.blocked else 0)
    terms = (live, reserved, internal, external, cached, shared, 0, held, _limit(plan))
    return Window._make((*_began(engine, plan, load, duration), *terms))


def grouped_window_of(engine: Any, plan: Plan, load: Load, duration: int) -> tuple[Window, Apart]:
    """The same of an allocator with groups of layers, in bytes, counted block by block."""
    allocator: Any = engine.allocator
    # id -> tokens stored, ever stored, bytes not read again, sequences that hold it
    blocks: dict[int, list[int]] = {}
    group_of: dict[int, LayerGroup] = {}
    for seq in [*engine.running, *engine.done]:
        runs = seq in engine.running
        stored = seq.computed + plan.scheduled.get(seq, 0) if runs else 0
        for group, table in zip(allocator.groups, allocator.tables(seq), strict=True):
            for at, block in enumerate(table):
                if not block:
                    continue
                group_of[block] = group
                start, size = at * group.block, group.block
                if group.kind == "state":
                    blocks[block] = [max(runs, blocks.get(block, [0])[0]), 0, 0, 1]
                    continue
                fill = min(max(stored - start, 0), size)
                out = sum(
                    min(max(part.first_read(seq.computed) - start, 0), fill) * part.token_bytes
                    for part in (group, *group.narrow)
                )
                ever = min(max(seq.final - start, 0), size) if runs else 0
                seen = blocks.setdefault(block, [0, 0, group.page_bytes, 0])
                seen[3] += 1
                if runs:
                    seen[:3] = max(seen[0], fill), max(seen[1], ever), min(seen[2], out)
    live = outside = reserved = internal = padding = 0
    for block, (fill, ever, out, holders) in blocks.items():
        group = group_of[block]
        token = group.token_bytes
        padding += allocator.block_bytes - group.page_bytes
        if group.kind == "state":
            live += group.page_bytes * fill
            internal += group.page_bytes * (1 - fill)
            continue
        out = min(out, fill * token)
        if holders > 1 and fill:  # what is empty in a block that forks share is reserved
            ever = group.block
        live += fill * token - out
        outside += out
        reserved += max(0, ever - fill) * token
        internal += (group.block - max(fill, ever)) * token
    cached = 0
    for group, count in zip(allocator.groups, allocator.group_blocks(), strict=True):
        cached += count.cached * group.page_bytes
        padding += count.cached * (allocator.block_bytes - group.page_bytes)
    held, keys, shared, _ = allocator.usage()
    free = allocator.capacity - held - keys
    if held != len(blocks) * allocator.block_bytes or free < 0:
        raise ContractError(
            f"step {engine.steps}: {type(allocator).__name__} says held {held} and cached {keys} "
            f"of {allocator.capacity}, and its tables have {len(blocks)} blocks of "
            f"{allocator.block_bytes}"
        )
    external = free if plan.blocked else 0
    terms = (live, reserved, internal, external, cached, shared, 0, held, _limit(plan))
    window = Window._make((*_began(engine, plan, load, duration), *terms))
    return window, Apart(padding, outside, 0, 0)


def _began(engine: Any, plan: Plan, load: Load, duration: int) -> tuple[int, ...]:
    """What a row begins with: the step, its time, who runs, the load."""
    now = engine.now_ns
    return (engine.steps, 1, now, now + duration, len(engine.running), *load)


def _limit(plan: Plan) -> int:
    return plan.limit + (BLOCKED if plan.blocked else 0)


def _distinct(engine: Any, plan: Plan) -> int:
    """Slots that hold a token of a running sequence, each once."""
    assert isinstance(engine.allocator, SupportsSlots), "sharing without slots to show"
    slots: set[int] = set()
    for seq in engine.running:
        stored = seq.computed + plan.scheduled.get(seq, 0)
        slots.update(engine.allocator.slots(seq)[:stored].tolist())
    return len(slots)


__all__ = ["record"]
