"""From layers and bytes to blocks, printed tokens and concurrency, as vLLM 0.33 starts up.

For each rank, with R the blocks that one request of the maximum length takes, over all groups::

    block bytes   the widest group's pages on that rank
    blocks        the fewest over the ranks of floor(available / block bytes), null block included
    check         block bytes · R <= available - block bytes, else the engine refuses to start
    concurrency   blocks / R, one division of doubles
    tokens        int(concurrency · maximum length), printed as 'GPU KV cache size'

The order of operations is the engine's, so that the printed numbers are, to the last token.
The equality with the engine holds for what its recorded runs cover; see docs/device.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from pagedsim.device.gpu import GIB
from pagedsim.device.grouping import Grouped, group, pages
from pagedsim.device.layers import Layer
from pagedsim.errors import DeviceError, SpecError, StartupError
from pagedsim.protocols import LayerGroup


class Ranks(NamedTuple):
    """How a model lies over GPUs: layers of each stage, tensor and decode-context parallelism."""

    stages: tuple[int, ...]
    tp: int = 1
    dcp: int = 1


class Rank(NamedTuple):
    """One GPU: its stage's groups, and bytes. `needed` is one request's of the maximum length."""

    first: int
    last: int
    groups: tuple[LayerGroup, ...]
    available_bytes: int
    block_bytes: int
    needed_bytes: int
    allocated_bytes: int


class Cost(NamedTuple):
    """Bytes of a request on the fullest rank: `fixed + per_token · length`, from `above` tokens on.

    Up to `rounding` bytes more, because groups take whole blocks.
    """

    above: int
    fixed: Fraction
    per_token: Fraction
    rounding: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """What the engine has when it is up. `blocks` include the null block.

    `in_flight` tokens may be scheduled at once; `request_blocks` is one request's of `max_len`
    tokens, over all groups, the worst case during its prefill.
    """

    grouped: Grouped
    ranks: tuple[Rank, ...]
    hybrid: bool
    max_len: int
    asked_len: int
    in_flight: int
    dcp: int
    blocks: int
    request_blocks: int

    @property
    def groups(self) -> tuple[LayerGroup, ...]:
        """The groups over all stages, for an allocator."""
        return self.grouped.groups

    @property
    def concurrency(self) -> float:
        """Requests of `max_len` at once, as the engine prints it."""
        return self.blocks / self.request_blocks

    @property
    def tokens(self) -> int:
        """The printed 'GPU KV cache size': derived from the concurrency, cut after the product."""
        return int(self.concurrency * self.max_len)

    @property
    def older_tokens(self) -> int:
        """What older versions printed in its place: the blocks shared out over the groups."""
        return self.blocks // len(self.groups) * min(group.block for group in self.groups)

    def costs(self) -> list[Cost]:
        """A request's bytes by length, piece by piece: a new piece where a window is full."""
        block = max(rank.block_bytes for rank in self.ranks)
        limits = {_limit(group, self.in_flight) for group in self.groups} - {None}
        found = []
        for above in sorted({0, *(limit for limit in limits if limit and limit < self.max_len)}):
            fixed, slope = Fraction(0), Fraction(0)
            for one in self.groups:
                limit = _limit(one, self.in_flight)
                if one.kind == "state":
                    fixed += one.kept
                elif limit is not None and above >= limit:
                    fixed += one.most_blocks(limit, self.in_flight)
                else:
                    slope += Fraction(1, one.block * self.dcp)
                    fixed += one.kind == "sliding"
            growing = sum(
                one.kind != "state" and (_limit(one, self.in_flight) or above + 1) > above
                for one in self.groups
            )
            found.append(Cost(above, fixed * block, slope * block, growing * block))
        return found


