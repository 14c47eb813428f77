"""Checks of scheduler parameters, with messages that state the bound."""

from __future__ import annotations

from pagedsim.errors import SpecError
from pagedsim.protocols import View


def at_least(name: str, value: int, least: int) -> int:
    """`value` if it is a whole number >= `least`, else SpecError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SpecError(f"{name} is {value}, must be a whole number >= {least}")
    return value


def share(name: str, value: float) -> float:
    """`value` if it lies in [0, 1), else SpecError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise SpecError(f"{name} is {value}, must be >= 0 and < 1")
    return float(value)


def full(view: View, max_seqs: int) -> bool:
    """Whether the head of the queue finds too few places: all of its samples need one."""
    return len(view.running) + view.pledged + view.width(view.waiting[0]) > max_seqs


__all__ = ["at_least", "full", "share"]
