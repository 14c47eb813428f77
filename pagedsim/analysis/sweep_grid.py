"""What a sweep is to run: a TOML file of options, those that vary, and combinations of them.

    trace = "chat"                          options of every run
    limit = 200

    [grid]                                  every combination of these
    allocator = ["paged:block=16", "paged:block=64"]
    rate = [4, 8]

    [[run]]                                 or a list, each with options of its own;
    name = "small pool"                     with a grid as well, each of these in every combination
    kv-tokens = 60000

An option is a name as `pagedsim replay` has it, without the dashes. What [grid] or a [[run]] says
goes before what the file says of every run; no option may be in both of them.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pagedsim.errors import InputError

Scalar: TypeAlias = str | int | float | bool
MOST = 100_000  # runs


class Entry(NamedTuple):
    """A run as the file has it: `options` by name as written, `places` where each was written."""

    name: str
    options: dict[str, Scalar]
    places: dict[str, str]


def read_grid(path: str | os.PathLike[str]) -> list[Entry]:
    """The runs of a file, in order: a list's runs outermost, then the grid's first option.

    InputError names file, place and what is wrong.
    """
    label = os.fspath(path)
    whole = _loaded(label)
    grid, runs = whole.pop("grid", {}), whole.pop("run", [])
    if not isinstance(grid, dict):
        raise InputError(f"{label}: grid is {grid!r}, must be a table: [grid]")
    if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
        raise InputError(f"{label}: run must be a list of tables: [[run]]")
    common = _scalars(label, "", whole)
    axes = _axes(label, grid)
    if not axes and not runs:
        raise InputError(f"{label}: nothing to run: there is no option in [grid] and no [[run]]")
    total = prod(map(len, axes.values())) * max(len(runs), 1)
    if total > MOST:
        raise InputError(f"{label}: {total:,} runs, must be <= {MOST:,}")
    named = _runs(label, runs, axes) or [("", {}, "")]
    return [
        entry for name, own, place in named for entry in _combined(name, common, axes, own, place)
    ]


def _loaded(label: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(label).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise InputError(f"{label}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{label}: is no UTF-8 text: {error.reason}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{label}: is no TOML: {error}") from None


def _scalars(label: str, table: str, options: Mapping[str, Any]) -> dict[str, Scalar]:
    for name, value in options.items():
        if isinstance(value, list):
            raise InputError(
                f"{label}: {table}{name} is a list: what varies goes under [grid], for every "
                "combination, or into a [[run]] each"
            )
        _scalar(label, f"{table}{name}", value)
    return dict(options)


def _scalar(label: str, place: str, value: Any) -> None:
    if not isinstance(value, str | int | float | bool):
        said = "a table" if isinstance(value, dict) else f"a {type(value).__name__}"
        raise InputError(f"{label}: {place} is {said}, must be text, a number, true or false")


def _axes(label: str, grid: Mapping[str, Any]) -> dict[str, list[Scalar]]:
    for name, values in grid.items():
        if not isinstance(values, list):
            raise InputError(f"{label}: grid.{name} is {values!r}, must be a list: [{values!r}]")
        if not values:
            raise InputError(f"{label}: grid.{name} is an empty list: there is nothing to run")
        for value in values:
            _scalar(label, f"grid.{name}", value)
    return dict(grid)


def _runs(
    label: str, runs: list[dict[str, Any]], grid: Mapping[str, Any]
) -> list[tuple[str, dict[str, Scalar], str]]:
    """(name, options, place) of each run of the list. Names are the user's, and differ."""
    found: list[tuple[str, dict[str, Scalar], str]] = []
    numbers: dict[str, int] = {}
    for number, run in enumerate(runs, 1):
        place = f"run {number}"
        own = _scalars(label, f"{place}: ", run)
        words = " ".join(f"{key}={_said(value)}" for key, value in own.items() if key != "name")
        name = own.pop("name", words or place)
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise InputError(f"{label}: {place}: name is {name!r}, must be a line of text")
        if name in numbers:
            raise InputError(f"{label}: run {numbers[name]} and {place} are both named {name!r}")
        numbers[name] = number
        for key in sorted(own.keys() & grid.keys()):
            raise InputError(f"{label}: {place}: {key} is in [grid] as well: give it in one place")
        found.append((name, own, place))
    return found


def _combined(
    name: str,
    common: dict[str, Scalar],
    axes: dict[str, list[Scalar]],
    own: dict[str, Scalar],
    place: str,
) -> list[Entry]:
    found = []
    places = dict.fromkeys(common, "") | {key: f"grid.{key}" for key in axes}
    places |= {key: f"{place}: {key}" for key in own}
    for values in product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        words = [f"{key}={_said(value)}" for key, value in chosen.items()]
        label = " ".join([name, *words] if name else words)
        found.append(Entry(label, {**common, **chosen, **own}, places))
    return found


def _said(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


__all__ = ["MOST", "Entry", "Scalar", "read_grid"]
