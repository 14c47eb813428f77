"""pagedsim's own JSONL: a header line, then a line a request; keeps all that a `Trace` holds.

The header is ``{"pagedsim": "trace/1", "requests": N, "columns": [...], name, format, load, timed,
notes, dropped, extra}``. Every line is a list with a value a column, in the header's order.
Columns that are as `Trace.build` would fill them in are left out, so a trace of lengths is short.
Writing is deterministic: equal traces give equal bytes.
"""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import numpy as np

from pagedsim.errors import InputError
from pagedsim.protocols import Int64
from pagedsim.trace.fields import LONGEST, shown
from pagedsim.trace.lines import decode, flatten
from pagedsim.trace.samples import no_forks, outputs
from pagedsim.trace.source import Source
from pagedsim.trace.trace import Trace

MARK = "pagedsim"
VERSION = "trace/1"
REQUIRED = ("arrival_ns", "prompt", "output")
DEFAULTS = {
    **{"salt": 0, "priority": 0, "samples": 1},
    **{"session": -1, "parent": -1, "think_ns": -1, "beam": 0},
}
CONTENT = ("runs", "output_token")
SAMPLES = ("sample_output", "forks")
LISTS = {"runs": 2, "sample_output": 1, "forks": 3}  # lists; so many values are an entry
ABOUT = ("name", "format", "load", "timed", "notes", "dropped", "extra")
_LARGEST = 2**62
_TOGETHER = {1: "a list of", 2: "pairs of", 3: "threes of"}


def about(trace: Trace) -> dict[str, Any]:
    """The scalar fields, as they are stored. `sha256` is of a file, so it is not among them."""
    return {key: getattr(trace, key) for key in ABOUT}


def columns(trace: Trace) -> list[str]:
    """The columns that must be written: those that cannot be filled in again."""
    plain = Trace.build("", trace.arrival_ns, trace.prompt, trace.output)
    rows = len(trace)
    given = [key for key, value in DEFAULTS.items() if (getattr(trace, key) != value).any()]
    lengths = np.repeat(trace.output, trace.samples)
    if trace.sample_output is not None and (trace.sample_output != lengths).any():
        given.append("sample_output")
    if trace.forks is not None and len(trace.forks.after):
        given.append("forks")
    same = np.array_equal(trace.run_rows, np.arange(rows + 1))
    if not (same and np.array_equal(trace.run_token, plain.run_token)):
        return [*REQUIRED, *given, *CONTENT]
    fresh = np.array_equal(trace.output_token, plain.output_token)
    return [*REQUIRED, *given] if fresh else [*REQUIRED, *given, "output_token"]


def dump(trace: Trace) -> bytes:
    """The file's bytes."""
    names = columns(trace)
    header = {MARK: VERSION, "requests": len(trace), "columns": names, **about(trace)}
    values: list[Any] = []
    for name in names:
        if name in LISTS:
            rows, *parts = lists(trace, name)
            cuts = (len(parts) * rows).tolist()
            flat = np.stack(parts, axis=1).reshape(-1).tolist()
            values.append([flat[a:b] for a, b in itertools.pairwise(cuts)])
        else:
            values.append(getattr(trace, name).tolist())
    encoder = msgspec.json.Encoder()
    return encoder.encode_lines([header, *zip(*values, strict=True)])


def lists(trace: Trace, name: str) -> tuple[Int64, ...]:
    """A column of lists in CSR form: where rows start, then the parts of an entry."""
    if name == "runs":
        return trace.run_rows, trace.run_token, trace.run_length
    if name == "forks":
        return trace.forks or no_forks(len(trace))
    return np.concatenate(([0], np.cumsum(trace.samples))), outputs(trace)


def read(source: Source, body: bytes) -> Trace:
    """The trace. Raises InputError with line, field, value and bound."""
    head, _, rest = body.rstrip().partition(b"\n")
    header = decode(source, head, 1)
    names = check_header(source, header)
    table = _fast(rest, names)
    if table is None:
        table = _slow(source, rest, names)
    rows = len(table["prompt"])
    if rows != header["requests"]:
        text = f"requests is {header['requests']}, but {rows} rows follow; is the file cut?"
        raise source.error(text, 1)
    return assemble(source, header, table, lambda row: row + 2)


def check_header(source: Source, header: dict[str, Any]) -> list[str]:
    """The columns named by a header, whose fields are of the right types."""
    if header.get(MARK) != VERSION:
        text = f"{MARK} is {shown(header.get(MARK))}, must be {VERSION}"
        raise source.error(text, 1)
    try:
        known = msgspec.convert(header, _Header)
    except msgspec.ValidationError as bad:
        raise source.error(f"the header is wrong: {bad}", 1) from None
    names = known.columns
    unknown = set(names) - {*REQUIRED, *DEFAULTS, *CONTENT, *SAMPLES}
    missing = set(REQUIRED) - set(names)
    if unknown or missing or len(set(names)) < len(names):
        raise source.error(f"columns are {', '.join(names)}: must name each known column once", 1)
    return names


