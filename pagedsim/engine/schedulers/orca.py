"""Iteration-level scheduling as in Orca: prompts run in steps of their own.

A step is either all prompts (of those just admitted) or one token for everyone::

    | prompt | prompt |    | 1 | 1 | 1 | 1 | 1 |    | 1 | 1 | 1 | 1 | 1 |    | prompt | ...

The paper's vLLM is ``orca:max_seqs=256,max_prompt_tokens=2560,watermark=0.01`` over
``paged:block=16,null=0``.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from pagedsim.engine.schedulers.bounds import at_least, full, share
from pagedsim.engine.schedulers.together import grow_together
from pagedsim.errors import SpecError
from pagedsim.protocols import BatchView, Limit, Plan, View, batched


@mypyc_attr(allow_interpreted_subclasses=True)
class Orca:
    """Admit from the head until one is refused; decode only when none was admitted.

    `max_prompt_tokens`: most prompt tokens of one step (0 = no limit). `watermark`: share of the
    pool that must stay free when a request joins a batch.
    """

    steady = True
    head_first = True

    def __init__(
        self, *, max_seqs: int = 256, max_prompt_tokens: int = 0, watermark: float = 0.0
    ) -> None:
        self.max_seqs = at_least("orca: max_seqs", max_seqs, 1)
        self.max_prompt_tokens = at_least("orca: max_prompt_tokens", max_prompt_tokens, 0)
        self.watermark = share("orca: watermark", watermark)

    def check(self, max_len: int, /) -> None:
        """A prompt, or what is recomputed after a preemption, runs in one step."""
        if 0 < self.max_prompt_tokens < max_len:
            raise SpecError(
                f"orca: max_prompt_tokens is {self.max_prompt_tokens}, "
                f"must be >= the maximum length {max_len}, or 0 for no limit"
            )

    def undisturbed(self, view: BatchView, /) -> bool:
        """Always: there is no budget."""
        return True

    def plan(self, view: View, /) -> Plan:
        """Prompts of the newly admitted, or one token for each running sequence."""
        plan = Plan()
        self._join(view, plan)
        if not plan.admitted:
            decode(view, plan)
        if plan.blocked:
            plan.limit = Limit.MEMORY
        elif view.waiting:
            plan.limit = Limit.MAX_SEQS if full(view, self.max_seqs) else Limit.BUDGET
        return plan

    def _join(self, view: View, plan: Plan) -> None:
        left = self.max_prompt_tokens or None
        while view.waiting and not full(view, self.max_seqs):
            seq = view.waiting[0]
            want = seq.tokens - view.cached(seq)
            if left is not None and want > left:
                return
            spare = view.headroom(self.watermark) if view.running else 0
            if not view.admit(seq, seq.tokens, spare=spare):
                plan.blocked = True
                return
            plan.admitted.append(seq)
            plan.scheduled[seq] = want
            if left is not None:
                left -= want


def decode(view: View, plan: Plan) -> None:
    """One token for each running sequence; the last of the batch makes room where it must.

    More for samples that are computed again after what they have in common, none for a beam that
    waits for others.
    """
    batch = batched(view)
    if batch is not None and not batch.prefilling:
        done = grow_together(batch, plan, {})
        plan.blocked = plan.blocked or bool(plan.preempted)
        if done:
            plan.decoding = batch.decoding > 0
            return
    at = 0
    while at < len(view.running):
        seq = view.running[at]
        want = seq.tokens - seq.computed
        while want and not view.grow(seq, seq.tokens):
            gone = view.preempt(view.running[-1])
            plan.preempted.append(gone[0])
            plan.blocked = True
            if seq in gone:
                for each in gone:
                    plan.scheduled.pop(each, None)
                return
        if want:
            plan.scheduled[seq] = want
        at += 1


__all__ = ["Orca", "decode"]
