"""Measured steps, a row each, from a CSV file: what a step computed, and how long it took.

Columns: ``batch`` (or ``sequences``), ``ms``, and optionally ``prefill_tokens`` (tokens of the step
beyond one per decoding sequence), ``context`` (KV tokens read, summed over its sequences, those
computed in the step included) and ``prefills`` (sequences that compute a prompt or a part of one;
without it one where there are prefill tokens). Other columns are ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pagedsim.device.stepcells import number, read_rows
from pagedsim.errors import InputError
from pagedsim.protocols import Load

_OPTIONAL = ("prefill_tokens", "context", "prefills")


class Measured(NamedTuple):
    """One step. `prefill` tokens are those of the prompts, or parts of them, that it computes."""

    sequences: int
    prefills: int
    prefill: int
    context: int
    ms: float

    @property
    def load(self) -> Load:
        """What the step computes, where rows do not say how its tokens are spread.

        Decoding sequences have the context that the prompts do not have, the prompts are alike and
        computed whole: ``decoding context + prefill · (prefill / prefills + 1) / 2`` pairs.
        """
        tokens = self.sequences - self.prefills + self.prefill
        pairs = self.context - self.prefill
        if self.prefills:
            pairs += self.prefill * (self.prefill + self.prefills) // (2 * self.prefills)
        return Load(self.sequences, self.prefills, tokens, pairs, self.context)


def read_steps(path: str | Path) -> list[Measured]:
    """The rows of a file. InputError names file, line, field, value and bound."""
    return [_measured(cells, place) for place, cells in read_rows(path, ("batch", "ms"))]


def _measured(row: dict[str, str], place: str) -> Measured:
    sequences = int(number(row["sequences"], "batch", place, int))
    more = {key: int(number(row.get(key, "0"), key, place, int)) for key in _OPTIONAL}
    prefill, context, prefills = more["prefill_tokens"], more["context"], more["prefills"]
    ms = number(row["ms"], "ms", place, float)
    if sequences < 1:
        raise InputError(f"{place}: batch is {sequences}, must be >= 1")
    if "prefills" not in row:
        prefills = min(1, prefill)
    if prefills > min(sequences, prefill):
        raise InputError(
            f"{place}: prefills is {prefills}, must be <= {min(sequences, prefill)}, the smaller "
            "of batch and prefill_tokens"
        )
    if prefill and not prefills:
        raise InputError(f"{place}: prefill_tokens is {prefill}, but prefills is 0")
    if "context" in row and context < prefill:
        raise InputError(
            f"{place}: context is {context}, must be >= {prefill}, the prefill_tokens in it"
        )
    return Measured(sequences, prefills, prefill, max(context, prefill), ms)


__all__ = ["Measured", "read_steps"]
