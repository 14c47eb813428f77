"""Qwen-Bailian JSONL: ``chat_id``, ``parent_chat_id`` (-1 = root), ``timestamp`` (s), lengths,
``type``, ``turn`` and ``hash_ids`` of 16 tokens, the last one partial.

A turn's parent is the latest earlier request with the id it names; a conversation is a session.
When a turn finished is not recorded, so think times are unknown.
"""

from __future__ import annotations

import numpy as np

from pagedsim.protocols import Int64
from pagedsim.trace.fields import LARGEST_ID, Field, tokens
from pagedsim.trace.hashes import content
from pagedsim.trace.lines import Lines
from pagedsim.trace.rows import kept, own_zero
from pagedsim.trace.source import Source
from pagedsim.trace.trace import Trace

BLOCK = 16
FIELDS = (
    Field("chat_id", "whole", -LARGEST_ID, LARGEST_ID),
    Field("parent_chat_id", "whole", -LARGEST_ID, LARGEST_ID, optional=True, default=-1),
    Field("timestamp", "seconds"),
    tokens("input_length"),
    tokens("output_length"),
    Field("hash_ids", "ids"),
)


def read(source: Source, body: bytes) -> Trace:
    """The trace. Raises InputError."""
    lines = Lines(source, body, FIELDS)
    chat, parent, arrival, prompt, output, ids = (lines.columns[field.name] for field in FIELDS)
    keep = kept(source, ("input_length", prompt), ("output_length", output), lines.line)
    rows = keep.rows.nonzero()[0]
    runs = content(
        source,
        ("input_length", prompt[rows]),
        ("hash_ids", [ids[row] for row in rows]),
        BLOCK,
        lambda row: lines.line(int(rows[row])),
    )
    arrival, notes = own_zero(arrival[rows], keep.notes)
    session, link, lost = _sessions(chat[rows], parent[rows], arrival)
    if lost:
        notes = (*notes, f"{lost} turns name a parent that is not in the file")
    return Trace.build(
        source.name,
        arrival,
        prompt[rows],
        output[rows],
        runs=runs,
        columns={"session": session, "parent": link},
        format="bailian",
        notes=notes,
        dropped=keep.dropped,
        sha256=source.sha256,
        extra={"block": BLOCK},
    )


def _sessions(chat: Int64, parent: Int64, arrival: Int64) -> tuple[Int64, Int64, int]:
    """(session, parent row) of each row, and how many parents are not there."""
    session = np.full(len(chat), -1, np.int64)
    link = np.full(len(chat), -1, np.int64)
    last: dict[int, int] = {}
    lost = sessions = 0
    for row in np.argsort(arrival, kind="stable").tolist():
        above = last.get(int(parent[row]), -1) if parent[row] != -1 else -1
        if above >= 0:
            link[row] = above
            session[row] = session[above]
        else:
            lost += int(parent[row] != -1)
            session[row] = sessions
            sessions += 1
        last[int(chat[row])] = row
    return session, link, lost


__all__ = ["BLOCK", "FIELDS", "read"]
