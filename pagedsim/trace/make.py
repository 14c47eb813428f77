"""Make a trace from a recipe and a seed. The same recipe, seed and count give the same trace.

A session is one stretch of new token ids, its system prompt apart, so every turn's prompt is at
most two runs and holds all that came before it::

    system |                      session's own ids                       |
    -------|-- user --|-- answer --|-- user --|-- answer --|-- user --| …
           |<------------ prompt of turn 2 -->|
           |<------------------------- prompt of turn 3 ------------->|
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pagedsim.errors import InputError
from pagedsim.protocols import Int64
from pagedsim.trace.draws import stream
from pagedsim.trace.lengthmodels import Model, tokens
from pagedsim.trace.recipe import Recipe, System, checked
from pagedsim.trace.trace import Trace

_LENGTHS, _SYSTEM, _SESSIONS = 2, 3, 4  # purposes of random streams; arrivals has 1
_REDRAWS = 1000
_LONG = 10_000  # turns of a session, calls of a turn
_MOST = 10**8  # requests or sessions


def make(recipe: Recipe, *, seed: int | None = None, requests: int | None = None) -> Trace:
    """The trace. `seed` and `requests` go before the recipe's. Raises InputError."""
    recipe = checked(recipe)
    seed = recipe.seed if seed is None else seed
    starts, wanted = _starts(recipe, seed, requests)
    simple = recipe.turns is None and recipe.agent is None
    trace = _requests(recipe, seed, starts) if simple else _sessions(recipe, seed, starts)
    return trace.head(wanted)


def _starts(recipe: Recipe, seed: int, requests: int | None) -> tuple[Int64, int]:
    """Arrivals of requests or sessions, and how many requests to keep."""
    tick = recipe.tick_us * 1000
    if requests is not None or recipe.seconds is None:
        count = requests or recipe.requests or 0
        if count < 1:
            raise InputError(f"{recipe.name}: requests is {count}, must be >= 1")
        return _ticks(recipe.arrivals.times(count, seed), tick), count
    end = int(recipe.seconds * 1e9)
    count = int(recipe.seconds * recipe.arrivals.rate * 1.2) + 1000
    while count <= _MOST:
        times = recipe.arrivals.times(count, seed)
        if times[-1] >= end:
            break
        count *= 2
    else:
        raise InputError(f"{recipe.name}: more than {_MOST} arrivals in {recipe.seconds:g} s")
    inside = times[times < end]
    if not len(inside):
        raise InputError(f"{recipe.name}: nothing arrives in {recipe.seconds:g} s")
    return _ticks(inside, tick), 10**9


def _requests(recipe: Recipe, seed: int, starts: Int64) -> Trace:
    """Requests of their own."""
    rng = stream(seed, _LENGTHS)
    count = len(starts)
    which, head = _system(recipe.system, seed, count)
    user = tokens(recipe.prompt, rng, count)
    output = tokens(recipe.output, rng, count)
    if recipe.max_total is not None:
        for _ in range(_REDRAWS):
            over = np.flatnonzero(head + user + output > recipe.max_total)
            if not len(over):
                break
            user[over] = tokens(recipe.prompt, rng, len(over))
            output[over] = tokens(recipe.output, rng, len(over))
        else:
            raise InputError(f"{recipe.name}: no lengths within max_total {recipe.max_total}")
    own = np.cumsum(user + output) - user - output
    columns = {"samples": np.full(count, recipe.samples)}
    rows = _Rows(starts, which, head, own, user, output)
    return _build(recipe, seed, rows, columns)


def _sessions(recipe: Recipe, seed: int, starts: Int64) -> Trace:
    """Conversations and agent loops."""
    plan = _Plan(recipe, stream(seed, _SESSIONS))
    which, head = _system(recipe.system, seed, len(starts))
    pace = recipe.token_ms * 1e6
    tick = recipe.tick_us * 1000
    rows: list[tuple[int, ...]] = []
    base = 0
    for session, start in enumerate(starts.tolist()):
        fixed = int(head[session])
        arrival, held, parent, think = start, 0, -1, -1
        for new, output, wait_s in plan.session():
            if parent >= 0:
                think = round(wait_s * 1e9 / tick) * tick
                spent = rows[parent][5] * pace + recipe.wait_ms * 1e6
                arrival += round(spent / tick) * tick + think
            held += new
            limit = recipe.max_total
            if limit is not None and fixed + held + output > limit:
                break
            own = (int(which[session]), fixed, base, held, output)
            rows.append((arrival, *own, session, parent, think))
            parent = len(rows) - 1
            held += output
        base += held + 1
    if not rows:
        raise InputError(f"{recipe.name}: no session fits max_total {recipe.max_total}")
    table = np.array(rows, np.int64).T
    columns = {"session": table[6], "parent": table[7], "think_ns": table[8]}
    columns["samples"] = np.full(len(rows), recipe.samples)
    return _build(recipe, seed, _Rows(*table[:6]), columns)


