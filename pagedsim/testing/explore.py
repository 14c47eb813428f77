"""Run a suite against a part: find what is broken, all of it, and the shortest history of each.

A run ends at the first law broken, so it is run again with that law muted, until nothing more is
found. A part that keeps every law costs one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.errors import Flaky, Unsatisfiable
from hypothesis.reporting import with_reporter

from pagedsim.errors import SpecError
from pagedsim.testing.laws import BrokenLaw, Findings, Judge

MOST_BROKEN = 12  # laws; a part that breaks more has said enough
_STEPS = 40  # calls of a history


class Suite(NamedTuple):
    """Laws of a kind of part, and `run`, which tries one part: BrokenLaw at the first broken."""

    kind: str
    part: str
    laws: Mapping[str, str]
    run: Callable[[Judge, settings], None]


def of_profile(given: settings | None, *, first: bool = False) -> settings:
    """The profile in use, or `given`, as suites need it; `first`: the first failure will do.

    Without a profile of one's own: hypothesis's default, the same examples every time.
    """
    base = settings.default if given is None else given
    assert base is not None
    phases = [Phase.generate] if first else [Phase.generate, Phase.shrink]
    return settings(
        base,
        deadline=None,
        database=None,
        phases=phases,
        stateful_step_count=_STEPS,
        report_multiple_bugs=False,
        verbosity=Verbosity.normal,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )


def explore(suite: Suite, given: settings | None = None, *, most: int = MOST_BROKEN) -> Findings:
    """Every law that the part breaks, up to `most` of them. SpecError if it could not be tried."""
    chosen = of_profile(given)
    broken: dict[str, BrokenLaw] = {}
    checked: Counter[str] = Counter()
    judge = Judge(suite.laws)
    while True:
        found = _broken(suite, judge, chosen)
        checked += judge.checked
        if found is None or found.law in broken:
            break
        broken[found.law] = found
        if len(broken) == most:
            break
        last, judge = judge, Judge(suite.laws, broken)
        judge.examples, judge.calls = last.examples, last.calls
        judge.present, judge.absent = last.present, last.absent
    return Findings(
        suite.kind,
        suite.part,
        judge.examples,
        judge.calls,
        suite.laws,
        checked,
        {law: broken[law] for law in suite.laws if law in broken},
        tuple(sorted(judge.present)),
        tuple(sorted(judge.absent - judge.present)),
    )


def check(suite: Suite, given: settings | None = None) -> Findings:
    """Raise BrokenLaw at the first law broken, with the shortest history found."""
    judge = Judge(suite.laws)
    found = _broken(suite, judge, of_profile(given))
    if found is not None:
        raise found
    return Findings(
        suite.kind, suite.part, judge.examples, judge.calls, suite.laws, judge.checked, {},
        tuple(sorted(judge.present)), tuple(sorted(judge.absent - judge.present)),
    )  # fmt: skip


def rejects(suite: Suite, given: settings | None = None) -> BrokenLaw | None:
    """The first law that a part breaks, its history not shortened; None if it keeps them all."""
    return _broken(suite, Judge(suite.laws), of_profile(given, first=True))


def _broken(suite: Suite, judge: Judge, chosen: settings) -> BrokenLaw | None:
    with with_reporter(_silent):
        try:
            suite.run(judge, chosen)
        except BrokenLaw as found:
            found.__notes__ = []
            return found.with_traceback(None)
        except Flaky as flaky:
            return _flaky(flaky, suite.laws)
        except Unsatisfiable:
            if not judge.examples:
                raise SpecError(
                    f"{suite.part}: nothing was tried, for no part of the sizes drawn holds a "
                    "token; give it sizes that do"
                ) from None
            return None
    return None


def _flaky(flaky: Flaky, laws: Collection[str]) -> BrokenLaw:
    """The same calls, another answer: what a part does depends on more than the calls."""
    seen = [each for each in getattr(flaky, "exceptions", ()) if isinstance(each, BrokenLaw)]
    said = "the same calls, tried again, went otherwise: it depends on chance, time or other parts"
    law = "determinism" if "determinism" in laws else "pure"
    return BrokenLaw(law, said, seen[0].history if seen else ())


def _silent(_: object) -> None:
    """Findings say it all."""


__all__ = ["MOST_BROKEN", "Suite", "check", "explore", "of_profile", "rejects"]
