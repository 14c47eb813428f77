"""Columns of a CSV file as int64 arrays: polars first, row by row where it finds a fault.

The exact path decides what is right. The fast path only has to be sure of what it accepts, and
gives up (None) on anything unusual: a blank line, a quoted break, a value out of bounds.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace.fields import LATEST_S, NS, BadValue, Field, parse_text
from pagedsim.trace.source import Source

MOST_COLUMNS = 10_000
_PLAIN_DATE = r"^[0-9]{4}(-[0-9]{2}){2} [0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]{1,9})?$"


class Table:
    """A CSV file with a header. Opening it checks text and header, and reads no rows."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.body = source.body()
        first = self.body.split(b"\n", 1)[0].decode()
        if (count := first.count(",") + 1) > MOST_COLUMNS:
            raise source.error(f"the header has {count} columns, must be <= {MOST_COLUMNS}", 1)
        try:
            cells = next(csv.reader([first.rstrip("\r")]), [])
        except csv.Error as error:
            raise source.error(f"the header cannot be read: {error}", 1) from None
        self.header = [cell.strip() for cell in cells]
        self._where = {name.lower(): index for index, name in enumerate(self.header)}

    def has(self, name: str) -> bool:
        """Whether the header has this column, in upper or lower case."""
        return name.lower() in self._where

    def columns(self, fields: Sequence[Field]) -> list[Int64]:
        """The fields' columns, checked. Raises InputError with line, field, value and bound."""
        found = ", ".join(self.header)
        for field in fields:
            name = field.name.lower()
            if name not in self._where:
                raise self.source.error(f"column {field.name} is missing; found: {found}", 1)
            if sum(other.lower() == name for other in self.header) > 1:
                raise self.source.error(f"column {field.name} is there twice; found: {found}", 1)
        columns = self._fast(fields) or self._slow(fields)
        if not len(columns[0]):
            raise self.source.error("there are no rows below the header", 2)
        return columns

    def line(self, row: int) -> int:
        """The line on which a row starts; O(rows)."""
        for index, (line, _) in enumerate(self._records()):
            if index == row:
                return line
        raise IndexError(row)

    def _fast(self, fields: Sequence[Field]) -> list[Int64] | None:
        import polars as pl

        text = self.body.rstrip()
        if (
            b"\n\n" in text
            or b"\n\r" in text
            or b'"' in text
            or b"\r" in text.replace(b"\r\n", b"")
        ):
            return None
        names = [f"c{index}" for index in range(len(self.header))]
        try:
            frame = pl.read_csv(text, new_columns=names, infer_schema=False)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError):
            return None
        if frame.width != len(names) or frame[names[-1]].null_count():
            return None  # a row may be too short, which only the exact path can tell
        columns = []
        for field in fields:
            column = _convert(frame[names[self._where[field.name.lower()]]], field)
            if column is None:
                return None
            columns.append(column)
        return columns

    def _slow(self, fields: Sequence[Field]) -> list[Int64]:
        at = [self._where[field.name.lower()] for field in fields]
        columns: list[list[int]] = [[] for _ in fields]
        for line, cells in self._records():
            for column, field, index in zip(columns, fields, at, strict=True):
                try:
                    column.append(parse_text(field, cells[index]))
                except BadValue as bad:
                    raise self.source.error(str(bad), line) from None
        return [np.array(column, np.int64) for column in columns]

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        text = io.StringIO(self.body.decode().rstrip(), newline="")
        reader = csv.reader(text, strict=True)
        line = 1
        try:
            next(reader)
            line = reader.line_num + 1
            for cells in reader:
                if not cells or cells == [""]:
                    raise self.source.error("the line is blank", line)
                if len(cells) != len(self.header):
                    columns = f"has {len(cells)} columns, the header has {len(self.header)}"
                    raise self.source.error(columns, line)
                yield line, cells
                line = reader.line_num + 1
        except csv.Error as error:
            raise self.source.error(f"not CSV: {error}", line) from None


def _convert(series: Any, field: Field) -> Int64 | None:
    """A text column as int64 within the field's bounds, or None."""
    import polars as pl

    if field.kind == "date":
        if not len(series):
            return np.zeros(0, np.int64)
        if series.null_count():
            return None
        if series.min() < "1970" or series.max() >= "2262":
            return None
        bare = series.str.strip_suffix("+00:00")
        if not bare.str.contains(_PLAIN_DATE).all():
            return None
        try:
            dates = bare.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="ns", strict=False)
        except pl.exceptions.PolarsError:
            return None
        if dates.null_count():
            return None
        ticks: Int64 = dates.to_physical().to_numpy().astype(np.int64)
        return ticks
    whole = series.cast(pl.Int64, strict=False)
    if field.kind == "whole":
        if whole.null_count():
            return None
        values: Int64 = whole.to_numpy().astype(np.int64)
        inside = not len(values) or (values.min() >= field.floor and values.max() <= field.most)
        return values if inside else None
    number = series.cast(pl.Float64, strict=False)
    if number.null_count() or not len(number):
        return None
    times = number.to_numpy()
    if not np.isfinite(times).all() or times.min() < 0:
        return None
    if times.max() > LATEST_S * (10**9 // NS[field.kind]):
        return None
    if not whole.null_count():
        exact: Int64 = whole.to_numpy() * NS[field.kind]
        return exact
    times_ns: Int64 = np.rint(times * NS[field.kind]).astype(np.int64)
    return times_ns


__all__ = ["MOST_COLUMNS", "Table"]
