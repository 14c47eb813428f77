"""``pagedsim whatif``: one change at a time, each replayed, ranked by what it gives.

Changes are never estimated from each other: `stack` replays what they give together, since two
that each help may help no more than one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from pagedsim.analysis.configuration import Configuration
from pagedsim.analysis.plan_slo import COUNTS, STATISTICS, TIMES, count
from pagedsim.analysis.plan_slo import statistic as time_statistic
from pagedsim.analysis.report import Report
from pagedsim.analysis.simulate import run
from pagedsim.analysis.whatif_changes import Change, rebased
from pagedsim.analysis.whatif_result import Tried
from pagedsim.errors import DeviceError, SpecError
from pagedsim.trace.trace import Trace

PRESENT = "present"
LEAST = 0.001  # gain, as a share, below which a change is not worth making


class Metric(NamedTuple):
    """A number of a run by which changes are ranked; `higher` is better, or lower."""

    name: str
    higher: bool
    of: Callable[[Report], float | None]


_OTHERS = (
    Metric("batch", True, lambda report: report.batch.mean),
    Metric("throughput", True, lambda report: report.throughput.output_tokens_per_s),
    Metric("requests", True, lambda report: report.throughput.requests_per_s),
    Metric("makespan", False, lambda report: report.run.makespan_s),
    Metric("waste", False, lambda report: report.memory.waste),
    Metric("waste_of_held", False, lambda report: report.memory.waste_of_held),
    Metric("live", True, lambda report: report.memory.live),
    Metric("blocked", False, lambda report: report.blocked),
    Metric("hits", True, lambda report: report.prefix.hit_rate),
)


def metric(name: str) -> Metric:
    """The metric called `name`; SpecError with what there is."""
    for one in _OTHERS:
        if one.name == name:
            return one
    if name in COUNTS:
        return Metric(name, False, lambda report: float(count(report.recording.requests, name)))
    time, _, statistic = name.rpartition("_")
    if time in TIMES and statistic in STATISTICS:
        return Metric(
            name, False, lambda report: time_statistic(report.recording.requests, time, statistic)
        )
    known = ", ".join([*(one.name for one in _OTHERS), *COUNTS])
    raise SpecError(
        f"--by {name}: there is no such metric; there are {known}, and {', '.join(TIMES)} with "
        f"_{', _'.join(STATISTICS)}"
    )


def tried(
    change: str, kind: str, configuration: Configuration, trace: Trace, by: Metric, **setup: Any
) -> Tried:
    """One replay, with `setup` as other fields of `Setup`."""
    made = configuration.setup(**setup)
    device = made.device
    assert device is not None
    report = run(trace, configuration.allocator, made)
    span, rows = report.span, report.recording.requests
    return Tried(
        change=change,
        kind=kind,
        value=by.of(report),
        gpus=device.tp * device.pp,
        capacity_tokens=device.capacity_tokens,
        batch_mean=report.batch.mean,
        waste=report.memory.waste,
        ttft_p99_s=report.latency.ttft_s.p99,
        tpot_p90_s=report.latency.tpot_s.p90,
        output_tokens_per_s=report.throughput.output_tokens_per_s,
        makespan_s=None if span is None else span.to_s,
        preemptions=count(rows, "preemptions"),
        refused=count(rows, "refused"),
        truncated=count(rows, "truncated"),
    )


def gain(value: float | None, than: float | None, by: Metric) -> float | None:
    """By how much `value` is better `than` another, as a share of that."""
    if value is None or not than:
        return None
    better = (value - than) / than
    return better if by.higher else -better


def serves_less(one: Tried, present: Tried) -> bool:
    """Whether more requests are refused or cut off than are at present: a gain at their cost."""
    return one.refused + one.truncated > present.refused + present.truncated


def ranked(found: Sequence[Tried], present: Tried, by: Metric) -> list[Tried]:
    """The best first, equals as they were; what serves less, then what has no value, last."""

    def place(one: Tried) -> tuple[bool, bool, float]:
        value = 0.0 if one.value is None else one.value
        return one.value is None, serves_less(one, present), -value if by.higher else value

    return sorted(found, key=place)


def stacked(
    present: Tried,
    configuration: Configuration,
    best: Sequence[Change],
    by: Metric,
    replay: Callable[[str, str, Configuration], Tried],
) -> list[Tried]:
    """`best` changes, one a kind, added one after another; each stays if it gives `LEAST` more.

    Greedy: the order is that of `best`, and what was left out is not tried again. What serves less
    than the present never stays, and a change that no longer goes with those that did is left out.
    """
    steps: list[Tried] = []
    held, value = configuration, present.value
    for change in best:
        assert change.configuration is not None
        made = rebased(change.configuration, configuration, held)
        try:
            one = replay(change.text, change.kind, made)
        except DeviceError:
            continue
        better = one.value is not None and (value is None or _better(one.value, value, by))
        better = better and not serves_less(one, present)
        steps.append(structs.replace(one, gain=gain(one.value, value, by), kept=better))
        if better:
            held, value = made, one.value
    return steps


def _better(value: float, than: float, by: Metric) -> bool:
    more = value - than if by.higher else than - value
    return more > LEAST * abs(than)


__all__ = ["PRESENT", "Metric", "gain", "metric", "ranked", "serves_less", "stacked", "tried"]
