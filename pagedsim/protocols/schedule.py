"""Schedulers: who takes part in a step; and who may watch."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol, cast, runtime_checkable

from pagedsim.protocols.sequence import Sequence


class Limit(IntEnum):
    """What kept the batch from being larger in a step."""

    ARRIVALS = 0
    MEMORY = 1
    MAX_SEQS = 2
    BUDGET = 3


@dataclass(slots=True)
class Plan:
    """What a scheduler decided for one step; the slots are taken already.

    `scheduled`: tokens of each sequence, in scheduling order. `decoding`: every sequence that
    decodes is scheduled too, with one token, and left out of `scheduled` (only where the view is
    a `BatchView`). `preempted`, `admitted`: in order; of samples that were preempted together the
    first that `View.preempt` returned. `blocked`: the head of the queue was tried and refused for
    want of memory, or a preemption closed admission. `limit`: what kept the batch from being
    larger.
    """

    scheduled: dict[Any, int] = field(default_factory=dict)
    decoding: bool = False
    preempted: list[Any] = field(default_factory=list)
    admitted: list[Any] = field(default_factory=list)
    blocked: bool = False
    limit: Limit = Limit.ARRIVALS


class View(Protocol):
    """What a scheduler sees of an engine, and the three things it can do to it.

    A sequence may want nothing in a step (``tokens == computed``): a beam that waits for others.
    """

    @property
    def now_ns(self) -> int:
        """Start of the step being planned."""
        ...

    @property
    def max_len(self) -> int:
        """Maximum length of a sequence, prompt + output."""
        ...

    @property
    def running(self) -> SequenceOf[Sequence]:
        """The batch, in order of admission."""
        ...

    @property
    def waiting(self) -> SequenceOf[Sequence]:
        """The queue, its head at index 0; indexing the head is O(1)."""
        ...

    def cached(self, seq: Sequence, /) -> int:
        """Known tokens of a waiting sequence that could be reused now."""
        ...

    def headroom(self, share: float, /) -> int:
        """Slots that a watermark of `share` of the pool keeps free, in whole blocks."""
        ...

    def admit(self, seq: Sequence, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        """`Allocator.admit`; if granted, `seq` leaves the queue and joins the batch's end."""
        ...

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        """`Allocator.grow` for a running sequence."""
        ...

    def preempt(self, seq: Sequence, /) -> SequenceOf[Sequence]:
        """Release a running sequence's slots and put it back into the queue.

        It keeps its generated tokens, and nothing of it is computed any more. It goes to the
        front, or to its sorted place if the scheduler ranks. Samples of one request go together:
        returns all that left the batch, in running order. They take no part in the step; the first
        of them stands for all in the queue.
        """
        ...

    @property
    def pledged(self) -> int:
        """Places beyond ``len(running)`` that those which run will take when they fork."""
        ...

    def width(self, seq: Sequence, /) -> int:
        """Places that a waiting sequence will take: samples of its request that are not done."""
        ...


class BatchView(View, Protocol):
    """A view of an engine that can step all decoding sequences at once, without touching them.

    A sequence decodes when it wants exactly one token because only the last is not computed.
    """

    @property
    def decoding(self) -> int:
        """Running sequences that decode."""
        ...

    @property
    def prefilling(self) -> SequenceOf[Sequence]:
        """Those that do not, in running order."""
        ...

    def grow_all(self, wants: dict[Any, int], /) -> bool:
        """Grow, in running order, all that decode by one token and the others by `wants`.

        False at the first refusal; those before it keep what they got, which is what growing them
        one by one would have given them, and growing them again changes nothing.
        """
        ...


def batched(view: View) -> BatchView | None:
    """`view` if it is a `BatchView`, else None. O(1), unlike a check of the protocol."""
    return cast(BatchView, view) if hasattr(view, "grow_all") else None


def fruitless_steps(max_len: int) -> int:
    """Most steps without a token and without an arrival before a run is given up.

    The first of the batch computes at least a token a step, so it yields within `max_len` unless
    it is preempted. Preempting each other can come to an end after long; what goes on beyond this
    is taken to go on for ever, and is an error, not a wait.
    """
    return max(10_000, 2 * max_len)


