"""Who takes part in a planned step, and what it computes and reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pagedsim.engine.batch import Batch
from pagedsim.engine.request import Request
from pagedsim.protocols import Load, Plan


class Step(NamedTuple):
    """Who takes part in a step, and with what."""

    decoding: int  # how many of those that decode, all alike
    others: dict[Any, int]  # tokens of each of the others
    behind: list[Request]  # who decodes, but has no part in it


def step_of(plan: Plan, batch: Batch) -> Step:
    """What `plan` means for the batch. O(running), unless all that decode are planned as one."""
    if plan.decoding:  # half the time of Step(…)
        return tuple.__new__(Step, (batch.decoding, plan.scheduled, []))
    others = {seq: count for seq, count in plan.scheduled.items() if not seq.decoding}
    decoding = len(plan.scheduled) - len(others)
    behind = []
    if 0 < decoding < batch.decoding:
        behind = [s for s in batch.running if s.decoding and s not in plan.scheduled]
    return Step(decoding, others, behind)


def load_of(step: Step, batch: Batch) -> Load:
    """The load of `step`, from the batch's totals. O(others + behind)."""
    context = batch.stored + batch.decoding if step.decoding else 0
    for seq in step.behind:
        context -= seq.computed + 1
    prefills, tokens, pairs = 0, step.decoding, context
    for seq, count in step.others.items():
        stored = seq.base
        prefills += count > 1 or stored + 1 < seq.known
        tokens += count
        pairs += count * stored + count * (count + 1) // 2
        context += stored + count
    sequences = step.decoding + len(step.others)
    # half the time of Load(…)
    return tuple.__new__(Load, (sequences, prefills, tokens, pairs, context))


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


__all__ = ["Step", "load_of", "step_of", "stored_after"]
