"""The trace of a recorded engine run: one JSON object with ``requests``.

A request is ``{id, arrival_step, prompt: [[first, length], …], output_len, output_start, salt?,
priority?}``. Time is the step number, so one step is one nanosecond. Ids must count up from 0, so
that they are rows. A salt is any string or number; each distinct one becomes an int from 1 up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pagedsim.trace.fields import LARGEST_ID, BadValue, Field, parse, tokens
from pagedsim.trace.lines import row
from pagedsim.trace.source import Source
from pagedsim.trace.trace import Trace

FIELDS = (
    Field("id", "whole", 0),
    Field("arrival_step", "whole", 0, LARGEST_ID),
    Field("prompt", "any"),
    tokens("output_len", zero=False),
    Field("output_start", "whole", 0, LARGEST_ID),
    Field("salt", "any", optional=True),
    Field("priority", "whole", -(2**31), 2**31, optional=True, default=0),
)
_FIRST = Field("first id of a run", "whole", 0, LARGEST_ID)
_LENGTH = tokens("length of a run", zero=False)


def read(source: Source, document: dict[str, Any]) -> Trace:
    """The trace of a decoded document. Raises InputError, by request."""
    columns: list[list[Any]] = [[] for _ in FIELDS]
    rows, first, length = [0], [], []
    salts: dict[str, int] = {}
    for index, entry in enumerate(document["requests"]):
        try:
            values = row(source, entry, FIELDS, None, f"request {index}: ")
            if values[0] != index:
                raise BadValue(f"id is {values[0]}, must be {index}: ids count up from 0")
            for run in _runs(values[2]):
                first.append(run[0])
                length.append(run[1])
            if values[5] is not None and not isinstance(values[5], str | int):
                raise BadValue("salt must be text or a whole number")
        except BadValue as bad:
            raise source.error(f"request {index}: {bad}") from None
        rows.append(len(first))
        values[2] = sum(length[rows[-2] :])
        values[5] = 0 if values[5] is None else salts.setdefault(repr(values[5]), len(salts) + 1)
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    if not columns[0]:
        raise source.error("no requests in it")
    _, arrival, prompt, output, start, salt, priority = columns
    return Trace.build(
        str(document.get("name") or source.name),
        arrival,
        prompt,
        output,
        runs=(np.array(rows), np.array(first), np.array(length)),
        output_token=start,
        columns={"salt": salt, "priority": priority},
        format="recorded",
        load="recorded arrivals, one step a nanosecond",
        sha256=source.sha256,
    )


def _runs(value: Any) -> list[tuple[int, int]]:
    if not isinstance(value, list) or not value:
        raise BadValue("prompt must be a list of runs [first id, length], at least one")
    runs = []
    for run in value:
        if not isinstance(run, list) or len(run) != 2:
            raise BadValue("prompt must be a list of runs [first id, length]")
        runs.append((parse(_FIRST, run[0]), parse(_LENGTH, run[1])))
    return runs


__all__ = ["FIELDS", "read"]
