"""Which cached entry goes first: a policy is one method, and the smallest rank goes first.

An *entry* is something whose content is kept though nobody holds it. Its times are ticks of the
cache's own clock, one a look-up or insertion, so they order events and measure nothing. Ranks of
one policy are compared with each other only. Equal ranks: the entry that was made first.
"""

from __future__ import annotations

from typing import Any, Protocol

from pagedsim.errors import SpecError


class Entry(Protocol):
    """What a policy sees of an entry."""

    @property
    def touched(self) -> int:
        """Tick of the last look-up or insertion that reached it."""
        ...

    @property
    def made(self) -> int:
        """Tick at which its content was stored."""
        ...

    @property
    def uses(self) -> int:
        """Finished sequences whose content it is part of, the first one included."""
        ...


class Evict(Protocol):
    """An order of eviction."""

    def rank(self, entry: Entry, /) -> Any:
        """The smallest goes first. Changes only when something of the entry does."""
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


POLICIES: dict[str, type[Evict]] = {
    "fifo": Fifo,
    "lfu": Lfu,
    "lru": Lru,
    "mru": Mru,
    "slru": Slru,
}


def make_evict(name: str) -> Evict:
    """The shipped policy of that name. Raises SpecError with the names there are."""
    if name not in POLICIES:
        raise SpecError(f"evict is {name!r}, must be one of {', '.join(POLICIES)}")
    return POLICIES[name]()


__all__ = ["POLICIES", "Entry", "Evict", "Fifo", "Lfu", "Lru", "Mru", "Slru", "make_evict"]
