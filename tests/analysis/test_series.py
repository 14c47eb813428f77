"""Steps out of windows, frames and Parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from records import ints, recording, requests, three_steps, window

from pagedsim.analysis import series
from pagedsim.analysis.report import report
from pagedsim.engine.recording import BLOCKED, Recording, Start, Window
from pagedsim.errors import ContractError
from pagedsim.protocols import Int64, Load
from pagedsim.trace.trace import Trace


class Tens:
    """A step takes ten ns a token of context."""

    def ns(self, load: Load) -> int:
        return 10 * load.context


class TensByRamp(Tens):
    def ramp(self, load: Load, steps: int) -> Int64:
        return 10 * (load.context + load.sequences * np.arange(steps, dtype=np.int64))


def _jumps() -> Recording:
    """Two sequences decode for three steps, then (blocked) for two; blocks of four are taken.

    Context 8, 10, 12 takes 80, 100, 120 ns. A block is taken in the third step, two of its
    slots never to be filled.
    """
    first = {"batch": 2, "sequences": 2, "tokens": 2, "pairs": 8, "context": 8, "live": 8}
    then = first | {"pairs": 14, "context": 14, "live": 14, "reserved": 0, "internal": 4}
    windows = [
        window(step=0, steps=3, end_ns=300, ramp_ns=340, reserved=4, internal=2, **first),
        window(
            **then | {"step": 3, "steps": 2, "start_ns": 300, "end_ns": 600, "external": 82},
            ramp_ns=160,
            limit=1 + BLOCKED,
        ),
    ]
    starts = [
        Start(window=0, offset=2, at_ns=180, held=4, internal=2, cached=0),
        Start(window=1, offset=1, at_ns=140, held=8, internal=1, cached=0),
    ]
    return recording(
        windows, requests(arrival_ns=[0, 0]), starts=np.array(starts, np.int64).reshape(-1, 6)
    )


def _columns(steps: Int64, *names: str) -> list[list[int]]:
    return [steps[:, Window._fields.index(name)].tolist() for name in names]


@pytest.mark.parametrize("model", [Tens(), TensByRamp()])
@pytest.mark.parametrize("rows", [1, 3, 4, 100])
def test_a_window_is_taken_apart(model: Tens, rows: int) -> None:
    chunks = list(series.steps(_jumps(), model, rows))
    assert len(chunks) == (1 if rows == 100 else 2)
    steps = np.concatenate(chunks)
    assert _columns(steps, "step", "steps", "start_ns", "end_ns", "context") == [
        [0, 1, 2, 3, 4],
        [1, 1, 1, 1, 1],
        [0, 80, 180, 300, 440],
        [80, 180, 300, 440, 600],
        [8, 10, 12, 14, 16],
    ]
    assert _columns(steps, "live", "held", "internal", "reserved", "external") == [
        [8, 10, 12, 14, 16],
        [14, 14, 18, 18, 26],
        [2, 2, 4, 4, 5],
        [4, 2, 2, 0, 5],
        [0, 0, 0, 82, 74],
    ]
    assert series.idle(steps, 100).tolist() == [86, 86, 82, 0, 0]


def test_the_windows_sums_agree_with_its_steps() -> None:
    run = _jumps()
    whole = report(run, Trace.build("", [0, 0], [1, 1], [9, 9]), name="", steptime=Tens())
    (end,) = _columns(run.windows[:1], "end_ns")
    (ramp,) = _columns(run.windows[:1], "ramp_ns")
    steps = whole.steps[:3]
    live = (steps[:, Window._fields.index("live")] * ints(80, 100, 120)).sum()
    assert live == 8 * end[0] + 2 * ramp[0]


def test_many_steps_need_the_runs_own_step_time() -> None:
    with pytest.raises(ContractError, match="step-time model is needed"):
        list(series.steps(_jumps()))

    class Slow(Tens):
        def ns(self, load: Load) -> int:
            return 11 * load.context

    with pytest.raises(ContractError, match="3 steps end at 330 ns, the window at 300 ns"):
        list(series.steps(_jumps(), Slow()))


def test_windows_of_one_step_are_the_steps() -> None:
    run, _ = three_steps()
    assert np.concatenate(list(series.steps(run, rows=2))).tolist() == run.windows.tolist()
    (nothing,) = series.steps(recording([], requests()))
    assert len(nothing) == 0


def test_the_windows_frame() -> None:
    run, trace = three_steps()
    frame = report(run, trace, name="").windows_frame()
    assert frame.columns == [*Window._fields, "idle", "blocked"]
    assert frame["limit"].to_list() == ["arrivals", "memory", "budget"]
    assert frame["blocked"].to_list() == [False, True, False]
    assert frame["idle"].to_list() == [70, 0, 40]
    assert frame["live"].dtype == pl.Int64


def test_the_requests_frame() -> None:
    run, trace = three_steps()
    frame = report(run, trace, name="").requests_frame()
    assert frame["status"].to_list() == ["finished", "truncated", "refused"]
    assert frame["queue_ns"].to_list() == [0, 500_000_000, None]
    assert frame["finish_ns"].to_list() == [3_000_000_000, 6_000_000_000, None]
    assert frame["tpot_ns"].to_list() == [2e9, 1.5e9, None]
    assert frame["refused_value"].to_list() == [None, None, 60]
    assert frame["prompt"].to_list() == [5, 6, 60]


def test_files_hold_the_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "CHUNK", 2)
    run, trace = three_steps()
    whole = report(run, trace, name="")
    series.write_windows(tmp_path / "w.parquet", run)
    series.write_steps(tmp_path / "s.parquet", run)
    series.write_requests(tmp_path / "r.parquet", run, trace)
    assert pl.read_parquet(tmp_path / "w.parquet").equals(whole.windows_frame())
    assert pl.read_parquet(tmp_path / "s.parquet").equals(whole.windows_frame())
    assert pl.read_parquet(tmp_path / "r.parquet").equals(whole.requests_frame())
    assert len(list(tmp_path.iterdir())) == 3


def test_files_of_many_steps(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    series.write_steps(path, _jumps(), Tens())
    assert pl.read_parquet(path)["live"].to_list() == [8, 10, 12, 14, 16]
    series.write_windows(path, _jumps())
    assert pl.read_parquet(path)["steps"].to_list() == [3, 2]
    with pytest.raises(ContractError):
        series.write_steps(path, _jumps())
    assert pl.read_parquet(path)["steps"].to_list() == [3, 2]  # the old file stands
    assert len(list(tmp_path.iterdir())) == 1


def test_a_run_of_nothing_makes_files_of_no_rows(tmp_path: Path) -> None:
    run, trace = recording([], requests()), Trace.build("", [], [], [])
    series.write_windows(tmp_path / "w.parquet", run)
    series.write_requests(tmp_path / "r.parquet", run, trace)
    assert pl.read_parquet(tmp_path / "w.parquet").shape == (0, len(Window._fields) + 2)
    assert pl.read_parquet(tmp_path / "r.parquet").height == 0
