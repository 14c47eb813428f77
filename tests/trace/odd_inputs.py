"""Inputs that nobody would write: what stands in a file, and how long and large a reader may get.

A reader *answers*: a trace that can be written and read again, or an error that is one line and
begins with the file's name.
"""

from __future__ import annotations

import gzip
import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zstandard
from hypothesis import settings
from hypothesis import strategies as st
from trace_cases import same

from pagedsim.errors import InputError
from pagedsim.trace import store
from pagedsim.trace.logs.read import Choices, from_logs
from pagedsim.trace.reading import read
from pagedsim.trace.source import Source, decompress
from pagedsim.trace.trace import Trace

SECONDS = 20  # of processor time, for a file of a few KiB
MEMORY = 256 << 20  # bytes that all files of a test may add to the largest the process has been
_STATUS = Path("/proc/self/status")


def inputs(dev: int, ci: int, deep: int) -> int:
    """How many, by profile."""
    examples = settings.default.max_examples if settings.default else 0
    return dev if examples < 200 else ci if examples < 3000 else deep


def largest() -> int:
    """The most memory that the process has had at once, in bytes; 0 where that is not told."""
    text = _STATUS.read_text() if _STATUS.exists() else ""
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    return int(found[1]) << 10 if found else 0


@contextmanager
def bounded(seconds: int = SECONDS, memory: int = MEMORY) -> Iterator[None]:
    """What is inside ends in time, or TimeoutError; and takes no more memory."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"no answer within {seconds} s")

    before, handler = largest(), signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
    assert largest() - before <= memory


def trace_of(data: bytes) -> Trace:
    """The trace of a file called ``f``."""
    return read(Source("f", "f", decompress(data, "f"), ""))


def from_log(file: Path, data: bytes, *, skip_bad: bool) -> Trace:
    """The trace of a log, which is called ``f`` in errors."""
    file.write_bytes(data)
    try:
        return from_logs([str(file)], Choices(skip_bad=skip_bad)).trace
    except InputError as error:
        raise InputError(str(error).replace(str(file), "f")) from None


def answer(data: bytes, reader: Callable[[bytes], Trace] = trace_of) -> str:
    """What is wrong with `data`, "" for nothing; any other end fails."""
    try:
        trace = reader(data)
    except InputError as error:
        said = str(error)
        assert said.startswith("f:"), said
        assert said.isprintable(), said
        assert len(said) < 500, said
        return said
    again = trace_of(store.dump(trace, ".jsonl"))
    assert same(again, trace), "it is not what is read back"
    return ""


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 10)
    | st.sampled_from((2**31, 2**53 + 1, 2**62, 2**62 + 1, 2**63, 2**64, -(2**63), 10**30))
    | st.floats()
    | st.sampled_from((0.5, 1e300, 4e9, 4e18, 1e9 + 0.1, -0.0))
    | st.text(max_size=4)
    | st.sampled_from(("\ud800", "\x00", "\n", "1", "NaN", "trace/1", "\x1b[31m", "k" * 2000)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)
RAW = st.sampled_from(
    ("1e400", "-1e400", "9" * 5000, "1." + "3" * 5000, "NaN", "-Infinity", "01", "1_0", "+1", "0x1",
     "[" * 3000, "[" * 200 + "]" * 200, '{"a":' * 200 + "1" + "}" * 200, '"\\ud800"', "'a'", "",
     '"' + "x" * 200_000 + '"', "-0", "1E+2", "\u0661", "true", "{", "}", "[1,]", '{"a":1,"a":2}')
)  # fmt: skip


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    deeper: Any = value.items() if isinstance(value, dict) else ()
    deeper = enumerate(value) if isinstance(value, list) else deeper
    return [at, *(path for key, entry in deeper for path in paths(entry, (*at, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with something else at a place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], new)
    return copy


@st.composite
def json_lines(draw: st.DrawFn, seeds: list[list[Any]]) -> bytes:
    """A file of JSON lines like one of `seeds`, with odd values in a place or two."""
    lines = draw(st.sampled_from(seeds))
    mark = "<odd>"
    raw = []
    for _ in range(draw(st.integers(1, 3))):
        where = draw(st.sampled_from(paths(lines)[1:]))
        if draw(st.integers(0, 3)) == 0:
            raw.append(draw(RAW))
            lines = replaced(lines, where, mark)
        else:
            lines = replaced(lines, where, draw(ODD))
    separators = draw(st.sampled_from([None, (",", ":"), (" ,\t", "\t: ")]))
    ends = draw(st.sampled_from(["\n", "\n", "\r\n", "\n\n", "\r"]))
    ascii_ = draw(st.booleans())
    texts = [json.dumps(x, separators=separators, ensure_ascii=ascii_) for x in lines]
    text = ends.join(texts)
    for each in raw:
        text = text.replace(f'"{mark}"', each, 1)
    twice = draw(st.booleans()) and re.search(r'"\w+"\s*:\s*[^,{}\[\]]+,', text)
    if twice:
        text = text[: twice.start()] + twice[0] + text[twice.start() :]
    return draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"])) + text.encode(
        "utf-8", "surrogatepass"
    )


CELLS = st.sampled_from(
    ("", "0", "1", "-1", "37", "1.0", "1.5", "1e3", "1e400", "NaN", "inf", " 4 ", '"5"', '"5',
     "9" * 30, "9" * 5000, "x" * 200_000, "true", "a\nb", '"a\nb"', "\u0661", "\x00", "0x10",
     "1_000", "4000000000", "4000000001", "1;2", "Conversation log", "2023-02-30 00:00:00",
     "2023-11-16 18:15:46.6805900", "2023-11-16 18:15:46.6805900+00:00",
     "1969-12-31 23:59:59", "2262-01-01 00:00:00")
)  # fmt: skip


@st.composite
def tables(draw: st.DrawFn, names: tuple[str, ...]) -> bytes:
    """A CSV file whose header is drawn from `names`, and odd ones."""
    odd = st.sampled_from(("", " ", "x", '"a,b"', '"', "\ufeff", "a b", "é"))
    known = st.sampled_from(names).flatmap(
        lambda name: st.sampled_from((name, name, name, name.upper(), f" {name} ", f'"{name}"'))
    )
    header = draw(st.permutations(draw(st.sampled_from([[*names], [*names], []]))))
    header = [*header, *draw(st.lists(known | odd, max_size=3))]
    separator = draw(st.sampled_from(",,,,;\t"))
    plain = st.sampled_from(("1", "2", "37"))
    rows = []
    for _ in range(draw(st.integers(0, 4))):
        width = len(header) + draw(st.sampled_from((0, 0, 0, 0, -1, 1)))
        rows.append([draw(plain | plain | CELLS) for _ in range(max(0, width))])
    ends = draw(st.sampled_from(["\n", "\n", "\r\n", "\r", "\n\n"]))
    text = ends.join(separator.join(row) for row in [header, *rows])
    return (text + draw(st.sampled_from(["", ends, " "]))).encode()


def packed(data: bytes, way: str) -> bytes:
    """`data`, compressed in some way, some of them wrong."""
    if way == "gzip":
        return gzip.compress(data, 1, mtime=0)
    if way == "members":
        half = len(data) // 2
        return gzip.compress(data[:half], 1, mtime=0) + gzip.compress(data[half:], 1, mtime=0)
    if way == "zstd":
        return zstandard.compress(data, 1)
    if way == "frames":
        half = len(data) // 2
        return zstandard.compress(data[:half], 1) + zstandard.compress(data[half:], 1)
    if way == "twice":
        return gzip.compress(zstandard.compress(data, 1), 1, mtime=0)
    if way == "tail":
        return gzip.compress(data, 1, mtime=0) + b"tail"
    return data


WAYS = ("plain", "plain", "plain", "gzip", "members", "zstd", "frames", "twice", "tail")
