"""A conformance suite for parts of one's own: is an allocator, a scheduler, … sound?

    from pagedsim.testing import check_allocator
    check_allocator(Mine)             # raises with the shortest history that breaks a law

Needs the extra ``pagedsim[testing]``. What is held to which law: docs/plugins.md.
"""

from __future__ import annotations

try:
    import hypothesis
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "pagedsim.testing needs hypothesis: pip install 'pagedsim[testing]', or '.[testing]' in a "
        "clone",
        name="hypothesis",
    ) from error

from pagedsim.testing.allocator import (
    AllocatorMachine,
    allocator_machine,
    allocator_suite,
    judged,
)
from pagedsim.testing.checks import (
    SUITES,
    allocator_tests,
    check_allocator,
    check_eviction,
    check_scheduler,
    check_steptime,
    eviction_tests,
    scheduler_tests,
    steptime_tests,
)
from pagedsim.testing.eviction import entries, eviction_suite
from pagedsim.testing.explore import Suite, check, explore, rejects
from pagedsim.testing.laws import BrokenLaw, Findings
from pagedsim.testing.profiles import profile
from pagedsim.testing.scheduler import scheduler_suite
from pagedsim.testing.sequences import Library, Seq, sequence, sequences
from pagedsim.testing.steptime import loads, steptime_suite
from pagedsim.testing.strategies import devices, steptimes, traces

del hypothesis

__all__ = [
    "SUITES",
    "AllocatorMachine",
    "BrokenLaw",
    "Findings",
    "Library",
    "Seq",
    "Suite",
    "allocator_machine",
    "allocator_suite",
    "allocator_tests",
    "check",
    "check_allocator",
    "check_eviction",
    "check_scheduler",
    "check_steptime",
    "devices",
    "entries",
    "eviction_suite",
    "eviction_tests",
    "explore",
    "judged",
    "loads",
    "profile",
    "rejects",
    "scheduler_suite",
    "scheduler_tests",
    "sequence",
    "sequences",
    "steptime_suite",
    "steptime_tests",
    "steptimes",
    "traces",
]
