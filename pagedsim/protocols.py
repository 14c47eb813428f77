"""Every contract a plug-in can meet, and the small values they exchange.

Words: a *request* is a row of the trace; a *sequence* is a request on the device; a *slot* is
room for the KV of one token; a *step* is one forward pass of the model. A sequence knows
`tokens` tokens (prompt + generated) and has `computed` of them stored; in a step it is given
`n` more, so its slots must cover `computed + n`::

    0           computed      computed + n      tokens
    |  stored   |   this step      |  later steps |        n = tokens - computed: it yields
                                                            one new token at the step's end

An allocator hands out slots, a scheduler says who gets how many tokens, a step-time model says
how long that takes, in integer nanoseconds. They meet here and nowhere else.

Mandatory methods come first; everything named ``Supports…`` is optional: missing means right but
slower, or less to see.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

Int64: TypeAlias = npt.NDArray[np.int64]


class Sequence(Protocol):
    """The read-only view of a request on the device. Identity is equality; it can be hashed."""

    @property
    def id(self) -> int:
        """Row of the trace."""
        ...

    @property
    def prompt(self) -> int:
        """Prompt tokens."""
        ...

    @property
    def tokens(self) -> int:
        """Known tokens: prompt + generated so far."""
        ...

    @property
    def computed(self) -> int:
        """Tokens whose KV is stored, before the step being planned."""
        ...

    @property
    def arrival_ns(self) -> int:
        """When the request arrived, in ns."""
        ...

    @property
    def priority(self) -> int:
        """The smaller, the more urgent."""
        ...

    @property
    def salt(self) -> int:
        """Content is shared only under equal salts; 0 is none."""
        ...

    def runs(self) -> SequenceOf[tuple[int, int]]:
        """Content as runs (first token id, length) of prompt and output, laid end to end.

        Only the first `tokens` tokens are known yet. O(runs).
        """
        ...

    def keys(self, block: int, /) -> SequenceOf[int]:
        """Chained keys of the full blocks of `block` tokens of prompt and output, O(1).

        Two are equal if, and only if, their blocks and all before them hold the same tokens under
        the same salt. Keys are >= 0. Only those of the first ``tokens // block`` blocks are known
        yet.
        """
        ...


class Foreseen(Sequence, Protocol):
    """What only a reservation policy may see besides: how long the output will be."""

    @property
    def output(self) -> int:
        """Tokens the request would generate if no maximum length stopped it."""
        ...


class Usage(NamedTuple):
    """How the slots are used now; ``held + cached <= capacity``, all in slots.

    `held`: owned by sequences, each slot once, rounding included. `cached`: owned by none, content
    kept, evictable. `shared`: saved by sharing, Σ stored tokens - distinct live slots. `lost`: the
    part of `held` that is rounding and never holds a token (buddy).
    """

    held: int
    cached: int = 0
    shared: int = 0
    lost: int = 0


class Allocator(Protocol):
    """Hands out slots. A refusal returns False and changes nothing; nothing ever moves.

    `capacity`: slots it can hand out. `longest`: stored tokens of the longest sequence that it
    promises to hold when empty; requests that need more are refused before the run.
    """

    capacity: int
    longest: int

    def cached(self, seq: Sequence, /) -> int:
        """Known tokens whose KV could be reused now; changes nothing; below ``seq.tokens``."""
        ...

    def admit(self, seq: Sequence, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        """Take slots for the first `tokens` tokens, ``cached(seq)`` reusable ones included.

        Refused, with nothing changed, unless ``max(tokens, whole)`` tokens would fit now with
        `spare` slots left over. `seq` holds nothing when this is called.
        """
        ...

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        """Hold slots for `tokens` tokens in all; False = no room, nothing changed."""
        ...

    def release(self, seq: Sequence, /) -> None:
        """Give back all that `seq` holds."""
        ...

    def room(self, seq: Sequence, /) -> int:
        """Tokens that `seq` can store without asking again, in slots it alone holds.

        Up to here `grow` succeeds and changes nothing (but see `SupportsFill`).
        """
        ...

    def usage(self) -> Usage:
        """The account, in O(1)."""
        ...


@runtime_checkable
class SupportsBlocks(Protocol):
    """An allocator of equal blocks. A watermark is rounded down to whole blocks."""

    block: int  # slots a block
    blocks: int  # blocks in the pool, a null block included

    def table(self, seq: Sequence, /) -> SequenceOf[int]:
        """The block table: ids in token order."""
        ...

    def free_blocks(self) -> SequenceOf[int]:
        """Ids of the free list, front (next to be taken) first; O(blocks)."""
        ...


@runtime_checkable
class SupportsExtend(Protocol):
    """An allocator whose sequences grow by equal blocks."""

    block: int  # slots a block

    def extend(self, seqs: SequenceOf[Sequence], /) -> int:
        """One more block to each of `seqs`, whose room is used up, in their order.

        Returns how many got one: all, or as many as there were blocks. The same as `grow` by one
        token for each until the first refusal, in O(len(seqs)).
        """
        ...


@runtime_checkable
class SupportsFill(SupportsExtend, Protocol):
    """One that also wants to know when a block is full, to remember its content.

    `grow` to a whole number of blocks then changes something though `room` suffices: the key of
    the block that it fills. Taking a block may turn what was cached into held.
    """

    fills: bool

    def fill(self, seqs: SequenceOf[Sequence], /) -> None:
        """The last block of each of `seqs` is full at the step being planned, in their order.

        The same as `grow` to its room for each.
        """
        ...


@runtime_checkable
class SupportsSlots(Protocol):
    """An allocator that can show where each token is."""

    def slots(self, seq: Sequence, /) -> Int64:
        """int64[room or more]: the slot of every token position that `seq` holds; O(room)."""
        ...


@runtime_checkable
class SupportsHoles(Protocol):
    """An allocator whose free slots can be too scattered to use."""

    def largest_hole(self) -> int:
        """Slots of the largest extent that could be handed out now."""
        ...


class Load(NamedTuple):
    """What one step computes and reads.

    `sequences` in the step; `prefills`, those of them that are given more than they need to
    yield one token from a complete cache (a prompt, a chunk of it, a recomputation); `tokens`
    computed; `pairs` of (query, key), so Σ over tokens of their context; `context`, KV tokens
    read, so Σ over sequences of ``computed + n``. A sequence with c stored that is given n adds
    ``n·c + n(n+1)/2`` pairs and ``c + n`` context.
    """

    sequences: int
    prefills: int
    tokens: int
    pairs: int
    context: int


class StepTime(Protocol):
    """How long a step takes."""

    def ns(self, load: Load, /) -> int:
        """Nanoseconds of a step, at least 1; the same load always takes the same time."""
        ...


@runtime_checkable
class SupportsRamp(Protocol):
    """A step-time model that prices many decode steps at once."""

    def ramp(self, load: Load, steps: int, /) -> Int64:
        """int64[steps]: ns of `load`, then of each next step of the same sequences.

        Step j has ``j · sequences`` more pairs and context. Equal to `ns` called for each.
        """
        ...


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
    a `BatchView`). `preempted`, `admitted`: in order. `blocked`: the head of the queue was tried
    and refused for want of memory, or a preemption closed admission. `limit`: what kept the batch
    from being larger.
    """

    scheduled: dict[Any, int] = field(default_factory=dict)
    decoding: bool = False
    preempted: list[Any] = field(default_factory=list)
    admitted: list[Any] = field(default_factory=list)
    blocked: bool = False
    limit: Limit = Limit.ARRIVALS


