"""Small traces whose prompts share, and caches that hold blocks one by one.

The caches know blocks as tuples of all tokens up to their end, and share nothing with the code
that they judge: no content keys, no runs, no stack.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import combinations
from typing import Any, NamedTuple

from hypothesis import strategies as st

from pagedsim.trace import Trace

Key = tuple[int, ...]


class Request(NamedTuple):
    """Keys looked up and touched, and the tokens of the former."""

    looked: list[Key]
    touched: list[Key]
    tokens: list[int]
    prompt: int


class Case(NamedTuple):
    trace: Trace
    prompts: list[list[int]]
    outputs: list[list[int]]
    salts: list[int]

    def requests(self, block: int, count: str) -> list[Request]:
        """What every request does, counted as `count` says."""
        found = []
        for prompt, output, salt in zip(self.prompts, self.outputs, self.salts, strict=True):
            last = len(prompt) if count == "all" else len(prompt) // block * block
            ends = range(block, last + block, block)
            looked = [(salt, *prompt[:end]) for end in ends]
            tokens = [min(end, len(prompt)) - end + block for end in ends]
            touched = looked
            if count == "outputs":
                stored = (prompt + output)[:-1]
                touched = [(salt, *stored[:end]) for end in range(block, len(stored) + 1, block)]
            found.append(Request(looked, touched, tokens, len(prompt)))
        return found


@st.composite
def cases(draw: st.DrawFn, *, most: int = 10, longest: int = 8) -> Case:
    """Prompts that go on from the start of an earlier prompt and answer, or begin anew."""
    rows = draw(st.integers(1, most))
    prompts: list[list[int]] = []
    outputs: list[list[int]] = []
    salts: list[int] = []
    salted = draw(st.booleans())
    for row in range(rows):
        start: list[int] = []
        salt = draw(st.integers(0, 1)) if salted else 0
        if row and draw(st.integers(0, 3)):
            parent = draw(st.integers(0, row - 1))
            whole = prompts[parent] + outputs[parent]
            start = whole[: draw(st.integers(1, len(whole)))]
            salt = salts[parent]
        tail = draw(st.lists(st.integers(0, 2), min_size=0 if start else 1, max_size=longest))
        first = 1000 * draw(st.integers(1, rows)) if draw(st.booleans()) else 1000 * (row + 1)
        prompts.append(start + tail)
        outputs.append(list(range(first, first + draw(st.integers(1, longest)))))
        salts.append(salt)
    ends = [0]
    for prompt in prompts:
        ends.append(ends[-1] + len(prompt))
    flat = [token for prompt in prompts for token in prompt]
    gaps = draw(st.lists(st.integers(0, 9), min_size=rows, max_size=rows))
    trace = Trace.build(
        "case",
        [sum(gaps[: row + 1]) * 10**9 for row in range(rows)],
        [len(prompt) for prompt in prompts],
        [len(output) for output in outputs],
        runs=(ends, flat, [1] * len(flat)),
        output_token=[output[0] for output in outputs],
        columns={"salt": salts},
    )
    return Case(trace, prompts, outputs, salts)


def hit(request: Request, cached: Any) -> int:
    """The longest run of cached blocks from the start."""
    count = 0
    for key in request.looked:
        if key not in cached:
            break
        count += 1
    return count


def lru(
    requests: list[Request], capacity: int, *, leaf: bool = True
) -> tuple[list[int], list[set[Key]]]:
    """Hits, and what the cache holds after each request."""
    cached: OrderedDict[Key, None] = OrderedDict()
    hits, held = [], []
    for request in requests:
        hits.append(hit(request, cached))
        for key in request.touched[:: -1 if leaf else 1]:
            if key in cached:
                cached.move_to_end(key)
                continue
            if len(cached) == capacity:
                cached.popitem(last=False)
            cached[key] = None
        held.append(set(cached))
    return hits, held


def fifo(requests: list[Request], capacity: int, *, leaf: bool = True) -> list[int]:
    cached: OrderedDict[Key, None] = OrderedDict()
    hits = []
    for request in requests:
        hits.append(hit(request, cached))
        for key in request.touched[:: -1 if leaf else 1]:
            if key not in cached:
                if len(cached) == capacity:
                    cached.popitem(last=False)
                cached[key] = None
    return hits


def lfu(requests: list[Request], capacity: int) -> list[int]:
    cached: dict[Key, tuple[int, int]] = {}  # touches since it came in, time of the last
    hits = []
    now = 0
    for request in requests:
        hits.append(hit(request, cached))
        for key in reversed(request.touched):
            if key not in cached and len(cached) == capacity:
                del cached[min(cached, key=lambda key: cached[key])]
            now += 1
            cached[key] = (cached.get(key, (0, 0))[0] + 1, now)
    return hits


def most_hits(requests: list[Request], capacity: int) -> int:
    """The most that any choice of what to keep after each request can hit, by trying all."""
    best: dict[frozenset[Key], int] = {frozenset(): 0}
    for request in requests:
        after: dict[frozenset[Key], int] = {}
        for cached, before in best.items():
            total = before + hit(request, cached)
            could = cached | set(request.touched)
            for kept in combinations(sorted(could), min(capacity, len(could))):
                state = frozenset(kept)
                after[state] = max(after.get(state, 0), total)
        best = after
    return max(best.values())
