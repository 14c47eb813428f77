"""Growing a batch as a whole where the last of it makes room for the others.

What it does is what growing them one after another would do: who is preempted stands behind all
that have been asked, so it has got nothing in this step, and those before it keep what they got.
"""

from __future__ import annotations

from typing import Any

from pagedsim.protocols import BatchView, Plan


def grow_together(batch: BatchView, plan: Plan, wants: dict[Any, int]) -> bool:
    """Grow all that decode by a token and the others by `wants`; O(who needs a block).

    Preempts from the end of the batch as long as somebody is refused, and takes those out of
    `wants`. False where the last has samples beside it, which would leave with it though they
    may have grown: the others must be asked one by one then. What was preempted stays so.
    """
    while not batch.grow_all(wants):
        last = batch.running[-1]
        if batch.width(last) > 1:
            return False
        batch.preempt(last)
        plan.preempted.append(last)
        wants.pop(last, None)
    return True


__all__ = ["grow_together"]
