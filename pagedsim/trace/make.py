"""Make a trace from a recipe and a seed. The same recipe, seed and count give the same trace.

A session is one stretch of new token ids, what it shares with others apart, and a turn's prompt
holds what came before it; where turns keep less than that, a prompt is several stretches::

    system |                      session's own ids                       |
    -------|-- user --|-- answer --|-- user --|-- answer --|-- user --| …
           |<------------ prompt of turn 2 -->|
           |<------------------------- prompt of turn 3 ------------->|
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec
import numpy as np

from pagedsim.errors import InputError
from pagedsim.protocols import Int64
from pagedsim.trace.arrivalmodels import Profile, Saturate
from pagedsim.trace.draws import stream
from pagedsim.trace.free import check_room
from pagedsim.trace.heads import Heads, heads
from pagedsim.trace.lengthmodels import outputs, tokens
from pagedsim.trace.recipe import Recipe, checked
from pagedsim.trace.sessions import Held, Plan
from pagedsim.trace.trace import Trace

_LENGTHS, _SESSIONS = 2, 4  # purposes of random streams; arrivals has 1, heads 3
_REDRAWS = 1000
_MOST = 10**8  # requests or sessions
_ALL = 10**9  # requests: every one
_ROW, _TURN = 560, 1400  # bytes of a request, one by itself and a turn, made and written (measured)
_START = 32  # bytes of an arrival while it is drawn
_TRIED = 200  # sessions, to learn how many turns they have


def make(
    recipe: Recipe, *, seed: int | None = None, requests: int | None = None, scale: float = 1.0
) -> Trace:
    """The trace. `seed` and `requests` go before the recipe's.

    `scale` multiplies the rate of arrivals and the recipe's number of requests. Raises InputError;
    for what would need more memory than is free, before it begins.
    """
    recipe = checked(_scaled(recipe, scale))
    seed = recipe.seed if seed is None else seed
    starts, wanted = _starts(recipe, seed, requests)
    simple = recipe.turns is None and recipe.agent is None
    if wanted == _ALL:
        rows = len(starts)
        if not simple:
            some = starts[:_TRIED]
            rows = len(_sessions(recipe, seed, some, wanted)) * rows // len(some)
        _check_room(recipe, rows)
    if simple:
        return _requests(recipe, seed, starts).head(wanted)
    return _sessions(recipe, seed, starts, wanted).head(wanted)


def _scaled(recipe: Recipe, scale: float) -> Recipe:
    if scale == 1:
        return recipe
    arrivals = recipe.arrivals
    if isinstance(arrivals, Profile):
        arrivals = msgspec.structs.replace(arrivals, rates=[x * scale for x in arrivals.rates])
    elif not isinstance(arrivals, Saturate):
        arrivals = msgspec.structs.replace(arrivals, rate=arrivals.rate * scale)
    requests = recipe.requests and max(1, round(recipe.requests * scale))
    return msgspec.structs.replace(recipe, arrivals=arrivals, requests=requests)


def _starts(recipe: Recipe, seed: int, requests: int | None) -> tuple[Int64, int]:
    """Arrivals of requests or sessions, and how many requests to keep."""
    tick = recipe.tick_us * 1000
    if requests is not None or recipe.seconds is None:
        count = requests or recipe.requests or 0
        if count < 1:
            raise InputError(f"{recipe.name}: requests is {count}, must be >= 1")
        _check_room(recipe, count)
        return _ticks(recipe.arrivals.times(count, seed), tick), count
    end = int(recipe.seconds * 1e9)
    count = int(recipe.seconds * recipe.arrivals.rate * 1.2) + 1000
    while count <= _MOST:
        check_room(f"{recipe.name}: {count:,} arrivals", _START * count)
        times = recipe.arrivals.times(count, seed)
        if times[-1] >= end:
            break
        count *= 2
    else:
        raise InputError(f"{recipe.name}: more than {_MOST} arrivals in {recipe.seconds:g} s")
    inside = times[times < end]
    if not len(inside):
        raise InputError(f"{recipe.name}: nothing arrives in {recipe.seconds:g} s")
    return _ticks(inside, tick), _ALL


def _check_room(recipe: Recipe, requests: int) -> None:
    """InputError where so many requests need more memory than is free."""
    simple = recipe.turns is None and recipe.agent is None
    check_room(f"{recipe.name}: {requests:,} requests", requests * (_ROW if simple else _TURN))


def _requests(recipe: Recipe, seed: int, starts: Int64) -> Trace:
    """Requests of their own."""
    rng = stream(seed, _LENGTHS)
    count = len(starts)
    head = heads(recipe, seed, count)
    user = tokens(recipe.prompt, rng, count)
    output = outputs(recipe.output, rng, head.tokens + user)
    if recipe.max_total is not None:
        for _ in range(_REDRAWS):
            over = np.flatnonzero(head.tokens + user + output > recipe.max_total)
            if not len(over):
                break
            user[over] = tokens(recipe.prompt, rng, len(over))
            output[over] = outputs(recipe.output, rng, head.tokens[over] + user[over])
        else:
            raise InputError(f"{recipe.name}: no lengths within max_total {recipe.max_total}")
    own = np.cumsum(user + output) - user - output
    columns = {"samples": np.full(count, recipe.samples)}
    runs = (np.arange(count + 1), own, user)
    return _build(recipe, seed, head, _Rows(starts, head.which, runs, own + user, output), columns)


def _sessions(recipe: Recipe, seed: int, starts: Int64, wanted: int) -> Trace:
    """Conversations and agent loops: at least the first `wanted` requests, unless there are fewer.

    A session that starts when so many have arrived already is not made, nor is any after it.
    """
    plan = Plan(recipe, stream(seed, _SESSIONS))
    head = heads(recipe, seed, len(starts))
    pace = recipe.token_ms * 1e6
    tick = recipe.tick_us * 1000
    answers = recipe.turns is None or recipe.turns.answers
    rows: list[tuple[int, ...]] = []
    runs: list[tuple[int, int]] = []
    ends = [0]
    base = 0
    later: list[int] = []  # arrivals that are not known to be before those of all other sessions
    for session, start in enumerate(starts.tolist()):
        while later and later[0] < start:
            heappop(later)
        if len(rows) - len(later) >= wanted:
            break
        fixed = int(head.tokens[session])
        arrival, parent, think, cut = start, -1, -1, None
        held = Held(base)
        for step in plan.session():
            if parent >= 0:
                think = round(step.wait_s * 1e9 / tick) * tick
                spent = rows[parent][3] * pace + recipe.wait_ms * 1e6
                arrival += round(spent / tick) * tick + think
                cut = plan.cuts(step, fixed + held.prompt)
                if cut is not None:
                    held.cut(cut.kept)
                elif answers:
                    held.recall()
            held.ask(step.new if cut is None else cut.new)
            output = plan.output(step, fixed + held.prompt)
            limit = recipe.max_total
            if limit is not None and fixed + held.prompt + output > limit:
                break
            runs += held.runs
            ends.append(len(runs))
            which = int(head.which[session])
            rows.append((arrival, which, held.next, output, session, parent, think))
            heappush(later, arrival)
            parent = len(rows) - 1
            held.answer(output)
        base = held.next + 1
    if not rows:
        raise InputError(f"{recipe.name}: no session fits max_total {recipe.max_total}")
    table = np.array(rows, np.int64).T
    own = np.array(runs, np.int64).reshape(-1, 2)
    columns = {"session": table[4], "parent": table[5], "think_ns": table[6]}
    columns["samples"] = np.full(len(rows), recipe.samples)
    content = (np.array(ends), own[:, 0], own[:, 1])
    return _build(
        recipe, seed, head, _Rows(table[0], table[1], content, table[2], table[3]), columns
    )


class _Rows(NamedTuple):
    """What requests hold of their own: see the drawing above. Ids are counted from 0."""

    arrival: Int64
    which: Int64  # path that they start with, -1 = none
    own: tuple[Int64, Int64, Int64]  # rows, first ids and lengths of runs
    answer: Int64  # first id of the output
    output: Int64


def _build(recipe: Recipe, seed: int, head: Heads, rows: _Rows, columns: dict[str, Int64]) -> Trace:
    """Own ids lie above those of all heads."""
    own_rows, own_token, own_length = rows.own
    paths = [*head.paths, []]  # the last one answers for -1
    starts = np.cumsum([0, *map(len, paths)])
    flat = np.array([run for path in paths for run in path], np.int64).reshape(-1, 2)
    before, own = np.diff(starts)[rows.which], np.diff(own_rows)
    run_rows = np.concatenate(([0], np.cumsum(before + own))).astype(np.int64)
    runs = np.empty((run_rows[-1], 2), np.int64)
    at = _places(run_rows[:-1], before)
    runs[at] = flat[_places(starts[rows.which], before)]
    at = _places(run_rows[:-1] + before, own)
    runs[at] = np.column_stack((head.above + own_token, own_length))
    upto = np.concatenate(([0], np.cumsum(runs[:, 1])))[run_rows]
    trace = Trace.build(
        recipe.name,
        rows.arrival,
        np.diff(upto),
        rows.output,
        runs=(run_rows, runs[:, 0], runs[:, 1]),
        output_token=head.above + rows.answer,
        columns=columns,
        format="made",
        load=recipe.arrivals.words(seed),
    )
    return replace(trace, notes=())  # that turns of sessions were sorted is no news


def _places(starts: Int64, counts: Int64) -> Int64:
    """``starts[i]``, ``starts[i] + 1``, … `counts[i]` of them, one row after another."""
    ends = np.cumsum(counts)
    found: Int64 = np.repeat(starts - (ends - counts), counts) + np.arange(int(counts.sum()))
    return found


def _ticks(times: Int64, tick: int) -> Int64:
    """Rounded to whole ticks, half up."""
    return (times + tick // 2) // tick * tick


__all__ = ["make"]
