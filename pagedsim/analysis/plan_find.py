"""The question turned round: at the wanted rate, how small a pool, how long, how many, how deep.

    rate        the highest rate of requests                        (`plan_rate`)
    kv-tokens   the smallest pool, in tokens of KV
    max-len     the longest maximum length
    gpus        the fewest GPUs: equal servers, each with an equal share of the requests
    batch       the most requests outstanding, the next sent as one returns

Every value that is tried is a replay, and the ends of the last bracket were tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pagedsim.analysis.configuration import STATED
from pagedsim.analysis.plan_load import Offered
from pagedsim.analysis.plan_result import Replay
from pagedsim.analysis.plan_run import Runner, route
from pagedsim.analysis.plan_search import Bracket, bracket
from pagedsim.analysis.plan_trials import Trials
from pagedsim.specs import parse

MOST_SERVERS = 1024  # as many as `replay` takes
MOST_BLOCKS = 1 << 24  # of a pool that is tried: each takes some of our own memory


class Found(NamedTuple):
    """A search's end; `impossible` says why not even the easiest value holds."""

    trials: Trials
    bracket: Bracket
    impossible: str = ""


def kv_tokens(load: Offered, runner: Runner, tolerance: float) -> Found:
    """The smallest pool, in whole blocks, that refuses no more requests than the largest does."""
    setup, spec = runner.setup, parse(runner.configuration.allocator)
    assert setup.max_len is not None
    assert setup.device is not None
    sizes = spec.values
    block = _block(sizes.get("block", 16) if spec.name == "paged" else sizes.get("page", 1))
    others = {k: v for k, v in runner.configuration.device.items() if k not in STATED}
    bare = replace(runner.configuration, device=others, max_len=setup.max_len)
    trace = load.at(load.wanted)
    longest = np.minimum(trace.prompt + trace.output, setup.max_len)
    whole = int((-(-longest // block) * block * np.maximum(trace.samples, 1)).sum())
    start = setup.device.capacity_tokens
    # Below it the longest request alone does not fit, or there is no block but a null one.
    least = max(-(-int(longest.max() - 1) // block) * block, 2 * block, setup.device.block)
    most = max(start, least, min(whole, MOST_BLOCKS * block), setup.max_len)

    def at(x: float) -> Replay:
        options = (*load.options(load.wanted), "--kv-tokens", f"{int(x)}")
        own = runner.on(bare.on(kv_tokens=int(x)))
        return own(trace, at=x, rate=load.rate(load.wanted), options=options)

    trials = Trials(runner.objective, at, harder_up=False)
    if not trials.holds(float(most)):
        return _ended(trials, Bracket(None, most), f"with a pool of {most:,} tokens")
    trials.refused = trials.replays[float(most)].refused
    found = bracket(
        trials.holds,
        start,
        tolerance=tolerance,
        harder_up=False,
        least=least,
        most=most,
        snap=lambda tokens: float(math.ceil(tokens / block) * block),
    )
    return Found(trials, found)


def max_len(load: Offered, runner: Runner, tolerance: float) -> Found:
    """The longest maximum length, up to the model's and to what the pool holds."""
    setup = runner.setup
    assert setup.max_len is not None
    assert setup.device is not None
    known, pool = setup.device.model.max_len, setup.device.capacity_tokens
    most = max(min(known or pool, pool), 2)
    trace = load.at(load.wanted)

    def at(x: float) -> Replay:
        options = (*load.options(load.wanted), "--max-len", f"{int(x)}")
        own = runner.on(replace(runner.configuration, max_len=int(x)))
        return own(trace, at=x, rate=load.rate(load.wanted), options=options)

    trials = Trials(runner.objective, at)
    found = bracket(
        trials.holds, setup.max_len, tolerance=tolerance, least=2, most=most, snap=_whole
    )
    return _ended(trials, found, "at the shortest maximum length tried")


def servers(load: Offered, runner: Runner, tolerance: float) -> Found:
    """The fewest servers that are dealt the requests in turn (in a closed loop: the sessions).

    No more than one a request, nor than `MOST_SERVERS`.
    """
    trace = load.at(load.wanted)
    most = min(len(trace), MOST_SERVERS)
    more = ("--route", route(True)) if runner.configuration.closed_loop else ()

    def at(x: float) -> Replay:
        servers = int(x)
        dealt = ("--replicas", f"{servers}", *more) if servers > 1 else ()
        options = (*load.options(load.wanted), *dealt)
        return runner(trace, at=x, rate=load.rate(load.wanted), options=options, servers=servers)

    trials = Trials(runner.objective, at, harder_up=False)
    if not trials.holds(1.0):
        trials.lone = alone = runner.lone(load.trace)
        if not alone.holds:
            said = f"{trials.broken(alone)} with one request at a time, on any number of servers"
            return Found(trials, Bracket(None, 1.0), said)
    found = bracket(
        trials.holds,
        1,
        tolerance=tolerance,
        harder_up=False,
        least=1,
        most=most,
        snap=_whole,
    )
    return _ended(trials, found, f"with {most:,} servers")


def outstanding(load: Offered, runner: Runner, tolerance: float) -> Found:
    """The most requests outstanding at any time, all of the trace one after another."""

    def at(x: float) -> Replay:
        options = ("--concurrency", f"{int(x)}")
        return runner(load.trace, at=x, rate=None, options=options, concurrency=int(x))

    trials = Trials(runner.objective, at)
    found = bracket(
        trials.holds, 8, tolerance=tolerance, least=1, most=len(load.trace), snap=_whole
    )
    return _ended(trials, found, "with one request at a time")


def _ended(trials: Trials, found: Bracket, easiest: str) -> Found:
    if found.passes is not None:
        return Found(trials, found)
    last = list(trials.replays.values())[-1]
    return Found(trials, found, f"{trials.broken(last)} {easiest}")


def _block(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 1


def _whole(value: float) -> float:
    return float(round(value))


Find = Callable[[Offered, Runner, float], Found]
FINDS: dict[str, Find] = {
    "kv-tokens": kv_tokens,
    "max-len": max_len,
    "gpus": servers,
    "batch": outstanding,
}

__all__ = ["FINDS", "Found"]
