"""A request on the device, as plug-ins see it."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Int64: TypeAlias = npt.NDArray[np.int64]


class Sequence(Protocol):
    """The read-only view of a request on the device. Identity is equality; it can be hashed."""

    @property
    def id(self) -> int:
        """Row of the trace."""
        ...

    @property
    def prompt(self) -> int:
        """Prompt tokens."""
        ...

    @property
    def tokens(self) -> int:
        """Known tokens: prompt + generated so far."""
        ...

    @property
    def computed(self) -> int:
        """Tokens whose KV is stored, before the step being planned."""
        ...

    @property
    def arrival_ns(self) -> int:
        """When the request arrived, in ns."""
        ...

    @property
    def priority(self) -> int:
        """The smaller, the more urgent."""
        ...

    @property
    def salt(self) -> int:
        """Content is shared only under equal salts; 0 is none."""
        ...

    def runs(self) -> SequenceOf[tuple[int, int]]:
        """Content as runs (first token id, length) of prompt and output, laid end to end.

        Only the first `tokens` tokens are known yet. O(runs).
        """
        ...

    def keys(self, block: int, /) -> Int64:
        """int64[full blocks of prompt and output]: chained keys of blocks of `block` tokens.

        Two are equal if, and only if, their blocks and all before them hold the same tokens under
        the same salt. Keys are >= 0. Only those of the first ``tokens // block`` blocks are known
        yet. O(blocks); O(1) where it was the last to be asked.
        """
        ...


class Stretched(Sequence, Protocol):
    """A sequence that also tells its keys as stretches; one that does not is asked for `keys`."""

    def stretches(self, block: int, /) -> list[tuple[int, int]]:
        """`keys` as stretches in which they count up by one: (first key, how many). O(stretches).

        As long as can be: none begins with the key after the last one of the stretch before it.
        """
        ...


class Foreseen(Sequence, Protocol):
    """What only a reservation policy may see besides: how long the output will be."""

    @property
    def output(self) -> int:
        """Tokens the request would generate if no maximum length stopped it."""
        ...


__all__ = ["Foreseen", "Int64", "Sequence", "Stretched"]