def without_end(step: int, fruitless: int, running: int, waiting: int) -> str:
    """What to say of a run that is given up after so many steps without a token."""
    return (
        f"step {step}: no token in {fruitless} steps: {running} running and {waiting} waiting "
        "requests preempt each other without end, as those of equal priority and arrival can; give "
        "a larger pool (--kv-tokens), fewer at once (--max-seqs), the scheduler full_input=1, so "
        "that prompts are admitted whole, or the requests priorities that differ"
    )


def nobody_scheduled(step: int, view: View, scheduler: object, allocator: object) -> str:
    """What to say of a plan after which nothing would ever happen."""
    return (
        f"step {step}: nothing was scheduled while {len(view.waiting)} requests wait and "
        f"{len(view.running)} run ({type(scheduler).__name__} over {type(allocator).__name__})"
        ": a plan must schedule or preempt somebody, and an allocator admit what is within its "
        "longest while nothing is held (`pagedsim check` tells); or preempted samples know more "
        "than the pool holds: give a larger one (--kv-tokens)"
    )


class Scheduler(Protocol):
    """Decides each step: who runs, with how many tokens, who is admitted, who is preempted."""

    def plan(self, view: View, /) -> Plan:
        """Plan one step. Slots are taken through `view` as it goes.

        An empty plan while sequences wait and none runs breaks the contract.
        """
        ...

    def check(self, max_len: int, /) -> None:
        """Raise SpecError if this scheduler could make a request of `max_len` wait for ever."""
        ...


@runtime_checkable
class SupportsPlaces(Protocol):
    """A scheduler with a bound on the sequences of a batch; requests of more samples are errors."""

    max_seqs: int


@runtime_checkable
class SupportsBudget(SupportsPlaces, Protocol):
    """One whose steps also have no more than so many tokens, dealt out in running order.

    Where the places are more than that, a step may leave out the last of the batch.
    """

    max_batched_tokens: int


@runtime_checkable
class SupportsRank(Protocol):
    """A scheduler that orders its queue."""

    @property
    def rank(self) -> Callable[[Sequence], Any] | None:
        """A key of a sequence, fixed while it waits; the smallest is the head.

        None instead of a function: first come, first served, a preempted one to the front.
        """
        ...


@runtime_checkable
class SupportsSteady(Protocol):
    """A scheduler under which nothing changes by itself.

    `steady` True promises: after a plan that scheduled all that decode and nobody else, and
    preempted none, the next plan is the same again, as long as no sequence finishes, none is
    refused room, no arrival finds the queue empty or becomes its head, and no more and no less of
    the head would be hit than when it was looked at. `head_first`: it looks at the head before it
    grows the batch, so that what growing changes is seen a step later.
    """

    steady: bool
    head_first: bool

    def undisturbed(self, view: BatchView, /) -> bool:
        """Whether, with an empty queue and all that run decoding, each of them gets its token.

        Such a step is then taken without asking for a plan; its limit is `Limit.ARRIVALS`.
        """
        ...


@runtime_checkable
class SupportsHold(Protocol):
    """A scheduler of whole batches: what is done stays held until the last of the batch is done.

    `hold` is True; finished members leave ``view.running`` but keep their slots, and their
    results return when the batch ends.
    """

    hold: bool


class Observer(Protocol):
    """Sees every step of a run: for `verify` and `--check`."""

    def scheduled(self, step: int, plan: Plan, view: View, /) -> None:
        """Right after the step's allocations; `computed` is still that of before the step.

        Inside a jump of the fast engine the counters of sequences stay those of its first step.
        """
        ...

    def finished(self, step: int, done: SequenceOf[Sequence], /) -> None:
        """Right after the step's releases, with those that were released, in order."""
        ...


__all__ = [
    "BatchView",
    "Limit",
    "Observer",
    "Plan",
    "Scheduler",
    "SupportsBudget",
    "SupportsHold",
    "SupportsPlaces",
    "SupportsRank",
    "SupportsSteady",
    "View",
    "batched",
    "fruitless_steps",
    "nobody_scheduled",
    "without_end",
]
