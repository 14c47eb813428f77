"""Coding-agent sessions: a JSON object a session, with ``block_size`` and ``requests``.

A request is ``{t, in, out, hash_ids, think_time?}``: seconds from the session's start, tokens,
ids of full blocks only (the *floor* convention of `pagedsim.trace.hashes`), seconds since the
previous answer. Ids are local to a session. An entry of type ``subagent`` has ``requests`` of its
own, whose ``t`` restarts at the entry's. Several sessions stand on a line each; there is no
arrival process across them, so all start at time 0, and a note says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pagedsim.trace.fields import Field, tokens
from pagedsim.trace.hashes import content
from pagedsim.trace.lines import decode, objects, row
from pagedsim.trace.source import Source
from pagedsim.trace.trace import Trace

FIELDS = (
    Field("t", "seconds"),
    tokens("in"),
    tokens("out"),
    Field("hash_ids", "ids"),
    Field("think_time", "seconds", optional=True, default=-1),
)
_START = Field("t", "seconds", optional=True, default=0)
_BLOCK = Field("block_size", "whole", 1, 2**20)


class _Rows:
    """Requests in file order, as lists."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.where: list[str] = []
        self.columns: dict[str, list[int]] = {
            key: [] for key in ("arrival", "in", "out", "session", "parent", "think")
        }
        self.ids: list[list[int]] = []
        self.dropped = 0
        self.subagents = 0

    def add(self, entries: Any, session: int, start: int, parent: int, line: int, at: str) -> int:
        """Append a list of requests, each the next turn of the one before; the last row's index."""
        source = self.source
        if not isinstance(entries, list):
            raise source.error(f"{at} must be a list of requests", line)
        for index, entry in enumerate(entries):
            where = f"{at}[{index}]"
            if isinstance(entry, dict) and "requests" in entry:
                if where.count("requests") > 8:
                    raise source.error(f"{where}: subagents within subagents, over 8 deep", line)
                self.subagents += 1
                begin = start + row(source, entry, [_START], line, f"{where}: ")[0]
                self.add(entry["requests"], session, begin, parent, line, f"{where}.requests")
                continue
            t, prompt, output, ids, think = row(source, entry, FIELDS, line, f"{where}: ")
            if output and not prompt:
                raise source.error(f"{where}: in is 0, must be >= 1", line)
            if not output:
                if not source.drop_zero:
                    raise source.error(f"{where}: out is 0, must be >= 1", line)
                self.dropped += 1
                continue
            think = -1 if parent < 0 else think
            for key, value in zip(
                self.columns, (start + t, prompt, output, session, parent, think), strict=True
            ):
                self.columns[key].append(value)
            self.ids.append(ids)
            self.where.append(where)
            parent = len(self.ids) - 1
        return parent


def read(source: Source, body: bytes, document: bool) -> Trace:
    """The trace of one JSON `document`, or of a session a line. Raises InputError."""
    sessions = [(1, decode(source, body, 1))] if document else list(objects(source, body))
    rows = _Rows(source)
    owner: list[int] = []
    lines: list[int] = []
    sizes: list[int] = []
    offset = 0
    for session, (line, value) in enumerate(sessions):
        (block,) = row(source, value, [_BLOCK], line)
        sizes.append(block)
        if block != sizes[0]:
            text = f"block_size is {block}, must be {sizes[0]} as in the first session"
            raise source.error(text, line)
        known = len(rows.ids)
        rows.add(value.get("requests"), session, 0, -1, line, "requests")
        mine = rows.ids[known:]
        rows.ids[known:] = [[entry + offset for entry in ids] for ids in mine]
        offset = max((max(ids, default=0) for ids in rows.ids[known:]), default=offset) + 1
        owner += [session] * len(mine)
        lines += [line] * len(mine)
    if not rows.ids:
        every = f"all {rows.dropped} requests have zero output"
        raise source.error(every if rows.dropped else "no requests in it")
    notes = []
    if rows.dropped:
        total = rows.dropped + len(rows.ids)
        notes.append(f"{rows.dropped} of {total} requests have zero output and were left out")
    if len(sessions) > 1:
        notes.append(f"{len(sessions)} sessions, all starting at time 0")
    columns = {key: np.array(value, np.int64) for key, value in rows.columns.items()}
    runs = content(
        source,
        ("in", columns["in"]),
        ("hash_ids", rows.ids),
        sizes[0],
        lambda index: lines[index],
        floor=True,
    )
    return Trace.build(
        source.name,
        columns["arrival"],
        columns["in"],
        columns["out"],
        runs=runs,
        columns={
            "session": columns["session"],
            "parent": columns["parent"],
            "think_ns": columns["think"],
        },
        format="agent",
        notes=tuple(notes),
        dropped=rows.dropped,
        sha256=source.sha256,
        extra={"block": sizes[0]},
    )


__all__ = ["FIELDS", "read"]
