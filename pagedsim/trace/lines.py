"""Objects of a JSONL file as columns: msgspec first, line by line where it finds a fault.

As in `pagedsim.trace.table`, the exact path decides what is right, and the fast path gives up on
anything unusual: blank lines, keys given twice, types that do not fit, values out of bounds.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace.fields import LARGEST_ID, LATEST_S, NS, BadValue, Field, parse
from pagedsim.trace.source import Source

_TYPES = {
    "whole": int,
    "seconds": int | float,
    "millis": int | float,
    "ids": list[int],
    "text": str,
    "any": Any,
}


class Twice(ValueError):
    """A key that an object has twice."""


def objects(source: Source, body: bytes, first: int = 1) -> Iterator[tuple[int, Any]]:
    """(line, value) of every line, `body` starting on line `first`. Raises InputError."""
    for line, text in enumerate(body.rstrip().split(b"\n"), first):
        if not text.strip():
            raise source.error("the line is blank", line)
        yield line, decode(source, text, line)


def decode(source: Source, text: bytes, line: int) -> Any:
    """One JSON value by the exact path, which refuses keys given twice and lets NaN through."""
    try:
        value = json.loads(text.decode(), object_pairs_hook=_once)
        if b"\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError as bad:
        half = repr(bad.object[bad.start])
        raise source.error(f"not a trace: a text holds {half}, half a character", line) from None
    except Twice as twice:
        raise source.error(f"key {twice} is there twice", line) from None
    except json.JSONDecodeError as bad:
        at = line + bad.lineno - 1
        raise source.error(f"not JSON: {bad.msg} at character {bad.colno}", at) from None
    except RecursionError:
        raise source.error("not a trace: JSON nested too deeply", line) from None
    except ValueError as bad:
        raise source.error(f"not JSON: {bad}", line) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        raise Twice(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return found


class Lines:
    """A JSONL file of which every line is an object with `fields`, read at once.

    `columns` maps a field's name to int64 values (times in ns) or, for ids, text and any, to a
    list. Other keys are ignored. `first` is the line on which `body` starts. Raises InputError.
    """

    def __init__(
        self, source: Source, body: bytes, fields: Sequence[Field], first: int = 1
    ) -> None:
        self.source = source
        self.first = first
        self.columns: dict[str, Any] = _fast(body, fields) or self._slow(body, fields)

    def line(self, row: int) -> int:
        """The line of a row."""
        return row + self.first

    def _slow(self, body: bytes, fields: Sequence[Field]) -> dict[str, Any]:
        columns: dict[str, Any] = {field.name: [] for field in fields}
        for line, value in objects(self.source, body, self.first):
            for field, entry in zip(fields, row(self.source, value, fields, line), strict=True):
                columns[field.name].append(entry)
        for field in fields:
            if field.kind in ("whole", *NS):
                columns[field.name] = np.array(columns[field.name], np.int64)
        return columns


def row(
    source: Source, value: Any, fields: Sequence[Field], line: int | None, where: str = ""
) -> list[Any]:
    """The fields of one decoded object, each checked; `where` goes in front of a message."""
    if not isinstance(value, dict):
        raise source.error(f"{where}not an object with the keys of a request", line)
    entries = []
    for field in fields:
        if field.name not in value and not field.optional:
            found = ", ".join(list(value)[:12]) or "none"
            raise source.error(f"{where}key {field.name} is missing; found: {found}", line)
        try:
            entries.append(parse(field, value.get(field.name)))
        except BadValue as bad:
            raise source.error(f"{where}{bad}", line) from None
    return entries


def _fast(body: bytes, fields: Sequence[Field]) -> dict[str, Any] | None:
    text = body.strip()
    if b"\n\n" in text or b"\r" in text or b"\\u" in text:
        return None
    members: list[Any] = []
    for field in fields:
        kind = _TYPES[field.kind]
        members.append((field.name, kind | None, None) if field.optional else (field.name, kind))
    names = [f"f{index}" for index in range(len(fields))]
    renamed = [(name, *member[1:]) for name, member in zip(names, members, strict=True)]
    rename = dict(zip(names, (field.name for field in fields), strict=True))
    shape = msgspec.defstruct("Row", renamed, gc=False, rename=rename, kw_only=True)
    try:
        rows: list[Any] = msgspec.json.Decoder(shape).decode_lines(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    if len(rows) != text.count(b"\n") + 1:
        return None
    columns: dict[str, Any] = {}
    for name, field in zip(names, fields, strict=True):
        given = text.count(b'"%s"' % field.name.encode())
        if given > len(rows) or (given < len(rows) and not field.optional):
            return None  # perhaps a key given twice, of which msgspec takes the last
        values: list[Any] = [getattr(entry, name) for entry in rows]
        if field.optional:
            values = [field.default if value is None else value for value in values]
        column = _column(field, values)
        if column is None:
            return None
        columns[field.name] = column
    return columns


def _column(field: Field, values: list[Any]) -> Any:
    """The values as checked int64, or as they are for ids and text; None if any is unfit."""
    if field.kind == "ids":
        flat = flatten(values)
        fine = flat is not None and (not len(flat) or 0 <= flat.min() <= flat.max() <= LARGEST_ID)
        return values if fine else None
    if field.kind in ("text", "any"):
        return values
    array = np.array(values)
    if field.kind == "whole":
        inside = array.dtype == np.int64 and field.floor <= array.min() <= array.max() <= field.most
        return array if inside else None
    if array.dtype not in (np.int64, np.float64):
        return None
    if not 0 <= array.min() <= array.max() <= LATEST_S * (10**9 // NS[field.kind]):
        return None
    scaled = array * NS[field.kind]
    return scaled if scaled.dtype == np.int64 else np.rint(scaled).astype(np.int64)


def flatten(lists: Sequence[list[int]]) -> Int64 | None:
    """All entries in order; None if one does not fit int64."""
    count = sum(map(len, lists))
    try:
        return np.fromiter(itertools.chain.from_iterable(lists), np.int64, count)
    except OverflowError:
        return None


__all__ = ["Lines", "decode", "flatten", "objects", "row"]
