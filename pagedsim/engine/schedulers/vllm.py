"""Continuous batching as vLLM's V1 scheduler does it (0.33.0, synchronous scheduling).

There is no prefill phase: every step each running sequence wants what it knows and has not
computed, `tokens - computed`, and a shared budget limits the sum::

    running, in order of admission          then waiting, head of line only
    | 1 | 1 | 1 | chunk |  ...  ........... | chunk | chunk | ...         <= max_batched_tokens

`_run` is the rule, O(running). `_run_at_once` does the same in O(prefilling + who needs a block)
where the budget reaches everyone, so that order does not matter, and the engine can step the batch
as a whole.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from pagedsim.engine.schedulers.bounds import at_least, full, share, to_state
from pagedsim.engine.schedulers.together import grow_together
from pagedsim.errors import SpecError
from pagedsim.protocols import BatchView, Limit, Plan, Sequence, View, batched


@mypyc_attr(allow_interpreted_subclasses=True)
class Vllm:
    """Chunked prefill under a token budget, preemption by recomputation.

    `max_seqs`, `max_batched_tokens`: limits of a step. `chunked`: whether a prompt may be
    computed in parts. `long_prefill`: no sequence takes more than this in a step (0 = off).
    `watermark`: share of the pool that must stay free when a request joins a batch. `full_input`:
    admit only if all known tokens fit now. `policy`: "fcfs" or "priority".
    """

    steady = True
    head_first = False

    def __init__(
        self,
        *,
        max_seqs: int = 256,
        max_batched_tokens: int = 2048,
        chunked: bool = True,
        long_prefill: int = 0,
        watermark: float = 0.0,
        full_input: bool = True,
        policy: str = "fcfs",
    ) -> None:
        self.max_seqs = at_least("vllm: max_seqs", max_seqs, 1)
        self.max_batched_tokens = at_least("vllm: max_batched_tokens", max_batched_tokens, 1)
        self.long_prefill = at_least("vllm: long_prefill", long_prefill, 0)
        self.watermark = share("vllm: watermark", watermark)
        self.chunked = bool(chunked)
        self.full_input = bool(full_input)
        if policy not in ("fcfs", "priority"):
            raise SpecError(f"vllm: policy is {policy}, must be fcfs or priority")
        self.policy = policy
        self.rank = _by_priority if policy == "priority" else None
        self._states = 0  # tokens of a block of states that are found again

    def check(self, max_len: int, /) -> None:
        """Without chunks a prompt must fit the budget whole, or it would wait for ever."""
        if not self.chunked and self.max_batched_tokens < max_len:
            raise SpecError(
                f"vllm: with chunked=0 max_batched_tokens is {self.max_batched_tokens}, "
                f"must be >= the maximum length {max_len}"
            )

    def _state_block(self, view: View) -> int:
        """What steps of prompts end at. SpecError where they cannot reach it, and would wait."""
        block: int = getattr(view, "state_block", 0)
        if not block:
            return 0
        if not self.chunked:
            raise SpecError("vllm: chunked=0 with prefix=on and recurrent layers: give chunked=1")
        bounds = {"max_batched_tokens": self.max_batched_tokens, "long_prefill": self.long_prefill}
        for name, most in bounds.items():
            if most < block and (most or name == "max_batched_tokens"):
                raise SpecError(
                    f"vllm: {name} is {most}, must be >= {block} with prefix=on and recurrent "
                    "layers, the tokens of a block: states are kept at ends of blocks"
                )
        return block

    def undisturbed(self, view: BatchView, /) -> bool:
        """The budget must reach everyone."""
        return view.decoding <= self.max_batched_tokens

    def plan(self, view: View, /) -> Plan:
        """Running sequences first, then, if none was preempted, the queue."""
        plan = Plan()
        chunk = view.max_len
        self._states = self._state_block(view)
        if self.long_prefill and len(view.running) + len(view.waiting) > 1:
            chunk = self.long_prefill
        budget = self._run_at_once(view, plan, chunk)
        if budget is None:
            budget = self._run(view, plan, chunk)
        if plan.preempted:
            plan.blocked = True
        else:
            self._join(view, plan, chunk, budget)
        if plan.blocked:
            plan.limit = Limit.MEMORY
        elif view.waiting:
            plan.limit = Limit.MAX_SEQS if full(view, self.max_seqs) else Limit.BUDGET
        return plan

    def _run_at_once(self, view: View, plan: Plan, chunk: int) -> int | None:
        """`_run` for the batch as a whole; None where that cannot be done, with nobody scheduled.

        The budget reaches all if it covers everyone's wants, or if only the last of the batch
        gets less than it wants. Under the priority policy a victim may stand before those that
        have grown, so that one who is refused ends this.
        """
        batch = batched(view)
        if batch is None or (budget := self.max_batched_tokens - batch.decoding) < 0:
            return None
        wants = {}
        for seq in batch.prefilling:
            want = min(seq.tokens - seq.computed, chunk)
            if not want:  # a beam that waits for others
                continue
            if want > budget:
                if seq is not view.running[-1]:
                    return None
                if not budget:
                    break
                want = budget
            if self._states:
                want = to_state(seq, seq.computed, want, self._states)
                if not want:
                    continue
            wants[seq] = want
            budget -= want
        fcfs = self.policy == "fcfs"
        if not (grow_together(batch, plan, wants) if fcfs else batch.grow_all(wants)):
            return None
        plan.decoding = batch.decoding > 0
        plan.scheduled.update(wants)
        return budget

    def _run(self, view: View, plan: Plan, chunk: int) -> int:
        """Give every running sequence what it wants; returns the budget that is left."""
        budget = self.max_batched_tokens
        at = 0
        idle = set()  # beams that wait for others
        while at < len(view.running) and budget > 0:
            seq = view.running[at]
            want = min(seq.tokens - seq.computed, chunk, budget, view.max_len - 1 - seq.computed)
            if self._states:
                want = to_state(seq, seq.computed, want, self._states)
            if not want:
                idle.add(seq)
                at += 1
                continue
            while not view.grow(seq, seq.computed + want):
                gone = view.preempt(self._victim(view))
                for each in gone:
                    if each in plan.scheduled:  # it stands before `at` and leaves the step
                        budget += plan.scheduled.pop(each)
                        at -= 1
                    elif each in idle:
                        at -= 1
                plan.preempted.append(gone[0])
                if seq in gone:
                    break
            else:
                plan.scheduled[seq] = want
                budget -= want
                at += 1
        return budget

    def _victim(self, view: View) -> Sequence:
        if self.policy == "fcfs":
            return view.running[-1]
        return max(view.running, key=lambda seq: (seq.priority, seq.arrival_ns))

    def _join(self, view: View, plan: Plan, chunk: int, budget: int) -> None:
        """Admit from the head of the queue while budget, places and blocks last."""
        while view.waiting and budget > 0 and not full(view, self.max_seqs):
            seq = view.waiting[0]
            hit = view.cached(seq)
            want = min(seq.tokens - hit, chunk)
            if want > budget:
                if not self.chunked:
                    return
                want = budget
            if self._states:
                want = to_state(seq, hit, want, self._states)
                if not want:
                    return
            spare = view.headroom(self.watermark) if self.watermark and view.running else 0
            whole = seq.tokens if self.full_input else 0
            if not view.admit(seq, hit + want, whole=whole, spare=spare):
                plan.blocked = True
                return
            plan.admitted.append(seq)
            plan.scheduled[seq] = want
            budget -= want


def _by_priority(seq: Sequence) -> tuple[int, int, str]:
    return (seq.priority, seq.arrival_ns, str(seq.id))


__all__ = ["Vllm"]
