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
        "pagedsim.testing needs hypothesis: pip install 'pagedsim[testing]'", name="hypothesis"
    ) from error

from pagedsim.testing.allocator import (
    AllocatorMachine,
    allocator_machine,
    allocator_suite,
    judged,
)
from pagedsim.testing.checks import allocator_tests, check_allocator
from pagedsim.testing.explore import Suite, check, explore, rejects
from pagedsim.testing.laws import BrokenLaw, Findings
from pagedsim.testing.profiles import profile
from pagedsim.testing.sequences import Library, Seq, sequence, sequences

del hypothesis

__all__ = [
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
    "explore",
    "judged",
    "profile",
    "rejects",
    "sequence",
    "sequences",
]
