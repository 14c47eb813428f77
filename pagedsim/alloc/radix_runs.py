"""Content as runs of token ids: compare, cut and name it without looking at single tokens.

A *run* (f, n) stands for the tokens f, f+1, …, f+n-1, with n >= 1. The same tokens may be cut into
runs in many ways, so two lists of runs are never compared as they are::

    one     |---- (7, 5) ----|-- (12, 3) --|------ (90, 6) ------|
    other   |-- (7, 3) --|------ (10, 5) ------|-- (90, 2) --|...
    pieces  |------------|---|-------------|---|-------------|       equal where first ids are
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import TypeAlias

Run: TypeAlias = tuple[int, int]
Runs: TypeAlias = SequenceOf[Run]


def agree(mine: Runs, yours: Runs, index: int, offset: int, most: int) -> tuple[int, int, int]:
    """How many tokens from the start of `mine` equal those of `yours` from run `index`, `offset`.

    At most `most`, which both must have. Also returns the place in `yours` behind them. O(runs).
    """
    done = at = skip = 0
    while done < most:
        first, length = yours[index]
        other, size = mine[at]
        if first + offset != other + skip:
            break
        step = min(length - offset, size - skip, most - done)
        done += step
        offset += step
        skip += step
        if offset == length:
            index, offset = index + 1, 0
        if skip == size:
            at, skip = at + 1, 0
    return done, index, offset


def cut(runs: Runs, start: int, stop: int) -> tuple[Run, ...]:
    """The runs of the tokens ``start : stop``; O(runs)."""
    kept = []
    at = 0
    for first, length in runs:
        if at >= stop:
            break
        left, right = max(start - at, 0), min(stop - at, length)
        if left < right:
            kept.append((first + left, right - left))
        at += length
    return tuple(kept)


def head(runs: Runs, index: int, offset: int, tokens: int) -> int | tuple[int, ...]:
    """A name of the `tokens` tokens from run `index`, `offset`, which must be there.

    Two names are equal if, and only if, the tokens are: the first id where they count up from it,
    else the ids at which they jump, from and to. O(runs that they lie in).
    """
    first, length = runs[index]
    first += offset
    have = length - offset
    if have >= tokens:
        return first
    name = [first]
    end = first + have
    while have < tokens:
        index += 1
        start, length = runs[index]
        length = min(length, tokens - have)
        if start != end:
            name += end, start
        end = start + length
        have += length
    return first if len(name) == 1 else tuple(name)


__all__ = ["Run", "Runs", "agree", "cut", "head"]
