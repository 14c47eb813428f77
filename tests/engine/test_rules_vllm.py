"""The rules of a continuous-batching step, each by a case worked by hand, on both engines.

Blocks are of one slot unless said, so that a pool of `room` holds as many tokens. A step takes a
nanosecond: times are step numbers. Each test quotes the sentence that it holds.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from agreement import Fixed
from play import ENGINES, play

from pagedsim.alloc.paged import Paged
from pagedsim.engine.recording import Refusal, Status
from pagedsim.engine.schedulers import Vllm
from pagedsim.errors import ContractError, SpecError
from pagedsim.trace.trace import Trace

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def room(tokens: int, block: int = 1) -> Any:
    """A pool with room for `tokens`, behind a null block."""
    return partial(Paged, tokens // block + 1, block=block)


AMPLE = room(1000)


def test_budget(engine: Any) -> None:
    """Each wants min(tokens - computed, budget left); waiting requests while budget is left."""
    played = play(engine, [(0, 5, 2), (0, 5, 2), (0, 2, 1)], AMPLE, Vllm(max_batched_tokens=8))
    assert played.scheduled == [
        {0: 5, 1: 3},  # 8 = 5 + 3: the second gets what is left, the third is not tried
        {0: 1, 1: 2, 2: 2},  # 8 - 1 - 2 = 5 left, the third wants 2
        {1: 1},  # 0 had its second token, 2 its only one
    ]
    assert [step.finished for step in played.steps] == [[], [0, 2], [1]]


def test_running_sequences_come_first_in_order(engine: Any) -> None:
    """Running sequences first, in order; the budget may end before the last of them."""
    played = play(engine, [(0, 3, 4), (0, 3, 4), (0, 3, 4)], AMPLE, Vllm(max_batched_tokens=3))
    assert played.scheduled[:6] == [
        {0: 3},
        {0: 1, 1: 2},
        {0: 1, 1: 1, 2: 1},  # 1 computes its last prompt token, one is left for 2
        {0: 1, 1: 1, 2: 1},  # 0 yields its fourth
        {1: 1, 2: 1},  # 2 computes its third
        {1: 1, 2: 1},
    ]
    played = play(engine, [(0, 1, 3), (0, 1, 3), (0, 1, 3)], AMPLE, Vllm(max_batched_tokens=2))
    assert played.scheduled == [
        {0: 1, 1: 1},
        {0: 1, 1: 1},
        {0: 1, 1: 1},
        {2: 1},
        {2: 1},
        {2: 1},
    ]


def test_long_prefill_needs_a_crowd(engine: Any) -> None:
    """If long_prefill > 0 and more than one request is present, none takes more than that."""
    scheduler = Vllm(long_prefill=4)
    assert play(engine, [(0, 10, 1)], AMPLE, scheduler).scheduled == [{0: 10}]
    assert play(engine, [(0, 10, 1), (0, 3, 3)], AMPLE, scheduler).scheduled == [
        {0: 4, 1: 3},
        {0: 4, 1: 1},
        {0: 2, 1: 1},
    ]
    # alone until 1, when 10 of 14 are computed under a budget of 10: the last 4 are cut to 3
    played = play(
        engine, [(0, 14, 1), (1, 1, 1)], AMPLE, Vllm(long_prefill=3, max_batched_tokens=10)
    )
    assert played.scheduled == [{0: 10}, {0: 3, 1: 1}, {0: 1}]


def test_waiting_requests_make_a_crowd(engine: Any) -> None:
    """Present is running + waiting."""
    played = play(engine, [(0, 6, 1), (0, 6, 1)], AMPLE, Vllm(long_prefill=4, max_seqs=1))
    assert played.scheduled == [{0: 4}, {0: 2}, {1: 6}]


def test_fcfs_preempts_the_last(engine: Any) -> None:
    """A victim is the last of the running list; it goes to the front of the queue.

    Room 6, prompts of 2 and final lengths of 6.
    """
    played = play(engine, [(0, 2, 5)] * 3, room(6), Vllm())
    assert [step[1:6] for step in played.steps[:6]] == [
        # scheduled, preempted, admitted, running, waiting
        ({0: 2, 1: 2, 2: 2}, [], [0, 1, 2], [0, 1, 2], []),  # 6 of 6
        ({0: 1, 1: 1}, [2], [], [0, 1], [2]),  # 2 gives 2, of which 0 and 1 take one each
        ({0: 1}, [1], [], [0], [1, 2]),  # 1 gives 3, goes before 2
        ({0: 1}, [], [], [0], [1, 2]),  # 5 of 6; 1 knows 4 tokens
        ({0: 1}, [], [], [0], [1, 2]),  # 6 of 6; 0 yields its fifth and last
        ({1: 4}, [], [1], [1], [2]),  # 2 + 2 generated, computed again; 2 knows 3, 2 are free
    ]
    assert [step.blocked for step in played.steps[:6]] == [False, True, True, True, True, True]
    requests = played.recording.requests
    assert requests.preemptions.tolist() == [0, 1, 1]
    # 1 had 3 stored; 2 had 2 stored
    assert requests.recomputed.tolist() == [0, 3, 2]
    assert requests.generated.tolist() == [5, 5, 5]


def test_fcfs_preempts_until_it_fits_or_is_the_victim_itself(engine: Any) -> None:
    """... the last of the running list, perhaps the sequence itself: the loop over running ends.

    Room 13; row 0 wants 12 in chunks of 4.
    """
    played = play(
        engine,
        [(0, 12, 2), (0, 1, 9), (0, 1, 9), (0, 1, 9)],
        room(13),
        Vllm(long_prefill=4, full_input=False),
    )
    assert [step[1:6] for step in played.steps[:3]] == [
        ({0: 4, 1: 1, 2: 1, 3: 1}, [], [0, 1, 2, 3], [0, 1, 2, 3], []),  # 7
        ({0: 4, 1: 1, 2: 1}, [3], [], [0, 1, 2], [3]),  # 8 + 2 + 2 = 12, with 3's 2 it is 14
        ({0: 4}, [2, 1], [], [0], [1, 2, 3]),  # 1 is free, 2 gives 2, which is 3; 1 gives 2
    ]


def test_nothing_is_admitted_in_a_step_that_preempts(engine: Any) -> None:
    """If anything was preempted in a step, nothing is admitted in it.

    Room 6. At 1, row 1 makes room for nobody but itself: 3 are free, and row 2, which wants 1 and
    is at the head, has to wait for the next step.
    """
    played = play(
        engine,
        [(0, 2, 3, 1), (0, 3, 9, 2), (1, 1, 1, 0)],
        room(6 + 6),
        Vllm(policy="priority"),
    )
    assert played.scheduled[1] == {0: 1, 1: 1, 2: 1}  # with room, they all run
    played = play(
        engine, [(0, 2, 3, 1), (0, 3, 4, 2), (1, 1, 1, 0)], room(6), Vllm(policy="priority")
    )
    assert [step[1:7] for step in played.steps[:3]] == [
        ({0: 2, 1: 3}, [], [0, 1], [0, 1], [], False),  # 5 of 6
        ({0: 1}, [1], [], [0], [2, 1], True),  # 0 takes the sixth; 1 gives 3
        ({0: 1, 2: 1}, [], [2], [0, 2], [1], True),  # 4 + 1 of 6; 1 knows 4
    ]


def test_priority_victim(engine: Any) -> None:
    """Under priority the one with the largest (priority, arrival), the first of equals in order.

    Room 8, four prompts of 2 of the same arrival, with priorities 0, 2, 2, 1.
    """
    played = play(
        engine,
        [(0, 2, 4, 0), (0, 2, 4, 2), (0, 2, 4, 2), (0, 2, 4, 1)],
        room(8),
        Vllm(policy="priority"),
    )
    # the queue is ordered by (priority, arrival, id)
    assert played.steps[0].admitted == [0, 3, 1, 2]
    # at 1, 0 needs one: of 1 and 2 (both 2, 0) 1 stands first; its 2 serve 0 and 3; 2 needs one
    # and is the largest itself
    assert [step[1:6] for step in played.steps[1:3]] == [
        ({0: 1, 3: 1}, [1, 2], [], [0, 3], [1, 2]),
        ({0: 1, 3: 1}, [], [], [0, 3], [1, 2]),  # 8 of 8
    ]


def test_among_equal_priorities_the_later_arrival_is_the_victim(engine: Any) -> None:
    """... the largest (priority, arrival), wherever it stands.

    Room 10. At 3, row 0 takes the tenth slot; row 1 is the largest, neither first nor last.
    """
    played = play(
        engine,
        [(0, 2, 9, 1), (1, 2, 9, 1), (2, 2, 9, 0)],
        room(10),
        Vllm(policy="priority"),
    )
    assert [step[1:6] for step in played.steps[:4]] == [
        ({0: 2}, [], [0], [0], []),
        ({0: 1, 1: 2}, [], [1], [0, 1], []),
        ({0: 1, 1: 1, 2: 2}, [], [2], [0, 1, 2], []),  # 4 + 3 + 2 = 9
        ({0: 1, 2: 1}, [1], [], [0, 2], [1]),
    ]


def test_a_scheduled_victim_gives_its_tokens_back(engine: Any) -> None:
    """A victim already scheduled in this step gives its tokens back and leaves the step.

    Room 10, a budget of 4, chunks of 2. At 3, 5 + 4 + 1 = 10 are held after row 0's token, and a
    budget of 3 is left; row 1 wants 2: row 0, the largest by priority, gives 5 slots and 1 token.
    Of 4 tokens row 1 takes 2, so 2 are left for row 2. Without the token it would be 1.
    """
    played = play(
        engine,
        [(0, 2, 8, 2), (1, 9, 1, 0), (2, 9, 1, 1)],
        room(10),
        Vllm(policy="priority", max_batched_tokens=4, long_prefill=2, full_input=False),
    )
    assert [step[1:6] for step in played.steps[:4]] == [
        ({0: 2}, [], [0], [0], []),
        ({0: 1, 1: 2}, [], [1], [0, 1], []),
        ({0: 1, 1: 2, 2: 1}, [], [2], [0, 1, 2], []),  # 4 + 4 + 1 = 9
        ({1: 2, 2: 2}, [0], [], [1, 2], [0]),
    ]


def test_preempting_itself_does_not_end_the_loop_under_priority(engine: Any) -> None:
    """If the victim is the sequence itself, the loop goes on with the next.

    Room 6. At 2, row 0 needs a slot and is the first of the two least urgent: it leaves itself.
    """
    played = play(
        engine, [(0, 2, 4, 1), (0, 2, 4, 1), (1, 1, 3, 0)], room(6), Vllm(policy="priority")
    )
    assert [step[1:6] for step in played.steps[:3]] == [
        ({0: 2, 1: 2}, [], [0, 1], [0, 1], []),
        ({0: 1, 1: 1}, [], [], [0, 1], [2]),  # 6 of 6
        # the loop goes on with 1, which takes one of the 3 that 0 gave
        ({1: 1}, [0], [], [1], [2, 0]),
    ]


def test_ids_break_ties_as_strings(engine: Any) -> None:
    """The waiting queue is ordered by (priority, arrival, id as a string)."""
    scheduler = Vllm(policy="priority", max_seqs=1)
    played = play(engine, [(0, 1, 1)] * 12, AMPLE, scheduler)
    assert [step.admitted for step in played.steps] == [
        [0], [1], [10], [11], [2], [3], [4], [5], [6], [7], [8], [9],
    ]  # fmt: skip
    played = play(engine, [(0, 1, 1)] * 12, AMPLE, Vllm(max_seqs=1))
    assert [step.admitted for step in played.steps] == [[row] for row in range(12)]


def test_an_urgent_arrival_becomes_the_head(engine: Any) -> None:
    """Under priority the waiting queue is ordered, and so changes while the batch decodes."""
    played = play(
        engine,
        [(0, 2, 9, 0), (0, 4, 1, 1), (3, 1, 1, 0)],
        room(10),
        Vllm(policy="priority", max_seqs=2, watermark=0.5),
    )
    # 11 blocks: 5 must stay free. 2 + 4 + 5 > 10, so row 1 waits; at 3 row 2 is the head: the
    # batch holds 5, and 1 + 5 > 5; so nobody joins a running batch any more
    assert played.steps[0].waiting == [1]
    assert [step.waiting for step in played.steps[2:5]] == [[1], [2, 1], [2, 1]]
    assert played.steps[9].admitted == [2, 1]


def test_without_chunks_a_prompt_waits_for_the_budget(engine: Any) -> None:
    """With chunked prefill off, a request that does not fit the budget whole waits.

    It is not blocked (not tried), and nobody is let past it: head of line only.
    """
    scheduler = Vllm(chunked=False, max_batched_tokens=10)
    played = play(engine, [(0, 6, 2), (0, 6, 1), (0, 1, 1)], AMPLE, scheduler, max_len=10)
    assert played.scheduled == [{0: 6}, {0: 1, 1: 6, 2: 1}]
    assert (played.steps[0].blocked, played.steps[0].limit) == (False, "BUDGET")
    chunked = play(engine, [(0, 6, 2), (0, 6, 1), (0, 1, 1)], AMPLE, Vllm(max_batched_tokens=10))
    assert chunked.scheduled == [{0: 6, 1: 4}, {0: 1, 1: 2, 2: 1}]


def test_without_chunks_the_budget_covers_the_maximum_length(engine: Any) -> None:
    """With chunked prefill off, a token budget below the maximum length is an error."""
    scheduler = Vllm(chunked=False, max_batched_tokens=9)
    with pytest.raises(
        SpecError, match=r"max_batched_tokens is 9, must be >= the maximum length 10"
    ):
        play(engine, [(0, 1, 1)], AMPLE, scheduler, max_len=10)
    assert play(engine, [(0, 8, 1)], AMPLE, scheduler, max_len=9).scheduled == [{0: 8}]


def test_full_input_must_fit_though_a_chunk_is_taken(engine: Any) -> None:
    """The whole known length must fit now, although only the chunk's blocks are taken.

    Four blocks of 4, a budget of 8. Row 0 takes one block; three are free.
    """
    four = room(16, block=4)
    played = play(engine, [(0, 4, 5), (0, 12, 1)], four, Vllm(max_batched_tokens=8))
    assert played.scheduled[0] == {0: 4, 1: 4}  # 12 tokens are 3 blocks
    assert played.steps[0].used == 8  # of which one is taken
    played = play(engine, [(0, 4, 5), (0, 13, 1)], four, Vllm(max_batched_tokens=8))
    assert played.scheduled[0] == {0: 4}  # 13 are 4 blocks
    assert played.steps[0].blocked
    short = Vllm(max_batched_tokens=8, full_input=False)
    played = play(engine, [(0, 4, 5), (0, 13, 1)], four, short)
    assert played.scheduled[0] == {0: 4, 1: 4}


def test_the_chunk_must_fit(engine: Any) -> None:
    """If the blocks cannot be had, admission stops: no skipping."""
    played = play(
        engine,
        [(0, 6, 3), (0, 3, 1), (0, 1, 1)],
        room(8),
        Vllm(full_input=False),
    )
    assert played.scheduled == [{0: 6}, {0: 1}, {0: 1}, {1: 3, 2: 1}]
    assert [step.blocked for step in played.steps] == [True, True, True, False]


@pytest.mark.parametrize(
    ("prompt", "admitted"),
    [(8, True), (9, False)],  # 19 to give, 10 taken: 8 + 1 <= 9 < 9 + 1
)
def test_watermark(engine: Any, prompt: int, admitted: bool) -> None:
    """int(watermark · N) blocks, N with the null block, must stay free; this step's count as batch.

    N = 20: int(0.05 · 20) = 1, while int(0.05 · 19) = 0.
    """
    rows = [(0, 10, 2), (0, prompt, 2)]
    played = play(engine, rows, room(19), Vllm(watermark=0.05))
    assert played.steps[0].admitted == ([0, 1] if admitted else [0])
    assert played.steps[0].blocked is not admitted
    assert played.steps[0].limit == ("ARRIVALS" if admitted else "MEMORY")
    played = play(engine, rows, room(18), Vllm(watermark=0.05))  # N = 19
    assert played.steps[0].admitted == ([0, 1] if prompt == 8 else [0])


def test_a_watermark_is_not_for_an_empty_batch(engine: Any) -> None:
    """... when a waiting request joins a non-empty batch."""
    played = play(engine, [(0, 19, 1), (1, 19, 1)], room(19), Vllm(watermark=0.05))
    assert played.scheduled == [{0: 19}, {1: 19}]


def test_a_watermark_is_not_for_running_sequences(engine: Any) -> None:
    """It never applies to running sequences, and it does to preempted ones that come back.

    Room 9 (N = 10), int(0.3 · 10) = 3 must stay free.
    """
    played = play(engine, [(0, 2, 8), (0, 2, 3)], room(9), Vllm(watermark=0.3))
    assert played.steps[0].admitted == [0, 1]  # 2, and 2 + 3 <= 7
    assert [step.used for step in played.steps[:3]] == [4, 6, 8]  # 1 is free, and nobody minds
    # 4 and 1 more until row 1 ends at 3; alone, row 0 ends with 9 of 9
    assert [step.used for step in played.steps[3:]] == [5, 6, 7, 8, 9]
    # preempted: at 3 row 0 holds 5 and 4 are held by row 1, which gives them up at 4
    played = play(engine, [(0, 2, 8), (0, 2, 6)], room(9), Vllm(watermark=0.3))
    assert [step.preempted for step in played.steps[:5]] == [[], [], [], [1], []]
    # row 1 knows 5 tokens: 5 + 3 fit only once row 0 is gone
    assert played.steps[-1].finished == [1]
    assert [step.admitted for step in played.steps if step.admitted] == [[0, 1], [1]]
    assert played.recording.requests.finish_ns.tolist()[0] == 8


def test_the_watermark_holds_for_the_full_length_test(engine: Any) -> None:
    """... must stay free after both tests (full length, chunk).

    Room 19 (N = 20), int(0.1 · 20) = 2; row 0 holds 8, 11 are free; a budget of 12 leaves 4.
    """
    scheduler = partial(Vllm, max_batched_tokens=12, watermark=0.1)
    rows = [(0, 8, 2), (0, 10, 1)]
    assert play(engine, rows, room(19), scheduler()).steps[0].admitted == [0]  # 10 + 2 > 11
    short = scheduler(full_input=False)
    assert play(engine, rows, room(19), short).steps[0].admitted == [0, 1]  # 4 + 2 <= 11
    rows[1] = (0, 9, 1)
    assert play(engine, rows, room(19), scheduler()).steps[0].admitted == [0, 1]


def test_a_request_ends_at_its_output_length_or_the_maximum(engine: Any) -> None:
    """It finishes at its output length, or at max_model_len: then it is truncated."""
    rows = [(0, 3, 2), (0, 3, 3), (0, 3, 4), (0, 5, 9)]
    recording = play(engine, rows, AMPLE, Vllm(), max_len=6).recording
    assert recording.requests.generated.tolist() == [2, 3, 3, 1]
    assert recording.requests.finish_ns.tolist() == [2, 3, 3, 1]
    assert recording.requests.status.tolist() == [
        Status.FINISHED,
        Status.FINISHED,  # 3 + 3 = 6 just fits
        Status.TRUNCATED,
        Status.TRUNCATED,
    ]


@pytest.mark.parametrize(("prompt", "output"), [(1, 1), (3, 1), (3, 4), (1, 6)])
def test_the_last_token_is_never_stored(engine: Any, prompt: int, output: int) -> None:
    """The last token's KV is never stored: KV peaks at prompt + output - 1."""
    final = prompt + output - 1
    played = play(engine, [(0, prompt, output)], room(final), Vllm())
    assert max(window.live for window in played.windows) == final
    assert [step.used for step in played.steps] == list(range(prompt, final + 1))
    assert len(played.steps) == output
    assert {window.internal for window in played.windows} == {0}


