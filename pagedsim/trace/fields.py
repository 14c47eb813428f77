"""What a field of a trace file may hold, and how one value of it is read.

This is the slow and exact path: readers take whole columns at once, and come here, row by row,
only when something in a column is not as it should be, to find the row and say what is wrong.

Units on the way in: `whole` numbers (tokens, ids), `seconds` and `millis` from the file's zero,
`date` (absolute). Times leave as int64 nanoseconds, rounded half to even; dates as nanoseconds
since 1970.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

LONGEST = 10**9  # tokens of a prompt or an output: beyond it a file is broken, not long
LARGEST_ID = 2**62
LATEST_S = 4 * 10**9  # seconds: later than any date of today in seconds since 1970
NS = {"seconds": 10**9, "millis": 10**6}

_NUMBER = re.compile(r"[+-]?(\d{1,400}\.?\d{0,400}|\.\d{1,400})([eE][+-]?\d{1,3})?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,400}", re.ASCII)
_DATE = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)


class Field(NamedTuple):
    """A column or key. `zero`: 0 passes although `least` is 1 (what it means is decided later).

    `kind` is whole, seconds, millis, date, ids (a list of whole numbers), text or any.
    `default` replaces a key that is missing or null; without one it must be there.
    """

    name: str
    kind: str = "whole"
    least: int = 0
    most: int = LONGEST
    zero: bool = False
    default: Any = None
    optional: bool = False

    @property
    def floor(self) -> int:
        """The smallest value that passes."""
        return 0 if self.zero else self.least


class BadValue(Exception):
    """What is wrong with a value, without its place."""


def tokens(name: str, *, zero: bool = True, **more: Any) -> Field:
    """A field that counts tokens, at least 1; zero passes here where `zero`."""
    return Field(name, "whole", least=1, zero=zero, **more)


def parse(field: Field, value: Any) -> Any:
    """One decoded JSON value. Raises BadValue with field, value and bound."""
    if value is None and field.optional:
        return field.default
    if field.kind == "any":
        return value
    if field.kind == "text":
        if not isinstance(value, str):
            raise _bad(field, value, "text")
        return value
    if field.kind == "ids":
        return _ids(field, value)
    if isinstance(value, str):
        raise _bad(field, value, "a whole number" if field.kind == "whole" else "a number")
    return _of_number(field, value)


def parse_text(field: Field, text: str) -> int:
    """One cell of a CSV file. Raises BadValue with field, value and bound."""
    return _date(field, text) if field.kind == "date" else _of_number(field, text)


def _of_number(field: Field, value: Any) -> int:
    if field.kind in NS:
        number = _number(field, value, "a number")
        if not 0 <= number <= LATEST_S * (10**9 // NS[field.kind]):
            raise _bad(field, value, _time_bound(field, number))
        scaled = number * NS[field.kind]
        return scaled if isinstance(scaled, int) else round(scaled)
    return _whole(field, value)


def _whole(field: Field, value: Any) -> int:
    number = _number(field, value, "a whole number")
    if isinstance(number, float):
        if not number.is_integer():
            raise _bad(field, value, "a whole number")
        number = int(number)
    if number < field.floor:
        raise _bad(field, value, f">= {field.least}")
    if number > field.most:
        raise _bad(field, value, f"<= {field.most}")
    return number


def _number(field: Field, value: Any, kind: str) -> int | float:
    if isinstance(value, str):
        text = value.strip()
        if _WHOLE.fullmatch(text):
            return int(text)
        if not _NUMBER.fullmatch(text):
            raise _bad(field, value, kind)
        value = float(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(field, value, kind)
    if isinstance(value, float) and not math.isfinite(value):
        raise _bad(field, value, kind)
    return value


def _time_bound(field: Field, number: int | float) -> str:
    if number < 0:
        return ">= 0"
    return f"<= {LATEST_S * (10**9 // NS[field.kind])}"


def _ids(field: Field, value: Any) -> list[int]:
    if not isinstance(value, list):
        raise _bad(field, value, "a list of whole numbers")
    item = Field(field.name, "whole", 0, LARGEST_ID)
    for index, entry in enumerate(value):
        if type(entry) is not int or not 0 <= entry <= LARGEST_ID:
            _whole(item._replace(name=f"{field.name}[{index}]"), entry)
    return [int(entry) for entry in value]


def _date(field: Field, value: Any) -> int:
    example = "a date such as 2023-11-16 18:15:46.6805900, from 1970 to 2261"
    match = _DATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise _bad(field, value, example)
    day, clock, fraction, zone = match.groups()
    zone = "+00:00" if zone in (None, "Z") else zone
    try:
        moment = datetime.strptime(f"{day} {clock} {zone}", "%Y-%m-%d %H:%M:%S %z")
        seconds = int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    except (ValueError, OverflowError):
        raise _bad(field, value, example) from None
    if not 1970 <= moment.year <= 2261 or seconds < 0:
        raise _bad(field, value, example)
    return seconds * 10**9 + int((fraction or "0").ljust(9, "0"))


def _bad(field: Field, value: Any, must: str) -> BadValue:
    return BadValue(f"{field.name} is {shown(value)}, must be {must}")


def shown(value: Any) -> str:
    """A value as it stands in a message, cut where it is long."""
    if isinstance(value, str):
        text = value if value.isprintable() else repr(value)
        text = text or "empty"
    elif isinstance(value, bool) or value is None:
        text = {True: "true", False: "false", None: "null"}[value]
    elif isinstance(value, float):
        text = "NaN" if math.isnan(value) else repr(value)
    elif isinstance(value, int):
        text = str(value) if abs(value) < 10**30 else f"a number of {value.bit_length()} bits"
    elif isinstance(value, list | dict):
        text = "a list" if isinstance(value, list) else "an object"
    else:
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


__all__ = [
    "LARGEST_ID",
    "LATEST_S",
    "LONGEST",
    "NS",
    "BadValue",
    "Field",
    "parse",
    "parse_text",
    "shown",
    "tokens",
]
