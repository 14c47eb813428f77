"""vLLM's KV-cache events as a series: how many blocks a prefix cache holds over time.

A file holds what an event subscriber received, one MessagePack message after another, each a batch
``[ts, [event, …], rank]`` of `BlockStored`, `BlockRemoved` and `AllBlocksCleared`; an event is an
array ``[tag, block_hashes, …]`` (as vLLM writes it) or a map with a ``type``. Of an event only its
kind and hashes are looked at, and hashes only counted: token ids never leave this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pagedsim.errors import InputError
from pagedsim.protocols import Int64

_NAMED = 8
_WIDTHS = {  # bytes of a number's or an extension's body after the first byte
    **{0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8},
    **{0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17},
}
_LENGTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_EXTENSIONS = (0xC7, 0xC8, 0xC9)  # have a byte more, their type
_COUNTS = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}  # bytes, objects of an item
_KINDS = ("BlockStored", "BlockRemoved", "AllBlocksCleared")
_MEDIUM = {"BlockStored": 6, "BlockRemoved": 2}  # place in an event's array


class KvEvents(NamedTuple):
    """`at_ns` from the first batch, `blocks` in the cache after each; totals of all.

    `damaged` batches were left out, `named` says which. `elsewhere`: events of another medium than
    the GPU, which do not count.
    """

    at_ns: Int64
    blocks: Int64
    stored: int
    removed: int
    cleared: int
    elsewhere: int
    damaged: int
    named: tuple[str, ...]


class _Lost(Exception):
    """Where the next message would start cannot be told."""


def read_kv_events(path: str | Path) -> KvEvents:
    """Of a file. InputError where it holds no batch."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return parse_kv_events(data, str(path))


def parse_kv_events(data: bytes, name: str = "events") -> KvEvents:
    """The series in `data`, O(length). A cut message ends it, and counts as damaged."""
    held: set[int | bytes] = set()
    times: list[float] = []
    blocks: list[int] = []
    totals = dict.fromkeys((*_KINDS, "elsewhere"), 0)
    named: list[str] = []
    damaged = at = number = 0
    while at < len(data):
        number += 1
        begin = at
        try:
            at = _end(data, at)
            ts, events = _batch(msgspec.msgpack.decode(memoryview(data)[begin:at]))
            if times and ts < times[-1]:
                raise ValueError("its time is before that of a batch above")
        except (IndexError, _Lost) as error:
            what = "cut" if type(error) is IndexError else "no MessagePack"
            bad = f"is {what}, so the rest is lost"
            at = len(data)
        except (ValueError, TypeError, msgspec.DecodeError) as error:
            bad = str(error) if type(error) is ValueError else "is no batch of events"
        else:
            for event in events:
                _apply(event, held, totals)
            times.append(ts)
            blocks.append(len(held))
            continue
        damaged += 1
        if len(named) < _NAMED:
            named.append(f"batch {number} (byte {begin}): {bad}")
    if not times:
        broken = f"; {named[0]}" if named else ""
        raise InputError(f"{name}: holds no batch [ts, [event, …]] of KV-cache events{broken}")
    return KvEvents(
        at_ns=np.rint((np.array(times) - times[0]) * 1e9).astype(np.int64),
        blocks=np.array(blocks, np.int64),
        stored=totals["BlockStored"],
        removed=totals["BlockRemoved"],
        cleared=totals["AllBlocksCleared"],
        elsewhere=totals["elsewhere"],
        damaged=damaged,
        named=tuple(named),
    )


def _batch(message: Any) -> tuple[float, list[tuple[str, list[Any]]]]:
    """(time, events as (kind, hashes)); ValueError says what is wrong, without any value."""
    if not isinstance(message, list) or len(message) < 2 or not isinstance(message[1], list):
        raise ValueError("is no batch of events")
    ts = message[0]
    if isinstance(ts, bool) or not isinstance(ts, int | float) or not 0 <= ts < 1e11:
        raise ValueError("has no time")
    return float(ts), [_event(event) for event in message[1]]


def _event(event: Any) -> tuple[str, list[Any]]:
    if isinstance(event, dict):
        kind, hashes, medium = event.get("type"), event.get("block_hashes", []), event.get("medium")
    elif isinstance(event, list) and event:
        kind, hashes = event[0], event[1] if len(event) > 1 else []
        place = _MEDIUM.get(kind, 0) if isinstance(kind, str) else 0
        medium = event[place] if 0 < place < len(event) else None
    else:
        raise ValueError("holds what is no event")
    if kind not in _KINDS:
        raise ValueError("holds an event of an unknown kind")
    good = isinstance(hashes, list) and all(isinstance(one, int | bytes) for one in hashes)
    if kind != "AllBlocksCleared" and not good:
        raise ValueError("holds hashes that are none")
    if isinstance(medium, str) and medium.upper() != "GPU":
        return "elsewhere", []
    return kind, hashes


def _apply(event: tuple[str, list[Any]], held: set[int | bytes], totals: dict[str, int]) -> None:
    kind, hashes = event
    if kind == "AllBlocksCleared":
        held.clear()
    elif kind == "BlockStored":
        held.update(hashes)
    elif kind == "BlockRemoved":
        held.difference_update(hashes)
    totals[kind] += len(hashes) if kind in _MEDIUM else 1


def _end(data: bytes, at: int) -> int:
    """Where the MessagePack object that starts at `at` ends. IndexError where it is cut, _Lost
    where it is none."""
    left = 1
    while left:
        left -= 1
        first = data[at]
        at += 1
        if first < 0x80 or first >= 0xE0:
            continue
        if first < 0x90:
            left += 2 * (first & 15)
        elif first < 0xA0:
            left += first & 15
        elif first < 0xC0:
            at += first & 31
        elif first in _WIDTHS:
            at += _WIDTHS[first]
        elif first in _LENGTHS:
            size = _LENGTHS[first]
            at += size + int.from_bytes(_cut(data, at, size), "big") + (first in _EXTENSIONS)
        elif first in _COUNTS:
            size, objects = _COUNTS[first]
            left += objects * int.from_bytes(_cut(data, at, size), "big")
            at += size
        else:
            raise _Lost
    if at > len(data):
        raise IndexError
    return at


def _cut(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise IndexError
    return data[at : at + size]


__all__ = ["KvEvents", "parse_kv_events", "read_kv_events"]
