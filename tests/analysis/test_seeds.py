"""Means and intervals over seeds."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import three_steps

from pagedsim.analysis.report import report
from pagedsim.analysis.results import Stats
from pagedsim.analysis.seeds import interval, over_seeds, student


@pytest.mark.parametrize(
    ("degrees", "value"),
    [(1, 12.7062), (4, 2.77645), (30, 2.042272), (31, 2.039513), (60, 2.000298), (10**6, 1.959966)],
)
def test_students_t_is_that_of_the_tables(degrees: int, value: float) -> None:
    assert student(degrees) == pytest.approx(value, abs=1e-5)


def test_student_falls_without_a_step_where_the_table_ends() -> None:
    points = [student(degrees) for degrees in range(1, 60)]
    falls = [a - b for a, b in pairwise(points)]
    assert all(a > b > 0 for a, b in pairwise(falls))


def test_an_interval_by_hand() -> None:
    found = interval([1.0, 2.0, 3.0])  # s = 1, t = 4.302653, so ± 4.302653 / √3
    assert found.mean == 2.0
    assert found.high - 2.0 == pytest.approx(2.484138, abs=1e-6)
    assert 2.0 - found.low == pytest.approx(2.484138, abs=1e-6)
    one = interval([7.0])
    assert (one.low, one.mean, one.high) == (7.0, 7.0, 7.0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_the_mean_lies_in_the_interval(values: list[float]) -> None:
    found = interval(values)
    assert found.low <= found.mean <= found.high


def test_every_number_of_a_run_has_an_interval_and_the_first_run_stands() -> None:
    run = report(*three_steps(), name="x").run
    memory = msgspec.structs.replace(run.memory, live=0.345)
    queue = msgspec.structs.replace(run.latency, queue_s=Stats())
    other = msgspec.structs.replace(run, memory=memory, finished=4, latency=queue)
    found = over_seeds([run, other], [11, 12])
    assert found.seeds is not None
    assert (found.seeds.count, found.seeds.seeds) == (2, (11, 12))
    intervals = found.seeds.intervals
    assert intervals["memory.live"].mean == pytest.approx((0.145 + 0.345) / 2)
    assert intervals["finished"].mean == 3.0
    assert "latency.queue_s.mean" not in intervals
    assert intervals["latency.ttft_s.p50"].low == 1.0
    assert not any(path.startswith(("provenance", "name", "seeds")) for path in intervals)
    assert msgspec.structs.replace(found, seeds=None) == run
