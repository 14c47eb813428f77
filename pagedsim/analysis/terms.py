"""The account of memory in a result: its terms, and what sharing saved."""

from __future__ import annotations

import msgspec

TERMS = ("live", "reserved", "internal", "external", "cached", "idle")
GROUP_TERMS = (*TERMS[:-1], "padding", "outside", "idle")  # of models with groups of layers


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """The account: shares of capacity, except `waste_of_held`, a share of what is held."""

    live: float | None
    reserved: float | None
    internal: float | None
    external: float | None
    cached: float | None
    idle: float | None
    waste: float | None
    shared: float | None
    waste_of_held: float | None
    saved: float | None = None  # by sharing, of what would be held without it
    padding: float | msgspec.UnsetType | None = msgspec.UNSET  # with groups of layers
    outside: float | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms that add up to 1: six, or eight with groups of layers."""
        return TERMS if self.padding is msgspec.UNSET else GROUP_TERMS


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What sharing saved, in tokens that another did not have to store; GiB of the whole model.

    `share`: of all tokens stored by running sequences, each as often as it is theirs.
    """

    tokens_mean: float | None
    tokens_peak: int
    share: float | None
    gib_mean: float | None = None  # where the KV bytes of a token are known
    gib_peak: float | None = None


__all__ = ["GROUP_TERMS", "TERMS", "Memory", "Saved"]
