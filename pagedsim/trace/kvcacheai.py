"""KVCache.AI simulator JSONL: ``hash_ids``, ``input_length``, ``block_size``, ``block_tokens?``.

``block_size`` is the same in all rows. ``block_tokens``, where given, lists the tokens of each
block, and what they leave of the prompt is new. Without it either convention of
`pagedsim.trace.hashes` is taken. ``output_length`` and ``timestamp`` (ms) are optional: outputs
default to one token, and a file without times gives ``timed=False``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace.fields import Field, shown, tokens
from pagedsim.trace.hashes import Runs, content
from pagedsim.trace.lines import Lines
from pagedsim.trace.rows import kept, own_zero
from pagedsim.trace.source import Source
from pagedsim.trace.trace import Trace

FIELDS = (
    Field("hash_ids", "ids"),
    tokens("input_length"),
    Field("block_size", "whole", 1, 2**20),
    Field("block_tokens", "any", optional=True),
    Field("output_length", "whole", 1, zero=True, optional=True, default=1),
    Field("timestamp", "millis", optional=True, default=0),
)


def read(source: Source, body: bytes) -> Trace:
    """The trace. Raises InputError."""
    lines = Lines(source, body, FIELDS)
    ids, prompt, size, parts, output, arrival = (lines.columns[field.name] for field in FIELDS)
    block = int(size[0])
    if (size != block).any():
        row = int(np.flatnonzero(size != block)[0])
        text = f"block_size is {size[row]}, must be {block} as in the first row"
        raise source.error(text, lines.line(row))
    keep = kept(source, ("input_length", prompt), ("output_length", output), lines.line)
    rows = keep.rows.nonzero()[0]
    prompt, ids = prompt[rows], [ids[row] for row in rows]

    def line(row: int) -> int:
        return lines.line(int(rows[row]))

    if any(parts[row] is not None for row in rows):
        runs = _parts(source, prompt, ids, [parts[row] for row in rows], block, line)
    else:
        runs = content(source, ("input_length", prompt), ("hash_ids", ids), block, line)
    notes = keep.notes
    if b'"output_length"' not in body:
        notes = (*notes, "no output lengths: one token each")
    timed = b'"timestamp"' in body
    arrival, notes = own_zero(arrival[rows], notes)
    return Trace.build(
        source.name,
        arrival,
        prompt,
        output[rows],
        runs=runs,
        format="kvcacheai",
        timed=timed,
        load="recorded arrivals" if timed else "no arrivals: all at time 0",
        notes=notes,
        dropped=keep.dropped,
        sha256=source.sha256,
        extra={"block": block},
    )


def _parts(
    source: Source, prompt: Int64, ids: list[list[int]], parts: list[Any], block: int, line: Any
) -> Runs:
    """Runs where rows say how many tokens each block has."""
    dense: dict[int, int] = {}
    rows, tails = [0], []
    token: list[int] = []
    length: list[int] = []
    for row, (names, sizes) in enumerate(zip(ids, parts, strict=True)):
        sizes = [block] * len(names) if sizes is None else sizes
        fits = isinstance(sizes, list) and len(sizes) == len(names)
        if not fits or not all(type(size) is int and 1 <= size <= block for size in sizes):
            text = f"block_tokens is {shown(sizes)}, must list 1 to {block} tokens for each of"
            raise source.error(f"{text} {len(names)} hash_ids", line(row))
        rest = int(prompt[row]) - sum(sizes)
        if rest < 0:
            text = f"block_tokens add up to {sum(sizes)}, input_length is {prompt[row]}"
            raise source.error(text, line(row))
        token += [block * dense.setdefault(name, len(dense)) for name in names]
        length += sizes
        if rest:
            tails.append(len(token))
            token.append(0)
            length.append(rest)
        rows.append(len(token))
    above = block * len(dense)
    for tail in tails:
        token[tail] = above
        above += length[tail]
    return Runs(np.array(rows), np.array(token), np.array(length))


__all__ = ["FIELDS", "read"]
