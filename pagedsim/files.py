"""Write a file whole or not at all: the one way in which pagedsim writes, JSON too.

The bytes go to a hidden neighbour of the target, which takes its place only once it is complete,
so a crash, a full disk or Ctrl-C leaves either the old file or none.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pagedsim.errors import InputError


@contextmanager
def write_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that appears at `path` when the block ends without an error.

    ``-`` is standard output. A link is followed; a device or a pipe is written to as it is, for
    there is nothing to replace. Raises InputError where the folder is missing or not writable, or
    where `path` is a folder.
    """
    if os.fspath(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InputError(f"{path}: is a folder, a file name is needed")
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file
        else:
            with _replacing(target) as file:
                yield file
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def write_json(path: str | os.PathLike[str] | None, what: Any, *, indent: int = 2) -> None:
    """Write `what` as JSON, for people to read too, where `path` says; nowhere if it is None."""
    if path is None:
        return
    import msgspec

    data = msgspec.json.format(msgspec.json.encode(what), indent=indent)
    with write_whole(path) as file:
        file.write(data + b"\n")


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


__all__ = ["write_json", "write_whole"]
