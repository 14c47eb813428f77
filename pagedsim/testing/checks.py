"""What a part's own tests call: one call that raises, or a class with a test for each law.

`make` builds a part; sizes that it takes and that are not given are drawn small. `given` are
settings of hypothesis; without them those of the profile in use, by default 100 examples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings

from pagedsim.testing.allocator import allocator_suite
from pagedsim.testing.explore import check
from pagedsim.testing.laws import Findings
from pagedsim.testing.twins import twins


def check_allocator(make: Callable[..., Any], given: settings | None = None) -> Findings:
    """Raise BrokenLaw, with the shortest history found, unless `make`'s allocators are sound."""
    return check(allocator_suite(make), given)


def allocator_tests(make: Callable[..., Any], given: settings | None = None) -> type:
    """`check_allocator` as a class with a test for each law."""
    return twins(allocator_suite(make), given)


__all__ = ["allocator_tests", "check_allocator"]
