"""What an engine says of itself every few seconds, read out of its log as a series.

vLLM's line (every 10 s) and SGLang's (a decode line every 40 steps, a line a prefill)::

    INFO 11-30 12:00:10 [loggers.py:259] Engine 000: Avg prompt throughput: 512.0 tokens/s, Avg
      generation throughput: 88.1 tokens/s, Running: 5 reqs, Waiting: 0 reqs, GPU KV cache usage:
      3.2%, Prefix cache hit rate: 41.0%
    [2026-11-30 12:00:10] Decode batch, #running-req: 5, #token: 4096, token usage: 0.03, cuda
      graph: True, gen throughput (token/s): 88.10, #queue-req: 0

Lines may have any prefix. One that is cut or has a number missing is *damaged*: it is left out,
counted, and the first are named by number. No text of a line is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pagedsim.device.enginelog import log_text
from pagedsim.errors import InputError
from pagedsim.protocols import Int64

_NUMBER = r"(\d+(?:\.\d+)?)"
_FULL = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_SHORT = re.compile(r"(?:INFO|WARNING|ERROR|DEBUG) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
_NAMED = 8  # damaged lines that are named
_LEAP = 2024  # stands for the year that vLLM leaves out

# quantity: (what stands before its number, whether a line without it is damaged)
_VLLM = {
    "prompt_tokens_s": (r"Avg prompt throughput: ", True),
    "output_tokens_s": (r"Avg generation throughput: ", True),
    "running": (r"Running: ", True),
    "waiting": (r"(?:Waiting|Pending): ", True),
    "usage": (r"GPU KV cache usage: ", True),
    "hit_rate": (r"[Pp]refix cache hit rate: (?:GPU: )?", False),
    "preemptions": (r"Preemptions: ", False),
}
_DECODE = {
    "running": (r"#running-req: ", True),
    "waiting": (r"#queue-req: ", True),
    "usage": (r"token usage: ", True),
    "output_tokens_s": (r"gen throughput \(token/s\): ", True),
}
_PREFILL = {"new": (r"#new-token: ", True), "cached": (r"#cached-token: ", True)}
_PATTERNS = {
    name: (re.compile(before + _NUMBER + r"(?![\d.])"), needed)
    for name, (before, needed) in {**_VLLM, **_PREFILL}.items()
}
_SGLANG = {
    name: (re.compile(before + _NUMBER + r"(?![\d.])"), needed)
    for name, (before, needed) in {**_DECODE, **_PREFILL}.items()
}
_KINDS = (  # (what a line of the kind holds, patterns)
    ("Avg prompt throughput:", "vLLM", {name: _PATTERNS[name] for name in _VLLM}),
    ("Decode batch", "SGLang", {name: _SGLANG[name] for name in _DECODE}),
    ("Prefill batch", "SGLang", {name: _SGLANG[name] for name in _PREFILL}),
)
_RETRACTED = re.compile(r"#retracted_reqs: (\d+)")
_PREEMPTED = re.compile(r"total_num_cumulative_preemption=(\d+)")
_ENGINE = re.compile(r"Engine (\d+): ")
QUANTITIES = (
    *("running", "waiting", "usage", "hit_rate", "output_tokens_s", "prompt_tokens_s"),
    "preemptions",
)


class EngineSeries(NamedTuple):
    """`at_ns` from the first line; a column a quantity, float64, NaN where a line says nothing.

    Shares are from 0 to 1; `preemptions` are counted from the start. `damaged` lines were left out,
    `named` says which, and why. `hit_window`: requests that a hit rate is over, 0 for all so far.
    """

    engine: str
    at_ns: Int64
    columns: dict[str, np.ndarray]
    hit_window: int
    damaged: int
    named: tuple[str, ...]
    notes: tuple[str, ...]


class _Bad(Exception):
    """Why a line is damaged, without its text."""


def read_engine_series(path: str | Path) -> EngineSeries:
    """Of a log file. InputError where it holds no such line."""
    return parse_engine_series(log_text(path), str(path))


def parse_engine_series(text: str, name: str = "log") -> EngineSeries:
    """The series in `text`, O(length). InputError where there is none, or of two engines."""
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), 1):
        reader.take(number, line)
    if not reader.rows:
        broken = f"; {reader.damaged} damaged ({'; '.join(reader.named)})" if reader.damaged else ""
        raise InputError(
            f"{name}: holds no line of vLLM's 'Avg prompt throughput: …, Running: N reqs, …' "
            f"or SGLang's 'Decode batch, #running-req: N, …'{broken}"
        )
    if len(reader.engines) > 1:
        raise InputError(f"{name}: holds lines of vLLM and of SGLang: give one engine's log")
    (engine,) = reader.engines
    times = np.array([at for at, _ in reader.rows], np.int64)
    columns = {
        key: np.array([row.get(key, np.nan) for _, row in reader.rows], np.float64)
        for key in QUANTITIES
    }
    notes = []
    if len(reader.ranks) > 1:
        notes.append(
            f"{len(reader.ranks)} engines log here: only engine {reader.first_rank} was read"
        )
    window = 1000 if engine == "vLLM" else 0
    return EngineSeries(
        engine,
        times - times[0],
        columns,
        window,
        reader.damaged,
        tuple(reader.named),
        tuple(notes),
    )


class _Reader:
    """Takes a line at a time."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.engines: set[str] = set()
        self.ranks: set[str] = set()
        self.first_rank = ""
        self.damaged = 0
        self.named: list[str] = []
        self._preemptions = 0.0
        self._tokens = [0.0, 0.0]  # new and cached so far
        self._last = -1
        self._year = _LEAP

    def take(self, number: int, line: str) -> None:
        """Read a line, or count it as damaged; others are passed over."""
        if found := _RETRACTED.search(line):
            self._preemptions += int(found[1])
        if found := _PREEMPTED.search(line):
            self._preemptions = int(found[1])
        kind = next((kind for kind in _KINDS if kind[0] in line), None)
        if kind is None:
            return
        mark, engine, patterns = kind
        if rank := _ENGINE.search(line):
            self.ranks.add(rank[1])
            self.first_rank = self.first_rank or rank[1]
            if rank[1] != self.first_rank:
                return
        try:
            row = dict(_numbers(line[line.index(mark) :], patterns))
            at = self._time(line)
        except _Bad as bad:
            self.damaged += 1
            if len(self.named) < _NAMED:
                self.named.append(f"line {number}: {bad}")
            return
        self.engines.add(engine)
        if mark == "Prefill batch":
            self._tokens[0] += row["new"]
            self._tokens[1] += row["cached"]
            return
        self._last = at
        self._preemptions += row.pop("preemptions", 0.0)
        row["preemptions"] = self._preemptions
        if engine == "SGLang":
            total = sum(self._tokens)
            row["hit_rate"] = self._tokens[1] / total if total else np.nan
        else:
            row["usage"] /= 100
            row["hit_rate"] = row.get("hit_rate", np.nan) / 100
        self.rows.append((at, row))

    def _time(self, line: str) -> int:
        """ns since 1970 of a line."""
        if found := _FULL.search(line):
            year, month, day, *clock = map(int, found.groups()[:6])
            fraction = int((found[7] or "0").ljust(9, "0"))
        elif found := _SHORT.search(line):
            month, day, *clock = map(int, found.groups())
            year, fraction = self._year, 0
        else:
            raise _Bad("has no time")
        try:
            at = _ns(year, month, day, clock) + fraction
        except ValueError:
            raise _Bad("its time is none") from None
        if found.re is _SHORT and at < self._last - 300 * 86400 * 10**9:  # a new year
            self._year += 1
            return self._time(line)
        if at < self._last:
            raise _Bad("its time is before that of a line above")
        return at


def _ns(year: int, month: int, day: int, clock: list[int]) -> int:
    hour, minute, second = clock
    since = datetime(year, month, day, hour, minute, second) - datetime(1970, 1, 1)
    return (since.days * 86400 + since.seconds) * 10**9


def _numbers(
    text: str, patterns: dict[str, tuple[re.Pattern[str], bool]]
) -> Iterator[tuple[str, float]]:
    for key, (pattern, needed) in patterns.items():
        found = pattern.search(text)
        if found is not None:
            value = float(found[1])
            if key == "usage" and value > (100 if "%" in text else 1):
                raise _Bad("usage is above all of the pool")
            yield key, value
        elif needed:
            raise _Bad(f"{key} is missing or cut")


__all__ = ["QUANTITIES", "EngineSeries", "parse_engine_series", "read_engine_series"]
