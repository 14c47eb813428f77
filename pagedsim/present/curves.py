"""What `pagedsim curve` prints: a table, the curves as characters, facts of the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from pagedsim.analysis.curve_plot import places, plot, steps
from pagedsim.present.numbers import count, per_cent, plain, requests, significant

if TYPE_CHECKING:
    from rich.console import Console

    from pagedsim.analysis.curve import Lookups
    from pagedsim.analysis.curve_result import Capacity, Curve, Curves

_MARKS = {"lru": "●*", "fifo": "○o", "lfu": "◇+", "optimal": "▲^"}  # Unicode, and else


def show(found: Curves, lookups: Lookups, console: Console) -> None:
    """Print the table, the plot and what the trace is like; 80 columns are enough."""
    kind = "blocks" if found.count == "all" else "full blocks"
    answers = ", answers too" if found.count == "outputs" else ""
    end = {"leaf": "end", "root": "start"}[found.touch]
    warm = "" if found.counted == found.requests else f", the last {found.counted:,} counted"
    console.print(f"{plain(found.trace, 30)} · {requests(found.requests)}{warm}", style="bold")
    console.print(
        f"{count(found.blocks)} {kind} of {found.block:,} tokens looked up, "
        f"{count(found.distinct.blocks)} different ones{answers}"
    )
    ideal = found.ideal
    console.print(
        f"Unlimited: {per_cent(ideal.blocks)} % of blocks, {per_cent(ideal.tokens)} % of tokens "
        f"hit; touched from the {end}\n"
    )
    console.print(_table(found))
    for line in _plot(found, lookups, console.options.ascii_only):
        console.print(line, soft_wrap=True)
    console.print()
    for one in found.curves:
        _said(one, console)
    if found.pool is not None:
        _pool(found, console)
    _facts(found, console)
    for note in found.notes:
        console.print(f"Note: {plain(note, 400)}", style="yellow")


def _table(found: Curves) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    sized = found.kv_bytes_per_token is not None
    if len(found.curves) == 1:
        rates = ["blocks\n%", "tokens\n%", "a prompt\n%", "requests\n%", "of ideal\n%"]
    else:
        rates = [f"{one.policy}\n% of tokens" for one in found.curves]
    for heading in ("capacity\nblocks", "\ntokens", *(("\nGiB",) if sized else ()), *rates):
        table.add_column(heading, justify="right", no_wrap=True)
    for index, point in enumerate(found.curves[0].points):
        size = point.capacity
        cells = [count(size.blocks), count(size.tokens)]
        if size.gib is not None:
            cells.append(significant(size.gib))
        if len(found.curves) == 1:
            own = point.rates
            cells += map(per_cent, (own.blocks, own.tokens, own.prompts, own.requests))
            cells.append(per_cent(point.ideal))
        else:
            cells += [per_cent(one.points[index].rates.tokens) for one in found.curves]
        table.add_row(*cells)
    return table


def _plot(found: Curves, lookups: Lookups, ascii_only: bool) -> list[str]:
    """Lines; none where there is nothing to see."""
    at = [point.capacity.blocks for point in found.curves[0].points]
    if len(at) < 2 or not found.ideal.tokens:
        return []
    columns = steps(at[0], at[-1])
    values = {}
    for one in found.curves:
        if one.exact:
            rates = lookups.hits(one.policy, columns).tokens / max(1, found.prompt_tokens)
        else:
            known = [point.rates.tokens for point in one.points]
            rates = np.interp(np.log(columns), np.log(at), known)
        values[_MARKS[one.policy][ascii_only]] = rates.tolist()
    ticks = [count(int(columns[place])) for place in places()]
    key = ", ".join(f"{_MARKS[one.policy][ascii_only]} {one.policy}" for one in found.curves)
    lines = plot(values, found.ideal.tokens, ticks, ascii_only=ascii_only)
    return ["", *lines, f"       % of tokens hit, by blocks: {key}"]


def _said(one: Curve, console: Console) -> None:
    about = "Knee of" if one.exact else "Of these, knee of"
    if one.knee is not None:
        rate = f"{per_cent(one.knee.rates.tokens)} %"
        console.print(f"{about} {one.policy}: {_size(one.knee.capacity)}: {rate}")
    if one.exact and one.enough:
        parts = " / ".join(f"{part.part * 100:g}" for part in one.enough)
        blocks = " / ".join(f"{part.capacity.blocks:,}" for part in one.enough)
        console.print(f"{parts} % of all hits: {one.policy} needs {blocks} blocks")


def _pool(found: Curves, console: Console) -> None:
    assert found.pool is not None
    rates = [
        f"{one.policy} {per_cent(point.rates.tokens)}"
        for one in found.curves
        for point in one.points
        if point.capacity == found.pool
    ]
    name = f"{plain(found.model or '', 24)} on {plain(found.gpu or '', 16)}"
    console.print(f"{name} has room for {_size(found.pool)}")
    console.print(f"(estimate, if all of it is cache): {', '.join(rates)} %")


def _facts(found: Curves, console: Console) -> None:
    if (reuse := found.times.reuse_s) is not None:
        p50, p90, p99 = map(significant, (reuse.p50, reuse.p90, reuse.p99))
        console.print(f"Blocks come back after {p50} s (median of hits), p90 {p90} s, p99 {p99} s")
    popular = found.popularity
    if not popular.top:
        console.print("No block is looked up again: nothing to hit, whatever the capacity")
    else:
        top = " / ".join(f"{part.blocks * 100:g}" for part in popular.top)
        hits = " / ".join(per_cent(part.hits) for part in popular.top)
        console.print(f"{per_cent(popular.once)} % of blocks are used once")
        console.print(f"The most hit {top} % of blocks have {hits} % of the hits")


def _size(capacity: Capacity) -> str:
    gib = "" if capacity.gib is None else f" = {significant(capacity.gib)} GiB"
    return f"{capacity.blocks:,} blocks = {count(capacity.tokens)} tokens{gib}"


__all__ = ["show"]
