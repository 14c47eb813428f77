"""Write a trace: pagedsim's own JSONL (plain, .gz, .zst) or Parquet, told by the file's name.

Whole or not at all. Equal traces give equal bytes: a .gz carries neither a name nor a time.
"""

from __future__ import annotations

import gzip
import os

from pagedsim.errors import InputError
from pagedsim.files import write_whole
from pagedsim.trace import own
from pagedsim.trace.trace import Trace

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")


def dump(trace: Trace, suffix: str) -> bytes:
    """The bytes of a file with this suffix."""
    if suffix == ".parquet":
        from pagedsim.trace import parquet

        return parquet.dump(trace)
    data = own.dump(trace)
    if suffix.endswith(".gz"):
        return gzip.compress(data, compresslevel=9, mtime=0)
    if suffix.endswith(".zst"):
        import zstandard

        return zstandard.ZstdCompressor(level=19).compress(data)
    return data


def check(name: str) -> str:
    """The suffix of a file's name, which says how it is written. Raises InputError."""
    suffix = ".jsonl" if name == "-" else next(filter(name.endswith, sorted(SUFFIXES)), None)
    if suffix is None:
        raise InputError(f"{name}: the name must end in one of {', '.join(SUFFIXES)}")
    return suffix


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write to `path`, ``-`` for standard output as JSONL. Raises InputError."""
    name = os.fspath(path)
    suffix = check(name)
    if not len(trace):
        raise InputError(f"{name}: not written: the trace has no requests")
    data = dump(trace, suffix)
    with write_whole(path) as file:
        file.write(data)


__all__ = ["SUFFIXES", "check", "dump", "write"]
