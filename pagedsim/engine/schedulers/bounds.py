"""Checks of scheduler parameters, with messages that state the bound."""

from __future__ import annotations

from pagedsim.errors import SpecError
from pagedsim.protocols import Sequence, View


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


def to_state(seq: Sequence, computed: int, want: int, block: int) -> int:
    """Of `want` tokens so many that a step of a prompt ends where a state can be found again.

    That is at ends of blocks, up to the last whole block of what is known; from there on, and in
    decoding, all of them. 0 where they do not reach a block's end.
    """
    known = seq.tokens
    if computed >= max(seq.prompt, known - 1):
        return want
    last, end = known - known % block, computed + want
    if end < last:
        return want // block * block
    return last - computed if computed < last < end else want


__all__ = ["at_least", "full", "share", "to_state"]