class _Plan:
    """Draws sessions one after another, each model from a buffer of its own."""

    def __init__(self, recipe: Recipe, rng: np.random.Generator) -> None:
        self.recipe = recipe
        self._rng = rng
        self._ready: dict[str, list[float]] = {}

    def session(self) -> list[tuple[int, int, float]]:
        """(new prompt tokens, output tokens, seconds waited before) of each request."""
        recipe, agent = self.recipe, self.recipe.agent
        found = []
        turns = self._whole("turns", recipe.turns.count) if recipe.turns else 1
        for turn in range(min(turns, _LONG)):
            wait = self._next("think", recipe.turns.think_s) if recipe.turns and turn else 0.0
            new = self._whole("prompt", recipe.prompt)
            for _ in range(min(self._whole("calls", agent.calls, 0), _LONG) if agent else 0):
                assert agent is not None
                found.append((new, self._whole("call", agent.output), wait))
                new = self._whole("result", agent.tokens)
                wait = self._next("tool", agent.seconds)
            found.append((new, self._whole("output", recipe.output), wait))
        return found

    def _whole(self, key: str, model: Model, least: int = 1) -> int:
        return max(least, round(self._next(key, model)))

    def _next(self, key: str, model: Model) -> float:
        ready = self._ready.setdefault(key, [])
        if not ready:
            ready += model.draw(self._rng, 1024).tolist()[::-1]
        return ready.pop()


class _Rows(NamedTuple):
    """What content is made of: see the drawing above. `held` is all of a prompt but the system."""

    arrival: Int64
    which: Int64  # system prompt, -1 = none
    head: Int64  # its tokens
    base: Int64  # first own id of the session
    held: Int64
    output: Int64


def _build(recipe: Recipe, seed: int, rows: _Rows, columns: dict[str, Int64]) -> Trace:
    """Own ids lie above those of all system prompts, which are spaced by the longest of them."""
    stride = int(rows.head.max(initial=0))
    above = stride * (int(rows.which.max(initial=-1)) + 1)
    shared = rows.head > 0
    counts = np.where(shared, 2, 1)
    run_rows = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    token = np.empty(run_rows[-1], np.int64)
    length = np.empty(run_rows[-1], np.int64)
    last = run_rows[1:] - 1
    token[last], length[last] = above + rows.base, rows.held
    first = run_rows[:-1][shared]
    token[first], length[first] = rows.which[shared] * stride, rows.head[shared]
    trace = Trace.build(
        recipe.name,
        rows.arrival,
        rows.head + rows.held,
        rows.output,
        runs=(run_rows, token, length),
        output_token=above + rows.base + rows.held,
        columns=columns,
        format="made",
        load=recipe.arrivals.words(seed),
    )
    return replace(trace, notes=())  # that turns of sessions were sorted is no news


def _system(system: System | None, seed: int, count: int) -> tuple[Int64, Int64]:
    """(which system prompt, its tokens) of each request or session; -1 and 0 for none."""
    if system is None:
        return np.full(count, -1, np.int64), np.zeros(count, np.int64)
    rng = stream(seed, _SYSTEM)
    sizes = tokens(system.tokens, rng, system.prompts)
    weights = np.cumsum(np.arange(1, system.prompts + 1, dtype=np.float64) ** -system.skew)
    which = np.searchsorted(weights, rng.random(count) * weights[-1], "right")
    which = np.minimum(which, system.prompts - 1).astype(np.int64)
    which[rng.random(count) >= system.share] = -1
    return which, np.where(which >= 0, sizes[which], 0)


def _ticks(times: Int64, tick: int) -> Int64:
    """Rounded to whole ticks, half up."""
    return (times + tick // 2) // tick * tick


__all__ = ["make"]
