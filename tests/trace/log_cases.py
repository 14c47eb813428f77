"""Small logs of every format, made here, with texts that nothing may ever repeat."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
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


SECRET = "xyzzy-plugh-4711"


def secret(value: Any) -> Any:
    """The same value with a secret in each of its texts, and one more key."""
    if isinstance(value, str):
        return f"{SECRET} {value} {SECRET}"
    if isinstance(value, list):
        return [secret(entry) for entry in value]
    if isinstance(value, dict):
        kept = ("role", "from", "type", "created", "time")
        return {k: v if k in kept else secret(v) for k, v in value.items()}
    return value


def logs() -> Iterator[tuple[str, list[Any]]]:
    """A log of each format, full of secrets."""
    plain = [{**secret(line), "user": SECRET, SECRET: SECRET} for line in talk(0)]
    yield "chat", plain
    yield "batch", [{"custom_id": f"{SECRET}{i}", "body": line} for i, line in enumerate(plain)]
    yield "prompts", [{"prompt": SECRET * 5, "completion": SECRET, "session_id": SECRET}]
    turns = [{"from": "human", "value": SECRET}, {"from": "gpt", "value": SECRET * 2}]
    yield "talks", [{"id": SECRET, "conversations": turns}]
    attributes = {
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.input.messages": json.dumps([{"role": "user", "content": SECRET}]),
        "gen_ai.conversation.id": SECRET,
        SECRET: SECRET,
    }
    yield "spans", [{"name": SECRET, "start_time": 5, "attributes": attributes}]
    yield (
        "bench",
        [{"input_lens": [3], "output_lens": [2], "generated_texts": [SECRET], "errors": [""]}],
    )
    yield "ids", [{"timestamp": 1, "input_length": 9, "output_length": 2, "hash_ids": [SECRET]}]
    # and what fails, each in a way of its own
    yield "key", [{SECRET: SECRET}]
    yield "role", [{"conversations": [{"from": SECRET, "value": SECRET}]}]
    yield "time", [{**plain[0], "created": SECRET}]
    yield "count", [{**plain[0], "usage": {"prompt_tokens": SECRET}, "prompt_tokens": 1e300}]
    yield "messages", [{"messages": [SECRET], "prompt_tokens": 2}]
    yield "failed", [{**plain[0], "error": {"message": SECRET}}]
    yield "nothing", [SECRET, [SECRET]]
    yield "template", [chat(1, [{"role": SECRET, "content": SECRET}], SECRET)]
    bench = {"input_lens": [SECRET], "output_lens": [SECRET], "start_times": [SECRET]}
    yield "bench that fails", [bench]
    yield "span that fails", [{"attributes": {"gen_ai.usage.input_tokens": SECRET}}]
