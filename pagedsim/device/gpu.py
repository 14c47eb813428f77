"""A GPU: its memory, bandwidth and 16-bit peak, and what servers set by default on it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

GIB = 1 << 30
USABLE = Fraction(989, 1000)  # cards report about 79.15 of 80 GiB


@dataclass(frozen=True, slots=True)
class Gpu:
    """`memory_gib` nominal GiB (what data sheets call GB), `bandwidth` bytes/s, `flops` per second.

    `flops` is the dense 16-bit peak. `note` says what is doubtful about the row.
    """

    name: str
    memory_gib: int
    bandwidth: int
    flops: int
    source: str = ""
    note: str = ""

    @property
    def usable_bytes(self) -> int:
        """Bytes that a process sees: 0.989 of the nominal memory, rounded down."""
        return int(self.memory_gib * GIB * USABLE)

    @property
    def large(self) -> bool:
        """Of the class on which vLLM's server allows larger batches: 70 GiB or more, no A100."""
        return self.memory_gib >= 70 and "a100" not in self.name.lower()

    @property
    def max_seqs(self) -> int:
        """Default sequences a step: 1,024 on the H100/H200 class, 256 elsewhere."""
        return 1024 if self.large else 256

    @property
    def max_batched_tokens(self) -> int:
        """Default tokens a step: 8,192 on the H100/H200 class, 2,048 elsewhere."""
        return 8192 if self.large else 2048


__all__ = ["GIB", "USABLE", "Gpu"]
