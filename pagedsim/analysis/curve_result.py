"""What `curve` returns, and what ``--json`` writes: ``pagedsim.curve/1``.

A *hit* is a block of the longest run of cached blocks from the start of a prompt, *ideal* what a
cache without limits hits, *counted* are the requests after the warm-up. docs/curve.md defines
every field; shares that have nothing to divide by are 0.
"""

from __future__ import annotations

import msgspec

from pagedsim.analysis.curve_facts import Popularity, Spread, Times

SCHEMA = "pagedsim.curve/1"


class Rates(msgspec.Struct, frozen=True):
    """Of counted requests: hit blocks of all blocks, hit tokens of all prompt tokens, the mean
    over prompts of the share of their tokens hit, the share of requests with any hit.
    """

    blocks: float
    tokens: float
    prompts: float
    requests: float


class Capacity(msgspec.Struct, frozen=True):
    """`gib` is None where the bytes of a token are not known."""

    blocks: int
    tokens: int
    gib: float | None = None


class Point(msgspec.Struct, frozen=True):
    """`ideal`: hit tokens over those of a cache without limits."""

    capacity: Capacity
    hit_blocks: int
    hit_tokens: int
    rates: Rates
    ideal: float


class Enough(msgspec.Struct, frozen=True):
    """The smallest capacity that hits `part` of the ideal tokens."""

    part: float
    capacity: Capacity


class Curve(msgspec.Struct, frozen=True):
    """`exact`: knee and `enough` were looked for among all capacities, not only those of `points`.

    The knee is None where the curve has none; `enough` lists the parts that are reached.
    """

    policy: str
    exact: bool
    points: tuple[Point, ...]
    knee: Point | None
    enough: tuple[Enough, ...]


class Curves(msgspec.Struct, frozen=True, kw_only=True):
    """The curves of one trace, and its reuse apart from any capacity.

    `notes` are what the reader of the trace had to say. `blocks` and `prompt_tokens` are the
    counted requests', `distinct` the different blocks that all requests touch. `pool` is what a
    model's GPU has room for, if that was asked.
    """

    schema: str = SCHEMA
    trace: str
    sha256: str
    notes: tuple[str, ...]
    requests: int
    counted: int
    block: int
    touch: str
    count: str
    blocks: int
    prompt_tokens: int
    distinct: Capacity
    model: str | None = None
    gpu: str | None = None
    pool: Capacity | None = None
    kv_bytes_per_token: float | None = None
    ideal: Rates
    prompts: Spread | None
    curves: tuple[Curve, ...]
    times: Times
    popularity: Popularity


__all__ = ["SCHEMA", "Capacity", "Curve", "Curves", "Enough", "Point", "Rates"]
