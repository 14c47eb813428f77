"""Prompts cut to a length, as applications do when a context runs out; only where it is asked for.

``last:N`` keeps the end of a prompt, ``middle:N`` its two ends::

    prompt       0 …………………………………………… prompt
    last:N                     |   N   |
    middle:N     | ⌈N/2⌉ |     | ⌊N/2⌋ |

What is left keeps its content, at other positions: the beginning of the conversation that others
share is gone (last), or is all that they still share (middle), so a prefix cache hits accordingly.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pagedsim.errors import SpecError
from pagedsim.protocols import Int64
from pagedsim.trace.trace import Trace

_HOW = "last:N or middle:N"
MOST = 1 << 40  # tokens


def parse(text: str) -> tuple[str, int]:
    """Which part is kept, and how many tokens; SpecError for what is neither."""
    how, _, count = text.partition(":")
    if how not in ("last", "middle") or not count.isascii() or not count.isdigit():
        raise SpecError(f"truncate is {text!r}, must be {_HOW}")
    if len(count) > 13 or not 1 <= int(count) <= MOST:
        raise SpecError(f"truncate is {text!r}, N must be >= 1 and <= {MOST}")
    return how, int(count)


def truncated(trace: Trace, text: str) -> Trace:
    """`trace` with prompts of at most N tokens, and a note of how many that touched. O(runs).

    Outputs, arrivals and links between turns stay.
    """
    how, most = parse(text)
    long = trace.prompt > most
    head = np.where(long, 0 if how == "last" else most - most // 2, trace.prompt)
    tail = np.where(long, most if how == "last" else most // 2, 0)
    of = np.repeat(np.arange(len(trace)), np.diff(trace.run_rows))
    begin, end = _places(trace)
    firsts = np.stack((begin, np.maximum(begin, (trace.prompt - tail)[of])), axis=1)
    lasts = np.stack((np.minimum(end, head[of]), end), axis=1)
    length = (lasts - firsts).reshape(-1)
    token = (trace.run_token[:, None] + firsts - begin[:, None]).reshape(-1)
    kept = length > 0
    counts = np.bincount(np.repeat(of, 2)[kept], minlength=len(trace))
    cut = int((trace.prompt - most)[long].sum())
    share = cut / max(1, int(trace.prompt.sum()))
    note = (
        f"truncate {text}: {int(long.sum()):,} of {len(trace):,} prompts cut, "
        f"{cut:,} tokens left out ({share:.1%} of all prompt tokens)"
    )
    made = replace(
        trace,
        prompt=np.minimum(trace.prompt, most),
        run_rows=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        run_token=token[kept],
        run_length=length[kept],
        notes=(*trace.notes, note),
    )
    return made.take(np.arange(len(trace)))


def _places(trace: Trace) -> tuple[Int64, Int64]:
    """Where in its prompt each run begins and ends."""
    ends = np.cumsum(trace.run_length)
    before = np.concatenate(([0], ends))[trace.run_rows[:-1]]
    end = ends - np.repeat(before, np.diff(trace.run_rows))
    return end - trace.run_length, end


__all__ = ["MOST", "parse", "truncated"]
