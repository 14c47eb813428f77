"""Laws: sentences that a part must keep, counted as they are checked, and what breaks them.

A *suite* is a set of laws over one kind of part, and a run that tries them on random histories.
A *history* is what was done to the part, a line a call. The first law broken ends a history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple


class BrokenLaw(AssertionError):
    """A part broke `law`: `said` is what was seen, `history` the calls that show it."""

    def __init__(self, law: str, said: str, history: tuple[str, ...] = ()) -> None:
        self.law, self.said, self.history = law, said, history
        super().__init__("\n".join((f"{law}: {said}", *(f"  {line}" for line in history))))


class Over(Exception):
    """A law broke that is known to be broken: this history says nothing more."""


class Judge:
    """Counts how often each law was held to, and raises where one does not hold.

    `muted` are laws known to be broken; they end a history in silence. `examples` counts
    histories, `calls` what was asked of the part.
    """

    def __init__(self, laws: Collection[str], muted: Collection[str] = ()) -> None:
        self.laws, self.muted = frozenset(laws), frozenset(muted)
        self.checked: Counter[str] = Counter()
        self.examples = self.calls = 0
        self.present: set[str] = set()
        self.absent: set[str] = set()

    def hold(
        self, law: str, good: object, said: str | Callable[[], str], history: Collection[str] = ()
    ) -> None:
        """BrokenLaw unless `good`; `said` is asked for only then."""
        assert law in self.laws, law
        self.checked[law] += 1
        if good:
            return
        if law in self.muted:
            raise Over
        raise BrokenLaw(law, said if isinstance(said, str) else said(), tuple(history))


class Findings(NamedTuple):
    """What a suite found out about a part.

    `laws`: each with its sentence; `checked`: how often each was held to; `broken`: what showed
    it, with the shortest history found. `present` and `absent`: optional protocols.
    """

    kind: str
    part: str
    examples: int
    calls: int
    laws: Mapping[str, str]
    checked: Mapping[str, int]
    broken: Mapping[str, BrokenLaw]
    present: tuple[str, ...]
    absent: tuple[str, ...]


__all__ = ["BrokenLaw", "Findings", "Judge", "Over"]
