"""What `pagedsim whatif` prints: a row a change, the best first, and what cannot be changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pagedsim.analysis.plan_slo import TIMES
from pagedsim.present.numbers import NONE, count, per_cent, plain, requests, significant

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pagedsim.analysis.whatif_result import Tried, WhatIf

_SHARES = ("waste", "waste_of_held", "live", "blocked", "hits")
_CHANGE = 26  # cells of a change's name
_SHOWN = {"batch", "waste", "ttft_p99", "throughput"}  # have a column anyway


def table(found: WhatIf) -> RenderableType:
    """The answer; 80 columns are enough."""
    trace = found.trace
    better = "higher" if found.higher_is_better else "lower"
    parts: list[RenderableType] = [
        Text.assemble(
            (plain(trace.name, 30), "bold"),
            f" · {requests(trace.requests)} · {plain(trace.load, 34)}",
        ),
        Text(f"Server: {plain(found.server, 70)}"),
        Text(f"Ranked by {found.by}: {better} is better"),
        "",
        _rows([found.present, *found.changes], found.by, "change"),
    ]
    if found.stack is not None:
        kept = [one for one in found.stack if one.kept]
        parts += ["", Text("Added up, best first, each replayed on top of those kept", "bold")]
        parts.append(_rows(found.stack, found.by, "add"))
        last = kept[-1] if kept else found.present
        parts.append(Text(_sum(found, last, [one.change for one in kept])))
    if found.impossible:
        parts += ["", Text("Not possible", "bold")]
        parts += [Text(f"{one.change}: {plain(one.why, 400)}") for one in found.impossible]
    said = dict.fromkeys((*found.estimates, *found.notes))
    parts += ["", *(Text(plain(line, 400), "dim") for line in said)] if said else []
    return Group(*parts)


def _rows(tried: list[Tried] | tuple[Tried, ...], by: str, heading: str) -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    shown.add_column(f"\n{heading}", no_wrap=True)
    own = by not in _SHOWN
    headings = [f"value\n{unit(by)}"] if own else []
    headings += ["gain\n%", "batch\nmean", "waste\n%", "TTFT s\np99", "output\ntok/s"]
    for text in headings:
        shown.add_column(text, justify="right", no_wrap=True)
    if many := len({one.gpus for one in tried}) > 1:
        shown.add_column("\nGPUs", justify="right", no_wrap=True)
    stack = heading == "add"
    cut = any(one.refused or one.truncated for one in tried)
    if cut:
        shown.add_column("not\nserved", justify="right", no_wrap=True)
    if stack:
        shown.add_column("\nkept")
    for one in tried:
        row = [plain(one.change, _CHANGE)]
        row += [value_text(by, one.value)] if own else []
        row += [
            gain_text(one.gain),
            significant(one.batch_mean),
            per_cent(one.waste),
            significant(one.ttft_p99_s),
            significant(one.output_tokens_per_s),
        ]
        row += [count(one.gpus)] if many else []
        row += [count(one.refused + one.truncated)] if cut else []
        row += ["yes" if one.kept else "no"] if stack else []
        shown.add_row(*map(Text, row))
    return shown


def unit(by: str) -> str:
    """What the values of a metric are shown in."""
    if by in _SHARES:
        return "%"
    return "s" if by.rpartition("_")[0] in TIMES or by == "makespan" else ""


def value_text(by: str, value: float | None) -> str:
    """A value as its column has it."""
    return per_cent(value) if by in _SHARES else significant(value)


def gain_text(gain: float | None) -> str:
    """``+12.3``, ``−4.5``; a dash where there is nothing to compare."""
    if gain is None:
        return NONE
    if round(100 * gain, 1) == 0:
        return "0.0"
    text = f"{100 * abs(gain):,.1f}" if abs(gain) < 10 else f"{100 * abs(gain):,.0f}"
    return ("+" if gain > 0 else "−") + text


def _sum(found: WhatIf, last: Tried, kept: list[str]) -> str:
    before, after = (value_text(found.by, one.value) for one in (found.present, last))
    names = " + ".join(kept) if kept else "nothing"
    suffix = f" {unit(found.by)}".rstrip()
    return f"{found.by} {before}{suffix} → {after}{suffix} with {names}"


__all__ = ["gain_text", "table", "unit", "value_text"]
