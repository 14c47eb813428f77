"""A log's bytes a piece at a time: lines, or the values of one large JSON text.

Memory is bounded by the longest line or value, `LONGEST`. Compression is told by magic bytes.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pagedsim.errors import InputError
from pagedsim.trace.logs.record import BadRecord
from pagedsim.trace.source import unzstd

LONGEST = 1 << 28  # bytes of one line or value
_CHUNK = 1 << 20

Progress = Callable[[int], object]


class _Counted(io.RawIOBase):
    """Raw bytes that tell how many of them have been read."""

    def __init__(self, raw: IO[bytes], reached: Progress) -> None:
        self._raw, self._reached = raw, reached

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self._reached(len(data))
        return len(data)


class _Zstandard(io.RawIOBase):
    """Decompressed frames, one after another; EOFError where one is broken or cut."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._pieces, self._ready = unzstd(raw.read), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            self._ready = self._ready or next(self._pieces, b"")
        except OSError:
            raise EOFError from None
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size


@contextmanager
def opened(path: str, reached: Progress) -> Iterator[IO[bytes]]:
    """Decompressed bytes of a file, ``-`` for standard input; `reached` gets raw bytes read.

    Raises InputError where it cannot be read, and, while it is read, where compression is broken.
    """
    label = "<stdin>" if path == "-" else path
    try:
        if path == "-":
            if sys.stdin is None:
                raise InputError("<stdin>: is closed, a log is needed")
            yield _decompressed(sys.stdin.buffer, reached)
            return
        with open(path, "rb") as raw:
            yield _decompressed(raw, reached)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError(f"{label}: the compressed data are broken or end early") from None
    except FileNotFoundError:
        raise InputError(f"{label}: no such file") from None
    except OSError as error:
        raise InputError(f"{label}: cannot be read: {error.strerror}") from None


def _decompressed(raw: IO[bytes], reached: Progress) -> Any:
    counted = io.BufferedReader(_Counted(raw, reached), _CHUNK)
    magic = counted.peek(4)[:4]
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=counted, mode="rb")
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return io.BufferedReader(_Zstandard(counted), _CHUNK)
    return counted


def files(paths: list[str]) -> list[str]:
    """The files that are meant: folders give all that is in them, in the order of their names."""
    found = []
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            found.append(path)
            continue
        inside = sorted(str(p) for p in Path(path).rglob("*") if p.is_file() and _shown(p, path))
        if not inside:
            raise InputError(f"{path}: the folder has no files")
        found += inside
    return found


def _shown(path: Path, root: str) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(root).parts)


def lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """(number, line) without line ends, blank ones passed over. BadRecord if one is too long."""
    number = 0
    while line := stream.readline(LONGEST):
        number += 1
        if len(line) == LONGEST:
            raise BadRecord(f"line {number} is longer than {LONGEST >> 20} MiB")
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if line.strip():
            yield number, line.rstrip(b"\r\n")


def values(stream: IO[bytes]) -> Iterator[tuple[int, Any]]:
    """(line, value) of JSON values one after another, or of the elements of one array.

    BadRecord, with the line, where the JSON is broken: what follows cannot be told then.
    """
    decoder, read = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8-sig")()
    text, at, line, inside, ended = "", 0, 1, False, False
    while True:
        start = _skip(text, at, inside)
        line += text.count("\n", at, start)
        at = start
        if at < len(text) and not inside and text[at] == "[":
            inside, at = True, at + 1
            continue
        if at < len(text) and inside and text[at] == "]":
            inside, at = False, at + 1
            continue
        if at < len(text):
            value, end = _decoded(decoder, text, at, ended)
            if end is not None:
                line += text.count("\n", at, end)
                at = end
                yield line, value
                continue
        if ended:
            if at < len(text) or inside:
                raise BadRecord(f"line {line}: broken JSON, or JSON that ends early")
            return
        if len(text) - at > LONGEST:
            raise BadRecord(
                f"line {line}: a value of more than {LONGEST >> 20} MiB, or broken JSON"
            )
        # a value that is cut is decoded again with twice as much of it
        chunk = stream.read(max(_CHUNK, len(text) - at))
        ended = not chunk
        try:
            text, at = text[at:] + read.decode(chunk, final=ended), 0
        except UnicodeDecodeError:
            raise BadRecord(f"line {line} or later is no UTF-8 text") from None


def _skip(text: str, at: int, inside: bool) -> int:
    blank = " \t\r\n," if inside else " \t\r\n"
    while at < len(text) and text[at] in blank:
        at += 1
    return at


def _decoded(decoder: json.JSONDecoder, text: str, at: int, ended: bool) -> tuple[Any, int | None]:
    try:
        value, end = decoder.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, None
    # a number at the very end may go on
    return (value, end) if end < len(text) or ended or text[end - 1] in '}]"' else (None, None)


__all__ = ["LONGEST", "Progress", "files", "lines", "opened", "values"]
