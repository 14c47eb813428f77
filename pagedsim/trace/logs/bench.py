"""Results of ``vllm bench serve --save-detailed``: one object with a list a column.

``start_times`` (seconds of the client's clock), ``ttfts`` and ``itls`` give arrivals and ends. A
request with an error or without output has failed. Generated texts are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pagedsim.trace.logs.names import count, moment
from pagedsim.trace.logs.record import BadRecord, Record


def knows(value: Any) -> bool:
    """Whether it is such a result, with details."""
    return isinstance(value, dict) and isinstance(value.get("input_lens"), list)


def read(value: Any) -> Iterator[Record]:
    """A record a request. BadRecord where columns differ in length."""
    if not knows(value):
        raise BadRecord("not a result with input_lens; was it saved with --save-detailed?")
    columns: dict[str, Any] = {}
    rows = len(value["input_lens"])
    for name in ("input_lens", "output_lens", "start_times", "ttfts", "itls", "errors"):
        column = value.get(name)
        if column is None and name in ("input_lens", "output_lens"):
            raise BadRecord(f"{name} is missing; was it saved with --save-detailed?")
        if column is not None and (not isinstance(column, list) or len(column) != rows):
            raise BadRecord(f"{name} is no list of {rows} values, as input_lens is")
        columns[name] = column
    for row in range(rows):
        start = columns["start_times"]
        output = count("output_lens", columns["output_lens"][row])
        error = columns["errors"]
        yield Record(
            time_ns=None if start is None else moment("start_times", start[row], "s"),
            duration_ns=_duration(columns, row),
            prompt_tokens=count("input_lens", value["input_lens"][row]),
            output_tokens=output,
            failed=bool(error and error[row]),
        )


def _duration(columns: dict[str, Any], row: int) -> int | None:
    if columns["ttfts"] is None or columns["itls"] is None:
        return None
    gaps = columns["itls"][row]
    parts = [columns["ttfts"][row], *(gaps if isinstance(gaps, list) else [])]
    if not all(isinstance(part, int | float) and math.isfinite(part) for part in parts):
        return None
    return max(0, round(math.fsum(parts) * 10**9))


__all__ = ["knows", "read"]
