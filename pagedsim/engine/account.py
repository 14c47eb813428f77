"""The terms of a planned step, right after its allocations, whatever its slots are.

Without groups of layers they follow from the allocator's usage and from sums that the batch keeps;
with them `engine.grouped` counts.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pagedsim.engine.state import State
from pagedsim.engine.step import Step, stored_after
from pagedsim.errors import ContractError
from pagedsim.protocols import SupportsSlots

Terms: TypeAlias = tuple[int, int, int, int, int, int, int, int]


def terms(
    state: State, decoding: int, others: dict[Any, int], number: int, ended: Step | None = None
) -> Terms:
    """Live, reserved, internal, lost, cached, shared, held and free slots of step `number`.

    `decoding` and `others` are those of the step; `ended` is it where members of the batch are done
    and held. What the allocator said is left in `state.used`. O(1), but for who prefills and what
    `ended` shares. ContractError where a term is below 0.
    """
    batch, spill = state.batch, state.spill
    state.used = None
    if state.groups is not None:
        return state.groups.terms(spill, decoding, others, number, ended)
    state.used = usage = state.allocator.usage()
    held, cached, shared, lost = usage
    stored = batch.stored + decoding
    if batch.prefilling:
        stored += sum(others.values()) + sum(seq.base for seq in batch.prefilling)
    if shared and ended is not None:  # what the done share with others is theirs no longer
        shared, reserved = _without_done(ended, state, stored)
        spill = held - lost - (stored - shared) - reserved
    live = stored - shared
    reserved = held - lost - live - spill
    free = state.allocator.capacity - held - cached
    if live < 0 or reserved < 0 or free < 0:
        raise ContractError(
            f"step {number}: live {live}, reserved {reserved}, internal {spill}, free "
            f"{free}: none may be negative ({type(state.allocator).__name__}, {usage})"
        )
    return live, reserved, spill, lost, cached, shared, held, free


def _without_done(step: Step, state: State, stored: int) -> tuple[int, int]:
    """What those that run share with each other, and what is reserved for them. O(stored).

    For batches that are held as a whole: what the done share with others is theirs no longer.
    """
    allocator = state.allocator
    assert isinstance(allocator, SupportsSlots), "sharing without slots to show"
    parts, reserved = [], 0
    for seq, have in zip(state.running, stored_after(step, state.running), strict=True):
        parts.append(allocator.slots(seq)[:have])
        reserved += max(0, min(allocator.room(seq), seq.final) - have)
    distinct = len(np.unique(np.concatenate(parts))) if parts else 0
    return stored - distinct, reserved


__all__ = ["Terms", "terms"]
