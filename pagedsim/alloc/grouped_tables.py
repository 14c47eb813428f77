"""What a sequence holds of a pool with groups: a table a group."""

from __future__ import annotations

from pagedsim.protocols import Int64


class Table:
    """One group's table of a sequence: the first `dropped` blocks are gone, `named` have keys."""

    __slots__ = ("blocks", "dropped", "keys", "named")

    def __init__(self, blocks: list[int], dropped: int, keys: Int64) -> None:
        self.blocks, self.dropped, self.keys = blocks, dropped, keys
        self.named = len(blocks)


class Held:
    """What a sequence holds: a table a group, and for how many tokens it asked last."""

    __slots__ = ("tables", "tokens")

    def __init__(self, tables: list[Table], tokens: int) -> None:
        self.tables, self.tokens = tables, tokens


__all__ = ["Held", "Table"]
