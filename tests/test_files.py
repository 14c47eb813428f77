"""A file is written whole or not at all, whatever goes wrong."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagedsim.errors import InputError
from pagedsim.files import write_whole


def _write(path: Path, data: bytes = b"new") -> None:
    with write_whole(path) as file:
        file.write(data)


def _write_half(path: Path, error: BaseException) -> None:
    with write_whole(path) as file:
        file.write(b"half")
        raise error


def test_it_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    with write_whole(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    _write(path, b"newer")
    assert path.read_bytes() == b"newer"
    assert os.listdir(tmp_path) == ["out.json"]


def test_its_rights_are_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    _write(tmp_path / "ours")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt(), SystemExit(1)])
@pytest.mark.parametrize("old", [b"old", None])
def test_an_error_inside_leaves_what_was(
    error: BaseException, old: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    if old is not None:
        path.write_bytes(old)
    with pytest.raises(type(error)):
        _write_half(path, error)
    assert os.listdir(tmp_path) == (["out"] if old else [])
    assert old is None or path.read_bytes() == old


def _full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["replace", "chmod"])
def test_a_full_disk_at_the_end_leaves_what_was(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, call, _full)
    with pytest.raises(InputError, match="out: cannot be written: No space left on device"):
        _write(path)
    assert (os.listdir(tmp_path), path.read_bytes()) == (["out"], b"old")


def test_a_full_disk_while_writing_leaves_what_was(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with pytest.raises(InputError, match="cannot be written: No space left"), write_whole(path):
        _full()
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder, a file name is needed"):
        _write(tmp_path)
    with pytest.raises(InputError, match="none/out: cannot be written: No such file"):
        _write(tmp_path / "none" / "out")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written: Not a directory"):
        _write(tmp_path / "file" / "out")


def test_a_dash_is_standard_output(capfdbinary: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make: Callable[..., Any] = os.fdopen
    with make(os.dup(1), "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        _write(Path("-"))
    assert capfdbinary.readouterr().out == b"new"


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    there, link = tmp_path / "there.json", tmp_path / "link.json"
    there.write_bytes(b"old")
    link.symlink_to(there)
    _write(link)
    assert link.is_symlink()
    assert there.read_bytes() == b"new"


def test_a_device_is_written_to_and_stays_a_device() -> None:
    _write(Path(os.devnull))
    assert not Path(os.devnull).is_file()


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        _write(path)
        assert os.read(reader, 10) == b"new"
    finally:
        os.close(reader)
