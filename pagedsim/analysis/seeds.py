"""Several seeds of one generated load: mean and 95 % interval of every number of a run.

The interval is mean ± t · s / √K, s the sample's standard deviation (K - 1 below) and t the
97.5 % point of Student's t with K - 1 degrees of freedom. t is from a table up to 30 degrees and
from Cornish and Fisher's expansion above, where it is good to six digits; SciPy is not needed for
one number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pagedsim.analysis.results import Interval, Run, Seeds

# 97.5 % points for 1 to 30 degrees of freedom (any table of Student's t)
_T = (
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157),
    *(2.228139, 2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922),
    *(2.093024, 2.085963, 2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831),
    *(2.048407, 2.045230, 2.042272),
)
_Z = 1.959963984540054  # the normal distribution's
_SKIP = ("capacity_bytes", "capacity_tokens", "dropped", "memory_spread", "provenance", "span")


def student(degrees: int) -> float:
    """The 97.5 % point of Student's t, for `degrees` >= 1."""
    if degrees <= len(_T):
        return _T[degrees - 1]
    z, n = _Z, degrees
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % interval of one or more values; of one value it is that value itself."""
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean=mean, low=mean, high=mean)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    half = student(count - 1) * deviation / math.sqrt(count)
    return Interval(mean=mean, low=mean - half, high=mean + half)


def over_seeds(runs: Sequence[Run], seeds: Sequence[int]) -> Run:
    """The first of `runs`, with the intervals of all numbers over all of them in `seeds`.

    `runs` are of the same allocator, one a seed. A number that is null for some seed (nothing
    finished, say) has no interval.
    """
    numbers = [dict(_numbers("", msgspec.to_builtins(run))) for run in runs]
    everywhere = [path for path in numbers[0] if all(path in found for found in numbers)]
    intervals = {path: interval([found[path] for found in numbers]) for path in everywhere}
    found = Seeds(count=len(runs), seeds=tuple(seeds), intervals=intervals)
    return msgspec.structs.replace(runs[0], seeds=found)


def _numbers(path: str, value: Any) -> Iterator[tuple[str, float]]:
    """Each number below `value` and the dotted path to it."""
    if isinstance(value, dict):
        for key, below in value.items():
            if path or key not in _SKIP:
                yield from _numbers(f"{path}.{key}" if path else key, below)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


__all__ = ["interval", "over_seeds", "student"]
