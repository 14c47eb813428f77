"""The pool split into n fixed places."""

from __future__ import annotations

import pytest

from pagedsim.alloc.slots import Slots
from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import Usage
from pagedsim.testing import sequence


def test_the_lowest_free_place_is_taken() -> None:
    allocator = Slots(14, n=4)
    assert (allocator.capacity, allocator.longest) == (12, 3)
    seqs = [sequence(row, 2, 2) for row in range(5)]
    assert [allocator.admit(seq, 2) for seq in seqs] == [True] * 4 + [False]
    assert [allocator.slots(seq).tolist() for seq in seqs[:2]] == [[0, 1, 2], [3, 4, 5]]
    assert allocator.largest_hole() == 0
    allocator.release(seqs[2])
    allocator.release(seqs[1])
    assert allocator.largest_hole() == 3
    assert allocator.admit(seqs[4], 1)
    assert allocator.slots(seqs[4])[0] == 3
    assert allocator.usage() == Usage(held=9)
    for row in (0, 3, 4):
        allocator.release(seqs[row])
    assert allocator.usage() == Usage(held=0)


def test_room_is_the_size_of_the_place() -> None:
    allocator = Slots(14, n=4)
    seq = sequence(0, 1, 1)
    assert not allocator.admit(seq, 4)
    assert not allocator.admit(seq, 1, whole=4)
    assert not allocator.admit(seq, 1, spare=10)
    assert allocator.admit(seq, 1, spare=9)
    assert allocator.room(seq) == 3
    assert allocator.grow(seq, 3)
    assert not allocator.grow(seq, 4)
    allocator.release(seq)
    assert allocator.usage().held == 0


@pytest.mark.parametrize("n", [-1, 0, 5])
def test_a_split_that_leaves_nothing(n: int) -> None:
    with pytest.raises(SpecError, match=rf"slots:n={n}: n must be >= 1 and <= 4"):
        Slots(4, n=n)


def test_misuse() -> None:
    allocator, seq = Slots(8, n=2), sequence(5, 3, 1)
    for call in (allocator.release, allocator.room, allocator.slots):
        with pytest.raises(ContractError, match="request 5 holds nothing"):
            call(seq)
    assert allocator.admit(seq, 3)
    with pytest.raises(ContractError, match="request 5 is admitted twice"):
        allocator.admit(seq, 3)
    allocator.release(seq)
    assert allocator.usage().held == 0