def start(
    layers: Sequence[Layer],
    ranks: Ranks,
    available: Sequence[int],
    *,
    dtype: str,
    max_len: int,
    max_batched_tokens: int,
    kv_dtype: str = "auto",
    block: int = 16,
    hybrid: bool = True,
    prefix_caching: bool = True,
    batches: int | None = None,
    blocks: int | None = None,
    fit: bool = False,
    outer: bool = False,
) -> Startup:
    """Start up with `available` bytes for KV: one for all ranks, one a stage, or one a rank.

    `batches` are in flight at once (None: one a stage, as with synchronous scheduling); `blocks`
    replaces the computed number; `fit` lowers `max_len` to what fits instead of refusing; `outer`
    is a layout with the block outermost. A StartupError says what would fit, a DeviceError or
    SpecError what does not work out.
    """
    if len(layers) != sum(ranks.stages):
        raise SpecError(f"{len(layers)} layers do not fill stages of {ranks.stages}")
    found = pages(
        layers,
        block=block,
        tp=ranks.tp,
        dtype=dtype,
        kv_dtype=kv_dtype,
        state_block=None if prefix_caching else max_len,
    )
    grouped = group(found, hybrid=hybrid, kept=2 if prefix_caching else 1, outer=outer)
    _context_parallel(grouped, ranks)
    in_flight = max_batched_tokens * (len(ranks.stages) if batches is None else batches)
    places = _places(grouped, ranks, list(available))
    if blocks is not None:
        places = [place._replace(available_bytes=blocks * place.block_bytes) for place in places]
    holding = [place for place in places if place.block_bytes]
    count = blocks or min(place.available_bytes // place.block_bytes for place in holding)
    asked = max_len
    longest = [_longest(grouped.groups, place, max_len, in_flight, ranks.dcp) for place in places]
    if fit and min(longest) > 0:
        max_len = min(longest)
    needs = _blocks(grouped.groups, max_len, in_flight, ranks.dcp)
    for number, place in enumerate(places):
        if longest[number] < max_len:
            raise _refusal(number, place, needs, max_len, min(longest))  # it must fit on all
    return Startup(
        grouped=grouped,
        ranks=tuple(
            place._replace(
                needed_bytes=needs * place.block_bytes,
                allocated_bytes=count * place.block_bytes,
            )
            for place in places
        ),
        hybrid=hybrid,
        max_len=max_len,
        asked_len=asked,
        in_flight=in_flight,
        dcp=ranks.dcp,
        blocks=count,
        request_blocks=needs,
    )


def in_flight_batches(stages: int, *, asynchronous: bool, older_runner: bool = False) -> int:
    """Steps that may be under way at once; the V2 model runner unless `older_runner`."""
    if not asynchronous:
        return stages
    if older_runner:
        return 2 if stages == 1 else stages
    return stages + 1


def printed(up: Startup, *, older: bool = False) -> list[str]:
    """The lines that the engine logs about its KV cache."""
    tokens = up.older_tokens if older else up.tokens
    size = f"GPU KV cache size: {tokens:,} tokens"
    most = f"Maximum concurrency for {up.max_len:,} tokens per request: {up.concurrency:.2f}x"
    return [size, most] if older else [f"{size}, {most}"]


def _limit(group: LayerGroup, in_flight: int) -> int | None:
    """Length from which a group's blocks grow no more, None if they always do or never do."""
    if group.kind == "sliding":
        return group.window - 1 + in_flight
    return group.window + in_flight if group.kind == "chunked" else None


def _blocks(groups: Sequence[LayerGroup], length: int, in_flight: int, dcp: int) -> int:
    """R: blocks of a request of `length`, over all groups, the worst case."""
    return sum(one.most_blocks(-(-length // dcp), in_flight) for one in groups)


def _places(grouped: Grouped, ranks: Ranks, available: list[int]) -> list[Rank]:
    """Ranks in stage order: one a stage, or one a GPU where each has bytes of its own."""
    stages = len(ranks.stages)
    counts = sorted({1, stages, stages * ranks.tp})
    if len(available) not in counts:
        raise SpecError(
            f"{len(available)} sizes of available memory given, must be "
            f"{' or '.join(map(str, counts))} (one for all, one a stage, or one a GPU)"
        )
    times = ranks.tp if len(available) == stages * ranks.tp else 1
    given = available * stages if len(available) == 1 and times == 1 else available
    places, first = [], 0
    for stage, layers in enumerate(ranks.stages):
        last = first + layers
        size = grouped.block_bytes(first, last)
        for rank in range(times):
            memory = given[stage * times + rank]
            if memory < 1:
                raise SpecError(f"available memory is {memory} bytes, must be >= 1")
            places.append(Rank(first, last, grouped.on(first, last), memory, size, 0, 0))
        first = last
    return places


def _longest(groups: Sequence[LayerGroup], place: Rank, most: int, in_flight: int, dcp: int) -> int:
    """The largest length up to `most` of which one request fits on a rank, 0 if none; O(log)."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        needs = _blocks(groups, middle, in_flight, dcp)
        if place.block_bytes * needs <= place.available_bytes - place.block_bytes:
            low = middle
        else:
            high = middle - 1
    return low


def _context_parallel(grouped: Grouped, ranks: Ranks) -> None:
    """Decode-context parallelism is known for groups that keep every token."""
    if ranks.dcp == 1:
        return
    if ranks.tp % ranks.dcp:
        raise DeviceError(f"dcp {ranks.dcp} does not divide tp {ranks.tp}")
    other = sorted({one.kind for one in grouped.groups} - {"full"})
    if other:
        raise DeviceError(f"dcp {ranks.dcp}: {' and '.join(other)} layers cannot be split over it")


def _refusal(number: int, place: Rank, needs: int, max_len: int, longest: int) -> StartupError:
    needed, usable = needs * place.block_bytes, max(0, place.available_bytes - place.block_bytes)
    hint = (
        f"the longest length that fits is {longest:,} tokens (--max-len {longest})"
        if longest
        else "no length fits"
    )
    return StartupError(
        f"the engine refuses to start: one request of {max_len:,} tokens needs "
        f"{round(needed / GIB, 2)} GiB of KV, {round(usable / GIB, 2)} GiB are available on rank "
        f"{number} beside the null block; {hint}",
        rank=number,
        needed=needed,
        available=usable,
        longest=longest,
    )


__all__ = ["Cost", "Rank", "Ranks", "Startup", "in_flight_batches", "printed", "start"]
