"""What an experiment is: where it was published, how it is run, and numbers beside ours.

Words: a *row* is one number, published and ours. A *hard* row has a tolerance and must be within
it; a *soft* one has none and says in words why it differs. A *claim* is a sentence that was printed
with a number, held against what the publication's own figures give. `Outcome` is what
``pagedsim paper NAME --json`` and ``pagedsim field NAME --json`` write.

An experiment hands its runs to a `Bench`, which returns them in the order in which they were asked
for, however many processes work on them; nothing else differs between one process and several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import starmap
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeVar

import msgspec

from pagedsim.analysis.seeds import interval
from pagedsim.errors import InputError, SpecError
from pagedsim.trace import load
from pagedsim.trace.trace import Trace

SCHEMA = "pagedsim.experiment/1"
UNPUBLISHED = "no published value at hand"

_R = TypeVar("_R")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One number. `published` None: no published value at hand; `ours` None: it cannot be had here.

    `tolerance` is in the row's own unit, and None for a soft row. `low` and `high` are the 95 %
    interval over seeds. `digits` after the point are shown. `note` explains a difference.
    """

    name: str
    unit: str = ""
    published: float | None = None
    ours: float | None
    low: float | None = None
    high: float | None = None
    tolerance: float | None = None
    digits: int = 2
    note: str = ""

    @property
    def difference(self) -> float | None:
        """Ours - published."""
        if self.published is None or self.ours is None:
            return None
        return self.ours - self.published

    @property
    def hard(self) -> bool:
        """Whether it must hold."""
        return self.published is not None and self.tolerance is not None

    @property
    def holds(self) -> bool:
        """Within the tolerance; a soft row always is."""
        if self.tolerance is None or self.published is None:
            return True
        return self.ours is not None and abs(self.ours - self.published) <= self.tolerance


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A printed sentence, what the publication's own figures give, and ours where there is one.

    `follows` says whether the figures give what is printed.
    """

    printed: str
    figures: str
    ours: str = ""
    follows: bool = False


class Found(NamedTuple):
    """What running an experiment gives."""

    rows: list[Row]
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer. `settings` are those of the run; `quick` ones are shorter, to look at."""

    schema: str = SCHEMA
    name: str
    title: str
    source: str
    quick: bool
    settings: dict[str, Any]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]

    @property
    def missed(self) -> list[Row]:
        """Hard rows that do not hold. A quick run is for a look, so it misses nothing."""
        return [] if self.quick else [row for row in self.rows if not row.holds]


class Bench:
    """Where an experiment runs: how many processes, how much, on which traces, who is told.

    `quick` asks for short runs. `traces` maps the name of a public trace to a file that stands for
    it; what is not there is sought among the fetched ones. `progress` is told (done, total) runs.
    """

    def __init__(
        self,
        *,
        jobs: int = 1,
        quick: bool = False,
        traces: dict[str, str] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        if jobs < 1:
            raise SpecError(f"jobs is {jobs}, must be >= 1")
        self.jobs, self.quick = jobs, quick
        self._traces = traces or {}
        self._progress = progress
        self._done = self._total = 0

    def expect(self, runs: int) -> None:
        """Say how many runs are to come, for the progress bar."""
        self._total = self._done + runs

    def map(self, function: Callable[..., _R], cases: Sequence[tuple[Any, ...]]) -> list[_R]:
        """``function(*case)`` of each case, in order.

        With several processes function and cases are pickled, so a function is a module's, and a
        script that asks for them guards its own start, for they import it.
        """
        self._total = max(self._total, self._done + len(cases))
        if self.jobs == 1 or len(cases) < 2:
            return [self._told(result) for result in starmap(function, cases)]
        workers = min(self.jobs, len(cases))
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            futures = [pool.submit(function, *case) for case in cases]
            try:
                return [self._told(future.result()) for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def trace(self, name: str) -> Trace:
        """The public trace called `name`. InputError, with what to do, where it is not there."""
        given = self._traces.get(name)
        if given is not None:
            return load(given)
        try:
            return load(name)
        except InputError as error:
            if "not fetched yet" not in str(error):
                raise
            raise InputError(
                f"this experiment needs the trace {name}: run `pagedsim trace fetch {name}`, "
                "or give its file with --trace FILE"
            ) from None

    def _told(self, result: _R) -> _R:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)
        return result


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One experiment. `settings` and `quick` are what `measure` runs with, the latter for a look.

    `needs` names a public trace that the repository does not have, "" for none. `minutes` says
    about how long a full run takes in one process, 0 for at once.
    """

    name: str
    title: str
    source: str
    measure: Callable[[Any, Bench], Found]
    settings: Any = None
    quick: Any = None
    needs: str = ""
    minutes: float = 0
    notes: tuple[str, ...] = field(default=())

    def run(self, bench: Bench | None = None) -> Outcome:
        """Run it. Raises InputError where a trace is needed and absent."""
        bench = bench or Bench()
        quick = bench.quick and self.quick is not None
        settings = self.quick if quick else self.settings
        found = self.measure(settings, bench)
        return Outcome(
            name=self.name,
            title=self.title,
            source=self.source,
            quick=quick,
            settings=_built(settings),
            rows=tuple(found.rows),
            claims=tuple(found.claims),
            notes=(*self.notes, *found.notes),
        )


def _built(settings: Any) -> dict[str, Any]:
    built = msgspec.to_builtins(settings)
    return built if isinstance(built, dict) else {} if built is None else {"values": built}


def over(values: Sequence[float], **row: Any) -> Row:
    """A row of the mean over seeds and its interval; the rest as `Row` takes it."""
    found = interval(list(values))
    several = len(values) > 1
    return Row(
        ours=found.mean,
        low=found.low if several else None,
        high=found.high if several else None,
        **row,
    )


__all__ = [
    "SCHEMA",
    "UNPUBLISHED",
    "Bench",
    "Claim",
    "Experiment",
    "Found",
    "Outcome",
    "Row",
    "over",
]
