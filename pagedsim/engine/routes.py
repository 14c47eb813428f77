"""Which replica a request goes to: *shares*, known before the run, or a router at each arrival.

Replicas are engines that do not interact: all that one knows of another is what is not sent to it.
Where that is known beforehand (`shares`) each replays its share. `LeastLoaded` chooses as requests
arrive, by how many of those sent to each replica have not been answered: what a proxy in front of
engines can count. Routing by what engines say of themselves would be another `Choose`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from pagedsim.engine.recording import Refusal
from pagedsim.engine.source import Source
from pagedsim.errors import SpecError
from pagedsim.protocols import Int64
from pagedsim.trace.trace import Trace

LEAST_LOADED = "least-loaded-at-arrival"
ROUTES = ("round-robin", "random", LEAST_LOADED, "session")

Choose: TypeAlias = Callable[[Sequence[int]], int]  # outstanding requests of each: which one


def shares(trace: Trace, replicas: int, route: str, seed: int = 0) -> Int64:
    """int64[rows]: the replica of each row, for a route that needs no router.

    Rows in order of arrival: ``round-robin`` deals them out, ``random`` draws each (uniform, from
    `seed`), ``session`` deals out sessions in the order of their first requests. A session is what
    the trace calls one, else a request with all that follow from it (`Trace.parent`).
    """
    rows = np.arange(len(trace), dtype=np.int64)
    if route == "round-robin":
        return rows % replicas
    if route == "random":
        return np.random.default_rng(seed).integers(0, replicas, len(trace), dtype=np.int64)
    if route != "session":
        raise SpecError(f"route is {route!r}, must be one of {', '.join(ROUTES)}")
    root = _roots(trace)
    named = trace.session[root]
    key = np.where(named >= 0, named, root + int(named.max(initial=0)) + 1)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    order = np.empty(len(first), np.int64)
    order[np.argsort(first, kind="stable")] = np.arange(len(first))
    dealt: Int64 = order[which.reshape(-1)] % replicas
    return dealt


def _roots(trace: Trace) -> Int64:
    """Row of the first ancestor of each row. O(rows · log rows)."""
    above = np.where(trace.parent >= 0, trace.parent, np.arange(len(trace)))
    for _ in range(len(trace).bit_length()):
        above = above[above]
    return above


def least_loaded(outstanding: Sequence[int]) -> int:
    """The replica with the fewest; of equals the first."""
    return outstanding.index(min(outstanding))


class Router:
    """Sends each row to a replica when it arrives.

    An answer counts from after its time on: one that comes at the very moment of an arrival does
    not count for it. So what is chosen depends on times alone, not on who is asked first.
    """

    def __init__(self, trace: Trace, replicas: int, choose: Choose) -> None:
        self.replica = np.full(len(trace), -1, np.int64)  # of each row that has arrived
        self._choose = choose
        self._times: list[int] = trace.arrival_ns.tolist()
        self._next = 0
        self._outstanding = [0] * replicas
        self._answers: list[deque[int]] = [deque() for _ in range(replicas)]
        self._feeds: list[Fed] = []

    def feed(self, *source: Any) -> Fed:
        """The source of the next replica; takes what `source_of` does."""
        trace, longest, max_len, _, _, start_ns, wide = source
        made = Fed(self, len(self._feeds), trace, longest, max_len, start_ns, wide)
        self._feeds.append(made)
        return made

    def next_ns(self) -> int | None:
        """When the next row arrives that has not been sent."""
        return self._times[self._next] if self._next < len(self._times) else None

    def send(self, now_ns: int) -> None:
        """Send all that have arrived by `now_ns`."""
        while self._next < len(self._times) and self._times[self._next] <= now_ns:
            row, at = self._next, self._times[self._next]
            self._next += 1
            for replica, answers in enumerate(self._answers):
                while answers and answers[0] < at:
                    answers.popleft()
                    self._outstanding[replica] -= 1
            replica = self._choose(self._outstanding)
            self.replica[row] = replica
            self._outstanding[replica] += self._feeds[replica].take(row, at)

    def answered(self, replica: int, requests: int, now_ns: int) -> None:
        """That many of a replica's requests are answered."""
        self._answers[replica].extend([now_ns] * requests)


class Fed(Source):
    """A replica's requests, as a router sends them.

    Its next arrival is the router's next, whoever gets it: the engine must be asked by then.
    """

    def __init__(
        self,
        router: Router,
        replica: int,
        trace: Trace,
        longest: int,
        max_len: int,
        start_ns: int,
        wide: tuple[Int64, int] | None,
    ) -> None:
        super().__init__(trace, longest, max_len, 0, start_ns, wide)
        self._router, self._replica = router, replica
        self._never: dict[int, Refusal] = {refusal.row: refusal for refusal in self.refused}
        self.refused, self.refused_ns = [], {}
        self._sent_to: deque[tuple[int, int]] = deque()

    def take(self, row: int, at_ns: int) -> int:
        """Have `row`; how many requests that makes that will be answered later."""
        if row in self._never:
            self.refused.append(self._never[row])
            self.refused_ns[row] = at_ns
            return 0
        self._sent_to.append((row, at_ns))
        return 1

    def next_ns(self) -> int | None:
        """When the next request may arrive; None if none is left."""
        return self._sent_to[0][1] if self._sent_to else self._router.next_ns()

    def arrived(self, now_ns: int) -> list[tuple[int, int]]:
        """Rows (row, arrival_ns) that have arrived by `now_ns`, each returned once."""
        self._router.send(now_ns)
        rows = list(self._sent_to)
        self._sent_to.clear()
        return rows

    def done(self, requests: int, now_ns: int) -> None:
        """That many results were returned."""
        self._router.answered(self._replica, requests, now_ns)


__all__ = ["LEAST_LOADED", "ROUTES", "Choose", "Fed", "Router", "least_loaded", "shares"]
