"""A spec as text, taken apart: what it names and the values it gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pagedsim.errors import SpecError

Value = int | float | bool | str


class Spec(NamedTuple):
    """A spec taken apart: `path` is None for a built-in name; `words` are the values as typed."""

    text: str
    name: str
    path: str | None
    values: dict[str, Value]
    words: dict[str, str]


def values_of(text: str, pairs: Iterable[str]) -> tuple[dict[str, Value], dict[str, str]]:
    """The values of ``key=value`` pairs of the spec `text`, and the words they were typed as."""
    words: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = map(str.strip, pair.partition("="))
        if not equals or not key.isidentifier():
            raise SpecError(f"{text}: '{pair}' is not key=value")
        if key in words:
            raise SpecError(f"{text}: {key} is given twice")
        words[key] = value
    return {key: _value(word) for key, word in words.items()}, words


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def without(spec: Spec, name: str) -> Spec:
    """`spec` without the value of that name, if it has one."""
    words = {key: value for key, value in spec.words.items() if key != name}
    return spec._replace(words=words, values={key: spec.values[key] for key in words})


__all__ = ["Spec", "Value", "values_of", "without"]
