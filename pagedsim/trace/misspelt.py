"""What a recipe with a wrong key may have meant, with an example of how it is said."""

from __future__ import annotations

import difflib
import re

EXAMPLES = {
    "name": 'name = "mine"',
    "requests": "requests = 2000",
    "seconds": "seconds = 3600",
    "arrivals": 'arrivals = { kind = "poisson", rate = 5 }',
    "prompt": 'prompt = { kind = "lognormal", mean = 1200, cv = 1.5 }',
    "output": 'output = { kind = "quantiles", percents = [0, 50, 100], values = [1, 150, 900] }',
    "kind": 'kind = "lognormal"',
    "rate": 'arrivals = { kind = "poisson", rate = 5 }',
    "system": "system = { prompts = 12, share = 0.9, tokens = "
    '{ kind = "uniform", lo = 200, hi = 2000 } }',
    "prefixes": "prefixes = { tokens = [512, 128], under = [0, 1], shares = [0.6, 0.2] }",
    "turns": 'turns = { count = { kind = "geometric", mean = 3 }, '
    'think_s = { kind = "lognormal", mean = 25, cv = 1.2 } }',
}


def hint(message: str, known: list[str]) -> str:
    """What to add to msgspec's `message` about a field that is missing or not among `known`."""
    if missing := re.search(r"missing required field `(\w+)`", message):
        return _such_as(missing[1])
    if unknown := re.search(r"unknown field `(.*?)`", message):
        close = difflib.get_close_matches(unknown[1].lower(), known, 1, 0.6)
        return f"; did you mean {close[0]}?{_such_as(close[0], ' Such as')}" if close else ""
    if re.search(r"Invalid value '.*' - at `.*kind`", message):
        return "; docs/formats.md lists the kinds" + _such_as("prompt")
    return ""


def _such_as(field: str, start: str = "; such as") -> str:
    return f"{start}: {EXAMPLES[field]}" if field in EXAMPLES else ""


__all__ = ["EXAMPLES", "hint"]
