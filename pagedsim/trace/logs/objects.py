"""Logs with an object a request: chat, completion and batch logs, and timed traces of lengths.

What was asked and what was answered may stand in the object itself or within it, as loggers and
batch files have it (`ASKED`, `ANSWERED`); every field is looked for in all of these places.
"""

from __future__ import annotations

from typing import Any

from pagedsim.trace.logs.names import Names, count, dig, moment
from pagedsim.trace.logs.record import BadRecord, Record, content_text, message_text

ASKED = ("body", "request", "request.body", "request_body", "params", "kwargs", "payload", "inputs")
ANSWERED = ("response", "response.body", "response_body", "response_obj", "outputs", "result")


def places(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The object, and what it holds of request and answer."""
    inner = [dig(value, name) for name in (*ASKED, *ANSWERED)]
    return [value, *(place for place in inner if isinstance(place, dict))]


def knows(value: Any, names: Names) -> str:
    """What kind of log an object comes from, '' for none that is known."""
    if not isinstance(value, dict):
        return ""
    found = places(value)
    if "custom_id" in value and ("body" in value or "response" in value):
        return "batch-API file"
    mapped = [f for f in names.given if any(dig(p, names.given[f]) is not None for p in found)]
    if names.find(found, "messages", (list,)) is not None or any(
        _turns(place.get("input")) for place in found
    ):
        return "OpenAI-style chat log"
    if _asked_text(found, names) is not None:
        return "OpenAI-style completion log"
    if names.find(found, "prompt_tokens", (int, float)) is not None or (
        names.find(found, "hash_ids", (list,)) is not None
    ):
        return "timed trace of lengths"
    return "log with the names given" if mapped else ""


def read(value: Any, names: Names) -> Record:
    """One object. BadRecord where it lacks what a request needs."""
    if not isinstance(value, dict):
        raise BadRecord("not an object")
    found = places(value)
    hash_ids = names.find(found, "hash_ids", (list,))
    record = Record(
        time_ns=_time(found, names, hash_ids is not None),
        end_ns=names.moment(found, "end"),
        duration_ns=names.moment(found, "duration"),
        prompt_tokens=_prompt_tokens(found, names),
        output_tokens=names.tokens(found, "output_tokens"),
        messages=_messages(found, names),
        tools=next((p["tools"] for p in found if isinstance(p.get("tools"), list)), None),
        hash_ids=hash_ids,
        session=_word(names.find(found, "session", (str, int))),
        user=_word(names.find(found, "user", (str, int))),
        failed=_failed(value),
    )
    if record.messages is None and record.hash_ids is None:
        asked = _asked_text(found, names)
        if isinstance(asked, list):
            record.ids = asked
        else:
            record.text = asked
    _answer(found, names, record)
    if "custom_id" in value:
        record.key = _word(value["custom_id"])
        if record.key is None:
            raise BadRecord("custom_id is null")
        record.half = "answer" if "response" in value else "request"
    elif isinstance(value.get("request_id") or value.get("id"), str | int):
        record.key = _word(value.get("request_id") or value.get("id"))
    return record


def _time(found: list[dict[str, Any]], names: Names, hashed: bool) -> int | None:
    """The arrival; small whole numbers beside hash ids are ms, as in the traces that began that."""
    value = names.find(found, "time", (int, float, str))
    if value is None:
        return None
    small = hashed and isinstance(value, int) and value < 10**11
    return moment(names.used["time"], value, names.unit or ("ms" if small else None))


def _prompt_tokens(found: list[dict[str, Any]], names: Names) -> int | None:
    """The prompt's tokens; some APIs count those read from or written to a cache apart."""
    tokens = names.tokens(found, "prompt_tokens")
    if tokens is not None and names.used.get("prompt_tokens") == "usage.input_tokens":
        for name in ("cache_read_input_tokens", "cache_creation_input_tokens"):
            for place in found:
                apart = dig(place, f"usage.{name}")
                if isinstance(apart, int):
                    tokens += count(name, apart)
                    break
    return tokens


def _messages(found: list[dict[str, Any]], names: Names) -> list[dict[str, Any]] | None:
    messages = names.find(found, "messages", (list,))
    if messages is None:
        messages = next((p["input"] for p in found if _turns(p.get("input"))), None)
    if messages is None:
        return None
    if not messages or not all(isinstance(message, dict) for message in messages):
        raise BadRecord(f"{names.used.get('messages', 'input')} is no list of messages")
    system = next((p["system"] for p in found if isinstance(p.get("system"), str | list)), None)
    if system is not None:
        return [{"role": "system", "content": content_text(system)}, *messages]
    return list(messages)


def _turns(value: Any) -> bool:
    """Whether a value is a list of messages."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(turn, dict) and "role" in turn for turn in value)
    )


def _asked_text(found: list[dict[str, Any]], names: Names) -> str | list[int] | None:
    asked = names.find(found, "prompt", (str, list))
    if isinstance(asked, list):
        if asked and all(type(entry) is int for entry in asked):
            return asked
        if all(isinstance(entry, str) for entry in asked):
            return "".join(asked)
        return content_text(asked) or None
    return asked if isinstance(asked, str) else None


def _answer(found: list[dict[str, Any]], names: Names, record: Record) -> None:
    """The answer's text, and how many answers there are."""
    for place in found:
        choices = place.get("choices")
        if isinstance(choices, list) and choices:
            first = choices[0] if isinstance(choices[0], dict) else {}
            message = first.get("message")
            if isinstance(message, dict):
                record.reply = message_text(message)
            elif isinstance(first.get("text"), str):
                record.reply = first["text"]
            record.samples = len(choices)
            return
        if place is not found[0] and isinstance(place.get("content"), str | list):
            record.reply = content_text(place["content"])
            return
    reply = names.find(found, "reply", (str, list))
    if reply is not None:
        record.reply = content_text(reply)


def _failed(value: dict[str, Any]) -> bool:
    status = dig(value, "response.status_code") or value.get("status_code") or 200
    return bool(value.get("error")) or (isinstance(status, int) and status >= 400)


def _word(value: Any) -> str | None:
    return None if value is None else str(value)


__all__ = ["knows", "places", "read"]
