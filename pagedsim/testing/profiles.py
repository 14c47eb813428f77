"""Three settings of hypothesis: how many examples, and whether they are the same every time.

`dev` is for the desk, `ci` for a gate that must not change its mind, `deep` for a night.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from pagedsim.errors import SpecError

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
EXAMPLES = {"ci": 200, "deep": 3000, "dev": 60}


def profile(name: str) -> settings:
    """The settings of that name. SpecError if there is none."""
    if name not in EXAMPLES:
        raise SpecError(f"profile is {name!r}, must be one of {', '.join(EXAMPLES)}")
    chosen = settings(
        deadline=None,
        max_examples=EXAMPLES[name],
        suppress_health_check=_SLOW,
        derandomize=False,
        print_blob=name != "dev",
    )
    return settings(chosen, derandomize=True, database=None) if name == "ci" else chosen


__all__ = ["EXAMPLES", "profile"]
