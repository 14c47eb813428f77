"""`load`: from a path or a name to a `Trace`, the format told by content.

A format is recognised by the columns of its header (CSV), the keys of its first object (JSON,
JSONL) or its magic bytes (Parquet); file names and suffixes play no part.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Literal

from pagedsim.errors import InputError
from pagedsim.trace.source import Source, open_source
from pagedsim.trace.trace import Trace

ZeroOutput = Literal["drop", "error"]


def load(
    path: str | os.PathLike[str], *, zero_output: ZeroOutput = "drop", limit: int | None = None
) -> Trace:
    """Read a trace: a file, ``-`` for standard input, or a bundled or fetched name.

    Rows with zero output are left out, with a note and a count, or refused
    (``zero_output="error"``). `limit` keeps the first by arrival. A file goes before
    a name, a folder does not.
    Raises InputError with file, line, field, value and bound.
    """
    if zero_output not in ("drop", "error"):
        raise InputError(f"zero_output is {zero_output!r}, must be drop or error")
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}, must be >= 1")
    source = open_source(located(path), drop_zero=zero_output == "drop")
    trace = read(source)
    return trace if limit is None else trace.head(limit)


def read(source: Source) -> Trace:
    """The trace in `source`, by whichever reader knows it."""
    if source.data.startswith(b"PAR1"):
        from pagedsim.trace import parquet

        return parquet.read(source)
    body = source.body()
    start = body.lstrip()[:1]
    if start in (b"{", b"["):
        return _json(source, body)
    return _csv(source)


def located(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The file that `path` means: itself, or that of a bundled or fetched name. InputError."""
    name = os.fspath(path)
    folder = os.path.isdir(name)  # one named as a trace is in nobody's way
    if name == "-" or "\0" in name or (os.path.lexists(path) and not folder):
        return path
    from pagedsim.trace import bundled, fetch

    found = None
    if os.sep not in name and "." not in name:
        found = bundled.find(name) or fetch.cached(name)
        if found is None and name in fetch.SOURCES:
            raise InputError(f"{name}: not fetched yet; run: pagedsim trace fetch {name}")
    if found is None and not folder:
        raise absent(name, "trace", [*bundled.names(), *fetch.SOURCES])
    return found or path


def absent(name: str, what: str, names: list[str]) -> InputError:
    """The error of a name that is neither a file nor one of `names`, to raise."""
    return InputError(
        f"{name}: no such file, and no {what} of that name; there are: {', '.join(names)}"
    )


def _csv(source: Source) -> Trace:
    from pagedsim.trace import azure, burstgpt, lengths
    from pagedsim.trace.table import Table

    table = Table(source)
    readers = ((azure.COLUMNS, azure.read), (burstgpt.COLUMNS, burstgpt.read))
    for columns, reader in readers:
        if all(table.has(field.name) for field in columns):
            return reader(table)
    if lengths.matches(table):
        return lengths.read(table)
    for columns, reader in readers:
        if sum(table.has(field.name) for field in columns) >= 2:
            return reader(table)  # which says what is missing
    if any(map(table.has, (*lengths.PROMPTS, *lengths.OUTPUTS, lengths.TIME))):
        return lengths.read(table)
    found = ", ".join(table.header)
    found = found if len(found) <= 200 else found[:197] + "..."
    wanted = "TIMESTAMP,ContextTokens,GeneratedTokens or num_prefill_tokens,num_decode_tokens"
    raise source.error(f"not a trace: no known columns, such as {wanted}; found: {found}", 1)


def _json(source: Source, body: bytes) -> Trace:
    from pagedsim.trace import agent, bailian, kvcacheai, mooncake, own, recorded
    from pagedsim.trace.lines import decode

    if not body.split(b"\n", 1)[0].strip():
        raise source.error("the line is blank", 1)
    head, whole = _first(body)
    first: Any = decode(source, head, 1)
    if not isinstance(first, dict):
        raise source.error("not a trace: the first JSON value is not an object", 1)
    if own.MARK in first:
        return own.read(source, body)
    if isinstance(first.get("requests"), list):
        if "block_size" in first:
            return agent.read(source, body, whole)
        return recorded.read(source, first)
    keys = set(first)
    if "chat_id" in keys or "parent_chat_id" in keys:
        return bailian.read(source, body)
    if "block_size" in keys or "block_tokens" in keys:
        return kvcacheai.read(source, body)
    if keys & {field.name for field in mooncake.FIELDS}:
        return mooncake.read(source, body)
    found = ", ".join(list(first)[:12]) or "none"
    wanted = "timestamp, input_length, output_length, hash_ids"
    raise source.error(f"not a trace: no known keys, such as {wanted}; found: {found}", 1)


def _first(body: bytes) -> tuple[bytes, bool]:
    """The first JSON value, and whether it is the file: one document, or lines of them."""
    import msgspec

    head, _, rest = body.partition(b"\n")
    if not rest.strip():
        return body, True
    for text, whole in ((head, False), (body, True)):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            msgspec.json.decode(text, type=msgspec.Raw)
            return text, whole
    lines = rest.lstrip().startswith((b"{", b"["))
    return (head, False) if lines else (body, True)


__all__ = ["ZeroOutput", "absent", "load", "located", "read"]
