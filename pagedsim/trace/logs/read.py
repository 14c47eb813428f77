"""`from_logs`: from files and folders of logs to a trace, in one pass.

A file is read a line or a value at a time; what is kept of a request is its numbers and 8 bytes a
block, nothing else.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

from pagedsim.errors import InputError, SpecError
from pagedsim.trace.logs import bench, conversations, objects, recognise, spans, stream
from pagedsim.trace.logs.assemble import Unclear, assemble
from pagedsim.trace.logs.gather import Gatherer
from pagedsim.trace.logs.names import UNITS, Names
from pagedsim.trace.logs.record import BadRecord, Record
from pagedsim.trace.logs.sheet import Sheet
from pagedsim.trace.logs.tokens import Tokenizer
from pagedsim.trace.source import stem
from pagedsim.trace.trace import Trace

_HEAD = 1 << 20
_ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_NAMED = 5  # of the lines that were skipped


@dataclass(frozen=True, slots=True)
class Recognised:
    """One file: what it is, its requests, and under which names they were found."""

    file: str
    format: str
    requests: int
    names: str


@dataclass(slots=True)
class Choices:
    """How logs are read.

    `mapping` names fields (see `names.FIELDS`), `unit` that of times that are numbers, `hash_block`
    the tokens of a block with an id of its own in the log. `skip_bad` leaves out lines that cannot
    be read, `drop_duplicates` requests that are there twice.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    unit: str | None = None
    block: int = 16
    hash_block: int | None = None
    tokenizer: str | None = None
    chat_template: str | None = None
    skip_bad: bool = False
    drop_duplicates: bool = False

    def check(self) -> None:
        """SpecError for what makes no sense, before any file is read."""
        if self.unit is not None and self.unit not in UNITS:
            raise SpecError(f"--time-unit is {self.unit}, must be {' or '.join(UNITS)}")
        Names(self.mapping)  # complains of unknown fields
        if self.chat_template is not None and self.tokenizer is None:
            raise SpecError("--chat-template needs --tokenizer FILE")


@dataclass(slots=True)
class _Skipped:
    """Lines that were left out: how many, the first by name."""

    wanted: bool
    count: int = 0
    first: list[str] = field(default_factory=list)

    def __call__(self, place: str, bad: BadRecord) -> None:
        if not self.wanted:
            raise InputError(f"{place}: {bad} (--skip-bad leaves such lines out)") from None
        self.count += 1
        if len(self.first) < _NAMED:
            self.first.append(f"{place}: {bad}")

    def notes(self) -> tuple[str, ...]:
        if not self.count:
            return ()
        more = self.count - len(self.first)
        rest = f", and {more} more" if more else ""
        return (f"{self.count} lines could not be read and were left out{rest}",)


@dataclass(frozen=True, slots=True)
class Logs:
    """A trace, what was recognised, and the first of the lines that were left out, by name."""

    trace: Trace
    files: list[Recognised]
    skipped: int
    skipped_first: list[str]


def from_logs(
    paths: Sequence[str], choices: Choices, *, progress: stream.Progress = lambda more: None
) -> Logs:
    """Read logs; `progress` is told how many more raw bytes have been read.

    InputError with file and line where a log cannot be read or recognised, SpecError for a choice
    that makes no sense. Neither holds any text of a log.
    """
    choices.check()
    tokenizer = None
    if choices.tokenizer is not None:
        tokenizer = Tokenizer(choices.tokenizer, choices.chat_template)
    rows = Gatherer(block=choices.block, tokenizer=tokenizer)
    skipped, found = _Skipped(choices.skip_bad), []
    all_files = stream.files(list(paths))
    for path in all_files:
        try:
            found.append(_file(path, choices, rows, skipped, progress))
        except BadRecord as bad:  # of the whole file
            skipped("<stdin>" if path == "-" else path, bad)
    words = _words(found)
    try:
        trace = assemble(
            rows,
            stem(all_files[0]) if len(all_files) == 1 else "logs",
            named_block=choices.hash_block,
            drop_duplicates=choices.drop_duplicates,
            words=words if tokenizer is None else f"{words}; content by {tokenizer.about}",
        )
    except Unclear as unclear:
        place = all_files[0] if len(all_files) == 1 else f"{len(all_files)} files"
        raise InputError(f"{place}: {unclear}") from None
    trace = replace(
        trace, notes=(*trace.notes, *skipped.notes()), dropped=trace.dropped + skipped.count
    )
    return Logs(trace, found, skipped.count, skipped.first)


