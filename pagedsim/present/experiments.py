"""Published experiments in a terminal: their list, and one's numbers beside ours.

A verdict a row: *holds* or *MISSES* where the row has a tolerance, *soft* where it has none, *ours*
where nothing was published, *absent* where we have no number.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pagedsim.analysis.experiments.experiment import UNPUBLISHED, Experiment, Outcome, Row
from pagedsim.present.numbers import NONE, plain

_NAME = 32  # cells of a row's name
_WIDTH = 80


def listing(experiments: Sequence[Experiment]) -> RenderableType:
    """A line an experiment: name, title, what it needs or takes."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for one in experiments:
        more = f" (needs the trace {one.needs})" if one.needs else ""
        if one.minutes >= 0.1:
            more += f" (about {_time(one.minutes)})"
        table.add_row(Text(one.name), Text(f"{one.title}{more}"))
    return table


def outcome(found: Outcome, heading: str = "published") -> RenderableType:
    """One experiment's table, its explanations, its claims and a last line with the verdict.

    `heading` is that of the column with the numbers from elsewhere.
    """
    parts: list[RenderableType] = [
        Text(f"{found.name}: {found.title}", style="bold"),
        *_wrapped(f"Source: {found.source}"),
    ]
    if found.quick:
        parts.append(Text("A quick run, to look at: no tolerance applies", style="yellow"))
    parts += ["", _rows(found, heading)]
    notes = _notes(found)
    if notes:
        parts.append("")
        for note, number in notes.items():
            parts += _wrapped(f"[{number}] {note}")
    for claim in found.claims:
        verdict = "follows from" if claim.follows else "does not follow from"
        ours = f" Ours: {claim.ours}." if claim.ours else ""
        text = (
            f"Printed: {claim.printed}. This {verdict} the paper's own figures: {claim.figures}."
            f"{ours}"
        )
        parts += ["", *_wrapped(text)]
    if found.notes:
        parts.append("")
        for note in found.notes:
            parts += _wrapped(note)
    return Group(*parts, "", Text(_verdict(found), style="bold"))


def _notes(found: Outcome) -> dict[str, int]:
    """Each explanation and its number."""
    said = dict.fromkeys(row.note for row in found.rows if row.note)
    return {note: number for number, note in enumerate(said, 1)}


def _rows(found: Outcome, heading: str) -> Table:
    notes = _notes(found)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("", max_width=_NAME)
    for title in (heading, "ours", "difference", "allowed"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in found.rows:
        unit = f" {row.unit}" if row.unit else ""
        *cells, verdict = _cells(row, found.quick)
        mark = f" [{notes[row.note]}]" if row.note else ""
        table.add_row(Text(row.name + unit), *map(Text, cells), Text(f"{verdict}{mark}"))
    return table


def _cells(row: Row, quick: bool) -> list[str]:
    allowed = NONE if row.tolerance is None or not row.hard else f"± {_number(row.tolerance, row)}"
    if row.tolerance == 0 and row.hard:
        allowed = "exact"
    difference = NONE
    if row.difference is not None:
        rounded = round(row.difference, row.digits)
        difference = f"{rounded:+,.{row.digits}f}".replace("-", "−") if rounded else "0"
    verdict = "soft"
    if row.published is None:
        verdict = "ours"
    elif row.ours is None:
        verdict = "absent"
    elif row.hard:
        verdict = "" if quick else "holds" if row.holds else "MISSES"
    return [_number(row.published, row), _number(row.ours, row), difference, allowed, verdict]


def _number(value: float | None, row: Row) -> str:
    return NONE if value is None else f"{value:,.{row.digits}f}"


def _verdict(found: Outcome) -> str:
    hard = [row for row in found.rows if row.hard]
    soft = [row for row in found.rows if not row.hard and row.published is not None]
    ours = [row for row in found.rows if row.published is None]
    words = []
    if hard and not found.quick:
        held = sum(row.holds for row in hard)
        words.append(f"{held} of {len(hard)} hard targets hold")
    if soft:
        words.append(f"{len(soft)} soft")
    if ours:
        words.append(f"{len(ours)} with {UNPUBLISHED}")
    return ", ".join(words) or "Nothing to hold against"


def _wrapped(text: str) -> list[RenderableType]:
    lines = textwrap.wrap(plain(text, 2000), _WIDTH, break_on_hyphens=False)
    return [Text(line) for line in lines]


def _time(minutes: float) -> str:
    return f"{minutes * 60:.0f} s" if minutes < 1 else f"{minutes:.0f} min"


__all__ = ["listing", "outcome"]
