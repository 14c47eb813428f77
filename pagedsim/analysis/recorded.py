"""Recorded runs of real engines, as files (docs/recordings.md)."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pagedsim.errors import InputError


class Recorded(NamedTuple):
    """A recording as read."""

    path: Path
    header: dict[str, Any]
    steps: list[dict[str, Any]]
    requests: list[dict[str, Any]]
    summary: dict[str, Any]


def read_recording(path: str | Path) -> Recorded:
    """Read a recording, plain or .gz. Raises InputError with file and line."""
    path = Path(path)
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {reason}") from None
    kinds: dict[str, list[dict[str, Any]]] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            row = msgspec.json.decode(line, type=dict[str, Any])
            kinds.setdefault(row["kind"], []).append(row)
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            reason = "it has no 'kind'" if isinstance(error, KeyError) else error
            raise InputError(f"{path}:{number}: not a line of a recording: {reason}") from None
    if not kinds.get("header") or not kinds.get("step"):
        raise InputError(f"{path}: no header or no steps; not a recording")
    summary = kinds.get("summary") or [{}]
    return Recorded(path, kinds["header"][0], kinds["step"], kinds.get("req", []), summary[-1])


def trace_of(path: Path) -> Path:
    """``DIR/vllm/NAME__CONFIG.jsonl.gz`` was made from ``DIR/trace_NAME.json`` or its .gz."""
    name = f"trace_{path.name.split('__')[0]}.json"
    places = [folder / (name + end) for folder in (path.parent, path.parent.parent)
              for end in ("", ".gz")]  # fmt: skip
    for place in places:
        if place.exists():
            return place
    raise InputError(f"{path}: its trace {name} is not beside it; give it with --trace")


__all__ = ["Recorded", "read_recording", "trace_of"]
