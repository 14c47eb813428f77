"""What logs call the things that a trace needs, and how a value is read.

A *name* is a key, or keys with dots between them where one object holds another; a key that itself
has dots goes first. The first name that is there counts, and what was used is remembered, to be
said in a line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pagedsim.errors import SpecError
from pagedsim.trace.fields import BadValue, Field, parse_text
from pagedsim.trace.lengths import OUTPUTS, PROMPTS
from pagedsim.trace.logs.record import BadRecord

UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
FIELDS: Mapping[str, tuple[str, ...]] = {
    "time": (
        *("timestamp", "time", "ts", "@timestamp", "request_time", "request_timestamp"),
        *("start_time", "startTime", "started_at", "arrived_at", "arrival_time", "arrival"),
        *("received_at", "requested_at", "datetime", "date", "created_at", "createdAt", "created"),
        *("time_created", "logged_at", "timestamp_ms", "time_ms", "start_time_unix_nano"),
    ),
    "end": ("end_time", "endTime", "finished_at", "completed_at", "response_time_stamp"),
    "duration": (
        *("duration_ms", "latency_ms", "elapsed_ms", "response_time_ms", "duration_s"),
        *("latency_s", "duration", "latency", "elapsed", "response_time"),
    ),
    "prompt_tokens": (
        *("usage.prompt_tokens", "usage.input_tokens", "prompt_token_count"),
        *("num_prompt_tokens", *PROMPTS),
    ),
    "output_tokens": (
        *("usage.completion_tokens", "usage.output_tokens", "completion_token_count"),
        *("num_generated_tokens", "num_output_tokens", *OUTPUTS),
    ),
    "messages": ("messages", "chat_history"),
    "prompt": ("prompt", "input", "instructions"),
    "reply": (
        "completion",
        "reply",
        "answer",
        "output_text",
        "output",
        "response",
        "generated_text",
    ),
    "session": (
        *("session_id", "sessionId", "session", "conversation_id", "conversationId", "thread_id"),
        *("threadId", "metadata.session_id", "metadata.conversation_id", "dialog_id"),
    ),
    "user": ("user", "user_id", "userId", "metadata.user_id"),
    "hash_ids": ("hash_ids", "block_hashes", "prefix_hashes"),
    "id": ("custom_id", "request_id", "requestId", "id"),
}


class Names:
    """Look-ups by field. `given` names fields as the user does: ``prompt_tokens=in``."""

    def __init__(self, given: Mapping[str, str] | None = None, unit: str | None = None) -> None:
        self.given = dict(given or {})
        for field in self.given:
            if field not in FIELDS:
                raise SpecError(f"--map {field}: no such field; there are {', '.join(FIELDS)}")
        self.unit = unit
        self.used: dict[str, str] = {}

    def candidates(self, field: str) -> tuple[str, ...]:
        """Names to look for, the user's alone where one was given."""
        return (self.given[field],) if field in self.given else FIELDS[field]

    def find(self, places: list[dict[str, Any]], field: str, kinds: tuple[type, ...]) -> Any:
        """The first value of one of `kinds` under a name of `field`, None if there is none."""
        for name in self.candidates(field):
            for place in places:
                value = dig(place, name)
                if isinstance(value, kinds) and not isinstance(value, bool):
                    self.used.setdefault(field, name)
                    return value
        if field in self.given and any(has(place, self.given[field]) for place in places):
            raise BadRecord(f"{self.given[field]} does not hold a {field}")
        return None

    def tokens(self, places: list[dict[str, Any]], field: str) -> int | None:
        """A count of tokens."""
        value = self.find(places, field, (int, float))
        return None if value is None else count(self.used[field], value)

    def moment(self, places: list[dict[str, Any]], field: str) -> int | None:
        """A time in ns."""
        value = self.find(places, field, (int, float, str))
        return None if value is None else moment(self.used[field], value, self.unit)

    def said(self) -> str:
        """The names that were used, by field."""
        return ", ".join(f"{field}: {name}" for field, name in self.used.items())


def dig(value: Any, name: str) -> Any:
    """What stands under a name, None if nothing does."""
    if not isinstance(value, dict):
        return None
    if name in value:
        return value[name]
    first, _, rest = name.partition(".")
    return dig(value.get(first), rest) if rest else None


def has(value: dict[str, Any], name: str) -> bool:
    """Whether something stands under a name."""
    return dig(value, name) is not None


def count(name: str, value: Any) -> int:
    """A count of tokens, 0 … 10^9; BadRecord without the value."""
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,12}(\.0*)?\s*", value, re.ASCII):
        value = float(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**9:
        raise BadRecord(f"{name} is no whole number from 0 to 10^9")
    return value


def moment(name: str, value: Any, unit: str | None = None) -> int:
    """A time in ns: a date, or a number in `unit`, told by its name or size where that is None.

    Numbers from 10^11 on are ms since 1970, from 10^14 µs, from 10^17 ns; below, seconds.
    """
    if isinstance(value, str):
        text = value.strip()
        if not re.fullmatch(r"[+-]?\d{1,25}(\.\d{0,12})?([eE][+-]?\d\d?)?", text, re.ASCII):
            return _date(name, text)
        value = int(text) if text.lstrip("+-").isdigit() else float(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadRecord(f"{name} is neither a date nor a number")
    if unit is None:
        unit = next((u for u in UNITS if name.endswith(f"_{u}")), None)
        unit = unit or ("ns" if name.endswith("nano") else None)
    if unit is None:
        unit = "s" if value < 1e11 else "ms" if value < 1e14 else "us" if value < 1e17 else "ns"
    scaled = value * UNITS[unit]
    found = scaled if isinstance(scaled, int) else round(scaled)
    if not 0 <= found < 1 << 62:
        raise BadRecord(f"{name} is no time from 0 on")
    return found


def _date(name: str, text: str) -> int:
    try:
        return parse_text(Field(name, "date"), text)
    except BadValue:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadRecord(f"{name} is no date that is known, such as 2023-11-16T18:15:46Z") from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    since = (found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if since < 0:
        raise BadRecord(f"{name} is a date before 1970")
    return since * 1000


__all__ = ["FIELDS", "UNITS", "Names", "count", "dig", "has", "moment"]
