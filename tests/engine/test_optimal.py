"""The clairvoyant policy: requests one after another, it hits as much as any choice could.

The oracle tries every choice of what to keep. It knows blocks as tuples of all tokens up to their
end, and shares no code with what it judges.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import pytest
from agreement import Fixed
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pagedsim.alloc.evict import BLOCK_POLICIES
from pagedsim.alloc.foresight import NEVER, Foresight
from pagedsim.alloc.grouped import Grouped
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Vllm
from pagedsim.protocols import LayerGroup
from pagedsim.trace.content import Content, LookUps
from pagedsim.trace.trace import Trace

Key = tuple[int, ...]


class Case(NamedTuple):
    prompts: list[list[int]]
    outputs: list[list[int]]
    salts: list[int]
    block: int

    def trace(self) -> Trace:
        ends = [0]
        for prompt in self.prompts:
            ends.append(ends[-1] + len(prompt))
        flat = [token for prompt in self.prompts for token in prompt]
        return Trace.build(
            "case",
            [0] * len(self.prompts),
            [len(prompt) for prompt in self.prompts],
            [len(output) for output in self.outputs],
            runs=(ends, flat, [1] * len(flat)),
            output_token=[output[0] for output in self.outputs],
            columns={"salt": self.salts},
        )

    def stored(self, row: int) -> list[int]:
        return (self.prompts[row] + self.outputs[row])[:-1]

    def blocks_needed(self) -> int:
        return max(-(-len(self.stored(row)) // self.block) for row in range(len(self.prompts)))

    def looked_up_from(self, first: int) -> set[Key]:
        """To keep anything else is of no use to anybody."""
        return {
            (self.salts[row], *self.prompts[row][:end])
            for row in range(first, len(self.prompts))
            for end in range(self.block, len(self.prompts[row]), self.block)
        }

    def most(self, capacity: int) -> int:
        """Blocks hit, at best."""
        best: dict[frozenset[Key], int] = {frozenset(): 0}
        for row, (prompt, salt) in enumerate(zip(self.prompts, self.salts, strict=True)):
            stored = self.stored(row)
            path = [(salt, *stored[:end]) for end in range(self.block, len(stored) + 1, self.block)]
            table = -(-len(stored) // self.block)
            asked = (len(prompt) - 1) // self.block
            after: dict[frozenset[Key], int] = {}
            for cached, before in best.items():
                hit = 0
                while hit < asked and path[hit] in cached:
                    hit += 1
                others = sorted((cached - set(path)) & self.looked_up_from(row + 1))
                for kept in combinations(others, min(len(others), capacity - table)):
                    state = frozenset((*kept, *path))
                    after[state] = max(after.get(state, 0), before + hit)
            best = after
        return max(best.values())


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Prompts that go on from the start of an earlier prompt and answer; answers are new."""
    prompts: list[list[int]] = []
    outputs: list[list[int]] = []
    salts: list[int] = []
    for row in range(draw(st.sampled_from([6, 5, 7, 3, 2]))):
        start: list[int] = []
        salt = draw(st.sampled_from([0, 0, 0, 1]))
        if row and draw(st.integers(0, 2)):
            parent = draw(st.integers(0, row - 1))
            whole = prompts[parent] + outputs[parent]
            start, salt = whole[: draw(st.integers(1, min(5, len(whole))))], salts[parent]
        tail = draw(st.lists(st.integers(0, 1), min_size=0 if start else 1, max_size=4))
        prompts.append(start + tail)
        outputs.append([1000 * (row + 1) + j for j in range(draw(st.integers(1, 3)))])
        salts.append(salt)
    return Case(prompts, outputs, salts, draw(st.integers(1, 3)))


def hits(case: Case, capacity: int, evict: str, engine: Any = FastEngine, made: Any = None) -> int:
    """Blocks that a run of one request after another hits."""
    pool = (made or RankedPaged)(capacity + 1, block=case.block, evict=evict)
    run = engine(case.trace(), pool, Vllm(), Fixed(1), max_len=200, concurrency=1).run()
    assert not run.refused
    assert not run.requests.preemptions.any()
    return int(run.requests.hit.sum()) // case.block


@settings(max_examples=60)
@given(cases(), st.integers(0, 3), st.sampled_from(sorted(BLOCK_POLICIES)))
def test_it_hits_as_much_as_any_choice_could(case: Case, more: int, other: str) -> None:
    capacity = case.blocks_needed() + more
    best = case.most(capacity)
    assert hits(case, capacity, "optimal") == best
    assert hits(case, capacity, "optimal", ReferenceEngine) == best
    assert hits(case, capacity, other) <= best


def one_full_group(blocks: int, *, block: int, evict: str) -> Grouped:
    """A byte a token."""
    group = LayerGroup("full", (0,), block, block)
    return Grouped(blocks, groups=(group,), prefix=True, evict=evict)


@settings(max_examples=60)
@given(cases(), st.integers(0, 3), st.sampled_from(sorted(BLOCK_POLICIES)), st.booleans())
def test_one_full_group_is_the_plain_cache(
    case: Case, more: int, policy: str, together: bool
) -> None:
    """The same run whatever the policy; one after another, what the clairvoyant hits is the best.

    Together they may be preempted, and look up again what nobody foresaw.
    """
    capacity = case.blocks_needed() + more
    runs = [
        FastEngine(
            case.trace(),
            pool(capacity + 1, block=case.block, evict=policy),
            Vllm(),
            Fixed(1),
            max_len=200,
            concurrency=None if together else 1,
        ).run()
        for pool in (one_full_group, RankedPaged)
    ]
    grouped, plain = runs
    assert grouped.requests.hit.tolist() == plain.requests.hit.tolist()
    assert grouped.requests.finish_ns.tolist() == plain.requests.finish_ns.tolist()
    assert (grouped.free, grouped.evicted) == (plain.free, plain.evicted)
    best = case.most(capacity)
    assert hits(case, capacity, "optimal", made=one_full_group) == best


