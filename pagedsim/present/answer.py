"""The question answered first: who wastes what, how large the batch, how fast, which is best.

Four *cards*, each a number in which runs are compared, with the best run, the worst, and how far
apart they are. A sentence above says whether one run is best in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pagedsim.analysis.results import Result, Run
from pagedsim.present.numbers import NONE, count, per_cent, requests, significant

_BINDS = {
    "memory": "memory",
    "max_seqs": "the most sequences in a batch (max_seqs)",
    "budget": "the token budget of a step",
    "arrivals": "arrivals: nobody else was there to run",
}
_DOES = {
    "memory.waste": "wastes least",
    "batch.mean": "runs the largest batch",
    "latency.ttft_s.p50": "is first to answer",
    "throughput.requests_per_s": "finishes most requests a second",
}


class Card(NamedTuple):
    """One number: of the best run, or of the only one. `best` and `worst` are indices of runs."""

    title: str
    field: str  # path in the result file
    value: str
    unit: str
    best: int
    worst: int | None = None  # None where there is nothing to compare with
    worst_value: str = ""
    apart: str = ""


class _Kind(NamedTuple):
    title: str  # of several runs
    alone: str  # of one
    field: str
    unit: str
    least: bool  # the smallest is the best
    shown: Callable[[float | None], str]
    of: Callable[[Run], float | None]


_KINDS = (
    _Kind(
        *("Least waste", "Waste", "memory.waste", "% of the pool", True, per_cent),
        lambda run: run.memory.waste,
    ),
    _Kind(
        *("Largest batch", "Batch", "batch.mean", "running, mean", False, significant),
        lambda run: run.batch.mean,
    ),
    _Kind(
        *("Fastest first token", "First token", "latency.ttft_s.p50", "s, median", True),
        significant,
        lambda run: run.latency.ttft_s.p50,
    ),
    _Kind(
        *("Most throughput", "Throughput", "throughput.requests_per_s", "requests/s", False),
        significant,
        lambda run: run.throughput.requests_per_s,
    ),
)


def cards(runs: Sequence[Run]) -> list[Card]:
    """What is known of `runs`; empty where none ran. Of equals the first is the best."""
    found = []
    for kind in _KINDS:
        known = [(value, at) for at, run in enumerate(runs) if (value := kind.of(run)) is not None]
        if not known:
            continue
        low = min(known, key=lambda pair: pair[0])
        high = max(known, key=lambda pair: pair[0])
        (best, at), (worst, other) = (low, high) if kind.least else (high, low)
        title = kind.title if len(known) > 1 else kind.alone
        card = Card(title, kind.field, kind.shown(best), kind.unit, at)
        if len(known) > 1:
            apart = _apart(kind, best, worst)
            card = card._replace(worst=other, worst_value=kind.shown(worst), apart=apart)
        found.append(card)
    return found


def sentence(runs: Sequence[Run]) -> str:
    """The first line: of one run its account, of several whether one is best in everything."""
    ran = [run for run in runs if run.steps]
    if not ran:
        return "No request ran."
    if len(runs) == 1:
        return _alone(runs[0])
    found = cards(runs)
    names = {runs[card.best].name for card in found if card.best != card.worst}
    if not names or all(card.value == card.worst_value for card in found):
        return "The runs come out alike."
    if len(names) == 1:
        does = [_DOES[card.field] for card in found if card.best != card.worst]
        said = f"{', '.join(does[:-1])} and {does[-1]}" if does[1:] else does[0]
        return f"{names.pop()} {said}."
    least = next(card for card in found if card.field == "memory.waste")
    fast = next((card for card in found if card.field == "latency.ttft_s.p50"), least)
    first = f"{runs[least.best].name} wastes least"
    if fast.best == least.best:
        return f"{first} and is first to answer."
    return f"{first}; {runs[fast.best].name} is first to answer."


def warnings(result: Result) -> list[str]:
    """What a reader must know before trusting a number: refusals, cuts, estimates, notes."""
    said = [*result.trace.notes]
    each = [unserved(run) for run in result.runs]
    if len(set(each)) == 1:
        said += each[0]
    else:
        for run, own in zip(result.runs, each, strict=True):
            said += [f"{run.name}: {text}" for text in own or ("nothing refused or truncated",)]
        said.append("The runs did not serve the same requests: compare them with care")
    if any(run.dropped for run in result.runs) and not result.trace.notes:
        said.append(f"{result.runs[0].dropped:,} rows without output were left out")
    for run in result.runs:
        said += (*run.provenance.estimates, *run.provenance.notes)
        said.append(run.provenance.scheduling)
    return [text[:1].upper() + text[1:] for text in dict.fromkeys(said) if text]


def unserved(run: Run) -> tuple[str, ...]:
    """How many requests were refused, cut off and left unfinished, where there are any."""
    said = []
    if run.refused:
        share = per_cent(run.refused_token_share)
        said.append(f"refused {requests(run.refused)} ({share} % of tokens)")
    if run.truncated:
        share = per_cent(run.truncated_token_share)
        said.append(f"truncated {requests(run.truncated)} ({share} % of tokens)")
    if run.unfinished:
        said.append(f"unfinished {requests(run.unfinished)}")
    return tuple(said)


def _alone(run: Run) -> str:
    shares = {term: getattr(run.memory, term) for term in run.memory.terms}
    terms = ", ".join(f"{per_cent(share)} % {term}" for term, share in shares.items())
    limits = {name: getattr(run.binds, name) or 0 for name in _BINDS}
    most = max(limits, key=lambda name: limits[name])
    return (
        f"{run.name} wastes {per_cent(run.memory.waste)} % of the pool ({terms}). The batch of"
        f" {significant(run.batch.mean)} on average, {count(run.batch.peak)} at most, was limited"
        f" {per_cent(limits[most])} % of the time by {_BINDS[most]}."
    )


def _apart(kind: _Kind, best: float, worst: float) -> str:
    """How far the worst is from the best, in words; shares in points, else how many times."""
    if kind.field == "memory.waste":
        return f"{100 * (worst - best):.1f} points apart"
    low, high = sorted((best, worst))
    return f"{significant(high / low)}\u00a0×" if low > 0 else NONE


__all__ = ["Card", "cards", "sentence", "unserved", "warnings"]
