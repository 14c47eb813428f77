"""ShareGPT-style conversations: every answer in one is a request, asked by all that came before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pagedsim.trace.logs.record import BadRecord, Record, content_text

LISTS = ("conversations", "conversation", "items")
_ROLES = {
    **dict.fromkeys(("human", "user", "prompter"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bard", "bing", "model", "bot"), "assistant"),
    "system": "system",
    **dict.fromkeys(("tool", "function", "observation", "function_response"), "tool"),
    "function_call": "assistant",
}


def turns(value: Any) -> list[Any] | None:
    """The list of turns of a conversation, None if that is none."""
    if not isinstance(value, dict):
        return None
    for name in LISTS:
        found = value.get(name)
        if isinstance(found, list) and all(
            isinstance(turn, dict) and ("from" in turn or "role" in turn) for turn in found
        ):
            return found
    return None


def read(value: Any) -> Iterator[Record]:
    """A request an answer, told as one conversation by its content. BadRecord for a stranger."""
    said = turns(value)
    if said is None:
        raise BadRecord(f"not an object with {' or '.join(LISTS)}")
    history: list[dict[str, Any]] = []
    for turn in said:
        role = _ROLES.get(str(turn.get("from") or turn.get("role")).lower())
        if role is None:
            raise BadRecord("a turn is from somebody unknown, must be human, gpt, system or tool")
        text = content_text(turn.get("value", turn.get("content", turn.get("text"))))
        if role == "assistant" and history and history[-1]["role"] != "system":
            yield Record(messages=list(history), reply=text)
        history.append({"role": role, "content": text})


__all__ = ["LISTS", "read", "turns"]
