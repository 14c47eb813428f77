"""The buddy system: exact addresses, joining, and the paper's numbers."""

from __future__ import annotations

import pytest

from pagedsim.alloc.buddy import Buddy
from pagedsim.alloc.contiguous import Contiguous
from pagedsim.testing import sequence


def drain(buddy: Buddy, size: int = 1) -> list[int]:
    """Take until refused; the starts."""
    starts: list[int] = []
    while (start := buddy.take(size)) is not None:
        starts.append(start)
    return starts


def test_sizes_are_rounded_to_powers_of_two() -> None:
    sizes = [Buddy(64).rounded(size) for size in (1, 2, 3, 4, 5, 8, 9, 33)]
    assert sizes == [1, 2, 4, 4, 8, 8, 16, 64]


def test_the_lowest_address_of_the_smallest_size_that_suffices() -> None:
    buddy = Buddy(13)  # 0..8, 8..12, 12..13
    assert buddy.largest() == 8
    assert buddy.take(1) == 12
    assert buddy.take(1) == 8  # of 8..12; 9 and 10..12 are left
    assert buddy.take(3) == 0  # of 0..8; 4..8 is left
    assert buddy.take(2) == 10
    assert buddy.take(2) == 4
    assert buddy.take(2) == 6
    assert buddy.take(2) is None
    assert buddy.take(1) == 9
    assert buddy.largest() == 0
    assert buddy.take(1) is None


def test_only_buddies_are_joined() -> None:
    buddy = Buddy(8)
    assert drain(buddy, 2) == [0, 2, 4, 6]
    buddy.give(2, 2)
    buddy.give(4, 2)
    assert buddy.largest() == 2  # neighbours, but 2's buddy is 0 and 4's is 6
    buddy.give(6, 2)
    assert buddy.largest() == 4
    assert buddy.take(4) == 4
    buddy.give(4, 4)
    buddy.give(0, 2)
    assert buddy.largest() == 8


def test_chunks_are_never_joined() -> None:
    buddy = Buddy(7)  # 0..4, 4..6, 6..7
    for start in drain(buddy):
        buddy.give(start, 1)
    assert [buddy.take(size) for size in (4, 2, 1)] == [0, 4, 6]
    assert Buddy(7).take(5) is None


@pytest.mark.parametrize("capacity", range(1, 40))
def test_any_capacity_is_handed_out_whole_and_joined_again(capacity: int) -> None:
    buddy = Buddy(capacity)
    chunks = [1 << k for k in range(7, -1, -1) if capacity & 1 << k]
    starts = drain(buddy)
    assert sorted(starts) == list(range(capacity))
    for start in sorted(starts, key=lambda start: start * 7 % 41):
        buddy.give(start, 1)
    assert [buddy.take(size) for size in chunks] == [sum(chunks[:i]) for i in range(len(chunks))]


def test_orca_max_of_the_paper() -> None:
    """PagedAttention, Fig 2 and 13: 15,728 slots of OPT-13B hold 7 sequences of 2,048."""
    allocator = Contiguous(15_728, max_len=2048, place="buddy", reserve="max")
    seqs = [sequence(row, 10, 10) for row in range(8)]
    assert [allocator.admit(seq, 10) for seq in seqs] == [True] * 7 + [False]
    usage = allocator.usage()
    assert (usage.held, usage.lost) == (7 * 2048, 0)
    assert f"{1 - usage.held / allocator.capacity:.2%}" == "8.85%"
    assert allocator.largest_hole() == 1024
    for seq in seqs[:7]:
        allocator.release(seq)
    assert allocator.usage().held == 0
