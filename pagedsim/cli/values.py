"""How any command reads a number or a word, so that all say alike what is wrong with one.

A message names the option as it is called, the value as it was typed, and the bound.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

import typer

from pagedsim.errors import SpecError

UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer does not export it
MOST = 1 << 40  # of anything that is counted

_HUMAN = re.compile(r"([+-]?[0-9_]+)(?:\.([0-9]+))?([kKmMgGtT]?)")


def whole(name: str, text: str | int, *, least: int = 1, most: int = MOST) -> int:
    """`text` as a whole number, 8k = 8,000 and 8K = 8,192 as engines have it; else SpecError."""
    found = _HUMAN.fullmatch(str(text))
    value: int | None = None
    if found is not None:
        digits, decimals, unit = found[1], found[2] or "", found[3]
        power = "kmgt".find(unit.lower()) + 1 if unit else 0
        scale: int = 1024**power if unit.isupper() else 1000**power
        if len(digits) + len(decimals) <= 40:
            number = int(digits + decimals) * scale
            value = number // 10 ** len(decimals) if number % 10 ** len(decimals) == 0 else None
    if value is None or not least <= value <= most:
        bound = f">= {least}" if value is None or value < least else f"<= {most}"
        raise SpecError(f"{name} is {text}, must be a whole number {bound}")
    return value


def number(name: str, text: str | float, *, most: float = math.inf) -> float:
    """`text` as a finite number above 0 and up to `most`, else SpecError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= most or math.isinf(value):
        bound = "> 0" if math.isinf(most) else f"> 0 and <= {most:g}"
        raise SpecError(f"{name} is {text}, must be a number {bound}")
    return value


def option(*names: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option of a command, in a panel of its help."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


def counted(*names: str, least: int = 1, most: int = MOST, **more: Any) -> Any:
    """An option that takes a whole number from `least` to `most`."""

    def read(text: str | int) -> int:
        return whole(names[0], text, least=least, most=most)

    return option(*names, parser=read, metavar="N", **more)


def measured(*names: str, most: float = math.inf, **more: Any) -> Any:
    """An option that takes a number above 0 and up to `most`."""

    def read(text: str | float) -> float:
        return number(names[0], text, most=most)

    return option(*names, parser=read, metavar="X", **more)


def one_of(name: str, *words: str, **more: Any) -> Any:
    """An option that takes one of some words."""

    def read(text: str) -> str:
        if text not in words:
            raise SpecError(f"{name} is {text}, must be {' or '.join(words)}")
        return text

    return option(name, parser=read, metavar="|".join(words), **more)


def _spec(help: str) -> Any:
    said = f"paged, contiguous, radix, slots (:key=value,…){help}"
    return option("--allocator", metavar="SPEC", panel="Run", help=said)


Allocator = Annotated[str | None, _spec("  [paged:block=16]")]
Allocators = Annotated[list[str] | None, _spec("; may be repeated")]
Json = Annotated[
    str | None, option("--json", metavar="FILE", help="write JSON to FILE, - for standard output")
]
Quiet = Annotated[bool, option("--quiet", "-q", help="no table")]
NoColor = Annotated[bool, option("--no-color", help="no colours")]

__all__ = [
    *("MOST", "Allocator", "Allocators", "Json", "NoColor", "Quiet", "UsageError"),
    *("counted", "measured", "number", "one_of", "option", "whole"),
]
