"""Strategies of hypothesis for tests of one's own: traces, devices, step-time models.

Sequences are in `sequences`, loads in `steptime`, entries of a cache in `eviction`.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pagedsim.device.device import Device, make_device
from pagedsim.device.roofline import Roofline
from pagedsim.device.steptime import Affine, Constant
from pagedsim.trace.trace import Trace


@st.composite
def traces(
    draw: st.DrawFn,
    *,
    rows: int = 8,
    longest: int = 20,
    sharing: bool = True,
    samples: int = 1,
    sessions: bool = False,
) -> Trace:
    """Up to `rows` requests of prompts and outputs of up to `longest` tokens each.

    With `sharing` many begin alike, under one of two salts. Priorities are 0 … 2. A request has up
    to `samples` outputs, of lengths of their own. With `sessions` some follow an earlier one.
    """
    count = draw(st.integers(1, rows))
    numbers = st.integers(1, longest)
    prompts = [draw(numbers) for _ in range(count)]
    outputs = [draw(numbers) for _ in range(count)]
    spread = draw(st.sampled_from([0, 8, 40]))
    arrivals = sorted(draw(st.integers(0, spread)) for _ in range(count))
    runs: list[list[tuple[int, int]]] = []
    for row, prompt in enumerate(prompts):
        alike = draw(st.integers(0, prompt)) if sharing else 0
        own = (1000 * (row + 1), prompt - alike)
        runs.append([run for run in ((0, alike), own) if run[1]])
    counts = [0]
    for each in runs:
        counts.append(counts[-1] + len(each))
    flat = [run for each in runs for run in each]
    salts = st.sampled_from([0, 0, 0, 1]) if sharing else st.just(0)
    columns = {
        "priority": [draw(st.integers(0, 2)) for _ in range(count)],
        "salt": [draw(salts) for _ in range(count)],
    }
    lengths = None
    if samples > 1:
        columns["samples"] = [draw(st.integers(1, samples)) for _ in range(count)]
        lengths = []
        for most, outs in zip(outputs, columns["samples"], strict=True):
            lengths += [most, *(draw(st.integers(1, most)) for _ in range(outs - 1))]
    if sessions:
        columns["parent"] = [draw(st.integers(-1, row - 1)) for row in range(count)]
        columns["think_ns"] = [draw(st.integers(0, 9)) for _ in range(count)]
    return Trace.build(
        "drawn",
        arrivals,
        prompts,
        outputs,
        runs=(counts, [first for first, _ in flat], [length for _, length in flat]),
        output_token=[1000 * (row + 1) + 500 for row in range(count)],
        columns=columns,
        sample_output=lengths,
    )


def devices() -> st.SearchStrategy[Device]:
    """Models on GPUs that they fit, with pools of a few thousand tokens and more."""
    return st.builds(
        make_device,
        st.sampled_from(["llama-3.1-8b", "opt-13b"]),
        st.sampled_from(["a100-80gb", "h100"]),
        kv_tokens=st.integers(2048, 200_000),
    )


def steptimes() -> st.SearchStrategy[Any]:
    """Constant, affine and roofline models."""
    few = st.integers(1, 20)
    return st.one_of(
        st.builds(Constant, ms=few),
        st.builds(
            Affine,
            base_ms=few,
            per_seq_ms=few,
            per_prefill_token_us=few,
            per_context_token_ns=few,
        ),
        st.builds(Roofline, device=devices()),
    )


__all__ = ["devices", "steptimes", "traces"]
