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
    state     none: one state for the whole sequence, whatever its length
"""

from __future__ import annotations

from typing import NamedTuple


class LayerGroup(NamedTuple):
    """One group; `layers` are indices in model order, `page_bytes` one layer's page on one rank.

    `page_bytes` are the bytes of a block that the group's layers use, summed over `layers` and
    without padding; `kept` are states that a `state` group keeps for one sequence.
    """

    kind: str
    layers: tuple[int, ...]
    block: int
    page_bytes: int
    window: int = 0
    kept: int = 1

    def most_blocks(self, length: int, in_flight: int) -> int:
        """Blocks that one request of `length` tokens may come to hold, the worst case; O(1).

        `in_flight` tokens may be scheduled at once: a window keeps what the first of them sees
        and all of them. A sliding group counts one block more, as its window need not begin at a
        block's start; below the window that makes it one more than a full group.
        """
        if self.kind == "state":
            return self.kept
        if self.kind == "sliding":
            return -(-min(self.window - 1 + in_flight, length) // self.block) + 1
        if self.kind == "chunked":
            return -(-min(self.window + in_flight, length) // self.block)
        return -(-length // self.block)


__all__ = ["LayerGroup"]
