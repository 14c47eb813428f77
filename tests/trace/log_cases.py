"""Small logs of every format, made here, with texts that nothing may ever repeat."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from pagedsim.trace.logs.read import Choices, Logs, from_logs

SYSTEM = "You are terse. " * 12


def chat(at: Any, messages: list[dict[str, Any]], reply: str, **more: Any) -> dict[str, Any]:
    """One line of a chat log, its tokens counted as words."""
    prompt = sum(len(str(message["content"]).split()) for message in messages)
    return {
        "created": at,
        "messages": messages,
        "usage": {"prompt_tokens": prompt, "completion_tokens": len(reply.split())},
        "choices": [{"message": {"role": "assistant", "content": reply}}],
        **more,
    }


def talk(number: int, turns: int = 3, at: float = 1.7e9) -> list[dict[str, Any]]:
    """The lines of a conversation under a shared system prompt, a minute a turn."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": f"talk {number} begins " * 9},
    ]
    lines = []
    for turn in range(turns):
        reply = f"answer {number} {turn} " * 11
        lines.append(chat(at + 10 * number + 60 * turn, list(messages), reply))
        messages.append({"role": "assistant", "content": reply})
        messages.append({"role": "user", "content": f"and {number} {turn} then " * 7})
    return lines


def write(path: Path, values: list[Any]) -> str:
    """A JSONL file, compressed if its name says so; its name."""
    data = "".join(f"{json.dumps(value)}\n" for value in values).encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return str(path)


def read(*paths: Any, **choices: Any) -> Logs:
    """Read logs with plain choices."""
    return from_logs([str(path) for path in paths], Choices(**choices))
