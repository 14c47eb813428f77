"""Objectives: what is read, what is refused and how, and what is measured of a run."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim import simulate
from pagedsim.analysis.plan_slo import COUNTS, STATISTICS, TIMES, measure, parse
from pagedsim.errors import SpecError
from pagedsim.trace.trace import Trace


def test_bounds_are_read_in_order() -> None:
    found = parse("ttft_p99<2s, tpot_p90<=60ms,queue_max ≤ 250 us ,preempted<1.5%, refused<=0")
    assert [(b.name, b.value, b.inclusive, b.share) for b in found.bounds] == [
        ("ttft_p99", 2.0, False, False),
        ("tpot_p90", 0.06, True, False),
        ("queue_max", 0.00025, True, False),
        ("preempted", 0.015, False, True),
        ("refused", 0.0, True, False),
    ]
    assert [b.name for b in parse(str(found)).bounds] == [b.name for b in found.bounds]


@pytest.mark.parametrize("unit", ["us", "µs", "μs", "US"])
def test_microseconds_have_three_spellings(unit: str) -> None:
    assert parse(f"ttft_mean<7{unit}").bounds[0].value == 7e-6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at character 1: nothing is there"),
        ("ttft_p99<2s,,tpot_p90<1s", "at character 13: nothing is there"),
        ("ttft_p99<2s,", "at character 13: nothing"),
        (
            "ttft_p99<2s, itl_p99<1s",
            "at character 14: there is no metric 'itl_p99'; there are ttft",
        ),
        ("ttft<2s", "ttft needs a statistic and none is given; there are ttft_mean, ttft_p50"),
        ("tpot_p95<2s", "'p95' is none"),
        ("ttft_p99>2s", "must be < or <= a value, '>' is given"),
        ("ttft_p99=2s", "'=' is given"),
        ("ttft_p99", "neither is given"),
        ("ttft_p99<", "needs a number after <, none is given"),
        ("ttft_p99<-2s", "'-2' is none"),
        ("ttft_p99<nans", "none is given"),
        ("ttft_p99<2", "needs a unit and none is given; there are s, ms and us"),
        ("ttft_p99<2h", "'h' is none; there are s, ms and us"),
        ("ttft_p99<2%", "'%' is none"),
        ("refused<2s", "refused is a count, 's' is no unit of it"),
        ("refused<200%", "refused is at most 100 % of the requests, 200 % is no bound"),
        ("refused<0", "nothing is below 0"),
        ("e2e_p50<1s,e2e_p50<2s", "e2e_p50 is given twice"),
        ("ttft_p99<<2s", "is no bound"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, said: str) -> None:
    with pytest.raises(SpecError) as error:
        parse(text)
    assert f"--slo {text!r}" in str(error.value)
    assert said in str(error.value)


@given(st.text(alphabet="ttft_p99<=2s, %.µ>\n-1e", max_size=16))
def test_rubbish_is_refused_or_read_whole(text: str) -> None:
    try:
        found = parse(text)
    except SpecError:
        return
    assert all(math.isfinite(bound.value) and bound.value >= 0 for bound in found.bounds)
    assert len(found.bounds) == text.count(",") + 1


def run_of(rows: list[tuple[int, int, int]], **more: object):
    """Requests (arrival ms, prompt, output) under steps of 10 ms."""
    arrivals, prompts, outputs = zip(*rows, strict=True)
    trace = Trace.build("t", [a * 10**6 for a in arrivals], prompts, outputs)
    return simulate(trace, "paged:block=16,null=0", steptime="constant:ms=10", max_len=100, **more)


def test_every_metric_is_the_one_that_is_defined() -> None:
    # One at a time: 3 tokens in 30 ms, then 4 in 40 ms (waits 20 ms), then 1 in 10 ms (waits 55).
    report = run_of([(0, 5, 3), (10, 5, 4), (15, 5, 1)], scheduler="vllm:max_seqs=1")
    expected = {
        "ttft": [0.010, 0.030, 0.065],
        "tpot": [0.010, 0.010],
        "e2e": [0.030, 0.060, 0.065],
        "queue": [0.0, 0.020, 0.055],
        "normalized": [0.010, 0.015, 0.065],
    }
    assert list(expected) == list(TIMES)
    for metric, values in expected.items():
        rank = {p: values[math.ceil(p / 100 * len(values)) - 1] for p in (50, 90, 99)}
        wanted = [sum(values) / len(values), rank[50], rank[90], rank[99], max(values)]
        text = ",".join(f"{metric}_{statistic}<1s" for statistic in STATISTICS)
        assert measure(report.recording.requests, parse(text)) == pytest.approx(wanted, rel=1e-12)


def test_a_bound_that_is_met_exactly_is_inside_only_with_equality() -> None:
    report = run_of([(0, 5, 3)])
    for text, holds in (("e2e_max<30ms", False), ("e2e_max<=30ms", True), ("e2e_p50<31ms", True)):
        objective = parse(text)
        assert (objective.broken(measure(report.recording.requests, objective)) == ()) is holds


def test_counts_are_of_all_requests_or_shares_of_them() -> None:
    # The second is refused (a prompt of the maximum length), the third cut off.
    report = run_of([(0, 5, 3), (0, 100, 3), (0, 90, 50), (0, 5, 1)])
    text = "refused<9, truncated<9, preemptions<9, preempted<9, refused<9%"
    with pytest.raises(SpecError, match="refused is given twice"):
        parse(text)
    assert measure(report.recording.requests, parse(text.rpartition(",")[0])) == (1, 1, 0, 0)
    assert measure(report.recording.requests, parse("refused<25%,truncated<=25%")) == (0.25, 0.25)
    assert parse("refused<25%,truncated<=25%").broken((0.25, 0.25)) == ("refused",)
    assert set(COUNTS) == {"refused", "truncated", "preemptions", "preempted"}


def test_preemptions_are_counted_as_the_result_counts_them() -> None:
    report = run_of([(0, 16, 40), (0, 16, 40), (0, 16, 40)], device=small(96))
    run = report.run
    assert run.preemptions > 0
    assert measure(report.recording.requests, parse("preemptions<1,preempted<1")) == (
        run.preemptions,
        run.preempted_requests,
    )


def test_what_nobody_has_never_holds() -> None:
    report = run_of([(0, 5, 1)])
    objective = parse("tpot_p99<1s")
    assert measure(report.recording.requests, objective) == (None,)
    assert objective.broken((None,)) == ("tpot_p99",)


def small(tokens: int):
    from pagedsim.device.device import make_device

    return make_device("llama-3.1-8b", "a100-80gb", kv_tokens=tokens)
