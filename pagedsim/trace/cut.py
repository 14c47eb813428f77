"""Cut and mix traces, conversations whole: head, sample, shift, merge, keep; and what that did.

A *conversation* is a session, with all that is linked to it by parents; a request that has neither
is one of its own. Times stay as they are, except in `shift`. Every function notes what it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pagedsim.errors import InputError, SpecError
from pagedsim.protocols import Int64
from pagedsim.trace import samples, stats
from pagedsim.trace.trace import Trace

_LATEST_NS = 2**62


class Bounds(NamedTuple):
    """Inclusive bounds; None is open."""

    least: float | None = None
    most: float | None = None

    def holds(self, values: Any) -> Any:
        """Which values are within."""
        good = np.ones(len(values), bool)
        if self.least is not None:
            good &= values >= self.least
        if self.most is not None:
            good &= values <= self.most
        return good

    def __str__(self) -> str:
        return ":".join("" if end is None else f"{end:g}" for end in self)


_OPEN = Bounds()


def conversations(trace: Trace) -> Int64:
    """Each row's conversation, numbered from 0 in order of first arrival."""
    group = np.arange(len(trace))

    def root(row: int) -> int:
        while group[row] != row:
            group[row] = group[group[row]]
            row = int(group[row])
        return row

    first: dict[int, int] = {}
    for row, (session, parent) in enumerate(
        zip(trace.session.tolist(), trace.parent.tolist(), strict=True)
    ):
        for other in (first.setdefault(session, row) if session >= 0 else -1, parent):
            if other >= 0:
                low, high = sorted((root(other), root(row)))
                group[high] = low
    roots = np.array([root(row) for row in range(len(trace))], np.int64)
    _, numbers = np.unique(roots, return_inverse=True)
    return numbers.astype(np.int64)


def head(trace: Trace, *, requests: int | None = None, seconds: float | None = None) -> Trace:
    """The conversations that start first: up to `requests` rows in all, or within `seconds`.

    InputError where the first conversation alone has more rows.
    """
    own = conversations(trace)
    if seconds is not None:
        starts = trace.arrival_ns[np.unique(own, return_index=True)[1]]
        limit = int(trace.arrival_ns[0]) + round(seconds * 10**9)
        return _taken(trace, starts[own] <= limit, f"head: conversations of {seconds:g} s")
    assert requests is not None
    sizes = np.cumsum(np.bincount(own))
    if len(sizes) and sizes[0] > requests:
        raise InputError(
            f"{trace.name}: the first conversation has {sizes[0]} requests, more than {requests}"
        )
    last = int(np.searchsorted(sizes, requests, "right"))
    return _taken(trace, own < last, f"head: whole conversations, up to {requests:,} in all")


def sample(trace: Trace, share: float, *, seed: int = 0) -> Trace:
    """Each conversation with probability `share`. The same seed takes the same ones."""
    if not 0 < share <= 1:
        raise SpecError(f"share is {share}, must be in (0, 1]")
    own = conversations(trace)
    drawn = np.random.Generator(np.random.PCG64(seed)).random(int(own.max(initial=-1)) + 1)
    note = f"sample: {share:g} of the conversations, seed {seed}"
    return _taken(trace, (drawn < share)[own], note)


def keep(
    trace: Trace,
    *,
    prompt: Bounds = _OPEN,
    output: Bounds = _OPEN,
    turns: Bounds = _OPEN,
    seconds: Bounds = _OPEN,
) -> Trace:
    """Conversations of which every request, and whose number of turns, is within the bounds."""
    own = conversations(trace)
    good = prompt.holds(trace.prompt) & output.holds(trace.output)
    good &= seconds.holds(trace.arrival_ns / 1e9)
    good &= turns.holds(np.bincount(own))[own] if len(own) else good
    bad = np.zeros(int(own.max(initial=-1)) + 1, bool)
    bad[own[~good]] = True
    named = {"prompt": prompt, "output": output, "turns": turns, "seconds": seconds}
    said = ", ".join(f"{name} {bound}" for name, bound in named.items() if bound != _OPEN)
    return _taken(trace, ~bad[own], f"filter: whole conversations, {said}")


def shift(trace: Trace, seconds: float | None = None) -> Trace:
    """All arrivals later by `seconds` (earlier if negative); None: so that the first is at 0."""
    first = int(trace.arrival_ns[0]) if len(trace) else 0
    by = -first if seconds is None else round(seconds * 10**9)
    if first + by < 0 or int(trace.arrival_ns.max(initial=0)) + by > _LATEST_NS:
        raise SpecError(
            f"shift by {by / 1e9:g} s: the first request arrives at {first / 1e9:g} s and cannot "
            "arrive before 0"
        )
    moved = trace.arrival_ns + by
    return replace(trace, arrival_ns=moved, notes=(*trace.notes, f"shift: by {by / 1e9:g} s"))


