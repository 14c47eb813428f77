"""A sweep on a real Dask cluster of this machine, one of whose workers is killed in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import runs

from pagedsim.analysis.store import Store
from pagedsim.analysis.sweep import sweep
from pagedsim.errors import InputError

HERE = Path(__file__).parent
SCRIPT = """
import json, os, signal, sys, threading, time
from pathlib import Path
from distributed import Client, LocalCluster
import runs
from pagedsim.analysis.store import Store
from pagedsim.analysis.sweep import sweep

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=folder / "dask"
    ) as cluster:
        with Client(cluster) as client:
            pids = list(client.run(os.getpid).values())
        cases = runs.cases(10, calls=str(folder / "calls"), seconds="0.2")

        def kill():
            while len(runs.called(folder / "calls")) < 4:
                time.sleep(0.01)
            os.kill(pids[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        backend = f"dask:{cluster.scheduler_address}"
        found = sweep(Store(folder / "r"), cases, runs.plain, backend=backend)
        killer.join()
    print(json.dumps([len(found.ran), len(found.failed), runs.called(folder / "calls")]))
"""


def test_a_dask_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    paths = [str(HERE), str(HERE.parents[1])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ran = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], env=env, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    done, failed, called = json.loads(ran.stdout.splitlines()[-1])
    assert (done, failed) == (10, 0)
    assert set(called) == set(range(10))  # that of the killed worker may have begun twice
    assert len(called) <= 12
    cases = runs.cases(10, calls=str(tmp_path / "calls"), seconds="0.2")
    plain = Store(tmp_path / "plain")
    sweep(plain, [runs.case(n) for n in range(10)], runs.plain)
    for number, case in enumerate(cases):
        same = plain.record(runs.case(number).key).result
        assert Store(tmp_path / "r").record(case.key).result == same
    assert not list((tmp_path / "r").glob("*.claim"))


def test_a_scheduler_that_does_not_answer_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("pagedsim.analysis.sweep_on._ANSWERS_S", 0.5)
    with pytest.raises(InputError, match=r"dask:tcp://127\.0\.0\.1:1: no scheduler answers there"):
        sweep(Store(tmp_path), runs.cases(1), runs.plain, backend="dask:tcp://127.0.0.1:1")
