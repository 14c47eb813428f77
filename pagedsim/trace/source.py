"""The bytes of a trace: from a file or standard input, decompressed and hashed.

Compression is told by magic bytes, never by a file's name. A `Source` also knows how to complain:
every message about a trace starts with its label, and with the line where there is one.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagedsim.errors import InputError

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"
SWOLLEN, SWELLS = 1 << 28, 100  # what a file may hold: bytes, or times its own size
_PIECE = 1 << 20
_FED = 1 << 9
_MOST_SAID = 400
_Reader = Callable[[bytes], Iterator[bytes]]
_SUFFIXES = {".gz", ".zst", ".csv", ".json", ".jsonl", ".parquet", ".txt"}


@dataclass(frozen=True)
class Source:
    """Decompressed bytes and what they are called.

    `label` stands in messages, `name` becomes the trace's; `sha256` is of `data`. `drop_zero`:
    rows with zero output are left out and counted; else they are refused.
    """

    label: str
    name: str
    data: bytes
    sha256: str
    drop_zero: bool = True

    def error(self, text: str, line: int | None = None) -> InputError:
        """An error to raise, with its place in front; what it quotes is cut to a line."""
        place = self.label if line is None else f"{self.label}:{line}"
        text = "".join(
            sign if sign.isprintable() else repr(sign)[1:-1] for sign in text[:_MOST_SAID]
        )
        text = text if len(text) < _MOST_SAID else f"{text[:_MOST_SAID]}..."
        return InputError(f"{place}: {text}")

    def body(self) -> bytes:
        """`data` without a byte-order mark; raises InputError unless it is UTF-8 text."""
        data = self.data
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise self.error("the text is UTF-16, must be UTF-8", 1)
        if (zero := data.find(b"\0")) >= 0:
            line = data.count(b"\n", 0, zero) + 1
            raise self.error(f"byte {zero} is NUL: binary data, not a trace", line)
        body = data.removeprefix(_BOM)
        try:
            body.isascii() or body.decode()
        except UnicodeDecodeError as bad:
            line = body.count(b"\n", 0, bad.start) + 1
            text = f"byte 0x{body[bad.start]:02x} is not UTF-8 text (is it Latin-1?)"
            raise self.error(text, line) from None
        if not body.strip():
            raise self.error("the file is empty", 1)
        return body


def open_source(path: str | os.PathLike[str], *, drop_zero: bool = True) -> Source:
    """Read a file, or standard input for ``-``, whole.

    Raises InputError where it cannot be read or decompressed.
    """
    label = os.fspath(path)
    if label == "-":
        if sys.stdin is None:
            raise InputError("<stdin>: is closed, a trace is needed")
        label, name, raw = "<stdin>", "stdin", sys.stdin.buffer.read()
    else:
        name = stem(Path(path))
        try:
            raw = Path(path).read_bytes()
        except IsADirectoryError:
            raise InputError(f"{label}: is a folder, a trace file is needed") from None
        except FileNotFoundError:
            raise InputError(f"{label}: no such file") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{label}: cannot be read: {reason}") from None
    data = decompress(raw, label)
    return Source(label, name, data, hashlib.sha256(data).hexdigest(), drop_zero)


def decompress(raw: bytes, label: str) -> bytes:
    """`raw`, or what it holds if it is gzip or Zstandard data.

    InputError where they are broken, and where they swell as no trace does: to more than `SWOLLEN`
    bytes and `SWELLS` times their own size.
    """
    if raw.startswith(_GZIP):
        return b"".join(_pieces(raw, label, "gzip", _gunzip))
    if raw.startswith(_ZSTD):
        return b"".join(_pieces(raw, label, "Zstandard", _unzstd))
    return raw


def _pieces(raw: bytes, label: str, kind: str, read: _Reader) -> Iterator[bytes]:
    size, most = 0, max(SWOLLEN, SWELLS * len(raw))
    try:
        for piece in read(raw):
            size += len(piece)
            if size > most:
                text = (
                    f"the {kind} data hold more than {most} bytes in {len(raw)}, as no trace does"
                )
                raise InputError(f"{label}: {text}; decompress the file first")
            yield piece
    except EOFError:
        raise InputError(f"{label}: the {kind} data end early; the file is truncated") from None
    except (OSError, zlib.error) as error:
        raise InputError(f"{label}: broken {kind} data: {error}") from None


def _gunzip(raw: bytes) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        while piece := file.read(_PIECE):
            yield piece


def _unzstd(raw: bytes) -> Iterator[bytes]:
    return unzstd(io.BytesIO(raw).read)


def unzstd(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """What Zstandard frames hold, in pieces, none of them large; EOFError where one is cut.

    `read` gives the next so many bytes. OSError where the data are broken. Little is fed at once:
    four bytes can hold a block of 128 KiB.
    """
    import zstandard

    frame: Any = None
    while data := memoryview(read(_PIECE)):
        while data:
            frame, fed = frame or zstandard.ZstdDecompressor().decompressobj(), data[:_FED]
            try:
                piece = frame.decompress(fed)
            except zstandard.ZstdError as error:
                raise OSError(str(error)) from None
            data = data[len(fed) - len(frame.unused_data) :]
            frame = None if frame.eof else frame
            if piece:
                yield piece
    if frame is not None:
        raise EOFError


def stem(path: str | Path) -> str:
    """A file's name without its suffixes."""
    path = Path(path)
    name = path.name
    while Path(name).suffix in _SUFFIXES:
        name = Path(name).stem
    return name or path.name


__all__ = ["Source", "decompress", "open_source", "stem", "unzstd"]
