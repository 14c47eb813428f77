"""OpenTelemetry spans of the GenAI conventions: OTLP's JSON, or a span an object.

Spans that are not of a model's call have no ``gen_ai.usage`` and are passed over. Text is read
where instrumentation keeps it (``gen_ai.input.messages``, ``gen_ai.prompt.0.content``, …).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pagedsim.trace.logs.names import count, moment
from pagedsim.trace.logs.record import BadRecord, Record, content_text

_PROMPT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
)
_SESSION = ("gen_ai.conversation.id", "session.id", "gen_ai.thread.id")
_START = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "start")
_END = ("endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime", "end")


def spans(value: Any) -> Iterator[dict[str, Any]]:
    """The spans in a value: itself, or those of an OTLP document."""
    if not isinstance(value, dict):
        return
    groups = value.get("resourceSpans") or value.get("resource_spans")
    if not isinstance(groups, list):
        if "attributes" in value:
            yield value
        return
    for group in _objects(groups):
        for scope in _objects(group.get("scopeSpans") or group.get("scope_spans")):
            yield from _objects(scope.get("spans"))


def _objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, if it is one."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def knows(value: Any) -> bool:
    """Whether it is OTLP's, or a span of the GenAI conventions."""
    if isinstance(value, dict) and ("resourceSpans" in value or "resource_spans" in value):
        return True
    return any(
        any(str(k).startswith(("gen_ai.", "llm.")) for k in attributes(s)) for s in spans(value)
    )


def attributes(span: Any) -> dict[str, Any]:
    """A span's attributes as a plain object, however they are spelt."""
    found = span.get("attributes") if isinstance(span, dict) else None
    if isinstance(found, dict):
        return found
    if not isinstance(found, list):
        return {}
    plain = {}
    for entry in found:
        if isinstance(entry, dict) and isinstance(entry.get("key"), str):
            value = entry.get("value")
            if isinstance(value, dict) and value:
                kind, value = next(iter(value.items()))
                if kind == "intValue" and isinstance(value, str) and value.isdigit():
                    value = int(value)
            plain[entry["key"]] = value
    return plain


def read(span: dict[str, Any]) -> Record | None:
    """One span; None for one that is not a model's call."""
    known = attributes(span)
    prompt = _first(known, _PROMPT)
    output = _first(known, _OUTPUT)
    if prompt is None and output is None:
        return None
    if prompt is None or output is None:
        raise BadRecord(f"{(_OUTPUT if output is None else _PROMPT)[0]} is missing")
    start, end = _first(span, _START), _first(span, _END)
    status = span.get("status")
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else None
    messages = _messages(known)
    reply = _reply(known)
    session = _first(known, _SESSION)
    return Record(
        time_ns=None if start is None else moment("start_time", start),
        end_ns=None if end is None else moment("end_time", end),
        prompt_tokens=count(_PROMPT[0], prompt),
        output_tokens=count(_OUTPUT[0], output),
        messages=messages or None,
        reply=reply,
        session=None if session is None else str(session),
        failed=code in (2, "ERROR", "STATUS_CODE_ERROR"),
    )


def _messages(known: dict[str, Any]) -> list[dict[str, Any]]:
    found = _decoded(known.get("gen_ai.input.messages"))
    if found is None:
        found = _numbered(known, "gen_ai.prompt")
    system = _decoded(known.get("gen_ai.system_instructions"))
    first = [{"role": "system", "content": _parts(system)}] if system else []
    return [*first, *({"role": str(m.get("role")), "content": _parts(m)} for m in found)]


def _reply(known: dict[str, Any]) -> str | None:
    found = _decoded(known.get("gen_ai.output.messages")) or _numbered(known, "gen_ai.completion")
    return _parts(found[0]) if found else None


def _numbered(known: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while f"{prefix}.{len(found)}.content" in known or f"{prefix}.{len(found)}.role" in known:
        at = f"{prefix}.{len(found)}"
        found.append({"role": known.get(f"{at}.role"), "content": known.get(f"{at}.content")})
    return found


def _decoded(value: Any) -> list[dict[str, Any]] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
        return value
    return None


def _parts(message: Any) -> str:
    """A message's text: its content, or its parts'."""
    if isinstance(message, list):
        return content_text(message)
    parts = message.get("parts")
    return content_text(parts if isinstance(parts, list) else message.get("content"))


def _first(known: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((known[name] for name in names if known.get(name) is not None), None)


__all__ = ["attributes", "knows", "read", "spans"]
