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
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Vllm
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


class _Duplicates(RankedPaged):
    """What will be computed again keeps its rank."""

    def _taking(self, seq: Any, hits: Any) -> None:
        self._foresight.admitted(seq.id)  # type: ignore[union-attr]


class _Root(RankedPaged):
    """Of equals the prompt's first block goes first."""

    def _keep(self, blocks: Any) -> None:
        super()._keep(blocks[::-1])


class _Blind(RankedPaged):
    """The next use is that of the first row for ever."""

    def _taking(self, seq: Any, hits: Any) -> None:
        pass


@pytest.mark.parametrize("planted", [_Duplicates, _Root, _Blind])
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
    """Of rows that were not admitted yet the first that looks a key up; a refused one never."""
    trace, block = case.trace(), case.block
    rows = range(len(case.prompts))
    refused = [row for row in refused if row in rows]
    content = Content(trace)
    future = Foresight(LookUps(content, trace.prompt, refused), block)
    asked = {
        row: [(*case.prompts[row][:end], case.salts[row]) for end in
              range(block, len(case.prompts[row]), block)]
        for row in rows
    }  # fmt: skip
    left = [row for row in rows if row not in refused]
    random.shuffle(left)
    while left:
        for row in rows:
            keys = content.keys(row, block)[: len(asked[row])]
            wanted = [
                min((other for other in left if key in asked[other]), default=NEVER)
                for key in asked[row]
            ]
            assert future.next_use(keys).tolist() == wanted
        row = left.pop()
        future.admitted(row)
        future.admitted(row)  # it comes back after a preemption: nothing changes
