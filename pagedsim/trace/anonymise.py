"""A trace that tells less: ids that stand for nothing, lengths rounded, times jittered.

What is dropped always: the name, notes, the input's hash, and every id. Token ids, sessions and
salts get numbers in order of first appearance, so they no longer match another copy of the trace.
Which prompts share which prefixes stays: a replay needs that, and a reader can still learn it.
"""

from __future__ import annotations

import secrets
from array import array
from dataclasses import replace

import numpy as np

from pagedsim.errors import SpecError
from pagedsim.protocols import Int64
from pagedsim.trace.cut import conversations
from pagedsim.trace.trace import Trace


def anonymise(
    trace: Trace, *, round_to: int = 1, jitter_s: float = 0.0, seed: int | None = None
) -> Trace:
    """The same requests, told less exactly.

    Lengths become multiples of `round_to`, at least one; arrivals and known think times move by up
    to `jitter_s` seconds, turns of a conversation staying in order. Who knows the `seed` can take
    the jitter back, so None draws one that nobody knows.
    """
    if round_to < 1:
        raise SpecError(f"round is {round_to}, must be >= 1")
    if jitter_s < 0:
        raise SpecError(f"jitter is {jitter_s}, must be >= 0")
    drawn = secrets.randbits(62) if seed is None else seed
    random = np.random.Generator(np.random.PCG64(drawn))
    arrival, think = _jittered(trace, round(jitter_s * 10**9), random)
    prompt, output = (_rounded(values, round_to) for values in (trace.prompt, trace.output))
    starts, answers = _renamed(trace)
    above = max(_end(starts, trace.run_length), _end(answers, np.maximum(output, trace.output)))
    runs = _fitted(trace, starts, prompt, above)
    told = Trace.build(
        "anonymous",
        arrival,
        prompt,
        output,
        runs=runs,
        output_token=answers,
        columns={
            "salt": _in_order(trace.salt, 0, 1),
            "priority": trace.priority,
            "samples": trace.samples,
            "session": _in_order(trace.session, -1, 0),
            "parent": trace.parent,
            "think_ns": think,
        },
        timed=trace.timed,
        load="recorded arrivals" if trace.timed else "no arrivals: all at time 0",
        format="anonymous",
        extra={"block": trace.extra["block"]} if "block" in trace.extra else {},
    )
    return replace(told, notes=learned(round_to, jitter_s))


def learned(round_to: int, jitter_s: float) -> tuple[str, ...]:
    """What a reader can still learn, in words."""
    lengths = "exactly" if round_to == 1 else f"to {round_to} tokens"
    times = "exactly" if not jitter_s else f"to about {jitter_s:g} s"
    return (
        f"a reader can still learn when requests came ({times}), how long they were ({lengths}), "
        "which of them share prefixes, and how many turns a conversation had",
    )


def _rounded(values: Int64, step: int) -> Int64:
    """The nearest multiples, halves up, at least one step."""
    nearest: Int64 = np.maximum((values + step // 2) // step, 1) * step
    return nearest


def _jittered(trace: Trace, most: int, random: np.random.Generator) -> tuple[Int64, Int64]:
    """Arrivals and think times, each moved; a conversation's times stay in its rows' order."""
    if not most:
        return trace.arrival_ns, trace.think_ns
    by = np.rint((2 * random.random((2, len(trace))) - 1) * most).astype(np.int64)
    think = np.where(trace.think_ns < 0, -1, np.maximum(trace.think_ns + by[1], 0))
    if not trace.timed:
        return trace.arrival_ns, think
    moved = trace.arrival_ns + by[0]
    own = conversations(trace)
    order = np.lexsort((np.arange(len(trace)), own))
    arrival = np.empty(len(trace), np.int64)
    arrival[order] = moved[np.lexsort((moved, own))]
    return arrival - min(0, int(arrival.min(initial=0))), think


def _in_order(values: Int64, none: int, first: int) -> Int64:
    """Numbers from `first` on, in order of first appearance; `none` stays."""
    names: dict[int, int] = {}
    found = [v if v == none else names.setdefault(v, first + len(names)) for v in values.tolist()]
    return np.array(found, np.int64)


def _renamed(trace: Trace) -> tuple[Int64, Int64]:
    """New first ids of all runs and all outputs.

    Runs that overlap move together, so that what was equal stays equal::

        |-- run --|        |-- output --|
             |---- run ----|                   two pieces: runs that only touch do not overlap
    """
    rows = np.repeat(np.arange(len(trace)), np.diff(trace.run_rows))
    starts = np.concatenate([trace.run_token, trace.output_token])
    ends = starts + np.concatenate([trace.run_length, trace.output])
    owner = np.concatenate([rows, np.arange(len(trace))])
    order = np.argsort(starts, kind="stable")
    reach = np.maximum.accumulate(ends[order])
    new = np.concatenate(([True], starts[order][1:] >= reach[:-1]))
    piece = np.empty(len(starts), np.int64)
    piece[order] = np.cumsum(new) - 1
    first = starts[order][new]
    size = np.append(reach[:-1][new[1:]], reach[-1:]) - first
    appears = np.full(len(first), len(trace), np.int64)
    np.minimum.at(appears, piece, owner)
    ranked = np.lexsort((first, appears))
    base = np.empty(len(first), np.int64)
    base[ranked] = np.concatenate(([0], np.cumsum(size[ranked])[:-1]))
    moved = base[piece] + starts - first[piece]
    return moved[: len(trace.run_token)], moved[len(trace.run_token) :]


def _end(starts: Int64, lengths: Int64) -> int:
    return int((starts + lengths).max(initial=0))


def _fitted(trace: Trace, starts: Int64, prompt: Int64, above: int) -> tuple[Int64, Int64, Int64]:
    """Runs cut, or gone on with new tokens, to the rounded lengths."""
    if np.array_equal(prompt, trace.prompt):
        return trace.run_rows, starts, trace.run_length
    tokens, lengths, cuts = array("q"), array("q"), array("q", [0])
    fresh = above
    for row in range(len(trace)):
        need = int(prompt[row])
        for run in range(int(trace.run_rows[row]), int(trace.run_rows[row + 1])):
            part = min(need, int(trace.run_length[run]))
            if part:
                tokens.append(int(starts[run]))
                lengths.append(part)
            need -= part
        if need:
            tokens.append(fresh)
            lengths.append(need)
            fresh += need
        cuts.append(len(tokens))
    return np.array(cuts), np.array(tokens), np.array(lengths)


__all__ = ["anonymise", "learned"]
