"""A suite as a class of tests, one for each law: a pytest id per check.

    TestMine = allocator_tests(Mine)

The suite runs once, when the first of its tests does. A law that nothing of the part was held to
is skipped by name, for want of an optional protocol.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from pagedsim.testing.explore import Suite, explore
from pagedsim.testing.laws import Findings


def twins(suite: Suite, given: settings | None) -> type:
    """A class whose methods are the laws of `suite`."""
    found = functools.cache(lambda: explore(suite, given))
    methods = {f"test_{re.sub(r'[^a-z]+', '_', law)}": _test(law, found) for law in suite.laws}
    return type(f"Test{suite.part}", (), {"__doc__": f"{suite.part} keeps its laws.", **methods})


def _test(law: str, found: Callable[[], Findings]) -> Callable[[Any], None]:
    def test(self: Any) -> None:
        findings = found()
        if law in findings.broken:
            raise findings.broken[law]
        if not findings.checked[law]:
            pytest.skip(f"{law}: nothing to check, the part does not offer it")

    test.__doc__ = law
    return test


__all__ = ["twins"]
