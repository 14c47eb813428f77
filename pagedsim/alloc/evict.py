"""Which cached entry goes first: a policy is one method, and the smallest rank goes first.

An *entry* is something whose content is kept though nobody holds it: a node of a radix tree, or
blocks of a prefix cache that are alike. Its times are ticks of the cache's own clock, so they
order events and measure nothing. Ranks of one policy are compared with each other only. Equal
ranks: the node that was made first; of blocks, what was given back first, and of one release the
table's last block first.

`Optimal` knows the future, which no engine does: what it reaches is a bound, and docs/eviction.md
says of what.
"""

from __future__ import annotations

from typing import Any, Protocol

from pagedsim.errors import SpecError


class Entry(Protocol):
    """What a policy sees of an entry."""

    @property
    def touched(self) -> int:
        """Tick of its last use: of the look-up or insertion that reached it; a block's release."""
        ...

    @property
    def made(self) -> int:
        """Tick at which its content was stored."""
        ...

    @property
    def uses(self) -> int:
        """Sequences that had it, the first one included; in a tree, those that finished."""
        ...


class ForeseenEntry(Entry, Protocol):
    """What a policy whose `foresees` is True sees besides. Blocks of a prefix cache alone have it.

    `next_use`: the first row of the trace that will look it up and was not admitted yet; a number
    above all rows if there is none.
    """

    @property
    def next_use(self) -> int:
        """That row."""
        ...


class Evict(Protocol):
    """An order of eviction."""

    def rank(self, entry: Any, /) -> Any:
        """The smallest goes first. Of an `Entry`, and a function of what it shows alone."""
        ...


class Lru:
    """Least recently used."""

    def rank(self, entry: Entry, /) -> int:
        return entry.touched


class Mru:
    """Most recently used."""

    def rank(self, entry: Entry, /) -> int:
        return -entry.touched


class Fifo:
    """First stored, however often used since."""

    def rank(self, entry: Entry, /) -> int:
        return entry.made


class Lfu:
    """Least often used; of those the least recently used."""

    def rank(self, entry: Entry, /) -> tuple[int, int]:
        return (entry.uses, entry.touched)


class Slru:
    """Segmented LRU: what was not used twice goes before what was, each by LRU."""

    def rank(self, entry: Entry, /) -> tuple[bool, int]:
        return (entry.uses >= 2, entry.touched)


class Optimal:
    """The clairvoyant: what is looked up again last goes first (Belady), what never is before all.

    Whoever looks up a block looks up those before it, so none is looked up later than one behind
    it, and of equals the table's last block goes first: what is kept is whole from the start.
    """

    foresees = True

    def rank(self, entry: ForeseenEntry, /) -> int:
        return -entry.next_use


POLICIES: dict[str, type[Evict]] = {
    "fifo": Fifo,
    "lfu": Lfu,
    "lru": Lru,
    "mru": Mru,
    "slru": Slru,
}


BLOCK_POLICIES: dict[str, type[Evict]] = {**POLICIES, "optimal": Optimal}  # of a prefix cache


def make_evict(name: str, policies: dict[str, type[Evict]] = POLICIES) -> Evict:
    """The shipped policy of that name. Raises SpecError with the names there are."""
    if name not in policies:
        raise SpecError(f"evict is {name!r}, must be one of {', '.join(sorted(policies))}")
    return policies[name]()


__all__ = [
    "BLOCK_POLICIES",
    "POLICIES",
    "Entry",
    "Evict",
    "Fifo",
    "ForeseenEntry",
    "Lfu",
    "Lru",
    "Mru",
    "Optimal",
    "Slru",
    "make_evict",
]
