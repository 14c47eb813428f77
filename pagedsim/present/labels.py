"""Names of runs, as long as there is room: a spec in full, without its keys, then without its name.

    contiguous:place=buddy,reserve=max    contiguous:buddy,max    buddy,max
    paged:block=16,null=0                 paged:16,null=0

A form is used for all runs of a table or for none, and only if it keeps their names apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from pagedsim.present.numbers import plain


def labels(names: Sequence[str], width: int) -> list[str]:
    """`names` in the longest form of which all fit `width` cells, else the shortest one, cut."""
    forms = _forms(names)
    found = next((form for form in forms if _width(form) <= width), forms[-1])
    return [plain(name, width) for name in found]


def least(names: Sequence[str]) -> int:
    """Cells that the shortest form of `names` takes."""
    return _width(_forms(names)[-1])


def _forms(names: Sequence[str]) -> list[list[str]]:
    """From the longest to the shortest, none of which makes two names equal."""
    made = [[form(name) for name in names] for form in (str, _keyless, _nameless)]
    return [form for form in made if len(set(form)) == len(set(names))]


def _width(names: Sequence[str]) -> int:
    return max((cell_len(plain(name, 400)) for name in names), default=0)


def _parts(name: str) -> tuple[str, list[tuple[str, str]]] | None:
    """A spec's head and its pairs; None for any other name."""
    mark = "?" if "?" in name else ":"
    head, _, tail = name.partition(mark)
    pairs = [pair.partition("=") for pair in tail.split("&" if mark == "?" else ",")]
    if not head or not all(key.isidentifier() and value for key, _, value in pairs):
        return None
    return head.rpartition(":")[2], [(key, value) for key, _, value in pairs]


def _keyless(name: str) -> str:
    """Without the keys of words and of a first number; what is on or off says what."""
    parts = _parts(name)
    if parts is None:
        return name
    head, pairs = parts
    return f"{head}:{','.join(_pair(at, *pair) for at, pair in enumerate(pairs))}"


def _nameless(name: str) -> str:
    """Words alone, if the values are all words; else without keys."""
    parts = _parts(name)
    if parts is None or not all(_is_word(value) for _, value in parts[1]):
        return _keyless(name)
    return ",".join(value for _, value in parts[1])


def _pair(at: int, key: str, value: str) -> str:
    plain_first = at == 0 and value[:1].isdigit()
    return value if plain_first or _is_word(value) else f"{key}={value}"


def _is_word(value: str) -> bool:
    return value[:1].isalpha() and value.lower() not in ("true", "false", "on", "off")


__all__ = ["labels", "least"]
