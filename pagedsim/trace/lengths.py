"""CSV files of lengths, with ``arrived_at`` in seconds or without any times; Vidur's among them.

A file of lengths alone gives a trace with ``timed=False``, all at time 0: arrivals must be made
(`pagedsim.trace.arrivals`). Column names vary; PROMPTS and OUTPUTS list those that are known. A
timed one is Vidur's where they are those that Vidur writes, else a plain table.
"""

from __future__ import annotations

import numpy as np

from pagedsim.trace.fields import Field, tokens
from pagedsim.trace.rows import kept, own_zero
from pagedsim.trace.table import Table
from pagedsim.trace.trace import Trace

PROMPTS = (
    "num_prefill_tokens",
    "prompt_tokens",
    "prompt_length",
    "prompt_len",
    "prompt",
    "input_tokens",
    "input_length",
    "input_len",
    "input",
    "ContextTokens",
    "Request tokens",
)
OUTPUTS = (
    "num_decode_tokens",
    "output_tokens",
    "output_length",
    "output_len",
    "output",
    "completion_tokens",
    "response_tokens",
    "generated_tokens",
    "reply",
    "GeneratedTokens",
    "Response tokens",
)
TIME = "arrived_at"
_VIDUR = ["num_prefill_tokens", "num_decode_tokens"]


def matches(table: Table) -> bool:
    """Whether it has a column of prompt lengths and one of output lengths."""
    return any(map(table.has, PROMPTS)) and any(map(table.has, OUTPUTS))


def read(table: Table) -> Trace:
    """The trace, timed where there is an ``arrived_at``. Raises InputError."""
    source = table.source
    names = [next(filter(table.has, known), known[0]) for known in (PROMPTS, OUTPUTS)]
    fields = [tokens(name) for name in names]
    timed = table.has(TIME)
    columns = table.columns([*fields, Field(TIME, "seconds")] if timed else fields)
    prompt, output = columns[:2]
    keep = kept(source, (names[0], prompt), (names[1], output), table.line)
    arrival = columns[2] if timed else np.zeros(len(prompt), np.int64)
    arrival, notes = own_zero(arrival[keep.rows], keep.notes)
    return Trace.build(
        source.name,
        arrival,
        prompt[keep.rows],
        output[keep.rows],
        format="vidur" if timed and names == _VIDUR else "lengths",
        timed=timed,
        load="recorded arrivals" if timed else "no arrivals: all at time 0",
        notes=notes,
        dropped=keep.dropped,
        sha256=source.sha256,
    )


__all__ = ["OUTPUTS", "PROMPTS", "TIME", "matches", "read"]
