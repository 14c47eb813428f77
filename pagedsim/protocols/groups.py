"""Layers that share a block table: what a model with several kinds of layers is to an allocator.

A *group* is a set of layers with one block table: block k of a sequence's table holds the same
tokens in each of them. All groups draw whole blocks from one pool, so a block is as large as the
widest group needs, and what a narrower group leaves of it is *padding*::

    |<----------------- block of the pool ----------------->|
    |  page of a layer  |  page  |  page  |     padding     |

A group keeps one *page* a layer in a block; `block` is how many tokens that page has room for.
Which tokens a group must keep is its *kind*:

    full      every token
    sliding   the last `window` tokens, so a table drops blocks at its front as it grows
    chunked   the tokens of the chunk of `window` that the next token falls in
    state     none: one state for the whole sequence, whatever its length; where content is found
              again also states at ends of blocks of `block` tokens, until they are evicted

An engine without groups keeps every token for all layers, in one full group. Those of its layers
that read a window alone are then *narrow*: what has left their window stays, and is read no more.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from math import gcd
from typing import NamedTuple, Protocol, runtime_checkable

from pagedsim.protocols.sequence import Sequence


class Narrow(NamedTuple):
    """Layers of a full group that read less than it keeps: `token_bytes` of each token."""

    kind: str  # sliding or chunked
    window: int
    token_bytes: int

    def first_read(self, computed: int) -> int:
        """The first of `computed` stored tokens that the next one still reads; O(1)."""
        if self.kind == "chunked":
            return computed // self.window * self.window
        return max(0, computed - self.window + 1)


class LayerGroup(NamedTuple):
    """One group; `layers` are indices in model order, `page_bytes` one layer's page on one rank.

    `page_bytes` are the bytes of a block that the group's layers use, summed over `layers` and
    without padding; `kept` are states that a `state` group keeps for one sequence. `narrow` layers
    of a full group are in `layers` and `page_bytes` too.
    """

    kind: str
    layers: tuple[int, ...]
    block: int
    page_bytes: int
    window: int = 0
    kept: int = 1
    narrow: tuple[Narrow, ...] = ()

    @property
    def token_bytes(self) -> int:
        """Bytes of one token; 0 of a `state` group."""
        return 0 if self.kind == "state" else self.page_bytes // self.block

    def most_blocks(self, length: int, in_flight: int) -> int:
        """Blocks that vLLM's start-up counts for one request of `length` tokens; O(1).

        `in_flight` tokens may be scheduled at once: a window keeps what the first of them sees
        and all of them. A sliding group counts one block more, as its window need not begin at a
        block's start; below the window that makes it one more than a full group. Chunks are taken
        to begin with a block: where they do not, `most_held` says what one comes to hold.
        """
        if self.kind == "state":
            return self.kept
        if self.kind == "sliding":
            return -(-min(self.window - 1 + in_flight, length) // self.block) + 1
        if self.kind == "chunked":
            return -(-min(self.window + in_flight, length) // self.block)
        return -(-length // self.block)

    def most_held(self, length: int, in_flight: int) -> int:
        """Blocks that one request of `length` tokens may come to hold, for an allocator.

        At most one of each block of `length`, and else `most_blocks`, but for chunks that are no
        whole blocks: one of them begins inside of a block, which is held for the rest of it.
        O(block / gcd(block, window)), O(1) for all else.
        """
        if self.kind == "state":
            return self.kept
        entries = -(-length // self.block)
        most = min(entries, self.most_blocks(length, in_flight))
        if self.kind != "chunked" or not self.window % self.block:
            return most
        reach = self.window - 1 + in_flight  # from a chunk's start, with all but its last stored
        whole = (length - reach) // self.window if length >= reach else -1
        if (cut := whole + 1) * self.window < length:  # the first chunk to end with the request
            most = max(most, entries - cut * self.window // self.block)
        for chunk in range(min(whole + 1, self.block // gcd(self.block, self.window))):
            offset = chunk * self.window % self.block
            most = max(most, -(-(offset + reach) // self.block))
        return most

    def first_read(self, computed: int) -> int:
        """The first of `computed` stored tokens that the next one still reads; O(1).

        Those before it, no layer of the group will ever read again. Of a `state` group, whose one
        state holds no token, all.
        """
        return Narrow(self.kind, self.window, 0).first_read(computed) if self.window else 0


class GroupBlocks(NamedTuple):
    """Blocks of one group now: `held` by sequences, each once; `cached`: by none, content kept.

    `shared` is what sharing saved: Σ over held blocks of the sequences that hold it, less one.
    `gone`: entries of tables whose block was given back, or never held. So all tables together
    have ``held + shared + gone`` entries. `short`: tokens that shared blocks lack to be full, each
    as often as it is counted in `shared`.
    """

    held: int
    cached: int
    shared: int
    gone: int
    short: int = 0


@runtime_checkable
class SupportsGroups(Protocol):
    """An allocator with a table a group over one pool of equal blocks; its slots are bytes.

    `capacity` is whole blocks of `block_bytes`, and so are ``held`` and ``cached`` of `Usage`.
    `windowed`: whether some group gives blocks back while its sequence runs, so that the engine
    must `trim`.
    """

    groups: tuple[LayerGroup, ...]
    block_bytes: int
    windowed: bool

    def trim(self, seq: Sequence, computed: int, /) -> bool:
        """Give back what no layer will read again with `computed` stored; whether any is free now.

        An engine calls it with the `computed` of a step before each `grow` of that step, and what
        was given back stays so if `grow` is refused. As long as `room` suffices there is nothing,
        unless more was asked for (`covered`) than that step stores.
        """
        ...

    def tables(self, seq: Sequence, /) -> tuple[SequenceOf[int], ...]:
        """A block table a group: ids in token order, 0 where a block was given back."""
        ...

    def covered(self, seq: Sequence, /) -> int:
        """Tokens that its tables reach: most that were asked for since it was admitted."""
        ...

    def group_blocks(self) -> tuple[GroupBlocks, ...]:
        """The account of each group; O(groups)."""
        ...

    def out_of_windows(self, seqs: SequenceOf[Sequence], /) -> int:
        """Bytes that `seqs`, all that hold any, have of tokens that none of them will read again.

        Each once, counted before the step being planned: `computed` says what is stored.
        """
        ...


class Outside(NamedTuple):
    """Bytes that no layer will read again, and `more` a step, for so many `steps` at least."""

    bytes: int
    more: int
    steps: int


@runtime_checkable
class SupportsOutside(SupportsGroups, Protocol):
    """One that foresees what is out of windows where blocks of windowed layers are shared.

    Without it an engine takes such steps one by one.
    """

    def outside(self, seqs: SequenceOf[Sequence], /) -> Outside:
        """`out_of_windows`, and as it goes on while each of `seqs` stores a token a step.

        The first of the `steps` is the one being planned; nobody joins or leaves in them, no block
        comes to be shared or is shared no more, and no window begins to move, no chunk is full.
        Blocks that are given back in them are counted as if they were kept.
        """
        ...


@runtime_checkable
class SupportsForkedGroups(Protocol):
    """An allocator with groups whose sequences fork (`SupportsFork`)."""

    def shares_tail(self, seq: Sequence, /) -> bool:
        """Whether others hold its last blocks too, which are not full, so that it has no room."""
        ...

    def together(self, common: int, lengths: SequenceOf[int], /) -> int:
        """Slots that sequences of so many tokens take together, at most.

        The first `common` tokens are shared, in whole blocks.
        """
        ...


@runtime_checkable
class SupportsStates(Protocol):
    """An allocator with recurrent states that are found again, at ends of blocks alone.

    A step of a prompt leaves a state to find only if it ends at a multiple of `state_block` tokens
    (0: there are none), so a scheduler that knows of it ends steps there.
    """

    state_block: int

    def unsettled(self, seq: Sequence, /) -> bool:
        """Whether a state that `seq`, waiting, would hit is computed in the step being planned.

        `admit` is then refused: one goes on from a state only when it is there, a step later.
        """
        ...


def token_bytes(allocator: object) -> int:
    """Bytes of one token in all groups of an allocator; 0 where its slots are tokens."""
    if not isinstance(allocator, SupportsGroups):
        return 0
    return sum(group.token_bytes for group in allocator.groups)


__all__ = [
    "GroupBlocks",
    "LayerGroup",
    "Narrow",
    "Outside",
    "SupportsForkedGroups",
    "SupportsGroups",
    "SupportsOutside",
    "SupportsStates",
    "token_bytes",
]
