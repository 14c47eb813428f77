"""What a sequence holds of a pool with groups: a table a group."""

from __future__ import annotations

from pagedsim.protocols import Int64, Sequence


class Table:
    """One group's table of a sequence: the first `dropped` blocks are gone, `named` have keys.

    Of the first `joined` some were held by others when it came to hold them.
    """

    __slots__ = ("blocks", "dropped", "joined", "keys", "named")

    def __init__(self, blocks: list[int], dropped: int, keys: Int64, joined: int = 0) -> None:
        self.blocks, self.dropped, self.keys, self.joined = blocks, dropped, keys, joined
        self.named = len(blocks)


class Held:
    """What a sequence holds: a table a group, and for how many tokens it asked last.

    `forked`: it is one of several samples, or was.
    """

    __slots__ = ("forked", "tables", "tokens")

    def __init__(self, tables: list[Table], tokens: int) -> None:
        self.tables, self.tokens = tables, tokens
        self.forked = False


class Promised:
    """States that have a key and were not computed when they got it: by (group, key), whose."""

    def __init__(self) -> None:
        self._whose: dict[tuple[int, int], Sequence] = {}
        self._last: dict[Sequence, list[tuple[int, int]]] = {}

    def add(self, seq: Sequence, place: tuple[int, int]) -> None:
        """The step being planned computes it for `seq`."""
        self._whose[place] = seq
        self._last.setdefault(seq, []).append(place)

    def forget(self, seq: Sequence) -> None:
        """Whatever `seq` was to compute is there by now, or never will be."""
        for place in self._last.pop(seq, ()):
            if self._whose.get(place) is seq:
                del self._whose[place]

    def after(self, place: tuple[int, int], tokens: int) -> bool:
        """Whether that state, after `tokens` tokens, is still to be computed."""
        seq = self._whose.get(place)
        return seq is not None and seq.computed < tokens


__all__ = ["Held", "Promised", "Table"]
