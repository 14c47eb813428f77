"""Request-level batches, as FasterTransformer was served: the batch ends with its longest member.

| all prompts | 1 1 1 1 | 1 1 . 1 | 1 . . 1 | 1 . . . |   a dot is done, held and empty
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from pagedsim.engine.schedulers.bounds import at_least, full
from pagedsim.engine.schedulers.orca import decode
from pagedsim.protocols import BatchView, Limit, Plan, View


@mypyc_attr(allow_interpreted_subclasses=True)
class Static:
    """When nothing runs, admit all that fits, without waiting for more; then run to the end."""

    hold = True
    steady = True
    head_first = False

    def __init__(self, *, max_seqs: int = 256) -> None:
        self.max_seqs = at_least("static: max_seqs", max_seqs, 1)
        self._limit = Limit.ARRIVALS

    def check(self, max_len: int, /) -> None:
        """Any maximum length will do: a prompt runs in one step whatever its length."""

    def undisturbed(self, view: BatchView, /) -> bool:
        """Its limit is what closed the batch, so it must be asked."""
        return False

    def plan(self, view: View, /) -> Plan:
        """The prompts of a new batch, or one token for each member that is not done."""
        plan = Plan()
        if view.running:
            decode(view, plan)
        else:
            self._form(view, plan)
        plan.limit = Limit.MEMORY if plan.blocked else self._limit
        return plan

    def _form(self, view: View, plan: Plan) -> None:
        self._limit = Limit.ARRIVALS
        while view.waiting:
            if full(view, self.max_seqs):
                self._limit = Limit.MAX_SEQS
                return
            seq = view.waiting[0]
            want = seq.tokens - view.cached(seq)
            if not view.admit(seq, seq.tokens):
                plan.blocked = True
                self._limit = Limit.MEMORY
                return
            plan.admitted.append(seq)
            plan.scheduled[seq] = want


__all__ = ["Static"]