@pytest.mark.parametrize(("arrival", "admitted"), [(19, 20), (20, 20), (21, 30), (30, 30)])
def test_arrivals_up_to_the_start_of_a_step_are_seen(
    engine: Any, arrival: int, admitted: int
) -> None:
    """Arrivals up to and including the time at which a step starts are seen by it."""
    played = play(engine, [(0, 2, 9), (arrival, 2, 2)], AMPLE, Vllm(), ns=10)
    assert played.recording.requests.admitted_ns.tolist() == [0, admitted]


def test_an_arrival_that_finds_the_device_idle_starts_a_step(engine: Any) -> None:
    """Time in which nothing runs has no steps; the next begins with the arrival."""
    played = play(engine, [(3, 1, 1), (17, 1, 2), (45, 1, 1)], AMPLE, Vllm(), ns=10)
    assert [step.now for step in played.steps] == [3, 17, 27, 45]


def test_refusals_are_listed_with_their_numbers(engine: Any) -> None:
    """Refused before the run: a prompt of at least the maximum length; more than `longest`."""
    rows = [(0, 9, 1), (0, 10, 1), (0, 11, 1), (0, 4, 5), (0, 4, 6), (0, 8, 9)]
    recording = play(engine, rows, room(8), Vllm(), max_len=10).recording
    assert recording.refused == (
        Refusal(0, "capacity", 9, 8),  # 9 + 1 - 1
        Refusal(1, "prompt", 10, 9),
        Refusal(2, "prompt", 11, 9),
        Refusal(4, "capacity", 9, 8),  # 4 + 6 - 1
        Refusal(5, "capacity", 9, 8),  # min(8 + 9, 10) - 1
    )
    status = recording.requests.status.tolist()
    assert status == [Status.REFUSED] * 3 + [Status.FINISHED] + [Status.REFUSED] * 2
    assert recording.requests.finish_ns.tolist() == [-1, -1, -1, 5, -1, -1]


