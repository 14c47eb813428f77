"""Eviction policies, and prefix caches that evict, with one mistake each."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from pagedsim.alloc.evict import Lfu, Lru
from pagedsim.alloc.ranked import Kept, RankedPaged

POLICIES: dict[str, tuple[Callable[..., Any], set[str]]] = {}
CACHES: dict[str, Callable[..., Any]] = {}


def plant(*laws: str) -> Callable[[type], type]:
    def note(part: type) -> type:
        POLICIES[part.__name__] = (part, set(laws))
        return part

    return note


def plant_cache(cache: type) -> type:
    CACHES[cache.__name__] = cache
    return cache


@plant("pure")
class RanksByCalls(Lru):
    """Every question gets a new answer."""

    def __init__(self) -> None:
        self.calls = count()

    def rank(self, entry: Any, /) -> int:
        return next(self.calls)


@plant("ranks")
class Touches(Lru):
    """To ask for a rank is to use the entry."""

    def rank(self, entry: Any, /) -> int:
        entry.touched += 1
        return super().rank(entry)


@plant("order")
class MixesKinds(Lru):
    def rank(self, entry: Any, /) -> Any:
        return str(entry.made) if entry.uses > 2 else entry.made


@plant("order", "pure")
class NotANumber(Lru):
    def rank(self, entry: Any, /) -> float:
        return float("nan") if entry.uses > 2 else entry.touched


@plant("ranks")
class ForgetsTheUnused(Lru):
    """No rank for what was used once."""

    def rank(self, entry: Any, /) -> int:
        return {2: 1, 3: 2, 4: 3}[entry.uses]


@plant("goes")
class OneRankForAll(Lru):
    """A list that is the same one each time, with another number in it."""

    def __init__(self) -> None:
        self.answer = [0]

    def rank(self, entry: Any, /) -> Any:
        self.answer[0] = -entry.touched
        return self.answer


@plant("goes", "determinism")
class Tires(Lru):
    """After so many questions it ranks the other way round."""

    def __init__(self) -> None:
        self.asked = 0

    def rank(self, entry: Any, /) -> int:
        self.asked += 1
        return entry.touched if self.asked < 10 else -entry.touched


@plant_cache
class TurnsTies(RankedPaged):
    """A prompt loses its start before its end."""

    def _keep(self, blocks: Any) -> None:
        super()._keep(blocks[::-1])


@plant_cache
class CountsNoUses(RankedPaged):
    """A hit is no use."""

    def _taking(self, seq: Any, hits: Any) -> None:
        """Nothing."""


@plant_cache
class KeepsOldUses(RankedPaged):
    """New content has the uses of what was in its block."""

    def _name(self, held: Any, full: int) -> None:
        blocks = np.frombuffer(held.table, np.int64)[held.named : full].copy()
        uses = self._all_uses[blocks].copy()
        super()._name(held, full)
        self._all_uses[blocks] = np.maximum(uses, 1)


@plant_cache
class RanksLate(RankedPaged):
    """Touched a tick behind, so that what came before is thought to come with it."""

    def _push(self, blocks: Any, ahead: Any) -> None:
        self._clock -= self._clock % 2
        super()._push(blocks, ahead)


@plant_cache
class RanksByTheFirst(RankedPaged):
    """Blocks of one release by the rank of the first of them."""

    def _push(self, blocks: Any, ahead: Any) -> None:
        if len(blocks):
            made, uses = int(self._made[blocks[0]]), int(self._uses[blocks[0]])
            rank = self._rank(Kept(self._clock, made, uses, int(ahead[0])))
            self._ranks.push_ranked(rank, blocks)


@plant_cache
class LargestFirst(RankedPaged):
    def __init__(self, blocks: int, *, block: int = 16, evict: Any = "lru") -> None:
        super().__init__(blocks, block=block, evict=evict)
        policy = self._rank
        self._rank = lambda entry: tuple(-part for part in np.atleast_1d(policy(entry)).tolist())


class Mixed(Lfu):
    """When it was stored, then uses: what tells apart what the planted caches mix up."""

    def rank(self, entry: Any, /) -> Any:
        return (entry.made % 3, entry.uses, entry.touched)