def _file(
    path: str, choices: Choices, rows: Gatherer, skipped: _Skipped, progress: stream.Progress
) -> Recognised:
    label = "<stdin>" if path == "-" else path
    names = Names(choices.mapping, choices.unit)
    before = len(rows) + len(rows.waiting)
    with stream.opened(path, progress) as raw:
        head = raw.read(_HEAD)
        layout = recognise.mode(head)
        joined: Any = io.BufferedReader(_Joined(head, raw), _HEAD)
        if layout == "sheet":
            kind = recognise.SHEET
            for line, record in _sheet(joined, names, label, skipped):
                _take(rows, record, label, line, skipped)
        else:
            values = (
                _lines(joined, label, skipped)
                if layout == "lines"
                else _values(joined, label, skipped)
            )
            kind = ""
            for line, value in values:
                if not kind:
                    try:
                        kind = recognise.of_value(value, names)
                    except BadRecord as bad:
                        raise InputError(f"{label}:{line}: {bad}") from None
                try:
                    for record in _records(kind, value, names):
                        _take(rows, record, label, line, skipped)
                except BadRecord as bad:
                    skipped(f"{label}:{line}", bad)
                except _ODD as error:  # whose own message may hold text of the log
                    odd = BadRecord(f"holds what is not expected there ({type(error).__name__})")
                    skipped(f"{label}:{line}", odd)
            if not kind:
                raise InputError(f"{label}: no line of it can be read as JSON")
    return Recognised(label, kind, len(rows) + len(rows.waiting) - before, names.said())


def _take(rows: Gatherer, record: Record, label: str, line: int, skipped: _Skipped) -> None:
    try:
        rows.add(record)
    except BadRecord as bad:
        skipped(f"{label}:{line}", bad)


def _records(kind: str, value: Any, names: Names) -> Iterator[Record]:
    if kind == recognise.SPANS:
        for span in spans.spans(value):
            record = spans.read(span)
            if record is not None:
                yield record
    elif kind == recognise.BENCH:
        yield from bench.read(value)
    elif kind == recognise.TALKS:
        yield from conversations.read(value)
    else:
        yield objects.read(value, names)


def _lines(joined: IO[bytes], label: str, skipped: _Skipped) -> Iterator[tuple[int, Any]]:
    try:
        for line, text in stream.lines(joined):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                skipped(f"{label}:{line}", BadRecord("is no JSON"))
                continue
            yield line, value
    except BadRecord as bad:
        skipped(label, BadRecord(f"{bad}; what follows is left out"))


def _values(joined: IO[bytes], label: str, skipped: _Skipped) -> Iterator[tuple[int, Any]]:
    try:
        yield from stream.values(joined)
    except BadRecord as bad:
        skipped(label, BadRecord(f"{bad}; what follows is left out"))


def _sheet(
    joined: IO[bytes], names: Names, label: str, skipped: _Skipped
) -> Iterator[tuple[int, Record]]:
    sheet = Sheet(joined, names)
    if not sheet.known:
        raise InputError(f"{label}:1: no log that is known: {sheet.missing()}")
    try:
        for line, cells in sheet.rows():
            try:
                record = sheet.read(cells)
            except BadRecord as bad:
                skipped(f"{label}:{line}", bad)
                continue
            yield line, record
    except BadRecord as bad:
        skipped(label, BadRecord(f"{bad}; what follows is left out"))


class _Joined(io.RawIOBase):
    """Bytes that have been looked at already, then the rest of their stream."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = io.BytesIO(head), rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _words(found: list[Recognised]) -> str:
    """What was read, in words without names of files."""
    counts: dict[str, int] = {}
    for each in found:
        counts[each.format] = counts.get(each.format, 0) + 1
    return ", ".join(f"{n} files: {kind}" if n > 1 else kind for kind, n in counts.items())


def size(paths: Sequence[str]) -> int:
    """Raw bytes of all files, 0 where that is not known."""
    try:
        return sum(os.path.getsize(path) for path in stream.files(list(paths)) if path != "-")
    except OSError:
        return 0


__all__ = ["Choices", "Logs", "Recognised", "from_logs", "size"]
