"""Contiguous pre-allocation: sizes, exact addresses, `longest`, misuse."""

from __future__ import annotations

import pytest

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.reserve import Exact, Max, Pow2
from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import Allocator, Foreseen, SupportsHoles, SupportsSlots, Usage
from pagedsim.testing import Seq, sequence

PLACES = ("first", "best", "buddy")
RESERVES = ("max", "pow2", "exact")


def whole(seq: Foreseen) -> int:
    return seq.prompt


def admit_all(allocator: Contiguous, *sizes: int) -> list[Seq]:
    """One sequence a size, under the policy `whole`."""
    seqs = [sequence(row, size, 1) for row, size in enumerate(sizes)]
    for seq in seqs:
        assert allocator.admit(seq, seq.prompt)
    return seqs


def start(allocator: Contiguous, size: int) -> int:
    [seq] = admit_all(allocator, size)
    return int(allocator.slots(seq)[0])


def test_policies_answer_in_tokens() -> None:
    assert Max(2048)(sequence(0, 5, 25)) == 2048
    assert [Pow2(2048)(sequence(0, 5, n)) for n in (1, 2, 3, 25, 32, 33)] == [6, 7, 9, 37, 37, 69]
    assert Pow2(64)(sequence(0, 5, 33)) == 64
    assert [Exact(64)(sequence(0, p, n)) for p, n in ((1, 1), (5, 1), (5, 25), (5, 60))] == [
        1,
        5,
        29,
        63,
    ]


@pytest.mark.parametrize("reserve", RESERVES)
def test_every_policy_reserves_all_that_is_ever_stored(reserve: str) -> None:
    max_len = 20
    policy = {"max": Max, "pow2": Pow2, "exact": Exact}[reserve](max_len)
    for prompt in range(1, max_len):
        for output in range(1, 3 * max_len):
            final = min(prompt + output, max_len) - 1
            assert final <= policy(sequence(0, prompt, output)) <= max_len


def test_first_fit_takes_the_lowest_hole() -> None:
    allocator = Contiguous(20, max_len=20, place="first", reserve=whole)
    a, b, c, d = admit_all(allocator, 6, 2, 3, 9)  # 0 6 8 11
    allocator.release(a)
    allocator.release(c)
    assert start(allocator, 3) == 0
    allocator.release(d)
    assert start(allocator, 3) == 3  # what was left of the first hole
    assert start(allocator, 3) == 8
    allocator.release(b)
    assert allocator.largest_hole() == 9
    assert start(allocator, 2) == 6


def test_best_fit_takes_the_smallest_hole_then_the_lowest() -> None:
    allocator = Contiguous(24, max_len=20, place="best", reserve=whole)
    a, _, c, _, e, _ = admit_all(allocator, 6, 2, 3, 2, 3, 8)  # 0 6 8 11 13 16
    for seq in (e, a, c):
        allocator.release(seq)
    assert start(allocator, 3) == 8
    assert start(allocator, 2) == 13
    assert start(allocator, 1) == 15
    assert start(allocator, 1) == 0


@pytest.mark.parametrize("place", ["first", "best"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2)])
def test_holes_join_their_neighbours(place: str, order: tuple[int, ...]) -> None:
    allocator = Contiguous(12, max_len=20, place=place, reserve=whole)  # type: ignore[arg-type]
    seqs = admit_all(allocator, 4, 4, 4)
    for at in order:
        allocator.release(seqs[at])
    assert allocator.largest_hole() == 12
    assert start(allocator, 12) == 0


def test_room_is_what_was_asked_for() -> None:
    allocator = Contiguous(64, max_len=32, place="buddy", reserve="exact")
    seq = sequence(3, 4, 8)
    assert allocator.admit(seq, 2)
    assert allocator.room(seq) == 11
    assert allocator.usage() == Usage(held=16, lost=5)
    assert allocator.slots(seq).tolist() == list(range(11))
    assert allocator.grow(seq, 11)
    assert not allocator.grow(seq, 12)
    assert allocator.cached(seq) == 0
    allocator.release(seq)
    assert allocator.usage() == Usage(held=0)


@pytest.mark.parametrize(("spare", "granted"), [(0, True), (4, True), (5, False)])
def test_spare_counts_what_is_left_after_rounding(spare: int, granted: bool) -> None:
    allocator = Contiguous(12, max_len=12, place="buddy", reserve=whole)
    assert allocator.admit(sequence(0, 5, 1), 5, spare=spare) is granted
    assert allocator.usage().held == (8 if granted else 0)