def merge(traces: Sequence[Trace], *, same_content: bool = False) -> Trace:
    """All requests of some traces, sorted by arrival; sessions and salts stay apart.

    Token ids stay apart too, unless `same_content` says that equal ids mean equal tokens, as in
    parts of one trace. InputError for traces with arrivals beside those without.
    """
    if len({trace.timed for trace in traces}) > 1:
        without = next(trace.name for trace in traces if not trace.timed)
        raise InputError(
            f"merge: {without} has no arrivals, others have: merge those with arrivals alone"
        )
    above = {"token": 0, "session": 0, "salt": 0, "row": 0, "run": 0}
    columns: dict[str, list[Int64]] = {name: [] for name in (*_PLAIN, *_MOVED)}
    for trace in traces:
        for name in _PLAIN:
            columns[name].append(getattr(trace, name))
        token = 0 if same_content else above["token"]
        columns["run_token"].append(trace.run_token + token)
        columns["output_token"].append(trace.output_token + token)
        columns["run_rows"].append(trace.run_rows[:-1] + above["run"])
        for name, to, none in _RENUMBERED:
            values = getattr(trace, name)
            columns[name].append(np.where(values == none, none, values + above[to]))
        last = max(
            int((trace.run_token + trace.run_length).max(initial=0)),
            int((trace.output_token + trace.output).max(initial=0)),
        )
        above["token"] += last
        above["session"] += int(trace.session.max(initial=-1)) + 1
        above["salt"] += int(trace.salt.max(initial=0))
        above["row"] += len(trace)
        above["run"] += len(trace.run_token)
        if above["token"] > _LATEST_NS:
            raise InputError("merge: token ids pass 2^62")
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    runs = (np.append(whole["run_rows"], above["run"]), whole["run_token"], whole["run_length"])
    names = [trace.name for trace in traces]
    extra = [trace.extra for trace in traces]
    merged = Trace.build(
        "+".join(names)[:80],
        whole["arrival_ns"],
        whole["prompt"],
        whole["output"],
        runs=runs,
        output_token=whole["output_token"],
        columns={name: whole[name] for name in _OPTIONAL},
        **samples.joined(traces),
        timed=traces[0].timed,
        load=traces[0].load,
        format="merged",
        dropped=sum(trace.dropped for trace in traces),
        extra=extra[0] if all(one == extra[0] for one in extra) else {},
    )
    # rows of several traces are meant to interleave: that they were sorted is no news
    return replace(merged, notes=(f"merge: of {len(traces)} traces",))


_OPTIONAL = ("salt", "priority", "samples", "session", "parent", "think_ns", "beam")
_PLAIN = ("arrival_ns", "prompt", "output", "run_length", "priority", "samples", "think_ns", "beam")
_RENUMBERED = (("session", "session", -1), ("parent", "row", -1), ("salt", "salt", 0))
_MOVED = ("run_token", "output_token", "run_rows", "session", "parent", "salt")


def effect(traces: Sequence[Trace], after: Trace) -> list[dict[str, Any]]:
    """What was and what is: requests, conversations, rate, lengths and ideal reuse, a row each."""
    return [facts(trace) for trace in (*traces, after)]


def facts(trace: Trace) -> dict[str, Any]:
    """Of one trace."""
    if not len(trace):
        raise InputError(f"{trace.name}: nothing is left of it")
    span = int(trace.arrival_ns[-1] - trace.arrival_ns[0]) / 1e9
    reuse = stats.reuse(trace, int(trace.extra.get("block", 16)))
    return {
        "name": trace.name,
        "requests": len(trace),
        "conversations": int(conversations(trace).max()) + 1,
        "rate_per_s": len(trace) / span if span and trace.timed else None,
        "prompt_mean": float(trace.prompt.mean()),
        "output_mean": float(trace.output.mean()),
        "reuse": reuse.tokens,
        "reuse_with_outputs": reuse.with_outputs,
    }


def _taken(trace: Trace, rows: Any, note: str) -> Trace:
    if not rows.any():
        raise InputError(f"{trace.name}: no conversation is left ({note})")
    taken = trace.take(np.flatnonzero(rows))
    return replace(taken, notes=(*taken.notes, note), sha256="")


__all__ = [
    "Bounds",
    "conversations",
    "effect",
    "facts",
    "head",
    "keep",
    "merge",
    "sample",
    "shift",
]
