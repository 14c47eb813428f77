"""What every experiment must be: rows that judge, runs in order, answers that name what to do."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest

from pagedsim.analysis.experiments import fig1, fig2, opt, table1
from pagedsim.analysis.experiments.catalogue import FIELD, PAPERS, find
from pagedsim.analysis.experiments.experiment import Bench, Experiment, Found, Row, over
from pagedsim.errors import InputError, SpecError

ALL = (*PAPERS, *FIELD)
AT_ONCE = [one for one in ALL if one.minutes == 0 and not one.needs]


def halved(value: int, seed: int) -> tuple[float, int]:
    return value / 2, seed


# Rows.


def test_a_row_holds_within_its_tolerance_and_at_it() -> None:
    row = Row(name="x", published=10.0, ours=10.5, tolerance=0.5)
    assert row.hard
    assert row.holds
    assert row.difference == 0.5
    assert not msgspec.structs.replace(row, ours=10.51).holds
    assert not msgspec.structs.replace(row, ours=9.49).holds
    assert not msgspec.structs.replace(row, ours=None).holds
    assert not msgspec.structs.replace(row, ours=math.nan).holds


def test_without_tolerance_or_published_value_nothing_is_missed() -> None:
    soft = Row(name="x", published=10.0, ours=99.0)
    unpublished = Row(name="x", ours=99.0, tolerance=0.1)
    for row in (soft, unpublished):
        assert not row.hard
        assert row.holds
    assert unpublished.difference is None


def test_over_seeds_is_a_mean_with_its_interval() -> None:
    row = over([1.0, 2.0, 3.0], name="x", published=2.0)
    half = 4.302652729696 / math.sqrt(3)  # Student's t with two degrees, deviation 1
    assert (row.ours, row.low, row.high) == pytest.approx((2.0, 2.0 - half, 2.0 + half))
    one = over([1.5], name="x")
    assert (one.ours, one.low, one.high) == (1.5, None, None)


# The bench.


def test_results_come_in_order_from_any_number_of_processes() -> None:
    cases = [(value, 9 - value) for value in range(7)]
    told: list[tuple[int, int]] = []
    bench = Bench(progress=lambda done, total: told.append((done, total)))
    bench.expect(8)
    one = bench.map(halved, cases)
    assert one == [halved(*case) for case in cases]
    assert told == [(done, 8) for done in range(1, 8)]
    assert Bench(jobs=3).map(halved, cases) == one
    assert Bench(jobs=3).map(halved, []) == []


def test_an_experiment_is_the_same_in_two_processes() -> None:
    short = replace(opt.PAPER, seconds=40, seeds=(1,))
    one, two = (fig2.measure(short, Bench(jobs=jobs)) for jobs in (1, 2))
    assert one == two


def test_no_processes_are_no_number() -> None:
    with pytest.raises(SpecError, match="jobs is 0, must be >= 1"):
        Bench(jobs=0)


def test_a_trace_that_is_not_there_says_what_to_fetch(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGEDSIM_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=r"pagedsim trace fetch mooncake-conversation.*--trace"):
        Bench().trace("mooncake-conversation")
    with pytest.raises(InputError, match="nosuch"):
        Bench(traces={"mooncake-conversation": "nosuch.jsonl"}).trace("mooncake-conversation")


# The catalogue.


def test_names_are_unique_and_found() -> None:
    for among in (PAPERS, FIELD):
        names = [one.name for one in among]
        assert len(set(names)) == len(names)
        assert all(find(name.upper(), among) is one for name, one in zip(names, among, strict=True))
    with pytest.raises(SpecError, match=r"^fig99: no experiment of that name; there are: list, "):
        find("fig99", PAPERS)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_each_says_where_it_is_from(one: Experiment) -> None:
    assert one.source
    assert one.title
    assert one.minutes < 1 / 10 or one.quick is not None or one.needs


@pytest.mark.parametrize("one", AT_ONCE, ids=lambda one: one.name)
def test_those_done_at_once_hold(one: Experiment) -> None:
    outcome = one.run()
    assert outcome.rows
    assert outcome.missed == []
    assert all(row.hard or row.note for row in outcome.rows if row.published is not None)
    written = msgspec.json.encode(outcome)
    assert msgspec.json.decode(written, type=type(outcome)).rows == outcome.rows


def test_what_does_not_hold_is_missed_unless_the_run_is_quick() -> None:
    def measure(settings: object, bench: Bench) -> Found:
        return Found([Row(name="x", published=1.0, ours=2.0, tolerance=0.1)])

    one = Experiment(name="x", title="x", source="x", measure=measure, settings=1, quick=1)
    assert [row.name for row in one.run().missed] == ["x"]
    assert one.run(Bench(quick=True)).missed == []
    assert replace(one, quick=None).run(Bench(quick=True)).missed != []


# Table 1 and Fig 1, by other means.


def test_table_1_by_hand() -> None:
    found = {row.name: row for row in table1.EXPERIMENT.run().rows}
    # K and V, layers · hidden, two bytes each; a GiB is 2^30
    for name, gib, layers, hidden in (
        ("OPT-13B", 12, 40, 5120),
        ("OPT-66B", 21, 64, 9216),
        ("OPT-175B", 264, 96, 12288),
    ):
        row = found[f"{name}: slots"]
        assert row.ours == gib * 2**30 // (2 * layers * hidden * 2) / 1000
        assert row.tolerance is not None
        assert row.tolerance < 0.05 + 0.66
    assert found["OPT-13B: slots"].ours == 15.728


def test_a_card_with_other_slots_would_miss() -> None:
    wrong = table1.PUBLISHED[0]._replace(slots_k=17.0)
    assert not table1.measure((wrong,), Bench()).rows[0].holds


def test_the_line_through_fig_1_in_closed_form() -> None:
    xs = [b for b, _ in fig1.POINTS]
    ys = [1000 * b / t for b, t in fig1.POINTS]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum(
        (a - x) ** 2 for a in xs
    )
    base, per = fig1.EXPERIMENT.run().rows[:2]
    assert per.ours == pytest.approx(slope)
    assert base.ours == pytest.approx(y - slope * x)
