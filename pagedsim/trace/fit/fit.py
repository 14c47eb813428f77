"""Fit a recipe to a trace: arrivals, lengths, turns, shared prefixes, all as coarse numbers.

What it holds: the rate in windows of many requests and the gaps' variation, quantiles of lengths
(outputs by classes of prompts), how many turns sessions have and quantiles of the pauses between
them, sizes of shared prefixes and how many sessions start with each. No request, id or name.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagedsim.errors import InputError
from pagedsim.protocols import Int64
from pagedsim.trace.arrivalmodels import ArrivalModel, Profile, Saturate
from pagedsim.trace.draws import Float64
from pagedsim.trace.fit.links import Links, links
from pagedsim.trace.fit.pauses import pauses
from pagedsim.trace.fit.prefixes import prefixes
from pagedsim.trace.fit.shapes import coarse, outputs, quantiles
from pagedsim.trace.recipe import Cuts, Recipe, Turns
from pagedsim.trace.trace import Trace

LEAST = 20  # requests: fewer would be described one by one
_WINDOW = 100  # arrivals of a window of the rate, at least on average
_WINDOWS = 60
_CLASS, _CLASSES = 200, 6  # turns of a class of prompts before them, at least; classes at most


class Fit(NamedTuple):
    """The recipe, and what to say of it: `sessions` found, and what it does not hold."""

    recipe: Recipe
    sessions: int
    notes: tuple[str, ...]


def fit(trace: Trace) -> Fit:
    """InputError for fewer than `LEAST` requests."""
    if len(trace) < LEAST:
        have = "is empty" if not len(trace) else f"has {len(trace)} of them"
        raise InputError(
            f"{trace.name}: a fit needs {LEAST} requests or more, this trace {have}: with fewer a "
            "recipe would describe single requests"
        )
    found = links(trace)
    roots = np.flatnonzero(found.parent < 0)
    shared = prefixes(found, roots)
    head = np.zeros(len(trace), np.int64)
    head[roots] = shared.tokens
    answers = _answers(trace, found)
    later = np.flatnonzero(found.parent >= 0)
    for row in later.tolist():  # parents come first
        head[row] = head[found.parent[row]]
    last, kept, new = _turns(trace, found, head, answers)
    own = np.maximum(1, trace.prompt - head)[roots]
    goes_on = np.isin(roots, found.parent)
    paused = pauses(trace, found.parent)
    turns = None
    if paused is not None:
        cut = kept < 1
        turns = Turns(
            count=paused.turns,
            think_s=paused.think_s,
            first=quantiles(own[goes_on], whole=True),
            prompt=quantiles(new[~cut], whole=True) if not cut.all() else None,
            answers=answers,
            cuts=_cuts(last, kept, new) if cut.any() else None,
        )
    tick_us = _tick_us(trace)
    count = int(coarse(len(trace)))
    recipe = Recipe(
        name="fitted",
        about=f"fitted to a trace of about {count:,} requests",
        requests=count,
        arrivals=_arrivals(trace, roots, tick_us),
        prompt=quantiles(own[~goes_on] if (~goes_on).any() else own, whole=True),
        output=outputs(trace.prompt, trace.output),
        max_total=int(coarse(int((trace.prompt + trace.output).max()), up=1)),
        prefixes=shared.tree,
        turns=turns,
        samples=int(np.bincount(trace.samples).argmax()),
        tick_us=tick_us,
        token_ms=paused.token_ms if paused else 0.0,
        wait_ms=paused.wait_ms if paused else 0.0,
    )
    return Fit(recipe, len(roots), tuple(_notes(trace, len(roots), shared.left_out)))


def _turns(trace: Trace, found: Links, head: Int64, answers: bool) -> tuple[Int64, Float64, Int64]:
    """Of each row that goes on: the prompt before it, the share of that kept, and new tokens."""
    later = np.flatnonzero(found.parent >= 0)
    before = found.parent[later]
    last, shared = trace.prompt[before], found.shared[later] * found.size
    whole = found.shared[later] >= last // found.size
    own = np.maximum(1, last - head[later])
    kept = np.where(whole, 1.0, np.clip((shared - head[later]) / own, 0.0, 1.0))
    stays = np.where(whole, last + answers * trace.output[before], np.maximum(shared, head[later]))
    return last, kept, np.maximum(1, trace.prompt[later] - stays)


def _cuts(last: Int64, kept: Float64, new: Int64) -> Cuts:
    """Of turns that keep part of what was before; shares by classes of about as many turns."""
    cut = kept < 1
    classes = max(1, min(_CLASSES, len(last) // _CLASS))
    bounds = sorted({coarse(float(np.quantile(last, k / classes))) for k in range(1, classes)})
    index = np.searchsorted(bounds, last, "right")
    shares = [
        coarse(float(cut[index == k].mean())) if (index == k).any() else 0.0
        for k in range(len(bounds) + 1)
    ]
    return Cuts(
        bounds=bounds,
        shares=shares,
        kept=quantiles(kept[cut]),
        prompt=quantiles(new[cut], whole=True),
    )


def _answers(trace: Trace, found: Links) -> bool:
    """Whether prompts go on with the answer before them, where they are long enough to show it."""
    later = np.flatnonzero(found.parent >= 0)
    later = later[trace.prompt[later] > trace.prompt[found.parent[later]]]
    if not len(later):
        return True
    before = found.parent[later]
    at = np.concatenate(([0], np.cumsum(trace.run_length)))
    place = at[trace.run_rows[later]] + trace.prompt[before]
    run = np.searchsorted(at, place, "right") - 1
    token = trace.run_token[run] + place - at[run]
    return bool((token == trace.output_token[before]).mean() >= 0.5)


def _tick_us(trace: Trace) -> int:
    """What times are multiples of; where most are equal, the usual step between different ones."""
    gaps = np.diff(trace.arrival_ns)
    steps = gaps[gaps > 0]
    if not trace.timed or not len(steps):
        return 1
    if len(steps) < len(gaps) / 2:
        return int(np.clip(coarse(float(np.median(steps)) / 1000), 1, 10**9))
    return int(np.clip(np.gcd.reduce(steps) // 1000, 1, 10**9))


def _arrivals(trace: Trace, roots: Int64, tick_us: int) -> ArrivalModel:
    """The rate of sessions in windows, and the variation of gaps once that is taken out."""
    at = (trace.arrival_ns[roots] - trace.arrival_ns[0]) / 1e9
    span = float(trace.arrival_ns[-1] - trace.arrival_ns[0]) / 1e9
    if not trace.timed or len(trace) / 1e6 > span:  # recipes have times in µs
        return Saturate()
    windows = int(np.clip(len(roots) // _WINDOW, 1, _WINDOWS))
    width = coarse(span / windows, up=1)
    counts = np.bincount((at // width).astype(np.int64), minlength=1)
    lasts = np.full(len(counts), width)
    lasts[-1] = max(span - width * (len(counts) - 1), width / 10)
    rates = [coarse(float(rate)) for rate in counts / lasts]
    return Profile(window_s=width, rates=rates, cv=_variation(at, rates, width, tick_us))


def _variation(at: Float64, rates: list[float], width: float, tick_us: int) -> float:
    """Of gaps in the rate's integral; of clumped times by the counts in longer stretches.

    Counts of a renewal process vary as its gaps do: variance over mean tends to cv² (Cox 1962).
    """
    upto = np.concatenate(([0.0], np.cumsum(np.asarray(rates) * width)))
    spent = np.interp(at, np.arange(len(upto)) * width, upto)
    gaps = np.diff(spent)
    clumped = len(gaps) > 0 and (gaps == 0).mean() > 0.3
    if clumped:
        ticks = max(10.0, 5 * tick_us / 1e6 * float(upto[-1]) / (width * len(rates)))
        counts = np.bincount((spent // ticks).astype(np.int64))[:-1]
        cv = float(np.sqrt(counts.var() / counts.mean())) if len(counts) >= 5 else 1.0
    else:
        cv = float(gaps.std() / gaps.mean()) if len(gaps) >= 5 and gaps.mean() > 0 else 1.0
    return min(100.0, max(0.05, coarse(cv)))


def _notes(trace: Trace, sessions: int, left_out: int) -> list[str]:
    said = []
    if sessions < LEAST:
        many = f"{sessions} session{'s' if sessions != 1 else ''}"
        said.append(f"only {many}: their rate, number of turns and first prompts are rough")
    if left_out:
        said.append(f"{left_out} shared prefixes have no place in the recipe: reuse will be less")
    if trace.beam.any() or trace.sample_output is not None:
        said.append("beams and lengths of single samples are not in the recipe")
    if (trace.salt > 0).any():
        said.append("salts are not in the recipe: what they keep apart stays apart, unsalted")
    if (trace.priority != 0).any():
        said.append("priorities are not in the recipe")
    return said


__all__ = ["LEAST", "Fit", "fit"]