def test_all_may_be_refused(engine: Any) -> None:
    recording = play(engine, [(5, 10, 1)], room(8), Vllm(), max_len=10).recording
    assert len(recording.windows) == 0
    assert recording.refused == (Refusal(0, "prompt", 10, 9),)


BLOCKED_CASES = {
    # name: (rows, room, scheduler, blocked in the first steps, limits)
    "budget": (
        [(0, 4, 2), (0, 1, 1)],
        100,
        Vllm(max_batched_tokens=4),
        [False, False],
        ["BUDGET", "ARRIVALS"],
    ),
    "max_seqs": (
        [(0, 4, 2), (0, 1, 1)], 100, Vllm(max_seqs=1), [False, False], ["MAX_SEQS", "MAX_SEQS"],
    ),
    "chunking": (
        [(0, 60, 2), (0, 60, 1)],
        200,
        Vllm(chunked=False, max_batched_tokens=100),
        [False, False],
        ["BUDGET", "ARRIVALS"],
    ),
    "full length": (
        [(0, 4, 2), (0, 5, 1)], 8, Vllm(max_batched_tokens=5), [True, True], ["MEMORY", "MEMORY"],
    ),
    "chunk": (
        [(0, 4, 2), (0, 5, 1)],
        8,
        Vllm(full_input=False),
        [True, True],
        ["MEMORY", "MEMORY"],
    ),
    "watermark": (
        [(0, 4, 2), (0, 2, 1)], 8, Vllm(watermark=0.4), [True, True], ["MEMORY", "MEMORY"],
    ),
    "preemption": (
        [(0, 2, 3), (0, 2, 3)], 5, Vllm(), [False, True], ["ARRIVALS", "MEMORY"],
    ),
    "an empty queue": ([(0, 4, 2)], 5, Vllm(), [False, False], ["ARRIVALS", "ARRIVALS"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKED_CASES)
def test_blocked(engine: Any, name: str) -> None:
    """Blocked: rule 4 tried the head and rule 5 refused it, or a preemption closed admission."""
    rows, slots, scheduler, blocked, limits = BLOCKED_CASES[name]
    played = play(engine, rows, room(slots), scheduler)
    assert [step.blocked for step in played.steps[:2]] == blocked
    assert [step.limit for step in played.steps[:2]] == limits
    for window, step in zip(played.windows, played.steps, strict=True):
        free = slots - step.used
        assert window.external == (free if step.blocked else 0)  # external, else idle


def test_free_list_after_releases_in_scheduling_order(engine: Any) -> None:
    """Finished sequences are released in the order they were scheduled; each as one group.

    Room 8, ids 1 to 8. Row 0 holds 1 2 3, row 1 holds 4 5; both yield their only token at once.
    """
    rows = [(0, 3, 1), (0, 2, 1)]
    front = play(engine, rows, room(8), Vllm()).recording
    assert front.free == (5, 4, 3, 2, 1, 6, 7, 8)
    back = play(engine, rows, partial(Paged, 9, block=1, free_order="0.11"), Vllm()).recording
    assert back.free == (6, 7, 8, 3, 2, 1, 5, 4)
    # with a second token each, rows 0 and 1 take 6 and 7 at 1, and row 2 (1 token) leaves at 0
    rows = [(0, 3, 2), (0, 1, 2), (0, 1, 1)]
    assert play(engine, rows, room(8), Vllm()).recording.free == (6, 4, 5, 3, 2, 1, 7, 8)


def test_under_a_concurrency_arrivals_are_ignored(engine: Any) -> None:
    """--concurrency N: N requests outstanding, the next sent as one finishes."""
    rows = [(0, 2, 3), (500, 2, 1), (900, 2, 2), (901, 2, 2)]
    played = play(engine, rows, AMPLE, Vllm(), concurrency=2, ns=10)
    assert played.scheduled == [
        {0: 2, 1: 2},  # 1 is done: 2 is sent at 10
        {0: 1, 2: 2},
        {0: 1, 2: 1},  # 0 and 2 are done at 30: 3 is sent, nobody is left
        {3: 2},
        {3: 1},
    ]
    requests = played.recording.requests
    assert requests.arrival_ns.tolist() == [0, 0, 10, 30]
    assert requests.finish_ns.tolist() == [30, 10, 30, 50]


def test_a_concurrency_counts_no_refused_request(engine: Any) -> None:
    rows = [(0, 90, 20), (0, 2, 1), (0, 2, 1)]
    played = play(engine, rows, room(50), Vllm(), concurrency=1)
    assert played.scheduled == [{1: 2}, {2: 2}]
    assert [refusal.row for refusal in played.recording.refused] == [0]


def test_requests_that_preempt_each_other_for_ever_are_an_error(engine: Any) -> None:
    """§4: nothing ever waits for ever. Of equals the first of the batch is the victim, so two that
    arrive together under the priority policy can take each other's blocks without end."""
    trace = Trace.build("t", [0, 0], [5, 5], [1, 1])
    scheduler = Vllm(policy="priority", long_prefill=1, full_input=False, max_batched_tokens=20)
    with pytest.raises(
        ContractError, match="1 waiting requests preempt each other without end"
    ) as said:
        engine(trace, Paged(6, block=1), scheduler, Fixed(1), max_len=20).run()
    for words in ("--kv-tokens", "--max-seqs", "full_input=1", "priorities that differ"):
        assert words in str(said.value)


def test_what_that_error_advises_helps(engine: Any) -> None:
    usual: dict[str, Any] = {"policy": "priority", "long_prefill": 1, "max_batched_tokens": 20}
    given: list[tuple[dict[str, Any], int, list[int]]] = [
        ({"full_input": True}, 6, [0, 0]),
        ({"full_input": False, "max_seqs": 1}, 6, [0, 0]),
        ({"full_input": False}, 12, [0, 0]),
        ({"full_input": False}, 6, [0, 1]),
    ]
    for more, blocks, priority in given:
        trace = Trace.build("t", [0, 0], [5, 5], [1, 1], columns={"priority": priority})
        scheduler = Vllm(**usual, **more)
        ran = engine(trace, Paged(blocks, block=1), scheduler, Fixed(1), max_len=20).run()
        assert all(ran.requests.finish_ns >= 0)
