"""Rows about steps in a CSV file, for `steptable` and `steplog`: cells by column, numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pagedsim.errors import InputError

MOST = 1 << 40  # tokens; milliseconds


class Row(NamedTuple):
    """The cells of one line by their column, and ``file:line`` for messages."""

    place: str
    cells: dict[str, str]


def read_rows(path: str | Path, needed: Sequence[str]) -> list[Row]:
    """The rows below the heads. ``batch`` is another name of ``sequences``, empty lines are none.

    InputError names file, line and columns: unreadable, no CSV, a `needed` column that is missing
    or there twice, another number of cells than of columns.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no UTF-8 text: {error.reason}") from None
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        return list(_rows(lines, str(path), needed))
    except csv.Error as error:
        raise InputError(f"{path}:{lines.line_num}: is no CSV: {error}") from None


def _rows(lines: Iterable[list[str]], name: str, needed: Sequence[str]) -> Iterator[Row]:
    columns: list[str] | None = None
    for line, cells in enumerate(lines, 1):
        cells = [cell.strip() for cell in cells]
        place = f"{name}:{line}"
        if not any(cells):
            continue
        if columns is None:
            columns = ["sequences" if c.lower() == "batch" else c.lower() for c in cells]
            for column in needed:
                key = "sequences" if column == "batch" else column
                if columns.count(key) != 1:
                    there = "missing" if key not in columns else "there twice"
                    raise InputError(
                        f"{place}: column {column!r} is {there}; there are: {', '.join(columns)}"
                    )
            continue
        if len(cells) != len(columns):
            raise InputError(
                f"{place}: {len(cells)} fields, must be {len(columns)}: {', '.join(columns)}"
            )
        yield Row(place, dict(zip(columns, cells, strict=True)))


def number(text: str, field: str, place: str, kind: type[int] | type[float]) -> float:
    """A cell as an integer >= 0 or a number > 0; InputError names place and field."""
    try:
        value = kind(text)
    except ValueError:
        wanted = "an integer >= 0" if kind is int else "a number > 0"
        raise InputError(f"{place}: {field} is {text!r}, must be {wanted}") from None
    if value > MOST:
        raise InputError(f"{place}: {field} is {text}, must be <= {MOST}")
    if not (value >= 0 if kind is int else value > 0):
        raise InputError(f"{place}: {field} is {text}, must be {'>= 0' if kind is int else '> 0'}")
    return value


__all__ = ["MOST", "Row", "number", "read_rows"]
