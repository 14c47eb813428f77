"""A *scene*: what every slot of a pool was for, step by step, over a stretch of a run.

A scene has a *lane* for each allocator, all on one clock. A lane has *frames*, one a step, as it is
right after the step's allocations, and one where nothing runs any more. Frames are written as what
changed since the frame before:

- `changes` of where a *holder* (a sequence that holds slots) has its tokens. An *extent* is a run
  of consecutive slots; a holder's extents, laid end to end, are its positions 0, 1, …::

      position     0            stored          final             room          all
                   |    live    |   reserved    |    internal     |    lost      |

  From `room` on they are lost in rounding or, where nothing is (a last block that forks share),
  reserved. One that is done and still held (a batch that ends as a whole) has none that are live:
  all up to `room` are internal.
- `stored`: the tokens that a holder stores, where it is not one more than in the frame before.
- `gone`: holders that hold nothing any more.
- `kept` and `dropped`: extents that are cached now, or no longer.

`terms` is the account of the step, in slots: live, reserved, internal, external, cached, idle. What
nobody holds and nothing is kept in is external while the queue is blocked, else idle.
"""

from __future__ import annotations

from msgspec import Struct

SCHEMA = "pagedsim.scene/1"


class Holder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sequence: `request` is its row of the trace, `sample` counts its siblings before it.

    `final`: tokens that it stores at its largest. Times are ns from the scene's origin.
    """

    request: int
    prompt: int
    output: int
    final: int
    arrival_ns: int
    sample: int = 0


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first `keep` extents of a holder stay, `extents` (start, length, …) follow.

    `lost`: slots at the end of its extents that never hold a token. `hit`: tokens that it found in
    the cache as it was admitted.
    """

    holder: int
    room: int
    keep: int = 0
    extents: list[int] = []
    lost: int = 0
    hit: int = 0


class Said(Struct, frozen=True, omit_defaults=True):
    """Something that happened, in words. `again`: it was so in the frame before already.

    Kinds: arrives, admitted, hit (admitted, with a hit), refused (no room), waits (for something
    else), preempted, done, kept (content), evicted (content), forked, copied.
    """

    kind: str
    text: str
    request: int = -1
    again: bool = False


class Frame(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of a lane, or (`step` -1) that nothing runs. `start_ns` counts from the origin."""

    start_ns: int
    terms: list[int]
    step: int = -1
    running: int = 0
    decodes: int = 0  # of those that run: who computes its last token and yields one
    prefills: int = 0  # who computes its prompt, or a part of it
    waiting: int = 0
    queue: list[int] = []  # the first few requests that wait
    blocked: bool = False
    hole: int = -1  # slots of the largest hole, where the allocator tells
    shared: int = 0  # slots that sharing saves, as the allocator counts them
    changes: list[Change] = []
    stored: list[int] = []  # holder, tokens, holder, tokens, …
    done: list[int] = []  # holders that are done and still held, from now on
    gone: list[int] = []
    kept: list[int] = []  # extents
    dropped: list[int] = []
    said: list[Said] = []


class Lane(Struct, frozen=True, kw_only=True):
    """An allocator's part: slots ``first : first + capacity`` in blocks of `block` (1: none)."""

    name: str
    capacity: int
    first: int
    block: int
    holders: list[Holder]
    frames: list[Frame]


class Scene(Struct, frozen=True, kw_only=True):
    """`from_ns` to `to_ns`, both from the origin, which is the first arrival of the trace.

    `cut`: it would have gone on, but a scene holds no more.
    """

    trace: str
    requests: int
    load: str
    from_ns: int
    to_ns: int
    cut: bool
    lanes: list[Lane]
    notes: list[str] = []
    refused: list[str] = []
    schema: str = SCHEMA


__all__ = ["SCHEMA", "Change", "Frame", "Holder", "Lane", "Said", "Scene"]
