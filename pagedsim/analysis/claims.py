"""Claims: files that say who is at a piece of work, for processes that share a folder.

A claim is made by creating its file, which only one can; it names machine and process, and is
renewed while the work goes on. One whose process is gone (on this machine), or that was not
renewed for `STALE_S` by the clock of whoever keeps the folder, is nobody's. A claim saves work
and must not be needed: two that find one stale at the same moment may both go on.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from pagedsim.errors import InputError

BEATS_S = 15.0  # how often a claim is renewed
STALE_S = 180.0


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Whether the claim at `path` is ours while the block runs; False where it is another's.

    InputError where it cannot be written.
    """
    mine = _take(path)
    if not mine and _stale(path):
        path.unlink(missing_ok=True)
        mine = _take(path)
    if not mine:
        yield False
        return
    over = threading.Event()
    beats = threading.Thread(target=_beat, args=(path, over), daemon=True)
    beats.start()
    try:
        yield True
    finally:
        over.set()
        with suppress(OSError):
            path.unlink(missing_ok=True)


def claimed(path: Path) -> bool:
    """Whether somebody is at it now."""
    return path.exists() and not _stale(path)


def _take(path: Path) -> bool:
    """Make the claim, unless it is there."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except FileExistsError:
        return False
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    with suppress(OSError), os.fdopen(handle, "wb") as file:  # an empty claim claims as well
        file.write(msgspec.json.encode({"host": socket.gethostname(), "pid": os.getpid()}))
    return True


def _stale(path: Path) -> bool:
    """Whether its process is known to be gone, or has not renewed it for long."""
    try:
        said, at = path.read_bytes(), path.stat().st_mtime
    except FileNotFoundError:
        return True
    with suppress(msgspec.MsgspecError):
        owner = msgspec.json.decode(said, type=dict[str, Any])
        if owner.get("host") == socket.gethostname() and not _alive(owner.get("pid")):
            return True
    with tempfile.TemporaryFile(dir=path.parent) as now:  # its keeper's clock, not ours
        return os.fstat(now.fileno()).st_mtime - at > STALE_S


def _beat(path: Path, over: threading.Event) -> None:
    while not over.wait(BEATS_S):
        with suppress(OSError):
            os.utime(path)


def _alive(pid: Any) -> bool:
    if not isinstance(pid, int) or pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    with suppress(OSError, IndexError):  # killed, but its parent has not looked yet
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    return True


__all__ = ["BEATS_S", "STALE_S", "claim", "claimed"]
