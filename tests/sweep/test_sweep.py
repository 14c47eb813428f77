"""A sweep runs what is missing, once, whoever else is at it, and whatever becomes of it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import runs
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.analysis import store
from pagedsim.analysis import sweep as sweep_module
from pagedsim.analysis.store import Failure, State, Store
from pagedsim.analysis.sweep import Swept, sweep, work
from pagedsim.errors import InputError, SpecError


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}


def keys(cases: Any) -> list[str]:
    return [case.key for case in cases]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "POLL_S", 0.02)


def test_as_many_processes_as_you_like_give_the_same_bytes(tmp_path: Path) -> None:
    cases = runs.cases(6)
    told: list[tuple[int, int]] = []
    found = sweep(Store(tmp_path / "1"), cases, runs.plain, told=lambda *at: told.append(at))
    assert found == Swept([], keys(cases), [], {}, [])
    assert told == [(done, 6) for done in range(7)]
    assert sweep(Store(tmp_path / "2"), cases, runs.plain, jobs=3) == found
    assert files(tmp_path / "1") == files(tmp_path / "2")
    assert len(files(tmp_path / "1")) == 7


@given(have=st.sets(st.integers(0, 4)), broken=st.sets(st.integers(0, 4)))
def test_what_is_there_is_not_run_and_what_is_damaged_is(
    tmp_path_factory: pytest.TempPathFactory, have: set[int], broken: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("s")
    cases, made = runs.cases(5, calls=str(folder / "calls")), Store(folder / "r")
    sweep(made, [cases[n] for n in sorted(have)], runs.plain)
    for number in have & broken:
        made.file(cases[number].key).write_bytes(b"{}")
    (folder / "calls").unlink(missing_ok=True)
    found = sweep(made, cases, runs.plain)
    again = sorted(set(range(5)) - (have - broken))
    assert runs.called(folder / "calls") == again
    assert found.ran == [cases[n].key for n in again]
    assert found.damaged == [cases[n].key for n in sorted(have & broken)]
    assert found.there == [cases[n].key for n in sorted(have - broken)]
    assert all(made.state(case.key) is State.DONE for case in cases)


@pytest.mark.parametrize("jobs", [1, 2])
def test_failures_are_kept_and_the_rest_carried_on(tmp_path: Path, jobs: int) -> None:
    cases, made = runs.cases(7), Store(tmp_path)
    found = sweep(made, cases, runs.odd_fails, jobs=jobs)
    assert found.ran == [cases[n].key for n in (0, 2, 6)]
    assert list(found.failed) == [cases[n].key for n in (1, 3, 4, 5)]
    assert found.failed[cases[1].key] == Failure(
        kind="SpecError", message="number is 1, must be even"
    )
    crash = found.failed[cases[4].key]
    assert crash.kind == "ZeroDivisionError"
    assert "of a plug-in" in crash.message
    assert "runs.py:" in crash.message
    assert [made.state(case.key) for case in cases].count(State.FAILED) == 4
    assert not list(tmp_path.glob("*.claim"))
    cured = sweep(made, cases, runs.plain)
    assert (len(cured.there), len(cured.ran), cured.failed) == (3, 4, {})


def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    cases = runs.cases(8, calls=str(tmp_path / "calls"))
    found = sweep(Store(tmp_path / "r"), cases, runs.killed_once, jobs=2)
    assert (tmp_path / "killed").exists()
    assert found == Swept([], keys(cases), [], {}, [])
    sweep(Store(tmp_path / "plain"), cases, runs.plain)
    assert files(tmp_path / "r") == files(tmp_path / "plain")


def test_a_run_that_always_kills_its_process_is_found_out(tmp_path: Path) -> None:
    cases = runs.cases(6)
    found = sweep(Store(tmp_path), cases, runs.killer, jobs=2)
    assert list(found.failed) == [cases[3].key]
    assert found.failed[cases[3].key].kind == "Killed"
    assert len(found.ran) == 5
    assert not list(tmp_path.glob("*.claim"))


def test_two_sweeps_of_one_folder_run_everything_once(tmp_path: Path) -> None:
    cases = runs.cases(12, calls=str(tmp_path / "calls"), seconds="0.02")
    got: list[Swept] = []

    def go(order: int) -> None:
        got.append(sweep(Store(tmp_path / "r"), cases[::order], runs.plain))

    threads = [threading.Thread(target=go, args=(order,)) for order in (1, -1, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runs.called(tmp_path / "calls") == list(range(12))
    assert [len(found.there) + len(found.ran) for found in got] == [12, 12, 12]
    sweep(Store(tmp_path / "alone"), cases, runs.plain)
    results = files(tmp_path / "r").items() - files(tmp_path / "alone").items()
    assert {name for name, _ in results} <= {"sweep.json"}  # in the order of the last


def test_a_sweep_waits_for_the_claims_of_others(tmp_path: Path) -> None:
    (case,), made = runs.cases(1), Store(tmp_path)
    made.open()
    with made.claim(case.key) as mine:
        assert mine
        waiting = threading.Thread(target=sweep, args=(made, [case], runs.plain))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        assert made.state(case.key) is State.ABSENT
    waiting.join()
    assert made.state(case.key) is State.DONE


def test_a_failure_that_others_have_just_found_stands(tmp_path: Path) -> None:
    (case,), made = runs.cases(1), Store(tmp_path)
    made.open()
    made.fail(case, Failure(kind="X", message="of another"))
    assert work(made, case, runs.plain, 0, None)[1] == "failed"
    assert work(made, case, runs.plain, made.failed_at(case.key), None)[1] == "done"


def test_a_worker_whose_sweep_was_killed_begins_nothing(tmp_path: Path) -> None:
    (case,), made = runs.cases(1), Store(tmp_path)
    made.open()
    assert work(made, case, runs.plain, 0, 1 << 22)[1] == "claimed"
    assert list(tmp_path.iterdir()) == []


def test_results_of_another_version_are_refused_unless_asked_for(tmp_path: Path) -> None:
    cases, made = runs.cases(3), Store(tmp_path)
    for case in cases[:2]:
        record = store.Record(version="0.0.9", case=case, result=runs.made(3))
        store._write(made.file(case.key), record)
    before = files(tmp_path)
    with pytest.raises(InputError, match=r"written by pagedsim 0\.0\.9.*and 1 more.*--again"):
        sweep(made, cases, runs.plain)
    assert files(tmp_path) == before
    assert sweep(made, cases, runs.plain, again=True).ran == keys(cases)
    assert made.record(cases[0].key).result == runs.made(0)


def test_a_result_that_cannot_be_written_ends_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases, made = runs.cases(4), Store(tmp_path)

    def full(self: Store, case: Any, result: Any) -> None:
        if case is cases[2]:
            raise InputError(f"{self.file(case.key)}: cannot be written: No space left on device")
        kept(self, case, result)

    kept = Store.succeed
    monkeypatch.setattr(Store, "succeed", full)
    with pytest.raises(InputError, match="No space left"):
        sweep(made, cases, runs.plain)
    assert [made.state(case.key) for case in cases] == [State.DONE] * 2 + [State.ABSENT] * 2
    assert not list(tmp_path.glob("*.claim"))


def test_it_ends_without_a_word_of_what_others_were_at(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """Where one ends it, some are done that nobody has heard of yet, and others at work."""
    calls = tmp_path / "calls"

    def told(done: int, _: int) -> None:
        until = time.monotonic() + 20
        while done and len(runs.called(calls)) < 4 and time.monotonic() < until:
            time.sleep(0.02)
        if done:
            time.sleep(0.2)  # two of the four at least have told that they are done
            raise InputError("No space left on device")

    cases = runs.cases(6, calls=str(calls))
    with pytest.raises(InputError, match="No space left"):
        sweep(Store(tmp_path / "r"), cases, runs.plain, jobs=2, told=told)
    assert len(runs.called(calls)) >= 4
    assert [str(each.message) for each in recwarn] == []


def test_an_unknown_backend_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="must be local, dask:ADDRESS or ray"):
        sweep(Store(tmp_path), runs.cases(1), runs.plain, backend="slurm")
