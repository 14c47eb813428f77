"""The folder of results: whole or not at all, damage found, versions told apart, claims."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import runs
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.analysis import claims, store
from pagedsim.analysis.store import Failure, State, Store
from pagedsim.errors import InputError

CASE = runs.case(1)
RESULT = runs.made(1)


def filled(folder: Path) -> Store:
    made = Store(folder)
    made.open()
    made.succeed(CASE, RESULT)
    return made


def test_what_was_written_is_read(tmp_path: Path) -> None:
    made = filled(tmp_path / "new" / "folder")
    assert made.state(CASE.key) is State.DONE
    assert made.record(CASE.key).result == RESULT
    assert made.record(CASE.key).case == CASE
    assert made.found() == [CASE.key]


def test_equal_cases_give_equal_bytes(tmp_path: Path) -> None:
    first = filled(tmp_path / "a").file(CASE.key).read_bytes()
    assert filled(tmp_path / "b").file(CASE.key).read_bytes() == first


@pytest.fixture(scope="module")
def whole() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return filled(Path(folder)).file(CASE.key).read_bytes()


@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found(whole: bytes, at: int, bit: int) -> None:
    data = bytearray(whole)
    data[at % len(data)] ^= 1 << bit
    with tempfile.TemporaryDirectory() as folder:
        made = Store(folder)
        made.file(CASE.key).write_bytes(data)
        assert made.state(CASE.key) is State.DAMAGED


@given(length=st.integers(0, 10**6))
def test_a_file_that_was_cut_is_found(whole: bytes, length: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = Store(folder)
        made.file(CASE.key).write_bytes(whole[: length % len(whole)])
        assert made.state(CASE.key) is State.DAMAGED


def test_a_result_under_another_name_is_no_result(tmp_path: Path) -> None:
    made, other = filled(tmp_path), runs.case(2)
    made.file(other.key).write_bytes(made.file(CASE.key).read_bytes())
    assert made.state(other.key) is State.DAMAGED
    assert made.state(CASE.key) is State.DONE


def test_a_sound_file_with_another_configuration_is_no_result(tmp_path: Path) -> None:
    made = filled(tmp_path)
    lying = store.Case(key=CASE.key, name="x", config={"number": 7})
    made.succeed(lying, RESULT)
    assert made.state(CASE.key) is State.DAMAGED


def test_another_version_is_told_from_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = filled(tmp_path)
    monkeypatch.setattr(store, "__version__", "9.9.9")
    assert made.state(CASE.key) is State.OTHER_VERSION
    cut = made.file(CASE.key).read_bytes()[:-1]
    made.file(CASE.key).write_bytes(cut)
    assert made.state(CASE.key) is State.DAMAGED


def test_a_failure_is_kept_until_there_is_a_result(tmp_path: Path) -> None:
    made = Store(tmp_path)
    made.fail(CASE, Failure(kind="SpecError", message="no"))
    assert made.state(CASE.key) is State.FAILED
    assert made.failure(CASE.key) == Failure(kind="SpecError", message="no")
    made.succeed(CASE, RESULT)
    assert made.state(CASE.key) is State.DONE
    assert made.failure(CASE.key) is None


def test_what_killed_processes_left_is_removed_after_an_hour(tmp_path: Path) -> None:
    made = filled(tmp_path)
    old, fresh = tmp_path / f".{CASE.key}.json.abc", tmp_path / f".{CASE.key}.json.def"
    for left in (old, fresh):
        left.touch()
    os.utime(old, (1, 1))
    made.open()
    assert not old.exists()
    assert fresh.exists()


# Claims.


def test_only_one_has_a_claim(tmp_path: Path) -> None:
    path, got, start = tmp_path / "x.claim", [], threading.Barrier(8)
    over = threading.Event()

    def take() -> None:
        start.wait()
        with claims.claim(path) as mine:
            got.append(mine)
            over.wait(5)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(got) < 8:
        pass
    assert claims.claimed(path)
    over.set()
    for thread in threads:
        thread.join()
    assert sorted(got) == [False] * 7 + [True]
    assert not path.exists()


def test_a_claim_of_a_dead_process_is_nobodys(tmp_path: Path) -> None:
    path = tmp_path / "x.claim"
    code = f"""
import os, pathlib
from pagedsim.analysis import claims
with claims.claim(pathlib.Path({str(path)!r})) as mine:
    assert mine
    os._exit(0)
"""
    dead = subprocess.Popen([sys.executable, "-c", code])
    while not path.exists() or dead.poll() is None:
        pass
    assert path.exists()
    assert not claims.claimed(path)
    with claims.claim(path) as mine:
        assert mine
        assert claims.claimed(path)
    assert not path.exists()


def test_a_claim_of_a_killed_process_that_nobody_looked_after_is_nobodys(tmp_path: Path) -> None:
    path = tmp_path / "x.claim"
    if not Path("/proc/self/stat").exists():
        pytest.skip("no /proc to tell a dead child by")
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    path.write_bytes(b'{"host":"%s","pid":%d}' % (os.uname().nodename.encode(), dead.pid))
    assert not claims.claimed(path)
    dead.wait()


@pytest.mark.parametrize("content", [b"", b"{", b'{"host":"elsewhere","pid":1}', b"[1]", b"\xff"])
def test_a_claim_from_elsewhere_holds_until_it_is_old(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.claim"
    path.write_bytes(content)
    assert claims.claimed(path)
    with claims.claim(path) as mine:
        assert not mine
    assert path.exists()
    at = path.stat().st_mtime - claims.STALE_S - 1
    os.utime(path, (at, at))
    assert not claims.claimed(path)
    with claims.claim(path) as mine:
        assert mine


def test_a_claim_is_renewed_while_its_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "BEATS_S", 0.01)
    path = tmp_path / "x.claim"
    with claims.claim(path):
        os.utime(path, (1, 1))
        for _ in range(1000):
            if path.stat().st_mtime > 1:
                break
            threading.Event().wait(0.01)
        assert path.stat().st_mtime > 1


def test_a_claim_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"x\.claim: cannot be written: No such file"),
        claims.claim(tmp_path / "nowhere" / "x.claim"),
    ):
        pass
