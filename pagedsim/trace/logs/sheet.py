"""A spreadsheet saved as text: columns of lengths, and a time where there is one.

The separator (comma, semicolon, tab) is told from the header. Names are compared without regard to
case. A column of prompts may hold texts in the place of lengths.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import IO

from pagedsim.trace.logs.names import FIELDS, Names, count, moment
from pagedsim.trace.logs.record import BadRecord, Record

_WANTED = ("time", "end", "duration", "prompt_tokens", "output_tokens", "session", "user")


class Sheet:
    """A sheet that has been opened: its header read, its rows not."""

    def __init__(self, stream: IO[bytes], names: Names) -> None:
        text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        try:
            header = text.readline(1 << 20)
        except UnicodeDecodeError:
            raise BadRecord("line 1 is no UTF-8 text") from None
        self.separator = max(",;\t", key=header.count)
        try:
            cells = next(csv.reader([header], delimiter=self.separator), [])
        except csv.Error:
            raise BadRecord("line 1 is no header that can be read") from None
        self.columns = {cell.strip().lower(): index for index, cell in enumerate(cells)}
        self.width, self.names, self._text = len(cells), names, text
        self.at = {}
        for field in _WANTED:
            last = {name: name.rsplit(".", 1)[-1] for name in names.candidates(field)}
            for name, short in last.items():
                at = self.columns.get(name.lower(), self.columns.get(short.lower()))
                if at is not None:
                    self.at[field] = at
                    names.used.setdefault(field, name if name.lower() in self.columns else short)
                    break

    @property
    def known(self) -> bool:
        """Whether it has a column of prompts and one of outputs."""
        return "prompt_tokens" in self.at and "output_tokens" in self.at

    def missing(self) -> str:
        """What it lacks, without a word of it."""
        lacking = [f for f in ("prompt_tokens", "output_tokens") if f not in self.at]
        known = ", ".join(FIELDS[lacking[0]][-11:]) if lacking else ""
        return (
            f"no column of {' and none of '.join(lacking)} among its {self.width} columns; known "
            f"are {known}; name it with --map {lacking[0] if lacking else ''}=COLUMN"
        )

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of every row that is not blank."""
        reader = csv.reader(self._text, delimiter=self.separator)
        try:
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    yield reader.line_num + 1, cells
        except csv.Error:
            raise BadRecord(f"line {reader.line_num + 1} is no row that can be read") from None
        except UnicodeDecodeError:
            raise BadRecord(f"line {reader.line_num + 1} or later is no UTF-8 text") from None

    def read(self, cells: list[str]) -> Record:
        """One row."""
        if len(cells) != self.width:
            raise BadRecord(f"has {len(cells)} columns, the header has {self.width}")
        record, names = Record(), self.names
        for field, at in self.at.items():
            cell = cells[at].strip()
            if not cell and field in ("end", "duration", "session", "user"):
                continue
            if field == "time":
                record.time_ns = moment(names.used[field], cell, names.unit)
            elif field == "end":
                record.end_ns = moment(names.used[field], cell, names.unit)
            elif field == "duration":
                record.duration_ns = moment(names.used[field], cell, names.unit)
            elif field == "session":
                record.session = cell
            elif field == "user":
                record.user = cell
            elif names.used[field] in ("prompt", "input", "output", "reply"):
                self._text_or_length(record, field, cell)
            elif field == "prompt_tokens":
                record.prompt_tokens = count(names.used[field], cell)
            else:
                record.output_tokens = count(names.used[field], cell)
        return record

    def _text_or_length(self, record: Record, field: str, cell: str) -> None:
        length = cell.isascii() and cell.removesuffix(".0").isdigit()
        if length and field == "prompt_tokens":
            record.prompt_tokens = count(self.names.used[field], cell)
        elif length:
            record.output_tokens = count(self.names.used[field], cell)
        elif field == "prompt_tokens":
            record.text = cell
        elif cell:
            record.reply = cell


__all__ = ["Sheet"]
