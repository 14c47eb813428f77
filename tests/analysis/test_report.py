"""A report of three steps worked out by hand, and what holds for every report."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import SECOND, random_runs, recording, requests, three_steps, window

from pagedsim.analysis import results
from pagedsim.analysis.report import Report, report, result
from pagedsim.analysis.results import TERMS, Stats
from pagedsim.engine.recording import Recording, Status
from pagedsim.errors import SpecError
from pagedsim.protocols import Int64, Load
from pagedsim.trace.trace import Trace


@pytest.fixture
def three() -> Report:
    run, trace = three_steps()
    return report(run, trace, name="three")


def test_memory_is_weighted_by_time(three: Report) -> None:
    # steps of 1, 2 and 1 s: live is (10 + 2·20 + 8) / (4·100)
    assert three.integrals["live"] == 58 * SECOND
    assert three.memory == results.Memory(
        live=58 / 400,
        reserved=80 / 400,
        internal=22 / 400,
        external=80 / 400,
        cached=50 / 400,
        idle=110 / 400,
        waste=182 / 400,
        shared=0.0,
        waste_of_held=(160 - 58) / 160,
        saved=0.0,
    )


def test_the_spread_is_over_time(three: Report) -> None:
    assert three.memory_spread["live"] == results.Spread(0.08, 0.1, 0.2, 0.2, 0.2)
    assert three.memory_spread["idle"].max == 0.7
    assert three.batch.spread == results.Spread(1, 1, 2, 2, 2)


def test_what_sharing_saved() -> None:
    """10 slots for 1 s, then 40 for 3 s, of 30 and 60 live: (10 + 120) / 4 s, of 340 stored."""
    run = recording(
        [
            window(step=0, start_ns=0, end_ns=SECOND, live=30, shared=10, batch=1),
            window(step=1, start_ns=SECOND, end_ns=4 * SECOND, live=60, shared=40, batch=1),
        ],
        requests(arrival_ns=[0], admitted_ns=[0], finish_ns=[4 * SECOND], generated=[3]),
        evicted=32,
    )
    trace = Trace.build("t", [0], [5], [3])
    made = report(run, trace, name="t")
    assert made.saved == results.Saved(tokens_mean=32.5, tokens_peak=40, share=130 / 340)
    assert made.prefix.evicted_tokens == 32
    first = report(run, trace, name="t", window="0:1")
    assert first.saved == results.Saved(tokens_mean=10.0, tokens_peak=10, share=0.25)
    device = results.DeviceInfo(
        model="m", gpu="g", kv_bytes_per_token=1 << 20, capacity_tokens=100, source=""
    )
    saved = result([made], device, trace).runs[0].saved
    assert saved is not None
    assert (saved.gib_mean, saved.gib_peak) == (32.5 / 1024, 40 / 1024)
    assert saved.share == made.saved.share
    unknown = results.DeviceInfo(
        model=None, gpu=None, kv_bytes_per_token=None, capacity_tokens=100, source=""
    )
    assert result([made], unknown, trace).runs[0].saved == made.saved


def test_the_batch_and_what_binds_it(three: Report) -> None:
    assert (three.batch.mean, three.batch.peak) == (1.5, 2)
    assert three.binds == results.Binds(memory=0.5, max_seqs=0.0, budget=0.25, arrivals=0.25)
    assert three.blocked == 0.5


def test_requests(three: Report) -> None:
    latency = three.latency
    assert latency.queue_s == Stats(0.25, 0.0, 0.5, 0.5)
    assert latency.ttft_s == Stats(1.75, 1.0, 2.5, 2.5)
    assert latency.tpot_s == Stats(1.75, 1.5, 2.0, 2.0)  # 2 s / 1 and 3 s / 2
    assert latency.e2e_s == Stats(4.25, 3.0, 5.5, 5.5)
    assert latency.normalized_s_per_token == Stats((1.5 + 5.5 / 3) / 2, 1.5, 5.5 / 3, 5.5 / 3)
    assert three.throughput == results.Throughput(requests_per_s=2 / 6, output_tokens_per_s=5 / 6)
    assert three.prefix == results.Prefix(prompt_tokens=11, hit_tokens=1, hit_rate=1 / 11)


def test_the_run_counts_everyone(three: Report) -> None:
    run = three.run
    assert (run.finished, run.truncated, run.refused, run.dropped) == (2, 1, 1, 4)
    assert (run.preemptions, run.preempted_requests, run.recomputed_tokens) == (2, 1, 4)
    assert (run.makespan_s, run.steps, run.capacity_tokens) == (6.0, 3, 100)
    assert run.refused_token_share == 61 / 83
    assert run.truncated_token_share == 6 / 83
    assert run.refused_requests == (results.Refused(row=2, reason="capacity", value=60, bound=49),)
    assert run.truncated_requests == (1,)


def test_a_window_weighs_steps_by_the_part_inside() -> None:
    run, trace = three_steps()
    part = report(run, trace, name="", window=(0.5, 2))  # half of step 0, half of step 1
    assert part.integrals["live"] == 10 * SECOND // 2 + 20 * SECOND
    assert part.memory.live == 25 / 150
    assert part.span == results.Span(from_s=0.5, to_s=2.0, busy_s=1.5, whole=False)
    assert part.arrived.tolist() == [1]
    assert part.run.refused == 0
    assert part.throughput.requests_per_s == 0.0
    last = report(run, trace, name="", window="2:")
    assert last.throughput == results.Throughput(requests_per_s=2 / 4, output_tokens_per_s=5 / 4)
    assert (last.run.refused, last.latency.queue_s) == (1, Stats())


def test_steady_is_from_the_first_blocked_step_to_the_last_arrival() -> None:
    run, trace = three_steps()
    assert report(run, trace, name="", window="steady").span_ns == (SECOND, 2 * SECOND)


@pytest.mark.parametrize(
    ("window", "words"),
    [
        ("3:5", "window '3:5': no step runs in it; the last step ends at 6.0 s"),
        ("7:", "window '7:': no step runs in it"),
        ("5:5", "ends at 5 s, must be after 5 s"),
        ("-1:5", "-1 s must be >= 0"),
        ("nan:5", "must be >= 0 and finite"),
        ("1", "must be A:B in seconds"),
        (":", "must be A:B in seconds"),
        ("a:2", "'a' is not a number of seconds"),
    ],
)
def test_a_window_that_cannot_be(window: str, words: str) -> None:
    run, trace = three_steps()
    with pytest.raises(SpecError, match=words):
        report(run, trace, name="", window=window)


def test_steady_needs_a_blocked_step_before_the_last_arrival() -> None:
    arrivals = [0]
    trace = Trace.build("", arrivals, [1], [1])
    ran = requests(arrival_ns=arrivals, finish_ns=[2])
    free = recording([window(start_ns=0, end_ns=2)], ran)
    with pytest.raises(SpecError, match="no step was blocked"):
        report(free, trace, name="", window="steady")
    late = recording([window(start_ns=0, end_ns=2, limit=5)], ran)
    with pytest.raises(SpecError, match="not before the last arrival"):
        report(late, trace, name="", window="steady")


def test_a_run_in_which_nothing_ran_has_no_averages() -> None:
    trace = Trace.build("", [0], [99], [1])
    nothing = recording([], requests(arrival_ns=[0], status=[Status.REFUSED]))
    run = report(nothing, trace, name="").run
    assert (run.finished, run.refused, run.makespan_s, run.span) == (0, 1, None, None)
    assert run.memory == results.Memory(
        **dict.fromkeys((*TERMS, "waste", "shared", "waste_of_held"))
    )
    assert (run.batch.mean, run.batch.peak, run.binds.memory) == (None, 0, None)
    assert (run.latency.e2e_s, run.throughput.requests_per_s) == (Stats(), None)
    assert (run.prefix.hit_rate, run.memory_spread) == (None, {})
    empty = report(recording([], requests()), Trace.build("", [], [], []), name="").run
    assert (empty.finished, empty.refused_token_share) == (0, None)


def test_outputs_of_one_token_have_no_tpot() -> None:
    ran = requests(
        arrival_ns=[0], admitted_ns=[0], first_token_ns=[2], finish_ns=[2], generated=[1]
    )
    run, trace = recording([window(end_ns=2)], ran), Trace.build("", [0], [1], [1])
    latency = report(run, trace, name="").latency
    assert latency.tpot_s == Stats()
    assert latency.e2e_s.mean == 2e-9


class _Bounds:
    """Steps of more than 15 tokens are bound by compute."""

    ridge = 7.0

    def ns(self, load: Load) -> int:
        raise AssertionError(load)

    def bounds(self, tokens: Int64, pairs: Int64, context: Int64) -> np.ndarray:
        return tokens > 15

    def intensities(self, tokens: Int64, pairs: Int64, context: Int64) -> np.ndarray:
        return pairs / context


def test_what_steps_are_bound_by() -> None:
    _, trace = three_steps()
    windows = [
        window(end_ns=SECOND, tokens=16, pairs=20, context=2),
        window(start_ns=SECOND, end_ns=4 * SECOND, tokens=1, pairs=2, context=2),
    ]
    run = recording(windows, requests(arrival_ns=[0, 0, 0]))
    assert report(run, trace, name="", steptime=_Bounds()).compute == results.Compute(
        compute_bound=0.25, bandwidth_bound=0.75, intensity=(10 + 3) / 4, ridge=7.0
    )
    assert report(run, trace, name="").compute is None


@given(random_runs())
def test_the_terms_add_up_exactly(made: tuple[Recording, Trace]) -> None:
    whole = report(*made, name="")
    terms = [whole.integrals[term] for term in TERMS]
    assert sum(terms) == made[0].capacity * whole.busy_ns
    shares = [getattr(whole.memory, term) for term in TERMS]
    assert sum(shares) == pytest.approx(1, abs=1e-12)
    assert sum(getattr(whole.binds, name) for name in whole.binds.__struct_fields__) == (
        pytest.approx(1, abs=1e-12)
    )
    for term in TERMS:
        spread = whole.memory_spread[term]
        assert spread.min <= spread.p50 <= spread.p90 <= spread.p99 <= spread.max


@settings(max_examples=60)
@given(random_runs(most=4 * SECOND), st.data())
def test_spans_that_meet_add_up(made: tuple[Recording, Trace], data: st.DataObject) -> None:
    run, trace = made
    end = (int(run.column("end_ns").max()) - int(run.requests.arrival_ns.min())) / SECOND
    cuts = data.draw(st.lists(st.floats(0, end), min_size=3, max_size=3, unique=True))
    a, b, c = sorted(cuts)
    try:
        parts = [report(run, trace, name="", window=span) for span in ((a, b), (b, c))]
        both = report(run, trace, name="", window=(a, c))
    except SpecError:
        return
    for name, value in both.integrals.items():
        assert parts[0].integrals[name] + parts[1].integrals[name] == value
    assert parts[0].busy_ns + parts[1].busy_ns == both.busy_ns
    assert sorted([*parts[0].arrived, *parts[1].arrived]) == both.arrived.tolist()


@given(random_runs())
def test_the_whole_span_is_no_span(made: tuple[Recording, Trace]) -> None:
    run, trace = made
    everything = (0, 1 << 62)
    whole = report(run, trace, name="")
    spanned = Report(name="", recording=run, trace=trace, span_ns=everything)
    assert spanned.memory == whole.memory
    assert spanned.latency == whole.latency
    assert spanned.throughput == whole.throughput
