"""The laws of a scheduler: small traces on the reference engine, every plan held to what it did.

Some requests have samples, which fork; some wait for the answer to another.

A *witness* stands between scheduler and engine. It sees each plan, and each call that the
scheduler makes of the view while it plans: an admission, a growth or a preemption that a plan does
not tell of, or tells of and that never was, breaks a law.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.device.steptime import Constant
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import Requests
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.sampling import check_samples
from pagedsim.errors import PagedsimError, SpecError
from pagedsim.protocols import (
    Limit,
    Plan,
    SupportsBudget,
    SupportsHold,
    SupportsPlaces,
    SupportsRank,
    SupportsSteady,
)
from pagedsim.testing.explore import Suite
from pagedsim.testing.laws import BrokenLaw, Judge, Over
from pagedsim.testing.sizes import makers, name_of
from pagedsim.testing.strategies import traces
from pagedsim.trace import samples

LAWS = {
    "calls": "no state that can occur raises an error",
    "told": "a plan tells of just the admissions and preemptions that were made, in their order",
    "slots": "who is scheduled runs, and has slots for it",
    "tokens": "who is scheduled gets at least a token, and no more than it knows",
    "blocked": "blocked means that somebody was refused or preempted; a refused head means it",
    "progress": "something is scheduled or preempted in each step",
    "ends": "everyone is served, within a bound of steps that all their tokens could need",
    "whole": "each request that is not refused yields all its tokens, and nothing stays held",
    "determinism": "an equal scheduler does the same",
    "steady": "the engine that takes many steps at once records the same",
}
_PROTOCOLS = {
    "SupportsHold": SupportsHold,
    "SupportsRank": SupportsRank,
    "SupportsSteady": SupportsSteady,
}
_MOST_STEPS = 8  # for each token, besides a hundred


class Witness:
    """The view of one plan: it passes calls on, and notes them."""

    def __init__(self, view: Any) -> None:
        self._view = view
        self.admitted: list[Any] = []
        self.preempted: list[Any] = []
        self.refused: list[Any] = []
        self.slots: dict[Any, int] = {}
        self.notes: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name == "grow_all":  # the plain rule is judged, a sequence at a time
            raise AttributeError(name)
        return getattr(self._view, name)

    def admit(self, seq: Any, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        granted = bool(self._view.admit(seq, tokens, whole=whole, spare=spare))
        (self.admitted if granted else self.refused).append(seq)
        if granted:
            self.slots[seq] = tokens
        self.notes.append(f"admit({seq.id}, {tokens}) -> {granted}")
        return granted

    def grow(self, seq: Any, tokens: int, /) -> bool:
        granted = bool(self._view.grow(seq, tokens))
        if granted:
            self.slots[seq] = max(tokens, self.slots.get(seq, 0))
        self.notes.append(f"grow({seq.id}, {tokens}) -> {granted}")
        return granted

    def preempt(self, seq: Any, /) -> Any:
        left = self._view.preempt(seq)
        self.preempted += left[:1]  # of samples that go together one is told of
        for each in left:
            self.slots.pop(each, None)
        self.notes.append(f"preempt({seq.id})")
        return left


class Judged:
    """A scheduler whose plans are held to the laws. To an engine it is the inner one, unsteady."""

    def __init__(self, inner: Any, judge: Judge, log: list[str]) -> None:
        self._inner, self._judge, self._log = inner, judge, log
        self._step = 0
        if isinstance(inner, SupportsRank):
            self.rank = inner.rank
        if isinstance(inner, SupportsHold):
            self.hold = inner.hold
        if isinstance(inner, SupportsPlaces):
            self.max_seqs = inner.max_seqs
        if isinstance(inner, SupportsBudget):
            self.max_batched_tokens = inner.max_batched_tokens

    def check(self, max_len: int, /) -> None:
        self._inner.check(max_len)

    def plan(self, view: Any, /) -> Plan:
        witness = Witness(view)
        self._judge.calls += 1
        head = view.waiting[0] if view.waiting else None
        try:
            plan: Plan = self._inner.plan(witness)
        except (BrokenLaw, Over):
            raise
        except Exception as error:
            self._log.append(f"step {self._step}: {'; '.join(witness.notes) or 'no calls'}")
            self._hold("calls", False, f"plan raised {type(error).__name__}: {error}")
            raise
        told = {seq.id: tokens for seq, tokens in plan.scheduled.items()}
        said = "; ".join([*witness.notes, f"scheduled {told}"])
        self._log.append(f"step {self._step}: {said}")
        self._step += 1
        self._plan(plan, witness, view, head)
        return plan

    def _hold(self, law: str, good: object, said: Any) -> None:
        self._judge.hold(law, good, said, self._log)

    def _plan(self, plan: Plan, witness: Witness, view: Any, head: Any) -> None:
        for law, told, made in (
            ("admitted", plan.admitted, witness.admitted),
            ("preempted", plan.preempted, witness.preempted),
        ):
            ours, theirs = [seq.id for seq in told], [seq.id for seq in made]
            self._hold("told", ours == theirs, lambda: f"{law} {ours}, but it was {theirs}")  # noqa: B023
        self._hold("told", isinstance(plan.limit, Limit), f"limit is {plan.limit!r}")
        going = bool(plan.scheduled or plan.preempted)
        waits = f"{len(view.running)} run and {len(view.waiting)} wait"
        self._hold("progress", going, f"nothing is scheduled or preempted, though {waits}")
        running = set(view.running)
        for seq, tokens in plan.scheduled.items():
            self._hold("slots", seq in running, f"{seq.id} is scheduled and does not run")
            want = seq.tokens - seq.computed
            self._hold("tokens", 1 <= tokens <= want, f"{seq.id} gets {tokens} of {want} tokens")
            have = max(witness.slots.get(seq, 0), view.allocator.room(seq))
            need = seq.computed + tokens
            self._hold("slots", have >= need, f"{seq.id} has {have} slots for {need} tokens")
        shut = bool(witness.refused or witness.preempted)
        self._hold("blocked", shut or not plan.blocked, "blocked, though nobody was refused")
        tried = head is not None and head in witness.refused and not witness.admitted
        self._hold("blocked", plan.blocked or not tried, "the head was refused, and not told of")


class _Run(NamedTuple):
    """What a scheduler is tried on."""

    trace: Any
    max_len: int
    allocator: Any
    closed_loop: bool


@st.composite
def _runs(draw: st.DrawFn) -> _Run:
    """Few fit at once; some requests have samples, some wait for the answer to another."""
    outputs, sessions = draw(st.sampled_from([1, 1, 3])), draw(st.integers(0, 2)) == 2
    trace = draw(traces(rows=8, longest=12, samples=outputs, sessions=sessions))
    most = int((trace.prompt + trace.output).max())
    max_len = most + draw(st.integers(0, 3))
    slots = max_len + draw(st.sampled_from([0, 0, max_len // 3, max_len]))
    block = draw(st.integers(1, 3))
    blocks = draw(st.integers(1, outputs)) * -(-slots // block) + 1
    allocators: list[Any] = [
        partial(Paged, blocks, block=block),
        partial(PrefixPaged, blocks, block=block),
        partial(Contiguous, 2 * slots, max_len=max_len, reserve="exact"),
    ]
    forking = allocators if outputs == 1 else allocators[:2]
    return _Run(trace, max_len, draw(st.sampled_from(forking)), sessions)


def scheduler_suite(make: Callable[..., Any]) -> Suite:
    """All laws of a scheduler over what `make` builds."""

    def run(judge: Judge, given: settings) -> None:
        @given
        @examples(makers(make), _runs())
        def keeps_its_laws(maker: Any, run: _Run) -> None:
            judge.examples += 1
            with suppress(Over):
                _judge(judge, maker, run)

        keeps_its_laws()

    return Suite("scheduler", name_of(make), LAWS, run)


def _judge(judge: Judge, maker: Any, run: _Run) -> None:
    trace, max_len, allocator, closed_loop = run
    made = f"{allocator.func.__name__}{allocator.args}{allocator.keywords}"
    log = [
        f"scheduler = {maker} over {made}",
        *(_told(trace, row, closed_loop) for row in range(len(trace))),
    ]
    scheduler = maker()
    for key, protocol in _PROTOCOLS.items():
        (judge.present if isinstance(scheduler, protocol) else judge.absent).add(key)
    try:
        scheduler.check(max_len)
        check_samples(trace, allocator(), scheduler)
    except SpecError:
        return  # it says that it could not: that is an answer
    bound = 100 + _MOST_STEPS * int(((trace.prompt + trace.output) * trace.samples).sum())

    def replay(engine: Any, part: Any) -> Any:
        steps = iter(range(bound))

        def progress(_: int) -> None:
            judge.hold("ends", next(steps, None) is not None, f"no end after {bound} steps", log)

        slots = allocator()
        try:
            done = engine(
                trace, slots, part, Constant(ms=1e-6), max_len=max_len, progress=progress,
                closed_loop=closed_loop,
            ).run()  # fmt: skip
        except PagedsimError as error:
            judge.hold("calls", False, f"{type(error).__name__}: {error}", log)
            raise
        judge.hold("whole", slots.usage().held == 0, lambda: f"{slots.usage()} at the end", log)
        return done

    first = replay(ReferenceEngine, Judged(scheduler, judge, log))
    refused = {refusal.row for refusal in first.refused}
    outputs = np.add.reduceat(samples.outputs(trace), np.cumsum(trace.samples) - trace.samples)
    for row, generated in enumerate(first.requests.generated.tolist()):
        wanted = 0 if row in refused else int(outputs[row])
        judge.hold("whole", generated == wanted, f"request {row}: {generated} of {wanted}", log)
    again = replay(ReferenceEngine, maker())
    differs = _differs(first, again)
    judge.hold("determinism", not differs, f"{differs} differ when it is run again", log)
    if isinstance(scheduler, SupportsSteady):
        fast = replay(FastEngine, maker())
        differs = _differs(fast, again)
        judge.hold("steady", not differs, f"{differs} differ where steps are taken at once", log)


def _told(trace: Any, row: int, closed_loop: bool) -> str:
    at, prompt = int(trace.arrival_ns[row]), int(trace.prompt[row])
    end = int(trace.samples[: row + 1].sum())
    outs = samples.outputs(trace)[end - int(trace.samples[row]) : end].tolist()
    said = f"request {row}: at {at} ns, {prompt} + {' and '.join(map(str, outs))} tokens"
    after = closed_loop and trace.parent[row] >= 0
    return f"{said}, {trace.think_ns[row]} ns after request {trace.parent[row]}" if after else said


def _differs(one: Any, other: Any) -> str:
    """The first recorded column of requests that is not the same."""
    for name in Requests.__dataclass_fields__:
        mine, theirs = getattr(one.requests, name), getattr(other.requests, name)
        if mine.tolist() != theirs.tolist():
            return name
    return "" if one.free == other.free else "free blocks"


__all__ = ["LAWS", "Witness", "scheduler_suite"]