class View(Protocol):
    """What a scheduler sees of an engine, and the four things it can do to it."""

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

    def preempt(self, seq: Sequence, /) -> None:
        """Release a running sequence's slots and put it back into the queue.

        It keeps its generated tokens, and nothing of it is computed any more. It goes to the
        front, or to its sorted place if the scheduler ranks.
        """
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
    refused room, and no arrival finds the queue empty or becomes its head.
    """

    steady: bool

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
        """Right after the step's allocations; `computed` is still that of before the step."""
        ...

    def finished(self, step: int, done: SequenceOf[Sequence], /) -> None:
        """Right after the step's releases, with those that were released, in order."""
        ...


def headroom(allocator: Allocator, share: float) -> int:
    """Slots of a watermark: ``int(share · blocks)`` whole blocks, or ``int(share · capacity)``.

    `blocks` counts the null block (vLLM's ``int(watermark * num_gpu_blocks)``).
    """
    if isinstance(allocator, SupportsBlocks):
        return int(share * allocator.blocks) * allocator.block
    return int(share * allocator.capacity)


__all__ = [
    "Allocator",
    "BatchView",
    "Foreseen",
    "Int64",
    "Limit",
    "Load",
    "Observer",
    "Plan",
    "Scheduler",
    "Sequence",
    "StepTime",
    "SupportsBlocks",
    "SupportsExtend",
    "SupportsFill",
    "SupportsHold",
    "SupportsHoles",
    "SupportsRamp",
    "SupportsRank",
    "SupportsSlots",
    "SupportsSteady",
    "Usage",
    "View",
    "batched",
    "headroom",
]
