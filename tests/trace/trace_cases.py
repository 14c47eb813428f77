"""Traces for tests: a hypothesis strategy, and equality of everything that a trace holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from pagedsim.trace import Trace, samples

COLUMNS = (
    *("arrival_ns", "prompt", "output", "run_rows", "run_token", "run_length", "output_token"),
    *("salt", "priority", "samples", "session", "parent", "think_ns", "beam"),
)
ABOUT = ("name", "timed", "load", "format", "notes", "dropped", "extra")


@st.composite
def traces(draw: st.DrawFn, *, content: bool | None = None, most: int = 12) -> Trace:
    """Any trace; with few token ids, so that prompts share."""
    rows = draw(st.integers(1, most))

    def column(least: int, largest: int) -> list[int]:
        return draw(st.lists(st.integers(least, largest), min_size=rows, max_size=rows))

    runs = tokens = None
    prompt = column(1, 9)
    if content or (content is None and draw(st.booleans())):
        pair = st.tuples(st.integers(0, 6), st.integers(1, 5))
        lists = [draw(st.lists(pair, min_size=1, max_size=4)) for _ in range(rows)]
        flat = [pair for pairs in lists for pair in pairs]
        prompt = [sum(length for _, length in pairs) for pairs in lists]
        cuts = np.concatenate(([0], np.cumsum([len(pairs) for pairs in lists])))
        runs = (cuts, [first for first, _ in flat], [length for _, length in flat])
        tokens = column(0, 12) if draw(st.booleans()) else None
    columns = {}
    outputs = column(1, 9)
    more: dict[str, Any] = {}
    if draw(st.booleans()):
        columns = {
            "salt": column(0, 2),
            "priority": column(-2, 2),
            "samples": column(1, 3),
            "session": column(-1, 3),
            "parent": column(-1, rows - 1),
            "think_ns": column(-1, 10**12),
        }
        more = draw(_samples(columns["samples"], outputs))
    return Trace.build(
        draw(st.text(max_size=6)),
        column(0, 10**15) if draw(st.booleans()) else sorted(column(0, 9)),
        prompt,
        outputs,
        runs=runs,
        output_token=tokens,
        columns=columns,
        **more,
        format="made",
        load=draw(st.text(max_size=6)),
        timed=draw(st.booleans()),
        dropped=draw(st.integers(0, 3)),
        extra=draw(st.sampled_from([{}, {"block": 16}])),
    )


@st.composite
def _samples(draw: st.DrawFn, samples: list[int], outputs: list[int]) -> dict[str, Any]:
    """Lengths of samples, beams and their forks, each now and then."""
    beam = [draw(st.sampled_from([0, 0, 1])) if count > 1 else 0 for count in samples]
    cuts, forks, lengths = [0], [], []
    for count, output, together in zip(samples, outputs, beam, strict=True):
        own = [output] + [draw(st.integers(1, output)) for _ in range(count - 1)]
        lengths += [output] * count if together else draw(st.permutations(own))
        if together:
            slots = [draw(st.integers(-1, count - 1)) for _ in range(1, output)]
            forks += [
                (at, slot, (slot + 1) % count) for at, slot in enumerate(slots, 1) if slot >= 0
            ]
        cuts.append(len(forks))
    found: dict[str, Any] = {"beam": beam, "sample_output": lengths}
    if forks:
        found["forks"] = (cuts, *zip(*forks, strict=True))
    return found


def tokens(trace: Trace, row: int) -> list[int]:
    """The prompt's token ids, one by one."""
    at = range(int(trace.run_rows[row]), int(trace.run_rows[row + 1]))
    runs = ((int(trace.run_token[i]), int(trace.run_length[i])) for i in at)
    return [first + step for first, length in runs for step in range(length)]


def same(left: Trace, right: Trace) -> bool:
    """Whether all columns and facts but the sha256 are equal."""
    columns = all(np.array_equal(getattr(left, key), getattr(right, key)) for key in COLUMNS)
    columns &= np.array_equal(samples.outputs(left), samples.outputs(right))
    forks = [trace.forks or samples.no_forks(len(trace)) for trace in (left, right)]
    columns &= all(np.array_equal(*pair) for pair in zip(*forks, strict=True))
    return columns and all(getattr(left, key) == getattr(right, key) for key in ABOUT)
