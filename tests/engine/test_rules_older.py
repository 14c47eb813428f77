"""The two older schedulers, each rule by a case worked by hand, on both engines.

As in the rules of the newer one, blocks are of one slot unless said, and a step takes 1 ns.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from play import ENGINES, play

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.radix import Radix
from pagedsim.engine.schedulers import Orca, Static
from pagedsim.errors import SpecError

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def room(tokens: int, block: int = 1) -> Any:
    return partial(Paged, tokens // block, block=block, null=0)


AMPLE = room(1000)


def test_orca_runs_prompts_in_steps_of_their_own(engine: Any) -> None:
    """If any was admitted, the step computes their whole prompts and nothing else.

    Each of them yields one token.
    """
    played = play(engine, [(0, 3, 4), (1, 2, 2)], AMPLE, Orca())
    assert played.scheduled == [
        {0: 3},
        {1: 2},  # 0 waits
        {0: 1, 1: 1},  # the second token of both; 1 is done
        {0: 1},
        {0: 1},
    ]
    assert played.recording.requests.first_token_ns.tolist() == [1, 2]
    assert played.recording.requests.finish_ns.tolist() == [5, 3]
    assert [window.batch for window in played.windows] == [1, 2, 2, 1, 1]
    assert [window.live for window in played.windows] == [3, 5, 7, 5, 6]


def test_orca_admits_until_one_is_refused(engine: Any) -> None:
    """At every step admit from the head until one is refused: no room, max_seqs, prompt tokens."""
    rows = [(0, 3, 2), (0, 3, 2), (0, 1, 2)]
    assert play(engine, rows, AMPLE, Orca()).steps[0].admitted == [0, 1, 2]
    played = play(engine, rows, AMPLE, Orca(max_seqs=2))
    assert [step.admitted for step in played.steps] == [[0, 1], [], [2], []]
    assert (played.steps[0].blocked, played.steps[0].limit) == (False, "MAX_SEQS")
    played = play(engine, rows, AMPLE, Orca(max_prompt_tokens=5), max_len=5)
    assert played.scheduled == [{0: 3}, {1: 3, 2: 1}, {0: 1, 1: 1, 2: 1}]  # 3 + 3 > 5; no skipping
    assert (played.steps[0].blocked, played.steps[0].limit) == (False, "BUDGET")
    # room 5: 0 takes 3, 1 wants 3; at 1 it is refused again, and 0 takes its fourth slot; at 3
    # 1 takes the fifth slot, 2 finds none for its second token and makes room itself
    played = play(engine, rows, room(5), Orca())
    assert played.scheduled == [{0: 3}, {0: 1}, {1: 3, 2: 1}, {1: 1}, {2: 2}]
    assert [step.blocked for step in played.steps] == [True, True, False, True, False]


def test_orca_watermark(engine: Any) -> None:
    """int(0.2 · 10) = 2 stay free when a request joins a batch, not an empty one."""
    assert play(engine, [(0, 10, 1)], room(10), Orca(watermark=0.2)).scheduled == [{0: 10}]
    for prompt, admitted in ((4, [0, 1]), (5, [0])):
        played = play(engine, [(0, 4, 1), (0, prompt, 1)], room(10), Orca(watermark=0.2))
        assert played.steps[0].admitted == admitted  # 4 + 4 + 2 <= 10 < 4 + 5 + 2


def test_orca_preempts_the_last_to_the_front(engine: Any) -> None:
    """If grow is refused, the last of the running is preempted by recomputation to the front.

    Room 6; 0 and 1 hold 2 each, 2 arrives at 1 and wants 3.
    """
    played = play(engine, [(0, 2, 5), (0, 2, 3), (1, 3, 1)], room(6), Orca())
    assert [step[1:6] for step in played.steps[:6]] == [
        ({0: 2, 1: 2}, [], [0, 1], [0, 1], []),
        ({0: 1, 1: 1}, [], [], [0, 1], [2]),  # 2 are free: 2 is refused; both grow to 3
        ({0: 1}, [1], [], [0], [1, 2]),  # 1 gives 3 for the one that 0 takes
        ({0: 1}, [], [], [0], [1, 2]),  # 1 knows 4, 2 are free; 0 holds 5
        ({0: 1}, [], [], [0], [1, 2]),  # 0 is done
        ({1: 4}, [], [1], [1], [2]),  # its third token; 2 are free, 2 wants 3
    ]
    assert [step.blocked for step in played.steps[:6]] == [False, True, True, True, True, True]
    assert played.scheduled[6:] == [{2: 3}]


def test_orca_computes_a_prompt_in_one_step(engine: Any) -> None:
    with pytest.raises(SpecError, match="max_prompt_tokens is 5, must be >= the maximum length 6"):
        play(engine, [(0, 1, 1)], AMPLE, Orca(max_prompt_tokens=5), max_len=6)


def test_static_forms_a_batch_only_when_nothing_runs(engine: Any) -> None:
    """Only when nothing runs, admit the longest run of waiting requests that fits, at once."""
    rows = [(0, 2, 2), (0, 2, 4), (1, 5, 1), (3, 1, 1)]
    played = play(engine, rows, AMPLE, Static())
    assert played.scheduled == [
        {0: 2, 1: 2},  # one prompt step, for those that are there
        {0: 1, 1: 1},  # 0 is done
        {1: 1},
        {1: 1},  # the last member finishes
        {2: 5, 3: 1},
    ]
    assert [step.limit for step in played.steps] == ["ARRIVALS"] * 5
    played = play(engine, rows, AMPLE, Static(max_seqs=1))
    assert [step.admitted for step in played.steps if step.admitted] == [[0], [1], [2], [3]]
    # room 8 for reservations of 3, 5, 5, 1: the run ends at 2, which is not skipped
    exact = partial(Contiguous, 9, max_len=100, reserve="exact")
    played = play(engine, [(0, 2, 2), (0, 2, 4), (0, 5, 1), (0, 1, 1)], exact, Static())
    assert played.steps[0].admitted == [0, 1]
    # refused when the batch was formed; afterwards nobody is tried
    assert [step.blocked for step in played.steps] == [True, False, False, False, False]
    assert [step.limit for step in played.steps] == ["MEMORY"] * 4 + ["ARRIVALS"]


def test_static_holds_members_that_are_done(engine: Any) -> None:
    """A done member stays held: all its slots are *internal*; it is out of the batch; its result
    returns at the batch's end.

    Four blocks of 4. Final lengths: 3 and 5.
    """
    played = play(engine, [(0, 2, 2), (0, 2, 4)], room(16, block=4), Static())
    terms = [(w.batch, w.live, w.reserved, w.internal, w.external) for w in played.windows]
    assert terms == [
        (2, 2 + 2, 1 + 2, 1 + 0, 0),  # 4 slots each: 0 will fill 3 of its 4, 1 all
        (2, 3 + 3, 0 + 1, 1 + 0, 0),
        (1, 4, 0, 4 + 0, 0),  # 0's 4 slots, and 1's fourth token
        (1, 5, 0, 4 + 3, 0),  # 1 fills 5 of 8
    ]
    assert [step.finished for step in played.steps] == [[], [], [], [0, 1]]
    requests = played.recording.requests
    assert requests.finish_ns.tolist() == [4, 4]
    assert requests.generated.tolist() == [2, 4]


def test_static_counts_all_that_the_done_hold(engine: Any) -> None:
    """Past their `room` too: 0 is done with its prompt, so its page of 2 ends at that for ever.

    Final lengths: 1 and 3.
    """
    played = play(engine, [(0, 1, 1), (0, 1, 3)], partial(Radix, 8, page=2), Static())
    terms = [(w.batch, w.live, w.reserved, w.internal, w.external) for w in played.windows]
    assert terms == [
        (2, 1 + 1, 1 + 1, 0, 0),  # the rest of a page is reserved until its prompt is in the tree
        (1, 2, 0, 2, 0),  # 0's page, and 1's second token
        (1, 3, 0, 2 + 1, 0),  # 1 fills 3 of 4
    ]


def test_static_sends_the_next_when_a_batch_returns(engine: Any) -> None:
    """Under a concurrency the next request is sent as one finishes: at the end of the batch."""
    rows = [(0, 2, 2), (0, 2, 4), (0, 1, 1), (0, 1, 1)]
    played = play(engine, rows, AMPLE, Static(), concurrency=2)
    assert played.recording.requests.arrival_ns.tolist() == [0, 0, 4, 4]
    assert played.scheduled[4:] == [{2: 1, 3: 1}]


def test_static_preempts_beside_held_members(engine: Any) -> None:
    """Room 5: 0 is done and keeps 2, so 1 cannot have a fourth slot, and is the last of the batch.

    It leaves; the batch is over, which takes a step of nothing; then it is computed again.
    """
    played = play(engine, [(0, 2, 1), (0, 2, 4)], room(5), Static())
    assert [step[1:6] for step in played.steps] == [
        ({0: 2, 1: 2}, [], [0, 1], [0, 1], []),
        ({1: 1}, [], [], [1], []),
        ({}, [1], [], [], [1]),
        ({1: 4}, [], [1], [1], []),
        ({1: 1}, [], [], [1], []),
    ]
    assert [step.finished for step in played.steps] == [[], [], [0], [], [1]]
    assert played.recording.requests.recomputed.tolist() == [0, 3]
