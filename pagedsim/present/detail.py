"""One run in full: the account, the batch and what limited it, latency, and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pagedsim.analysis.results import Result, Run, Saved, Stats
from pagedsim.present.bars import STYLES
from pagedsim.present.numbers import count, per_cent, requests, significant
from pagedsim.present.palette import MEANING
from pagedsim.present.replicas import replicas
from pagedsim.present.tables import Bars, Intervals, footer, header

_LATENCY = {
    "queue_s": "queue",
    "ttft_s": "time to first token",
    "tpot_s": "time per output token",
    "e2e_s": "end to end",
    "normalized_s_per_token": "end to end / output",
}


def single(result: Result, index: int = 0) -> RenderableType:
    """Run `index` of `result` in full."""
    run = result.runs[index]
    if not run.steps:
        return Group(*header(result), "", Text("No request ran."), *footer(result))
    parts: list[RenderableType] = [
        *header(result),
        "",
        Bars([run]),
        "",
        _account(run),
        "",
        *_facts(run),
        "",
        _latency(run),
    ]
    if run.replicas:
        parts += ["", replicas(run)]
    if run.seeds:
        parts += ["", Intervals([run])]
    return Group(*parts, *footer(result))


def _account(run: Run) -> Table:
    table = _table(("% of the pool", "mean", "p50", "p99", "peak", ""))
    for term in run.memory.terms:
        spread = run.memory_spread.get(term)
        over_time = (spread.p50, spread.p99, spread.max) if spread else (None, None, None)
        table.add_row(
            Text(term, style=STYLES[term]),
            *(Text(per_cent(share)) for share in (getattr(run.memory, term), *over_time)),
            Text(MEANING[term], style="dim"),
        )
    held = per_cent(run.memory.waste_of_held)
    table.add_row(
        Text("waste", style="bold"),
        Text(per_cent(run.memory.waste)),
        *("", "", ""),
        Text(f"{held} % of what is held is not live"),
    )
    if run.memory.shared:
        spread = run.memory_spread.get("shared")
        over_time = (spread.p50, spread.p99, spread.max) if spread else (None, None, None)
        table.add_row(
            Text("saved"),
            *(Text(per_cent(share)) for share in (run.memory.shared, *over_time)),
            Text(f"by sharing: {per_cent(run.memory.saved)} % less is held"),
        )
    return table


def _saved(saved: Saved) -> str:
    text = f"{significant(saved.tokens_mean)} tokens mean, {count(saved.tokens_peak)} peak"
    if saved.gib_mean is not None:
        text += f" ({significant(saved.gib_mean)} and {significant(saved.gib_peak)} GiB)"
    return f"{text}; {per_cent(saved.share)} % of all stored"


def _facts(run: Run) -> list[RenderableType]:
    binds = run.binds
    limits = (
        ("memory", binds.memory),
        ("max_seqs", binds.max_seqs),
        ("budget", binds.budget),
        ("arrivals", binds.arrivals),
    )
    rates = run.throughput
    lines = {
        "batch": f"{significant(run.batch.mean)} mean, {count(run.batch.peak)} peak",
        "limited by": ", ".join(f"{name} {per_cent(share)} %" for name, share in limits),
        "blocked": f"{per_cent(run.blocked)} % of the time the queue's head waited for memory",
        "finished": f"{requests(run.finished)}{_samples(run)} in {significant(run.makespan_s)} s"
        f" and {run.steps:,} steps",
        "throughput": f"{significant(rates.requests_per_s)} requests/s,"
        f" {significant(rates.output_tokens_per_s)} output tokens/s",
        "preemptions": f"{run.preemptions:,} of {requests(run.preempted_requests)},"
        f" {count(run.recomputed_tokens)} tokens computed again",
    }
    if run.prefix.resumed_hit_tokens:
        lines["found again"] = (
            f"{count(run.prefix.resumed_hit_tokens)} tokens in the cache after preemptions"
        )
    if run.saved and run.saved.tokens_peak:
        lines["sharing saves"] = _saved(run.saved)
    if run.prefix.hit_tokens:
        lines["prefix hits"] = (
            f"{per_cent(run.prefix.hit_rate)} % of {count(run.prefix.prompt_tokens)} prompt tokens"
        )
    if run.prefix.evicted_tokens:
        lines["evicted"] = f"{count(run.prefix.evicted_tokens)} tokens of cached content"
    if run.compute:
        lines["steps bound by"] = (
            f"compute {per_cent(run.compute.compute_bound)} %,"
            f" bandwidth {per_cent(run.compute.bandwidth_bound)} % of the time;"
            f" {significant(run.compute.intensity)} FLOPs a byte"
        )
        if run.compute.ridge is not None:
            lines["ridge point"] = f"{significant(run.compute.ridge)} FLOPs a byte"
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, text in lines.items():
        table.add_row(Text(name, style="bold"), Text(text))
    return [table]


def _samples(run: Run) -> str:
    """How many sequences that was, where it was more than one a request."""
    return f" ({run.samples:,} samples)" if run.samples > run.finished else ""


def _latency(run: Run) -> Table:
    table = _table(("seconds", "mean", "p50", "p90", "p99"))
    for field, name in _LATENCY.items():
        stats: Stats = getattr(run.latency, field)
        values = (stats.mean, stats.p50, stats.p90, stats.p99)
        table.add_row(name, *(Text(significant(value)) for value in values))
    return table


def _table(headings: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for at, heading in enumerate(headings):
        number = at > 0 and heading != ""
        table.add_column(
            heading,
            justify="right" if number else "left",
            min_width=6 if number else None,
            no_wrap=heading != "",
        )
    return table


__all__ = ["single"]
