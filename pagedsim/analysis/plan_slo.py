"""Service-level objectives: ``ttft_p99<2s, tpot_p90<60ms``, read, and held against a run.

A bound is ``NAME_STATISTIC<VALUE UNIT`` for a time (seconds, milliseconds or microseconds), or
``COUNT<VALUE`` and ``COUNT<VALUE%`` for a count of what went wrong, in all or as a share of the
trace's requests. ``<=`` allows the value itself. Times are those of docs/model.md, over finished
requests; `normalized` is a time for each output token. Several bounds are parted by commas, and
all must hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

import msgspec
import numpy as np

from pagedsim.analysis.requests import latency, times
from pagedsim.engine.recording import Requests, Status
from pagedsim.errors import SpecError
from pagedsim.protocols import Int64

TIMES = {  # as a bound names it -> the field of `Latency`
    "ttft": "ttft_s",
    "tpot": "tpot_s",
    "e2e": "e2e_s",
    "queue": "queue_s",
    "normalized": "normalized_s_per_token",
}
STATISTICS = ("mean", "p50", "p90", "p99", "max")
COUNTS = ("preemptions", "preempted", "refused", "truncated")
UNITS = {"s": Decimal(1), "ms": Decimal("0.001"), "us": Decimal("0.000001")}

_BOUND = re.compile(r"\s*(\w*)\s*(<=|≤|<|=|>=?|)\s*([^\s<>=]*?)\s*([a-zA-Zµμ%/]*)\s*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """One condition: `metric` (and `statistic`, "" for a count) below `value`.

    `value` is in seconds, in requests (or preemptions), or with `share` in those a request.
    """

    text: str
    metric: str
    statistic: str
    inclusive: bool
    value: float
    share: bool = False

    @property
    def name(self) -> str:
        """``ttft_p99``, ``preemptions``."""
        return f"{self.metric}_{self.statistic}" if self.statistic else self.metric

    def holds(self, value: float | None) -> bool:
        """Whether `value` is within; None, where there is nothing to measure, never is."""
        if value is None:
            return False
        return value <= self.value if self.inclusive else value < self.value


class Objective(msgspec.Struct, frozen=True):
    """Bounds that must all hold."""

    bounds: tuple[Bound, ...]

    def __str__(self) -> str:
        return ", ".join(bound.text for bound in self.bounds)

    def broken(self, values: Sequence[float | None]) -> tuple[str, ...]:
        """Names of the bounds that `values`, one a bound, do not hold."""
        pairs = zip(self.bounds, values, strict=True)
        return tuple(bound.name for bound, value in pairs if not bound.holds(value))


def parse(text: str) -> Objective:
    """The objective that `text` writes. SpecError says where it is wrong, and what there is."""
    parts = text.split(",")
    bounds = []
    at = 0
    for part in parts:
        place = f"--slo {text!r}, at character {at + len(part) - len(part.lstrip()) + 1}"
        bounds.append(_bound(part, place))
        at += len(part) + 1
    names: set[str] = set()
    for bound in bounds:
        if bound.name in names:
            raise SpecError(f"--slo {text!r}: {bound.name} is given twice")
        names.add(bound.name)
    return Objective(tuple(bounds))


def _bound(part: str, place: str) -> Bound:
    if not part.strip():
        raise SpecError(f"{place}: nothing is there; a bound looks like ttft_p99<2s")
    found = _BOUND.fullmatch(part)
    if found is None:
        raise SpecError(f"{place}: {part.strip()!r} is no bound; one looks like ttft_p99<2s")
    name, sign, number, unit = found.groups()
    name = name.lower()
    metric, _, statistic = name.rpartition("_") if "_" in name else (name, "", "")
    if metric not in TIMES and name not in COUNTS:
        raise SpecError(
            f"{place}: there is no metric {name!r}; there are {', '.join(TIMES)} with "
            f"_{', _'.join(STATISTICS)}, and {', '.join(COUNTS)}"
        )
    if metric in TIMES and statistic not in STATISTICS:
        said = f"{statistic!r} is none" if statistic else "none is given"
        raise SpecError(
            f"{place}: {metric} needs a statistic and {said}; "
            f"there are {', '.join(f'{metric}_{one}' for one in STATISTICS)}"
        )
    if sign not in ("<", "<=", "≤"):
        said = f"{sign!r} is given" if sign else "neither is given"
        raise SpecError(f"{place}: {name} must be < or <= a value, {said}")
    if not _NUMBER.fullmatch(number):
        said = f"{number!r} is none" if number else "none is given"
        raise SpecError(f"{place}: {name} needs a number after {sign}, {said}")
    value, share = _value(Decimal(number), unit, name, metric in TIMES, place)
    if value == 0 and sign == "<":
        raise SpecError(f"{place}: nothing is below 0; <= 0 is possible")
    if share and value > 1 and name != "preemptions":
        raise SpecError(f"{place}: {name} is at most 100 % of the requests, {number} % is no bound")
    return Bound(
        text=part.strip(),
        metric=metric if metric in TIMES else name,
        statistic=statistic if metric in TIMES else "",
        inclusive=sign != "<",
        value=float(value),
        share=share,
    )


def _value(number: Decimal, unit: str, name: str, timed: bool, place: str) -> tuple[Decimal, bool]:
    unit = unit.lower().replace("µ", "u").replace("μ", "u")
    if timed:
        if unit not in UNITS:
            said = f"{unit!r} is none" if unit else "none is given"
            raise SpecError(f"{place}: {name} needs a unit and {said}; there are s, ms and us")
        return number * UNITS[unit], False
    if unit not in ("", "%"):
        raise SpecError(f"{place}: {name} is a count, {unit!r} is no unit of it; % is, or nothing")
    return (number / 100, True) if unit else (number, False)


def measure(rows: Requests, objective: Objective) -> tuple[float | None, ...]:
    """The value of each bound's metric in a run; None where nothing finished that has it."""
    return tuple(_measured(rows, bound) for bound in objective.bounds)


def _measured(rows: Requests, bound: Bound) -> float | None:
    if bound.metric in TIMES:
        return statistic(rows, bound.metric, bound.statistic)
    counted = float(count(rows, bound.metric))
    return counted / len(rows.status) if bound.share else counted


def finished(rows: Requests) -> Int64:
    """Those that finished, truncated ones included."""
    return np.flatnonzero(np.isin(rows.status, (Status.FINISHED, Status.TRUNCATED)))


def statistic(rows: Requests, metric: str, name: str) -> float | None:
    """One of `STATISTICS` of one of `TIMES`, in s; None where no finished request has it."""
    done = finished(rows)
    if name == "max":
        values = times(rows, done)[metric]
        return float(values.max()) if len(values) else None
    value: float | None = getattr(getattr(latency(rows, done), TIMES[metric]), name)
    return value


def count(rows: Requests, name: str) -> int:
    """How many of `COUNTS` there were in a run."""
    if name in ("refused", "truncated"):
        return int(np.count_nonzero(rows.status == Status[name.upper()]))
    preempted = rows.preemptions
    return int(preempted.sum()) if name == "preemptions" else int((preempted > 0).sum())


__all__ = [
    "COUNTS",
    "STATISTICS",
    "TIMES",
    "UNITS",
    "Bound",
    "Objective",
    "count",
    "finished",
    "measure",
    "parse",
    "statistic",
]
