"""A replay beside an engine's log: a table of errors, and some moments."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from pagedsim.analysis.logged import Cached, Logged, Side
from pagedsim.present.numbers import NONE, plain, significant

NAMES = {
    "running": "running",
    "waiting": "waiting",
    "usage": "KV usage %",
    "hit_rate": "prefix hit rate %",
    "output_tokens_s": "output tokens/s",
    "prompt_tokens_s": "prompt tokens/s",
    "preemptions": "preemptions so far",
    "cached_blocks": "cached blocks",
}
_MOMENTS = 10
_SHORT = {"running": "running", "waiting": "waiting", "usage": "KV %", "hit_rate": "hit %"}


def show(found: Logged, console: Console) -> None:
    """Everything in words and two tables, 80 columns wide at most."""
    lines = f"{found.lines:,} line{'s' if found.lines != 1 else ''} of {found.engine}"
    console.print(f"{lines}; pool of {found.pool_tokens:,} tokens, from the log", highlight=False)
    values = ", ".join(f"{key} {value}" for key, value in found.configuration.items())
    console.print(plain(f"Configuration: {values or 'nothing stated'}", 400), markup=False)
    chosen = "as given" if found.offset_given else "where running differs least"
    when = f"{abs(found.offset_s):g} s {'before' if found.offset_s < 0 else 'after'}"
    console.print(f"The replay begins {when} the log's first line, {chosen}")
    if found.damaged:
        named = "; ".join(found.named)
        many = f"{found.damaged:,} damaged line{'s' if found.damaged != 1 else ''}"
        console.print(plain(f"{many} left out: {named}", 400), markup=False)
    if found.cached is not None:
        console.print(plain(_events(found.cached), 400), markup=False, highlight=False)
    for note in found.notes:
        console.print(plain(f"note: {note}", 400), markup=False)
    console.print()
    console.print(_errors(found))
    console.print()
    console.print(_moments(found))


def _events(cached: Cached) -> str:
    said = f"{cached.batches:,} batches of KV-cache events: {cached.stored:,} blocks stored, "
    said += f"{cached.removed:,} removed"
    for count, what in ((cached.cleared, "times cleared"), (cached.elsewhere, "not on the GPU")):
        said += f", {count:,} {what}" if count else ""
    if cached.damaged:
        said += f"; {cached.damaged:,} damaged left out: {'; '.join(cached.named)}"
    return said


def _errors(found: Logged) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("mean of", "engine", "replay", "bias", "absolute", "error", "worst", "at s"):
        table.add_column(heading, justify="left" if heading == "mean of" else "right")
    more = () if found.cached is None else (found.cached.side,)
    for side in (*found.sides, *more):
        scale = _scale(side)
        numbers = (side.engine_mean, side.replay_mean)
        table.add_row(
            NAMES[side.name],
            *(significant(scale * value) for value in numbers),
            _signed(scale * side.bias),
            significant(scale * side.absolute),
            NONE if side.error is None else f"{100 * side.error:.1f} %",
            significant(scale * side.worst),
            f"{side.worst_s:,.0f}",
        )
    return table


def _moments(found: Logged) -> Table:
    """Some moments, evenly over the lines: engine, then replay, of what a server's log shows."""
    sides = [side for side in found.sides if side.name in _SHORT]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("at s", justify="right")
    for side in sides:
        table.add_column(f"{_SHORT[side.name]}", justify="right")
        table.add_column("replay", justify="right")
    last = len(found.at_s) - 1
    places = sorted({round(k * last / (_MOMENTS - 1)) for k in range(_MOMENTS)})
    for place in places:
        cells = []
        for side in sides:
            for values in (side.engine, side.replay):
                value = values[place]
                cells.append(NONE if value is None else significant(_scale(side) * value))
        table.add_row(f"{found.at_s[place]:,.0f}", *cells)
    return table


def _scale(side: Side) -> float:
    return 100.0 if side.name in ("usage", "hit_rate") else 1.0


def _signed(value: float) -> str:
    if abs(value) < 0.00005:
        return "0"
    return f"{'-' if value < 0 else '+'}{significant(abs(value))}"


__all__ = ["NAMES", "show"]
