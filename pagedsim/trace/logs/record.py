"""One request as a log tells of it: what is not there is None. Holds text; lives for one moment."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any


class BadRecord(Exception):
    """What is wrong with a record, in words that hold nothing of it."""


@dataclass(slots=True)
class Record:
    """Times are ns, absolute or from the log's own zero; `messages` are objects with role, content.

    `ids` are token ids of the prompt, `hash_ids` names of its blocks. `reply` is the answer's text.
    `key` joins a request with an answer that stands elsewhere (`half` says which one this is).
    `user` is who asked, `session` the conversation.
    """

    time_ns: int | None = None
    end_ns: int | None = None
    duration_ns: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    messages: list[dict[str, Any]] | None = None
    tools: Any = None
    text: str | None = None
    ids: list[int] | None = None
    hash_ids: list[Any] | None = None
    reply: str | None = None
    session: str | None = None
    user: str | None = None
    key: str | None = None
    half: str = ""
    samples: int = 1
    failed: bool = False


def content_text(content: Any) -> str:
    """The text of a message's content: a string, or parts; what is no text counts by its kind."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    found = []
    for part in content:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, dict):
            inner = part.get("text") if isinstance(part.get("text"), str) else part.get("content")
            if isinstance(inner, str):
                found.append(inner)
            elif isinstance(inner, list):
                found.append(content_text(inner))
            else:
                found.append(_stands_for(part))
    return "".join(found)


def message_text(message: dict[str, Any]) -> str:
    """Everything of a message that a model reads: its content and its calls of tools."""
    text = content_text(message.get("content"))
    for key in ("tool_calls", "function_call"):
        if message.get(key):
            text += plain_json(message[key])
    return text


def _stands_for(part: dict[str, Any]) -> str:
    """A picture or the like as a few characters that tell it from another."""
    return hashlib.blake2b(plain_json(part).encode(), digest_size=8).hexdigest()


def plain_json(value: Any) -> str:
    """JSON of a decoded value, the same whatever the order of its keys was."""
    return json.dumps(value, sort_keys=True)


__all__ = ["BadRecord", "Record", "content_text", "message_text", "plain_json"]