def test_free_slots_that_are_scattered_do_not_help() -> None:
    allocator = Contiguous(8, max_len=8, place="first", reserve=whole)
    seqs = admit_all(allocator, 2, 2, 2, 2)
    allocator.release(seqs[0])
    allocator.release(seqs[2])
    assert allocator.largest_hole() == 2
    assert not allocator.admit(sequence(9, 3, 1), 3)
    assert allocator.usage().held == 4


def test_capabilities() -> None:
    allocator: Allocator = Contiguous(8, max_len=8)
    assert isinstance(allocator, SupportsSlots)
    assert isinstance(allocator, SupportsHoles)


def gets_an_extent(allocator: Contiguous, seq: Seq) -> bool:
    if not allocator.admit(seq, 1):
        return False
    allocator.release(seq)
    return True


@pytest.mark.parametrize("reserve", RESERVES)
@pytest.mark.parametrize("place", PLACES)
def test_longest_is_the_largest_that_always_fits(place: str, reserve: str) -> None:
    for max_len in range(2, 12):
        for capacity in range(1, 15):
            try:
                allocator = Contiguous(capacity, max_len=max_len, place=place, reserve=reserve)  # type: ignore[arg-type]
            except SpecError:
                extent = 1 << capacity.bit_length() - 1 if place == "buddy" else capacity
                policy = {"max": Max, "pow2": Pow2, "exact": Exact}[reserve](max_len)
                assert policy(sequence(0, 1, 1)) > extent
                continue
            refused = max_len  # the final of the shortest sequence that gets no extent
            for prompt in range(1, max_len):
                for output in range(1, 2 * max_len):
                    final = min(prompt + output, max_len) - 1
                    if final < refused and not gets_an_extent(
                        allocator, sequence(0, prompt, output)
                    ):
                        refused = final
            assert allocator.longest == refused - 1, (capacity, max_len)


def test_longest_at_real_sizes() -> None:
    def longest(place: str, reserve: str, max_len: int) -> int:
        return Contiguous(15_728, max_len=max_len, place=place, reserve=reserve).longest  # type: ignore[arg-type]

    assert longest("buddy", "max", 8192) == 8191
    assert longest("buddy", "exact", 16_384) == 8192
    assert longest("first", "exact", 16_384) == 15_728
    assert longest("buddy", "pow2", 16_384) == 4096  # 4097 as 1 + 4097 asks for 8193
    assert longest("first", "pow2", 16_384) == 8192  # 8193 as 1 + 8193 asks for 16384
    assert Contiguous(100, max_len=20, reserve=whole).longest == 100


@pytest.mark.parametrize(
    ("capacity", "max_len", "place", "reserve", "message"),
    [
        (
            15_728,
            16_384,
            "buddy",
            "max",
            "contiguous:place=buddy,reserve=max: max_len 16384 needs one extent of 16384 slots,"
            " the largest of 15728 is 8192; lower --max-len",
        ),
        (1, 9, "first", "pow2", "max_len 9 needs one extent of 2 slots, the largest of 1 is 1"),
        (0, 9, "first", "exact", "capacity is 0, must be >= 1"),
        (9, 1, "best", "exact", "max_len is 1, must be >= 2"),
        (9, 9, "worst", "exact", "place is 'worst', must be first, best or buddy"),
        (9, 9, "best", "half", "reserve is 'half', must be max, pow2 or exact"),
    ],
)
def test_what_cannot_work_is_said_at_construction(
    capacity: int, max_len: int, place: str, reserve: str, message: str
) -> None:
    with pytest.raises(SpecError) as error:
        Contiguous(capacity, max_len=max_len, place=place, reserve=reserve)  # type: ignore[arg-type]
    assert message in str(error.value)


def test_misuse() -> None:
    allocator = Contiguous(8, max_len=8, reserve=whole)
    seq = sequence(5, 3, 4)
    for call in (allocator.release, allocator.room, allocator.slots):
        with pytest.raises(ContractError, match="request 5 holds nothing"):
            call(seq)
    with pytest.raises(ContractError, match="reserves 3 slots for request 5, which needs 6"):
        allocator.admit(seq, 2, whole=6)
    assert allocator.admit(seq, 3)
    with pytest.raises(ContractError, match="request 5 is admitted twice"):
        allocator.admit(seq, 3)
    allocator.release(seq)
    assert allocator.usage().held == 0


def test_a_policy_that_would_make_a_request_wait_for_ever() -> None:
    allocator = Contiguous(8, max_len=8, place="buddy", reserve=lambda seq: 3 * seq.prompt)
    with pytest.raises(ContractError, match=r"9 slots .* stores 3; the largest extent of 8 is 8"):
        allocator.admit(sequence(5, 3, 1), 3)
    assert allocator.usage().held == 0
