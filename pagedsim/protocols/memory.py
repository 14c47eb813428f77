"""Allocators: who holds which slots."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import NamedTuple, Protocol, runtime_checkable

from pagedsim.protocols.sequence import Int64, Sequence


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
    """An allocator whose sequences grow by equal blocks.

    One that holds n tokens has ``ceil(n / block)`` blocks, and so much room.
    """

    block: int  # slots a block

    def extend(self, seqs: SequenceOf[Sequence], /) -> int:
        """One more block to each of `seqs`, whose room is used up, in their order.

        Returns how many got one: all, or as many as there were blocks. The same as `grow` by one
        token for each until the first refusal, in O(len(seqs)). `seqs` may be a list of the
        engine's own: it is not to be kept.
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

        The same as `grow` to its room for each. `seqs` is not to be kept, as in `extend`.
        """
        ...


class Future(Protocol):
    """What no allocator of an engine can know: what requests that are yet to come look up."""

    def looked_up(self, block: int, /) -> tuple[Int64, Int64]:
        """(rows, keys): row i looks up ``keys[rows[i] : rows[i + 1]]``, in order of position.

        Those of its prompt's full blocks of `block` tokens, but for its last token's; of a row
        that is refused none.
        """
        ...

    def computed(self, block: int, /) -> Int64:
        """int64[rows]: of each row the key that it computes though it may be there already.

        That of its prompt's last token, if that ends a block; -1 if not, or if the row is refused.
        """
        ...


@runtime_checkable
class SupportsForesight(Protocol):
    """An allocator that can be told the future. What it reaches by that is a bound."""

    foresees: bool

    def foresee(self, future: Future, /) -> None:
        """Called once, before the run, if `foresees`."""
        ...


@runtime_checkable
class SupportsFork(Protocol):
    """An allocator of equal blocks that several sequences can hold together.

    A block that more than one holds is copied before it is written: by each that grows into it
    but the last to hold it, who keeps it. So where the last block is shared and not full, neither
    has `room` beyond what is stored in it, and the next `grow` or `extend` takes a block more.
    """

    block: int  # slots a block

    def fork(self, parent: Sequence, child: Sequence, tokens: int, /) -> None:
        """`child`, which holds nothing, holds the first `tokens` tokens together with `parent`.

        They are all that `parent` stores. Takes no slot, so it is never refused; O(blocks).
        """
        ...


@runtime_checkable
class SupportsSlots(Protocol):
    """An allocator that can show where each token is."""

    def slots(self, seq: Sequence, /) -> Int64:
        """int64[room or more]: the slot of every token position that `seq` holds; O(room)."""
        ...


@runtime_checkable
class SupportsKept(Protocol):
    """An allocator that can show where content lies that it keeps for nobody."""

    def kept(self) -> Int64:
        """int64[``usage().cached``]: the slots of that content, in any order; O(blocks)."""
        ...


@runtime_checkable
class SupportsLost(Protocol):
    """An allocator that can show which slots are lost in rounding."""

    def lost(self, seq: Sequence, /) -> Int64:
        """int64: those held for `seq` that never hold a token; all of them add up to the usage."""
        ...


@runtime_checkable
class SupportsHoles(Protocol):
    """An allocator whose free slots can be too scattered to use."""

    def largest_hole(self) -> int:
        """Slots of the largest extent that could be handed out now."""
        ...


@runtime_checkable
class SupportsEvictions(Protocol):
    """An allocator that counts the content that it dropped to give its slots to others."""

    evicted: int  # slots, since it was made


def evicted(allocator: Allocator) -> int | None:
    """Slots whose content was dropped so far; None if the allocator does not count them."""
    return allocator.evicted if isinstance(allocator, SupportsEvictions) else None


def headroom(allocator: Allocator, share: float) -> int:
    """Slots of a watermark: ``int(share · blocks)`` whole blocks, or ``int(share · capacity)``.

    `blocks` counts the null block (vLLM's ``int(watermark * num_gpu_blocks)``).
    """
    if isinstance(allocator, SupportsBlocks):
        return int(share * allocator.blocks) * allocator.block
    return int(share * allocator.capacity)


__all__ = [
    "Allocator",
    "Future",
    "SupportsBlocks",
    "SupportsEvictions",
    "SupportsExtend",
    "SupportsFill",
    "SupportsForesight",
    "SupportsFork",
    "SupportsHoles",
    "SupportsKept",
    "SupportsLost",
    "SupportsSlots",
    "Usage",
    "evicted",
    "headroom",
]
