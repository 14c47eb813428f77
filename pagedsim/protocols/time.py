"""Step-time models: how long a step takes."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from pagedsim.protocols.sequence import Int64


class Load(NamedTuple):
    """What one step computes and reads.

    `sequences` in the step; `prefills`, those of them that are given more than they need to
    yield one token from a complete cache (a prompt, a chunk of it, a recomputation); `tokens`
    computed; `pairs` of (query, key), so Σ over tokens of their context; `context`, KV tokens
    read, so Σ over sequences of ``computed + n``. A sequence with c stored that is given n adds
    ``n·c + n(n+1)/2`` pairs and ``c + n`` context.
    """

    sequences: int
    prefills: int
    tokens: int
    pairs: int
    context: int


class StepTime(Protocol):
    """How long a step takes."""

    def ns(self, load: Load, /) -> int:
        """Nanoseconds of a step, at least 1; the same load always takes the same time."""
        ...


@runtime_checkable
class SupportsRamp(Protocol):
    """A step-time model that prices many decode steps at once."""

    def ramp(self, load: Load, steps: int, /) -> Int64:
        """int64[steps]: ns of `load`, then of each next step of the same sequences.

        Step j has ``j · sequences`` more pairs and context. Equal to `ns` called for each.
        """
        ...


@runtime_checkable
class SupportsFew(SupportsRamp, Protocol):
    """One that prices a few steps without an array, which would cost more than it saves."""

    def few(self, load: Load, steps: int, /) -> list[int]:
        """`ramp` as a list."""
        ...


@runtime_checkable
class SupportsMany(Protocol):
    """A step-time model that prices steps which have nothing to do with each other at once.

    A report asks for every step of a run, a chunk of them at a time.
    """

    def many(self, loads: Int64, /) -> Int64:
        """int64[n]: ns of each row of int64[n, 5] `loads`, whose columns are those of `Load`.

        Equal to `ns` called for each.
        """
        ...


__all__ = ["Load", "StepTime", "SupportsFew", "SupportsMany", "SupportsRamp"]
