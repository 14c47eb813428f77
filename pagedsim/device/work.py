"""What generating n tokens costs, with and without a KV cache: exact counts.

Counted per layer and head, token t attending to t keys. Three regimes:

- *refeed*: step t runs the whole prefix of t tokens again, so t² dot products and t projections;
- *recompute*: step t computes K and V of all t tokens again, but attends with the last query only;
- *cached*: step t computes one K and V and attends with one query over t keys.

Each regime takes n serial forward passes. A *projection* is K and V of one token.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from pagedsim.errors import SpecError


class Work(NamedTuple):
    """Counts for generating `tokens` tokens; ratios are exact."""

    tokens: int
    passes: int
    refeed_dots: int
    recompute_dots: int
    cached_dots: int
    refeed_projections: int
    recompute_projections: int
    cached_projections: int

    @property
    def dots_ratio(self) -> Fraction:
        """Dot products, refeed over cached: (2n + 1) / 3."""
        return Fraction(self.refeed_dots, self.cached_dots)

    @property
    def projections_ratio(self) -> Fraction:
        """Projections, recompute over cached: (n + 1) / 2."""
        return Fraction(self.recompute_projections, self.cached_projections)


def work(tokens: int) -> Work:
    """Counts for generating `tokens` tokens, in closed form.

    Σt² = n(n+1)(2n+1)/6 dot products when refeeding, Σt = n(n+1)/2 when cached.
    """
    if tokens < 1:
        raise SpecError(f"work is {tokens} tokens, must be >= 1")
    n = tokens
    once = n * (n + 1) // 2
    return Work(
        tokens=n,
        passes=n,
        refeed_dots=n * (n + 1) * (2 * n + 1) // 6,
        recompute_dots=once,
        cached_dots=once,
        refeed_projections=once,
        recompute_projections=once,
        cached_projections=n,
    )


def prefill_dots(tokens: int) -> int:
    """Dot products of one forward pass over a prompt, as refeeding counts them: n²."""
    return tokens * tokens


def pairs(computed: int, tokens: int) -> int:
    """(Query, key) pairs, causal, of a step that adds `tokens` to `computed` stored ones."""
    return tokens * computed + tokens * (tokens + 1) // 2


__all__ = ["Work", "pairs", "prefill_dots", "work"]