def test_the_sample_has_room_for_mistakes() -> None:
    """Often enough another policy hits less than the best, and the best less than without bound."""
    seen = {"lru": 0, "bound": 0}

    @settings(max_examples=80, derandomize=True, database=None, deadline=None)
    @given(cases(), st.integers(0, 3))
    def sample(case: Case, more: int) -> None:
        capacity = case.blocks_needed() + more
        best = hits(case, capacity, "optimal")
        seen["lru"] += hits(case, capacity, "lru") < best
        seen["bound"] += best < hits(case, 500, "lru")

    sample()
    assert min(seen.values()) >= 4, seen


@pytest.mark.parametrize("made", [RankedPaged, one_full_group])
@pytest.mark.parametrize(
    ("prompts", "first_output", "capacity"),
    [
        # row 1 computes 1000 again, so that it is there twice: row 5 hits one of both
        ([[0], [0, 1000], [0], [0], [0], [0, 1000, 1001]], [1000, 1001], 3),
        # row 4 computes 0 again whatever is kept, so row 3 leaves the second block for row 5
        ([[0], [0], [0, 0], [1, 1, 1], [0], [0, 0, 0]], [1000], 4),
    ],
)
def test_what_is_computed_again_is_foreseen(
    prompts: list[list[int]], first_output: list[int], capacity: int, made: Any
) -> None:
    outputs = [first_output, *([1000 * (row + 2)] for row in range(5))]
    case = Case(prompts, outputs, [0] * 6, 1)
    assert hits(case, capacity, "optimal", made=made) == case.most(capacity) == 3


class OldestContent:
    """Foresees, but leaves starts before ends; `seen` is what it was asked of."""

    foresees = True

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def rank(self, entry: Any) -> int:
        self.seen.append((entry.made, entry.next_use))
        return int(entry.made)


@pytest.mark.parametrize("made", [RankedPaged, one_full_group])
def test_what_is_there_behind_a_hole_is_made_anew(made: Any) -> None:
    """Row 0 stores 0, then 1; the start is evicted for row 1, so row 2 hits nothing of both."""
    case = Case([[0, 1, 2], [5], [0, 1, 2]], [[7], [8], [9]], [0] * 3, 1)
    policy = OldestContent()
    pool = made(4, block=1, evict=policy)
    run = FastEngine(
        case.trace(), pool, Vllm(max_batched_tokens=1), Fixed(1), max_len=9, concurrency=1
    ).run()
    assert run.requests.hit.tolist() == [0, 0, 0]
    first, second, third = (1, 2), (2, 2), (3, NEVER)  # 2 is the last token
    assert policy.seen[:4] == [third, second, first, (5, NEVER)]
    assert (2, NEVER) in policy.seen[4:6]


class _Copies(RankedPaged):
    """Of two alike the one that is found keeps its rank, the other has none."""

    def _keep(self, blocks: Any) -> None:
        self._clock += 1
        keys = self._all_key[blocks]
        ahead = self._foresight.next_use(keys)  # type: ignore[union-attr]
        ahead[self._all_first[keys] != blocks] = NEVER
        self._push(blocks, ahead)


class _Root(RankedPaged):
    """Of equals the prompt's first block goes first."""

    def _keep(self, blocks: Any) -> None:
        super()._keep(blocks[::-1])


class _Blind(RankedPaged):
    """The next use is that of the first row for ever."""

    def _taking(self, seq: Any, hits: Any) -> None:
        pass


@pytest.mark.parametrize("planted", [_Copies, _Root, _Blind])
def test_a_planted_mistake_is_found(planted: Any) -> None:
    @settings(
        max_examples=800,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(cases(), st.integers(0, 3))
    def search(case: Case, more: int) -> None:
        capacity = case.blocks_needed() + more
        assert hits(case, capacity, "optimal", made=planted) == case.most(capacity)

    with pytest.raises(AssertionError):
        search()


@given(cases(), st.randoms(use_true_random=False), st.lists(st.integers(0, 7), max_size=2))
def test_the_next_row_whatever_the_order(case: Case, random: Any, refused: list[int]) -> None:
    """Of rows that were not admitted yet the first that looks a key up; a refused one never.

    None if a row computes it before.
    """
    trace, block = case.trace(), case.block
    rows = range(len(case.prompts))
    refused = [row for row in refused if row in rows]
    content = Content(trace)
    future = Foresight(LookUps(content, trace.prompt, refused), block)
    asked = {
        row: [(*case.prompts[row][:end], case.salts[row]) for end in
              range(block, len(case.prompts[row]) + 1, block)]
        for row in rows
    }  # fmt: skip
    left = [row for row in rows if row not in refused]
    random.shuffle(left)
    while left:
        for row in rows:
            keys = content.keys(row, block)[: len(asked[row])]
            wanted = []
            for key in asked[row]:
                other = min((other for other in left if key in asked[other]), default=NEVER)
                anew = other != NEVER and len(key) - 1 == len(case.prompts[other])
                wanted.append(NEVER if anew else other)
            assert future.next_use(keys).tolist() == wanted
        row = left.pop()
        future.admitted(row)
        future.admitted(row)  # it comes back after a preemption: nothing changes
