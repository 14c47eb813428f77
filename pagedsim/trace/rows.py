"""What every reader does last: rows without output, rows without a prompt, absolute times."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pagedsim.protocols import Int64
from pagedsim.trace.source import Source

_EPOCH_NS = 10**18  # September 2001: a file's own clock does not run that long


class Kept(NamedTuple):
    """Which rows stay, and what to say of the others."""

    rows: npt.NDArray[np.bool_]
    notes: tuple[str, ...]
    dropped: int


def kept(
    source: Source,
    prompt: tuple[str, Int64],
    output: tuple[str, Int64],
    line: Callable[[int], int],
) -> Kept:
    """Leave out rows with zero output, as `source` says, and refuse zero prompts and no rows.

    `prompt` and `output` are (field, values), `line` tells the line of a row.
    """
    rows = output[1] > 0
    dropped = len(rows) - int(rows.sum())
    if not source.drop_zero and dropped:
        row = int(np.flatnonzero(~rows)[0])
        raise source.error(f"{output[0]} is 0, must be >= 1", line(row))
    if (empty := rows & (prompt[1] < 1)).any():
        row = int(np.flatnonzero(empty)[0])
        raise source.error(f"{prompt[0]} is {prompt[1][row]}, must be >= 1", line(row))
    if not rows.any():
        raise source.error(
            f"all {dropped} requests have zero output" if dropped else "no requests in it"
        )
    notes: tuple[str, ...] = ()
    if dropped:
        notes = (f"{dropped} of {len(rows)} requests have zero output and were left out",)
    return Kept(rows, notes, dropped)


def since_first(arrival_ns: Int64) -> Int64:
    """Absolute times counted from the first of them."""
    first: Int64 = arrival_ns - arrival_ns.min()
    return first


def own_zero(arrival_ns: Int64, notes: tuple[str, ...]) -> tuple[Int64, tuple[str, ...]]:
    """Relative times as they are; those that can only be seconds since 1970, from the first."""
    if len(arrival_ns) and int(arrival_ns.min()) >= _EPOCH_NS:
        return since_first(arrival_ns), (*notes, "times are dates; counted from the first")
    return arrival_ns, notes


__all__ = ["Kept", "kept", "own_zero", "since_first"]
