"""Which format a log has: told by its first value or header, never by its name."""

from __future__ import annotations

import json
from typing import Any

from pagedsim.trace.logs import bench, conversations, objects, spans
from pagedsim.trace.logs.names import FIELDS, Names
from pagedsim.trace.logs.record import BadRecord

BENCH = "vLLM benchmark result"
SPANS = "OpenTelemetry GenAI spans"
TALKS = "ShareGPT-style conversations"
SHEET = "spreadsheet of lengths"


def of_value(value: Any, names: Names) -> str:
    """The format of a file whose first JSON value this is. BadRecord, without a word of it."""
    if spans.knows(value):
        return SPANS
    if bench.knows(value):
        return BENCH
    if conversations.turns(value) is not None:
        return TALKS
    if isinstance(value, dict):
        if (
            "pagedsim" in value
            or "parent_chat_id" in value
            or isinstance(value.get("requests"), list)
        ):
            raise BadRecord("a trace, not a log: 'pagedsim trace convert' reads it")
        if found := objects.knows(value, names):
            return found
    what = f"an object with {len(value)} keys" if isinstance(value, dict) else "no object"
    some = ", ".join(FIELDS["messages"][:1] + FIELDS["prompt"][:1] + FIELDS["prompt_tokens"][:2])
    raise BadRecord(
        f"no log that is known: {what}, none of them such as {some}; name the fields with "
        "--map prompt_tokens=KEY --map output_tokens=KEY"
    )


def mode(head: bytes) -> str:
    """How a file is laid out, by its first bytes: lines, values or sheet. BadRecord for neither."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        raise BadRecord("the file is empty")
    if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise BadRecord("a workbook: save its sheet as CSV")
    if head.startswith(b"PAR1"):
        raise BadRecord("a Parquet file: 'pagedsim trace convert' reads pagedsim's own")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head[:4096]:
        raise BadRecord("binary data or UTF-16, must be UTF-8 text")
    if start[:1] == b"[":
        return "values"
    if start[:1] != b"{":
        return "sheet"
    lines = start.split(b"\n", 2)
    if len(lines) > 1 and (_alone(lines[0]) or _alone(lines[1])):
        return "lines"
    return "values"


def _alone(line: bytes) -> bool:
    """Whether a line is an object by itself."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


__all__ = ["BENCH", "SHEET", "SPANS", "TALKS", "mode", "of_value"]
