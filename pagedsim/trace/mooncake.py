"""Mooncake JSONL: ``timestamp`` (ms), ``input_length``, ``output_length``, ``hash_ids``.

An id names a 512-token block of a prompt together with all before it; the last one is a partial
block (the *ceil* convention of `pagedsim.trace.hashes`). Outputs have no ids, so they are new.
"""

from __future__ import annotations

from pagedsim.trace.fields import Field, tokens
from pagedsim.trace.hashes import content
from pagedsim.trace.lines import Lines
from pagedsim.trace.rows import kept, own_zero
from pagedsim.trace.source import Source
from pagedsim.trace.trace import Trace

BLOCK = 512
FIELDS = (
    Field("timestamp", "millis"),
    tokens("input_length"),
    tokens("output_length"),
    Field("hash_ids", "ids"),
)


def read(source: Source, body: bytes) -> Trace:
    """The trace. Raises InputError."""
    lines = Lines(source, body, FIELDS)
    arrival, prompt, output, ids = (lines.columns[field.name] for field in FIELDS)
    keep = kept(source, ("input_length", prompt), ("output_length", output), lines.line)
    rows = keep.rows.nonzero()[0]
    if keep.dropped:
        ids = [ids[row] for row in rows]
    prompt = prompt[rows]
    runs = content(
        source,
        ("input_length", prompt),
        ("hash_ids", ids),
        BLOCK,
        lambda r: lines.line(int(rows[r])),
    )
    arrival, notes = own_zero(arrival[rows], keep.notes)
    return Trace.build(
        source.name,
        arrival,
        prompt,
        output[rows],
        runs=runs,
        format="mooncake",
        notes=notes,
        dropped=keep.dropped,
        sha256=source.sha256,
        extra={"block": BLOCK},
    )


__all__ = ["BLOCK", "FIELDS", "read"]
