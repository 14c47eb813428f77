"""A closed loop: a turn waits for the answer before it, and for its think time.

Hand-worked cases, on both engines.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from agreement import Fixed
from play import ENGINES

from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.analysis.simulate import simulate
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import InputError, SpecError
from pagedsim.trace.trace import Trace

Turn = tuple[int, int, int, int, int]  # arrival, prompt, output, parent, think time


def turns(*rows: Turn, **more: Any) -> Trace:
    arrivals, prompts, outputs, parents, thinks = zip(*rows, strict=True)
    columns = {"parent": parents, "think_ns": thinks}
    return Trace.build("t", arrivals, prompts, outputs, columns=columns, **more)


def times(engine: Any, *rows: Turn, scheduler: Any = None, **more: Any) -> list[tuple[int, int]]:
    """(arrival, finish) of each row, in steps of 10 ns; up to 40 tokens, else refused.

    Alone, a request finishes 10 ns a token of its output after its arrival.
    """
    options = {"closed_loop": True, "max_len": 41, **more}
    made = engine(turns(*rows), Paged(100, block=4), scheduler or Vllm(), Fixed(10), **options)
    found = made.run().requests
    return list(zip(found.arrival_ns.tolist(), found.finish_ns.tolist(), strict=True))


both = pytest.mark.parametrize("engine", ENGINES)


@both
def test_a_turn_waits_for_the_answer_and_its_think_time(engine: Any) -> None:
    rows = ((0, 5, 3, -1, -1), (5, 9, 2, 0, 7))
    assert times(engine, *rows) == [(0, 30), (37, 57)]
    assert times(engine, *rows, closed_loop=False) == [(0, 30), (5, 30)]


@both
def test_an_unknown_think_time_is_none(engine: Any) -> None:
    assert times(engine, (0, 5, 3, -1, -1), (5, 9, 2, 0, -1)) == [(0, 30), (30, 50)]
    assert times(engine, (0, 5, 3, -1, -1), (5, 9, 2, 0, 0)) == [(0, 30), (30, 50)]


@both
def test_a_recorded_arrival_later_than_that_stands(engine: Any) -> None:
    assert times(engine, (0, 5, 3, -1, -1), (38, 9, 2, 0, 7)) == [(0, 30), (38, 58)]
    assert times(engine, (0, 5, 3, -1, -1), (36, 9, 2, 0, 7)) == [(0, 30), (37, 57)]


@both
def test_a_chain_of_turns(engine: Any) -> None:
    """Each is late by what those before it are."""
    rows = ((4, 5, 3, -1, -1), (5, 9, 2, 0, 1), (6, 12, 1, 1, 2), (90, 14, 2, 2, 6))
    assert times(engine, *rows) == [(4, 34), (35, 55), (57, 67), (90, 110)]


@both
def test_the_example_of_the_documentation(engine: Any) -> None:
    rows = (
        *((0, 5, 3, -1, -1), (5, 9, 2, 0, 7), (6, 41, 1, 1, 3)),
        *((7, 9, 1, 2, -1), (90, 14, 2, 3, 2)),
    )
    assert times(engine, *rows) == [(0, 30), (37, 57), (60, -1), (60, 70), (90, 110)]


@both
def test_two_turns_follow_one(engine: Any) -> None:
    rows = ((0, 5, 3, -1, -1), (5, 9, 2, 0, 7), (5, 9, 1, 0, 50))
    assert times(engine, *rows) == [(0, 30), (37, 57), (80, 90)]


@both
def test_a_refused_turn_is_done_when_it_arrives(engine: Any) -> None:
    """A prompt of 41 tokens is refused; think times go on from there, through several of them."""
    rows = ((0, 5, 3, -1, -1), (5, 41, 2, 0, 7), (6, 41, 1, 1, 3), (7, 9, 1, 2, 2))
    assert times(engine, *rows) == [(0, 30), (37, -1), (40, -1), (42, 52)]
    late = ((0, 5, 3, -1, -1), (5, 41, 2, 0, 7), (60, 9, 1, 1, 2), (70, 41, 1, 2, 1))
    assert times(engine, *late) == [(0, 30), (37, -1), (60, 70), (71, -1)]


@both
def test_a_refused_first_turn_is_done_when_it_arrives(engine: Any) -> None:
    rows = ((12, 41, 3, -1, -1), (13, 9, 2, 0, 7), (14, 41, 2, 0, 1), (14, 9, 2, 2, 30))
    assert times(engine, *rows) == [(12, -1), (19, 39), (14, -1), (44, 64)]


@both
def test_thousands_of_refused_turns_in_a_row(engine: Any) -> None:
    rows = [(0, 5, 3, -1, -1), *((0, 41, 1, row, 1) for row in range(3000)), (0, 5, 1, 3000, 1)]
    assert times(engine, *rows)[-2:] == [(3030, -1), (3031, 3041)]


@both
def test_arrivals_at_one_time_come_in_order_of_row(engine: Any) -> None:
    """Rows 2 and 3 become due as rows 1 and 0 finish, when row 4 arrives as recorded."""
    rows = (
        *((0, 5, 3, -1, -1), (0, 6, 3, -1, -1)),
        *((10, 4, 1, 1, -1), (20, 4, 1, 0, -1), (30, 4, 1, -1, -1)),
    )
    for one in (Vllm(max_seqs=2), Orca(max_seqs=2)):
        found = times(engine, *rows, scheduler=one)
        assert found == [(0, 30), (0, 30), (30, 40), (30, 40), (30, 50)]


@both
def test_a_parent_may_be_a_later_row(engine: Any) -> None:
    """It was recorded after its child, which waits for it all the same."""
    assert times(engine, (3, 5, 3, 1, 4), (9, 5, 2, -1, -1)) == [(33, 63), (9, 29)]
    refused = ((3, 5, 3, 2, 0), (9, 5, 1, -1, -1), (9, 41, 1, -1, -1))
    found = times(engine, *refused, scheduler=Vllm(max_seqs=1))
    assert found == [(9, 39), (9, 49), (9, -1)], "both arrive at 9: row 0 is first"


@both
def test_results_of_a_held_batch_return_at_its_end(engine: Any) -> None:
    """Row 0 has its last token at 20, and its result at 50; row 2 arrives after that."""
    rows = ((0, 5, 2, -1, -1), (0, 5, 5, -1, -1), (1, 9, 1, 0, 6))
    assert times(engine, *rows, scheduler=Static()) == [(0, 50), (0, 50), (56, 66)]


@both
def test_a_turn_comes_while_others_decode(engine: Any) -> None:
    """Row 1 finishes at 20, and row 2 joins the long one in the step after 23."""
    rows = ((0, 5, 30, -1, -1), (0, 5, 2, -1, -1), (0, 5, 2, 1, 3))
    assert times(engine, *rows) == [(0, 300), (0, 20), (23, 50)]


@both
def test_priority_counts_the_actual_arrival(engine: Any) -> None:
    """Rows 2 and 3 wait for one place: row 2 was recorded first, and arrives later."""
    rows = ((0, 5, 2, -1, -1), (0, 5, 4, -1, -1), (1, 5, 1, 0, 9), (22, 5, 1, -1, -1))
    one = Vllm(max_seqs=2, policy="priority")
    assert times(engine, *rows, scheduler=one) == [(0, 20), (0, 40), (29, 50), (22, 40)]
    one = Vllm(max_seqs=1, policy="priority")
    found = times(engine, *rows, scheduler=one)
    assert found == [(0, 20), (0, 60), (29, 80), (22, 70)]


@both
def test_a_concurrency_contradicts_it(engine: Any) -> None:
    with pytest.raises(SpecError, match="concurrency and closed_loop contradict each other"):
        times(engine, (0, 5, 3, -1, -1), concurrency=1)


# What the next turn hits.


def hits(engine: Any, second: list[tuple[int, int]], *, closed_loop: bool) -> int:
    """Tokens that a second turn with these runs hits, in blocks of 4.

    The first turn has the prompt 0…9 and the output 100…106, whose last token is never stored:
    16 tokens are, so 4 blocks are full.
    """
    runs = [(0, 10), *second]
    prompt = sum(length for _, length in second)
    trace = turns(
        *((0, 10, 7, -1, -1), (0, prompt, 5, 0, 20)),
        runs=([0, 1, len(runs)], [first for first, _ in runs], [length for _, length in runs]),
        output_token=[100, 300],
    )
    made = engine(
        trace,
        PrefixPaged(40, block=4),
        Vllm(),
        Fixed(10),
        max_len=100,
        closed_loop=closed_loop,
    )
    return int(made.run().requests.hit[1])


@both
def test_the_next_turn_hits_the_answer(engine: Any) -> None:
    """Of 20 tokens: 10 of the prompt and 6 of the answer. Open, it comes before the answer does."""
    second = [(0, 10), (100, 7), (200, 3)]
    assert hits(engine, second, closed_loop=True) == 16
    assert hits(engine, second, closed_loop=False) == 8


@both
def test_an_edit_in_the_middle_invalidates_what_follows(engine: Any) -> None:
    """Everything from the block of the edit on, though later blocks hold the same tokens."""
    at_5 = [(0, 5), (900, 1), (6, 4), (100, 7), (200, 3)]
    assert hits(engine, at_5, closed_loop=True) == 4
    at_12 = [(0, 10), (100, 2), (900, 1), (103, 4), (200, 3)]
    assert hits(engine, at_12, closed_loop=True) == 12
    at_16 = [(0, 10), (100, 6), (900, 1), (200, 3)]
    assert hits(engine, at_16, closed_loop=True) == 16
    one_more = [(0, 10), (100, 7), (200, 3)]
    assert hits(engine, [(901, 1), *one_more], closed_loop=True) == 0


# What cannot be run in a closed loop, and what a report says.


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_reports_name_the_load(engine: str) -> None:
    trace = turns((0, 5, 3, -1, -1), (5, 9, 2, 0, 7), (6, 9, 2, 1, -1))
    more = {"max_len": 99, "engine": engine, "steptime": "constant:ms=1"}
    found = simulate(trace, closed_loop=True, **more)
    assert found.trace.load == "recorded arrivals, closed loop"
    assert found.run.provenance.specs["closed_loop"] is True
    assert "1 of 2 think times are unknown: taken as 0" in found.run.provenance.notes
    assert found.recording.requests.arrival_ns.tolist() == [0, 3_000_007, 5_000_007]
    found = simulate(trace, **more)
    assert found.trace.load == "recorded arrivals"
    assert found.recording.requests.arrival_ns.tolist() == [0, 5, 6]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([(0, 5, 3, -1, 9)], SpecError, "t has no sessions (no request has a parent)"),
        ([], SpecError, "t has no sessions"),
        ([(0, 5, 3, -1, -1), (0, 5, 3, 2, -1)], InputError, "row 1: parent is 2, must be below 2"),
        ([(0, 5, 3, 0, -1)], InputError, "row 0: its parents lead back to itself"),
        (
            [(0, 5, 3, -1, 0), (0, 5, 3, 0, 0), (0, 5, 3, 3, 0), (0, 5, 3, 2, 0)],
            InputError,
            "row 2: its parents lead back to itself",
        ),
    ],
)
def test_what_has_no_sessions(rows: list[Turn], error: type[Exception], message: str) -> None:
    trace = turns(*rows) if rows else Trace.build("t", [], [], [])
    with pytest.raises(error, match=re.escape(message)):
        simulate(trace, closed_loop=True)


def test_a_setup_with_a_concurrency() -> None:
    with pytest.raises(SpecError, match="concurrency and closed_loop contradict each other"):
        simulate(turns((0, 5, 3, -1, -1)), closed_loop=True, concurrency=1)