class _Header(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    pagedsim: str
    requests: int
    columns: list[str]
    name: str
    format: str = ""
    load: str = ""
    timed: bool = True
    notes: list[str] = []
    dropped: int = 0
    extra: dict[str, Any] = {}


def assemble(source: Source, header: dict[str, Any], table: dict[str, Any], line: Any) -> Trace:
    """A trace from a header and columns; `line` tells a row's line (or gives None)."""
    for name, column in table.items():
        if name not in LISTS:
            _check_bounds(source, name, column, line)
    if "parent" in table:
        _check_parents(source, table["parent"], line)
    runs = table.get("runs")
    if runs is not None:
        _check_runs(source, runs, table["prompt"], line)
    if "sample_output" in table:
        _check_samples(source, table, line)
    known = msgspec.convert(header, _Header)
    meta: dict[str, Any] = {key: getattr(known, key) for key in ABOUT if key != "name"}
    meta["notes"] = tuple(meta["notes"])
    try:
        return Trace.build(
            known.name,
            *(table[name] for name in REQUIRED),
            runs=runs,
            output_token=table.get("output_token"),
            columns={name: table[name] for name in DEFAULTS if name in table},
            sample_output=table["sample_output"][1] if "sample_output" in table else None,
            forks=table.get("forks"),
            sha256=source.sha256,
            **meta,
        )
    except InputError as bad:  # which names the trace, not the file
        raise source.error(str(bad).removeprefix(f"{known.name}: ")) from None


def _check_bounds(source: Source, name: str, column: Int64, line: Any) -> None:
    counted = name in ("prompt", "output", "samples")
    least = 1 if counted else -_LARGEST if name == "priority" else DEFAULTS.get(name, 0)
    most = LONGEST if counted else 1 if name == "beam" else _LARGEST
    for at, wrong, must in (
        (int(column.argmin()), column.min() < least, f">= {least}"),
        (int(column.argmax()), column.max() > most, f"<= {most}"),
    ):
        if wrong:
            raise source.error(f"{name} is {column[at]}, must be {must}", line(at))


def _check_parents(source: Source, parent: Int64, line: Any) -> None:
    late = np.flatnonzero(parent >= len(parent))
    if len(late):
        at = int(late[0])
        raise source.error(f"parent is {parent[at]}, must be below {len(parent)}", line(at))


def _check_runs(source: Source, runs: tuple[Int64, Int64, Int64], prompt: Int64, line: Any) -> None:
    rows, token, length = runs
    owner = np.repeat(np.arange(len(prompt)), np.diff(rows))
    bad = np.flatnonzero((token < 0) | (length < 1))
    if len(bad):
        at = int(bad[0])
        text = f"runs hold ({token[at]}, {length[at]}): ids must be >= 0, lengths >= 1"
        raise source.error(text, line(int(owner[at])))
    total = np.concatenate(([0], np.cumsum(length)))
    sums = total[rows[1:]] - total[rows[:-1]]
    wrong = np.flatnonzero(sums != prompt)
    if len(wrong):
        at = int(wrong[0])
        raise source.error(f"runs hold {sums[at]} tokens, prompt is {prompt[at]}", line(at))


def _check_samples(source: Source, table: dict[str, Any], line: Any) -> None:
    counts = np.diff(table["sample_output"][0])
    samples = table.get("samples", np.ones(len(counts), np.int64))
    wrong = np.flatnonzero(counts != samples)
    if len(wrong):
        at = int(wrong[0])
        text = f"sample_output has {counts[at]} lengths, samples is {samples[at]}"
        raise source.error(text, line(at))


def _fast(body: bytes, names: list[str]) -> dict[str, Any] | None:
    if b"\n\n" in body or not body:
        return None
    kinds = tuple(list[int] if name in LISTS else int for name in names)
    shape: Any = tuple[kinds]  # type: ignore[valid-type]
    try:
        rows: list[Any] = msgspec.json.Decoder(shape).decode_lines(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    if len(rows) != body.count(b"\n") + 1:
        return None
    return _table(names, list(zip(*rows, strict=True)))


def _table(names: list[str], values: list[Any]) -> dict[str, Any] | None:
    table: dict[str, Any] = {}
    for name, column in zip(names, values, strict=True):
        if name in LISTS:
            parts = LISTS[name]
            flat = flatten(column)
            counts = np.fromiter(map(len, column), np.int64, len(column))
            empty = name != "forks" and not counts.all()
            if flat is None or (counts % parts).any() or empty or _beyond(flat):
                return None
            rows = np.concatenate(([0], np.cumsum(counts // parts))).astype(np.int64)
            table[name] = (rows, *(flat[part::parts].copy() for part in range(parts)))
        else:
            array = np.array(column)
            if array.dtype != np.int64 or _beyond(array):
                return None
            table[name] = array
    return table


def _beyond(array: Int64) -> bool:
    return bool(len(array)) and not -_LARGEST <= array.min() <= array.max() <= _LARGEST


def _slow(source: Source, body: bytes, names: list[str]) -> dict[str, Any]:
    rows = []
    for line, text in enumerate(body.split(b"\n") if body else [], 2):
        if not text.strip():
            raise source.error("the line is blank", line)
        row = decode(source, text, line)
        if not isinstance(row, list) or len(row) != len(names):
            raise source.error(f"must be a list of {len(names)} values", line)
        for name, value in zip(names, row, strict=True):
            parts = LISTS.get(name)
            flat = value if parts and isinstance(value, list) else [value]
            whole = all(type(entry) is int and abs(entry) <= _LARGEST for entry in flat)
            listed = not parts or (isinstance(value, list) and len(value) % parts == 0)
            if not whole or not listed or (name in ("runs", "sample_output") and not value):
                must = f"{_TOGETHER[parts]} whole numbers" if parts else "a whole number"
                must = f"{must} of at most {_LARGEST}"
                raise source.error(f"{name} is {shown(value)}, must be {must}", line)
        rows.append(row)
    if not rows:
        raise source.error("no requests below the header", 2)
    table = _table(names, list(zip(*rows, strict=True)))
    if table is None:
        raise source.error("not pagedsim's own format")
    return table


__all__ = [
    "ABOUT",
    "CONTENT",
    "DEFAULTS",
    "LISTS",
    "MARK",
    "REQUIRED",
    "SAMPLES",
    "VERSION",
    "about",
    "assemble",
    "check_header",
    "columns",
    "dump",
    "lists",
    "read",
]
