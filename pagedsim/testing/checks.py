"""What a part's own tests call: one call that raises, or a class with a test for each law.

`make` builds a part; sizes that it takes and that are not given are drawn small. `given` are
settings of hypothesis; without them those of the profile in use, by default 100 examples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings

from pagedsim.testing.allocator import allocator_suite
from pagedsim.testing.eviction import eviction_suite
from pagedsim.testing.explore import Suite, check
from pagedsim.testing.laws import Findings
from pagedsim.testing.scheduler import scheduler_suite
from pagedsim.testing.steptime import steptime_suite
from pagedsim.testing.twins import twins

SUITES: dict[str, Callable[[Callable[..., Any]], Suite]] = {
    "allocator": allocator_suite,
    "eviction": eviction_suite,
    "scheduler": scheduler_suite,
    "steptime": steptime_suite,
}


def check_allocator(make: Callable[..., Any], given: settings | None = None) -> Findings:
    """Raise BrokenLaw, with the shortest history found, unless `make`'s allocators are sound."""
    return check(allocator_suite(make), given)


def check_eviction(make: Callable[..., Any], given: settings | None = None) -> Findings:
    """The same for eviction policies."""
    return check(eviction_suite(make), given)


def check_scheduler(make: Callable[..., Any], given: settings | None = None) -> Findings:
    """The same for schedulers."""
    return check(scheduler_suite(make), given)


def check_steptime(make: Callable[..., Any], given: settings | None = None) -> Findings:
    """The same for step-time models."""
    return check(steptime_suite(make), given)


def allocator_tests(make: Callable[..., Any], given: settings | None = None) -> type:
    """`check_allocator` as a class with a test for each law."""
    return twins(allocator_suite(make), given)


def eviction_tests(make: Callable[..., Any], given: settings | None = None) -> type:
    """`check_eviction` as a class with a test for each law."""
    return twins(eviction_suite(make), given)


def scheduler_tests(make: Callable[..., Any], given: settings | None = None) -> type:
    """`check_scheduler` as a class with a test for each law."""
    return twins(scheduler_suite(make), given)


def steptime_tests(make: Callable[..., Any], given: settings | None = None) -> type:
    """`check_steptime` as a class with a test for each law."""
    return twins(steptime_suite(make), given)


__all__ = [
    "SUITES",
    "allocator_tests",
    "check_allocator",
    "check_eviction",
    "check_scheduler",
    "check_steptime",
    "eviction_tests",
    "scheduler_tests",
    "steptime_tests",
]
