"""The scene for a first look: a pool so small that everything happens within a minute.

Fourteen requests share 256 slots. The first 16 tokens of some prompts are the same (a system
prompt). A step takes 100 ms, whatever it computes.
"""

from __future__ import annotations

import numpy as np

from pagedsim.analysis.simulate import Setup
from pagedsim.device.device import make_device
from pagedsim.trace import Trace

ALLOCATORS = ("contiguous:place=first,reserve=pow2", "paged:block=8,prefix=on,null=0")
ABOUTS = {
    ALLOCATORS[
        0
    ]: "One extent for each request, as long as it might need: the prompt, and the output"
    " rounded up to a power of two.",
    ALLOCATORS[
        1
    ]: "Blocks of 8 slots, taken as they are needed, anywhere in the pool. Equal beginnings"
    " of prompts are stored once.",
}
SLOTS, MAX_LEN = 256, 128
COMMON = 16  # tokens that prompts of the second kind begin with

_REQUESTS = (  # arrival in steps, prompt, output, whether it begins with the common tokens
    (0, 40, 20, True),
    (0, 30, 6, False),
    (1, 24, 34, True),
    (3, 44, 9, False),
    (4, 34, 40, True),
    (6, 50, 12, False),
    (8, 28, 5, True),
    (9, 20, 24, False),
    (12, 60, 18, False),
    (15, 32, 30, True),
    (19, 36, 10, True),
    (24, 70, 16, False),
    (30, 30, 22, True),
    (34, 40, 8, True),
)


def teaching() -> tuple[Trace, Setup]:
    """The trace and the setup."""
    arrivals, prompts, outputs, common = zip(*_REQUESTS, strict=True)
    rows, tokens, lengths, fresh = [0], list[int](), list[int](), COMMON
    for prompt, shares in zip(prompts, common, strict=True):
        if shares:
            tokens.append(0)
            lengths.append(COMMON)
        own = prompt - COMMON * shares
        tokens.append(fresh)
        lengths.append(own)
        fresh += own
        rows.append(len(tokens))
    trace = Trace.build(
        "A small pool",
        np.array(arrivals) * 100_000_000,
        prompts,
        outputs,
        runs=(rows, tokens, lengths),
        load="built in, for teaching",
    )
    setup = Setup(
        device=make_device("llama-3.1-8b", "a100-80gb", kv_tokens=SLOTS),
        scheduler="vllm:max_seqs=8,max_batched_tokens=256",
        steptime="constant:ms=100",
        max_len=MAX_LEN,
    )
    return trace, setup.resolved()


__all__ = ["ABOUTS", "ALLOCATORS", "COMMON", "MAX_LEN", "SLOTS", "teaching"]
