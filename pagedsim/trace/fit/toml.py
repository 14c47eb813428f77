"""A recipe as TOML text, with what it means beside it; `pagedsim.trace.recipe` reads it again."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import msgspec

from pagedsim.trace.recipe import Recipe

_WIDTH = 96
_SAID = {
    "arrivals": "of sessions where there are turns; rates a second, window after window",
    "prompt": "new tokens after what is shared with others; of sessions where turns has no own",
    "output": "by classes of prompts where the kind is by_prompt",
    "prefixes": "the tree of shared prefixes: tokens of each, under which, share of the sessions",
    "turns": "answers: whether the next prompt goes on with the answer",
    "turns.count": "the chance of a further turn after the first, the second, …",
    "turns.think_s": "seconds from an answer (token_ms, wait_ms) to the next turn",
    "turns.first": "new tokens of a session's first request where more follow",
    "turns.prompt": "new tokens of later turns",
    "turns.cuts": "share of turns that keep part of the last prompt alone, by classes of it",
    "turns.cuts.kept": "the share of it that stays",
    "turns.cuts.prompt": "new tokens after that",
}


def dump(recipe: Recipe, head: str = "") -> str:
    """The text. `head` becomes comments above it."""
    plain = msgspec.to_builtins(recipe)
    defaults = {field.name: field.default for field in msgspec.structs.fields(Recipe)}
    lines = [f"# {line}".rstrip() for line in head.splitlines()]
    tables = []
    for key, value in plain.items():
        if isinstance(value, dict):
            tables.append((key, value))
        elif value is not None and (key in _ALWAYS or value != defaults[key]):
            lines.append(f"{key} = {_value(value)}")
    for key, value in tables:
        lines += _table(key, value)
    return "\n".join(lines) + "\n"


_ALWAYS = ("name", "requests", "seed", "token_ms", "wait_ms")


def _table(name: str, table: dict[str, Any]) -> list[str]:
    said = f"  # {_SAID[name]}" if name in _SAID else ""
    lines = ["", f"[{name}]{said}"]
    inner = []
    for key, value in table.items():
        if isinstance(value, dict):
            inner.append((f"{name}.{key}", value))
        elif value is not None:
            lines += _pair(key, value)
    for key, value in inner:
        lines += _table(key, value)
    return lines


def _pair(key: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        return [f"{key} = {_value(value)}"]
    if value and isinstance(value[0], list):
        return [f"{key} = [", *(line for row in value for line in _list(row, "    ", "],")), "]"]
    lines = _list(value, f"{key} = ", "]")
    return lines


def _list(values: list[Any], start: str, end: str) -> list[str]:
    text = start + "[" + ", ".join(_value(value) for value in values) + end
    return (
        textwrap.wrap(
            text, _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
        if len(text) > _WIDTH
        else [text]
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


__all__ = ["dump"]
