"""Mistakes with groups of layers, each in a class of its own; `PLANTED` says which laws find it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pagedsim.alloc.grouped import Grouped
from pagedsim.alloc.grouped_rules import Hit
from pagedsim.protocols import GroupBlocks, LayerGroup, Narrow, Outside, Usage

WINDOWS = (LayerGroup("full", (0,), 2, 2), LayerGroup("sliding", (1,), 2, 2, 3))

STATES = (LayerGroup("full", (0,), 2, 2), LayerGroup("state", (1,), 2, 2))


NARROW = (LayerGroup("full", (0, 1), 4, 8, narrow=(Narrow("sliding", 3, 1),)),)


class Windowed(Grouped):
    """A full group and a window of 3, blocks of 2, with a prefix cache."""

    def __init__(self, blocks: int) -> None:
        super().__init__(blocks, groups=WINDOWS, prefix=True)


class DropsTooMuch(Windowed):
    """Gives back what the next token reads."""

    def trim(self, seq: Any, computed: int, /) -> bool:
        return super().trim(seq, computed + 1)


class KeepsItAll(Windowed):
    """Windows never move."""

    def trim(self, seq: Any, computed: int, /) -> bool:
        return False


class HitsOutsideTheWindow(Windowed):
    """Of a window it wants nothing, so the next token finds nothing to read."""

    def hit(self, seq: Any) -> Hit:
        found = super().hit(seq)
        return Hit(found.tokens, (found.blocks[0], [0] * len(found.blocks[1])))


class CountsForTheOther(Windowed):
    """What one group holds counts as the other's."""

    def group_blocks(self) -> tuple[GroupBlocks, ...]:
        return super().group_blocks()[::-1]


class TrimsWhenRefused(Windowed):
    """Gives a block back that is still read, to grant what does not fit."""

    def grow(self, seq: Any, tokens: int, /) -> bool:
        if super().grow(seq, tokens):
            return True
        super().trim(seq, tokens + 3)
        return super().grow(seq, tokens)


class AsksTooLate(Windowed):
    """Its room goes on beyond what a window has left."""

    def room(self, seq: Any, /) -> int:
        return super().room(seq) + 2


class Stated(Grouped):
    """A full group and states, blocks of 2, with a prefix cache."""

    def __init__(self, blocks: int) -> None:
        super().__init__(blocks, groups=STATES, prefix=True)


class DropsTheState(Stated):
    """Gives back the state that the next token goes on from."""

    def trim(self, seq: Any, computed: int, /) -> bool:
        return super().trim(seq, computed + 2)


class FindsStatesInside(Stated):
    """A block has its key whatever token its state is after."""

    def grow(self, seq: Any, tokens: int, /) -> bool:
        return super().grow(seq, tokens) and (tokens % 2 == 0 or super().grow(seq, tokens + 1))


class ForksWriteTogether(Windowed):
    """What forks share is not copied where one of them writes."""

    def __init__(self, blocks: int) -> None:
        super().__init__(blocks)
        self._tails.copy = lambda at, table: None  # type: ignore[method-assign]


class SharesNothing(Windowed):
    """What sharing saves is nothing."""

    def usage(self) -> Usage:
        return super().usage()._replace(shared=0)


class CountsUnreadTwice(Windowed):
    """A token in a shared block is out of the windows of each who holds it."""

    def out_of_windows(self, seqs: Any, /) -> int:
        return sum(super(CountsUnreadTwice, self).outside([seq]).bytes for seq in seqs)


class Narrowed(Grouped):
    """Blocks of 4 for two layers, of which one reads 3 tokens alone, with a prefix cache."""

    def __init__(self, blocks: int) -> None:
        super().__init__(blocks, groups=NARROW, prefix=True)


class ForeseesForEver(Narrowed):
    """As if a window moved through a block that is shared for as long as it likes."""

    def outside(self, seqs: Any, /) -> Outside:
        return super().outside(seqs)._replace(steps=1 << 40)


class ForeseesEachAlone(Narrowed):
    """Of a shared block each leaves a token a step behind, though one of them still reads it."""

    def outside(self, seqs: Any, /) -> Outside:
        found = super().outside(seqs)
        return found._replace(
            more=sum(super(ForeseesEachAlone, self).outside([seq]).more for seq in seqs)
        )


class ForeseesAStepLate(Narrowed):
    """What it counts is what the step after leaves behind."""

    def outside(self, seqs: Any, /) -> Outside:
        found = super().outside(seqs)
        return found._replace(bytes=found.bytes + found.more)

    def out_of_windows(self, seqs: Any, /) -> int:
        return super().outside(seqs).bytes


PLANTED: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "DropsTooMuch": (DropsTooMuch, {"windows", "within room"}),
    "KeepsItAll": (KeepsItAll, {"windows"}),
    "HitsOutsideTheWindow": (HitsOutsideTheWindow, {"windows"}),
    "CountsForTheOther": (CountsForTheOther, {"groups"}),
    "TrimsWhenRefused": (TrimsWhenRefused, {"windows", "refusal"}),
    "AsksTooLate": (AsksTooLate, {"within room", "longest"}),
    "DropsTheState": (DropsTheState, {"states", "within room"}),
    "FindsStatesInside": (FindsStatesInside, {"states", "within room", "no alias", "hits"}),
    "ForksWriteTogether": (ForksWriteTogether, {"no alias", "groups", "windows"}),
    "SharesNothing": (SharesNothing, {"groups"}),
    "CountsUnreadTwice": (CountsUnreadTwice, {"unread"}),
    "ForeseesForEver": (ForeseesForEver, {"outside"}),
    "ForeseesEachAlone": (ForeseesEachAlone, {"outside"}),
    "ForeseesAStepLate": (ForeseesAStepLate, {"outside"}),
}
