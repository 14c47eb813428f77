"""Samples and beams: hand-worked cases on both engines, and what each of them holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import Fixed
from forked import forking_traces, lives
from hypothesis import given
from play import ENGINES, Watch

from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.radix import Radix
from pagedsim.engine.recording import Recording, Window
from pagedsim.engine.schedulers import Orca, Vllm
from pagedsim.errors import InputError, SpecError
from pagedsim.trace.content import Content
from pagedsim.trace.lineage import members
from pagedsim.trace.samples import Forks, with_beams
from pagedsim.trace.trace import Trace


class OneByOne(Vllm):
    """No jumps, so that a window is a step."""

    steady = False


def run(engine: Any, trace: Trace, allocator: Any, scheduler: Any = None) -> Any:
    watch = Watch([allocator])
    made = engine(
        trace, allocator, scheduler or OneByOne(), Fixed(1), max_len=99, observers=[watch]
    )
    return watch.steps, made.run()


def rows(recording: Recording) -> list[Window]:
    return [Window(*row) for row in recording.windows.tolist()]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pool", [Paged, PrefixPaged])
def test_the_picture_of_the_docs(engine: Any, pool: Any) -> None:
    """A prompt of 6 in blocks of 4 and three samples: two copy, in order, and the last keeps."""
    trace = Trace.build("t", [0], [6], [3], samples=[3])
    steps, recording = run(engine, trace, pool(9, block=4))
    assert [step.tables for step in steps] == [
        [(1, 2)],
        [(1, 3), (1, 4), (1, 2)],
        [(1, 3), (1, 4), (1, 2)],
    ]
    assert [step.scheduled for step in steps] == [{0: 6}, {0: 1}, {0: 1}]  # by row: three alike
    windows = rows(recording)
    assert [w.batch for w in windows] == [1, 3, 3]
    assert [w.tokens for w in windows] == [6, 3, 3]
    assert [w.context for w in windows] == [6, 21, 24]
    # two holders more of a block of 4; each has stored 7, then 8
    assert [w.shared for w in windows] == [0, 8, 8]
    assert [w.live for w in windows] == [6, 13, 16]
    assert [w.held for w in windows] == [8, 16, 16]
    assert [w.internal for w in windows] == [0, 0, 0]
    requests = recording.requests
    assert (requests.generated.tolist(), requests.longest.tolist()) == ([9], [3])
    assert (requests.first_token_ns.tolist(), requests.finish_ns.tolist()) == ([1], [3])


@pytest.mark.parametrize("engine", ENGINES)
def test_each_sample_ends_on_its_own(engine: Any) -> None:
    """Sample 1 is done with its first token and never holds a block; sample 0 ends before 2."""
    trace = Trace.build("t", [0], [4], [4], samples=[3], sample_output=[2, 1, 4])
    steps, recording = run(engine, trace, Paged(9, block=4))
    assert [step.tables for step in steps] == [[(1,)], [(1, 2), (1, 3)], [(1, 3)], [(1, 3)]]
    assert [w.shared for w in rows(recording)] == [0, 4, 0, 0]
    assert [w.internal for w in rows(recording)] == [0, 3 + 1, 1, 1]
    requests = recording.requests
    assert (requests.generated.tolist(), requests.longest.tolist()) == ([7], [4])
    assert requests.finish_ns.tolist() == [4]


@pytest.mark.parametrize("engine", ENGINES)
def test_empty_slots_of_a_shared_block_are_reserved_once(engine: Any) -> None:
    """One token a step: sample 0 has copied and stores 3 of 3, the others share a block with 2."""
    trace = Trace.build("t", [0], [2], [2], samples=[3])
    stalled = rows(run(engine, trace, Paged(9, block=4), Tight())[1])[1]
    assert (stalled.held, stalled.live, stalled.shared) == (8, 3 + 2, 2)
    assert (stalled.reserved, stalled.internal) == (2, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_preempted_and_resumed_as_a_whole(engine: Any) -> None:
    """Five blocks of 2: there is no sixth for row 0, so row 1 goes, and starts again."""
    trace = Trace.build("t", [0, 0], [2, 2], [5, 4], samples=[1, 2])
    steps, recording = run(engine, trace, Paged(6, block=2))
    assert [(s.running, s.preempted, s.waiting) for s in steps[:3]] == [
        ([0, 1], [], []),
        ([0, 1, 1], [], []),
        ([0, 1, 1], [], []),
    ]
    assert steps[1].tables == [(1, 3), (2, 4), (2, 5)]
    assert steps[2].tables == steps[1].tables
    # row 0 wants a third block: the last of the batch goes, and its other sample with it
    assert (steps[3].preempted, steps[3].running, steps[3].waiting) == ([1], [0], [1])
    assert steps[3].blocked
    # 0 ends with step 4; then the prompt once, and what each knows besides: 2 stored before, 1 new
    assert [s.scheduled for s in steps[4:]] == [{0: 1}, {1: 2}, {1: 3}]
    assert [w.tokens for w in rows(recording)[5:]] == [2, 3 + 3]
    requests = recording.requests
    assert requests.preemptions.tolist() == [0, 1]
    assert requests.recomputed.tolist() == [0, 2 + 2 + 2]
    assert requests.generated.tolist() == [5, 8]


@pytest.mark.parametrize("engine", ENGINES)
def test_beams_by_hand(engine: Any) -> None:
    """Three beams, blocks of 2, prompt of 2: after the second token beam 0 goes for one of 2."""
    trace = Trace.build("t", [0], [2], [4], samples=[3], beam=[1], forks=([0, 1], [2], [0], [2]))
    steps, recording = run(engine, trace, Paged(9, block=2))
    assert [s.tables for s in steps] == [
        [(1,)],
        [(1, 2), (1, 3), (1, 4)],
        # 2 is free and at the front: the fork, which stands first, copies 4 into it
        [(1, 2), (1, 3), (1, 4)],
        [(1, 2, 5), (1, 3, 6), (1, 4, 7)],
    ]
    assert recording.requests.generated.tolist() == [12]
    assert recording.requests.finish_ns.tolist() == [4]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_beam_waits_for_the_others(engine: Any) -> None:
    """One token a step: each computes its second token, and only then all have their third."""
    trace = Trace.build("t", [0], [2], [3], samples=[2], beam=[1])
    steps, recording = run(engine, trace, Paged(9, block=8), Tight())
    assert [s.scheduled for s in steps] == [{0: 2}, {0: 1}, {0: 1}, {0: 1}, {0: 1}]
    assert [w.context for w in rows(recording)] == [2, 3, 3, 4, 4]
    assert recording.requests.finish_ns.tolist() == [5]


@pytest.mark.parametrize("engine", ENGINES)
def test_places_are_counted_before_the_fork(engine: Any) -> None:
    """Three places: row 0 takes two of them while it is one sequence, so row 1, of two, waits."""
    trace = Trace.build("t", [0, 0, 0], [4, 2, 1], [2, 2, 2], samples=[2, 2, 1])
    scheduler = OneByOne(max_seqs=3, max_batched_tokens=3)
    steps, _ = run(engine, trace, Paged(9, block=4), scheduler)
    assert [s.running for s in steps] == [[0], [0], [0, 0], [1, 2], [1, 1, 2]]
    assert [s.limit for s in steps] == ["MAX_SEQS"] * 3 + ["ARRIVALS"] * 2


class Tight(OneByOne):
    """A budget of two for prompts, and one for whatever comes then."""

    def plan(self, view: Any, /) -> Any:
        self.max_batched_tokens = 1 if view.running else 2
        return super().plan(view)


# What cannot be.


@pytest.mark.parametrize("engine", ENGINES)
def test_a_request_that_needs_too_much_when_alone_is_refused(engine: Any) -> None:
    """Prompt 5, blocks of 4: one shared, and two each for 3 + 5 and 4 + 5 tokens stored."""
    trace = Trace.build("t", [0], [5], [6], samples=[3], sample_output=[4, 6, 5])
    # at 9 stored two are left: 1 + 2·2 = 5; at 8 three: 1 + 3·1
    for blocks, refused in ((6, []), (5, [(0, "capacity", 20, 16)])):
        _, recording = run(engine, trace, Paged(blocks, block=4))
        assert [tuple(refusal) for refusal in recording.refused] == refused


PARTED = Trace.build("t", [0], [9], [9], samples=[3], sample_output=[2, 9, 8])


@pytest.mark.parametrize("engine", ENGINES)
def test_where_a_budget_parts_samples_each_counts_in_full(engine: Any) -> None:
    """Prompt 9, blocks of 2, two tokens a step: sample 1 is at its end before sample 2 has begun.

    In step they hold 4 shared and 2 · 4 blocks of their own, with 16 stored each; parted, 4 and
    1 + 5 + 4, with 10, 17 and 16.
    """
    for tokens, blocks, refused in (
        (3, 13, []),
        (3, 12, [(0, "capacity", 24, 22)]),
        (2, 15, []),
        (2, 14, [(0, "capacity", 28, 26)]),
        (2, 13, [(0, "capacity", 28, 24)]),
    ):
        scheduler = OneByOne(max_batched_tokens=tokens)
        _, recording = run(engine, PARTED, Paged(blocks, block=2), scheduler)
        assert [tuple(refusal) for refusal in recording.refused] == refused
        assert recording.requests.generated.tolist() == [0 if refused else 19]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_sample_of_one_token_counts_for_nothing_where_they_part(engine: Any) -> None:
    """It is done as the others fork: 2 blocks shared, and 1 + 2 for 6 and 7 tokens stored.

    Where the longest sequence is of 6 tokens each of them is.
    """
    trace = Trace.build("t", [0], [5], [3], samples=[3], sample_output=[2, 1, 3])
    for max_len, blocks, refused in ((99, 6, []), (99, 5, [(0, "capacity", 10, 8)]), (6, 6, [])):
        scheduler = OneByOne(max_batched_tokens=1, max_seqs=3)
        made = engine(trace, Paged(blocks, block=2), scheduler, Fixed(1), max_len=max_len)
        assert [tuple(refusal) for refusal in made.run().refused] == refused


@pytest.mark.parametrize("engine", ENGINES)
def test_who_cannot_fork_says_so(engine: Any) -> None:
    trace = Trace.build("x", [0, 0], [4, 4], [4, 4], samples=[1, 3])
    with pytest.raises(SpecError, match=r"x: request 1 asks for 3 samples; Radix cannot fork"):
        run(engine, trace, Radix(99))
    with pytest.raises(SpecError, match=r"3 beams, but max_seqs is 2: they run together or not"):
        run(engine, with_beams(trace, 3), Paged(99), Orca(max_seqs=2))


# What is in a trace.


@given(trace=forking_traces())
def test_members_hold_what_a_telling_token_by_token_gives(trace: Trace) -> None:
    """Two tokens of a row are the same if, and only if, the same member generated both, there."""
    made = members(trace)
    content = Content(made.trace)
    for row in range(len(trace)):
        ids: dict[int, Any] = {}
        names: dict[Any, int] = {}
        told = lives(trace, row)
        assert made.first[row + 1] - made.first[row] == len(told)
        for member, life in enumerate(told):
            runs = content.runs(made.first[row] + member)
            tokens = [first + j for first, length in runs for j in range(length)]
            prompt = int(trace.prompt[row])
            assert len(tokens) == prompt + len(life)
            assert tokens[:prompt] == _prompt(trace, row)
            for token, name in zip(tokens[prompt:], life, strict=True):
                assert ids.setdefault(token, name) == name
                assert names.setdefault(name, token) == token
        first, output = int(trace.output_token[row]), int(trace.output[row])
        last = told[-1] if trace.forks is not None and trace.beam[row] else told[0]
        if not trace.beam[row]:
            assert [names[name] for name in last] == [*range(first, first + len(last))]
        else:
            assert {*range(first, first + output)} <= {*ids}


def _prompt(trace: Trace, row: int) -> list[int]:
    part = slice(int(trace.run_rows[row]), int(trace.run_rows[row + 1]))
    pairs = zip(trace.run_token[part].tolist(), trace.run_length[part].tolist(), strict=True)
    return [first + j for first, length in pairs for j in range(length)]


def test_beams_die_as_often_as_is_said() -> None:
    trace = Trace.build("t", range(400), [5] * 400, [51] * 400)
    made = with_beams(trace, 4, death=0.1, seed=3)
    assert made.forks is not None
    steps = 400 * 50
    # each of 4 dies with p, but the last does not where all would
    expected = steps * (4 * 0.1 - 0.1**4)
    assert len(made.forks.after) == pytest.approx(expected, abs=5 * expected**0.5)
    parents = np.bincount(made.forks.parent, minlength=4)
    assert np.abs(parents - parents.mean()).max() < 6 * parents.mean() ** 0.5
    again = with_beams(trace, 4, death=0.1, seed=3).forks
    assert again is not None
    assert all(np.array_equal(*pair) for pair in zip(made.forks, again, strict=True))
    head = with_beams(trace.head(40), 4, death=0.1, seed=3).forks
    assert head is not None
    upto = int(made.forks.rows[40])
    assert np.array_equal(head.after, made.forks.after[:upto])
    sure = with_beams(trace, 3, death=1.0).forks
    assert sure is not None
    assert (sure.slot.reshape(-1, 2) == [0, 1]).all()  # the last one stays
    assert (sure.parent == 2).all()
    Trace.build("again", *(getattr(made, key) for key in ("arrival_ns", "prompt", "output")),
                samples=made.samples, beam=made.beam, forks=made.forks)  # fmt: skip


@pytest.mark.parametrize(
    ("forks", "says"),
    [
        (([0, 1], [3], [0], [1]), "after must be >= 1 and < 3, the output"),
        (([0, 1], [1], [2], [1]), "beams must be >= 0 and < 2, the samples"),
        (([0, 2], [1, 1], [0, 1], [1, 0]), "beam 1 is dropped then as well"),
        (([0, 2], [2, 1], [0, 0], [1, 1]), "must be in order, each once"),
    ],
)
def test_forks_that_cannot_be(forks: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Trace.build("t", [0], [5], [3], samples=[2], beam=[1], forks=forks)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"sample_output": [3]}, "sample_output has 1 lengths for 2 samples"),
        ({"sample_output": [3, 0]}, "a sample of 0 tokens, must be >= 1"),
        ({"sample_output": [2, 2]}, "must be at most the output 3, the longest of them"),
        ({"sample_output": [3, 2], "beam": [1]}, "must all be the output 3"),
        ({"beam": [2]}, "beam is 2, must be 0 or 1"),
        ({"forks": ([0, 1], [1], [0], [1])}, "beam is 0, must be 1 where there are forks"),
    ],
)
def test_samples_that_cannot_be(more: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Trace.build("t", [0], [5], [3], samples=[2], **more)


def test_rows_that_are_taken_keep_their_samples() -> None:
    forks = Forks(*map(np.array, ([0, 1, 1, 3], [1, 1, 2], [0, 1, 0], [1, 0, 1])))
    trace = Trace.build(
        "t", [9, 5, 7], [1, 2, 3], [4, 5, 6], samples=[2, 3, 2], beam=[1, 0, 1],
        sample_output=[4, 4, 5, 1, 2, 6, 6], forks=forks,
    )  # fmt: skip
    assert trace.samples.tolist() == [3, 2, 2]  # sorted by arrival
    assert trace.sample_output is not None
    assert trace.sample_output.tolist() == [5, 1, 2, 6, 6, 4, 4]
    assert trace.forks is not None
    assert [trace.forks.of(row) for row in range(3)] == [
        {},
        {1: [(1, 0)], 2: [(0, 1)]},
        {1: [(0, 1)]},
    ]
    with pytest.raises(ValueError, match="read-only"):
        trace.forks.slot[0] = 1
