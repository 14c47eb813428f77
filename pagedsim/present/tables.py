"""Results as a person reads them in a terminal.

`comparison` puts the runs of a result side by side: where the memory went, as bars, and the
numbers below in the same order. `single` (in `present.detail`) shows one run in full. Both take
what the result file holds, so a file that was read shows as a fresh run does. They fit 80 columns;
names are texts, never markup, and lose their control characters.

`console` makes the console to print them with: colours on a terminal only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from pagedsim.analysis.results import Result, Run
from pagedsim.present.bars import Bar, Legend, Scale
from pagedsim.present.numbers import bytes_, count, per_cent, plain, requests, significant

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType, RenderResult

TRACE = 30  # cells of a trace's name
LEAST = 8  # cells of a run's name, however narrow the terminal

_HEADINGS = (
    *("live\n%", "waste\n%", "batch\nmean", "\npeak", "preempt-\nions", "hit\n%"),
    *("TTFT s\np50", "\np99", "TPOT\np50 ms", "\nreq/s"),
)
_HIT = 5  # column of `_HEADINGS` left out where no run has a hit
_SEEDED = (
    ("live %", "memory.live", 100),
    ("waste %", "memory.waste", 100),
    ("batch mean", "batch.mean", 1),
    ("TTFT p50 s", "latency.ttft_s.p50", 1),
    ("req/s", "throughput.requests_per_s", 1),
)


def console(
    *, no_color: bool = False, file: IO[str] | None = None, stderr: bool = False
) -> Console:
    """A console that prints what it is given: no markup, and no control codes but to a terminal.

    Colours go with `no_color`, or where NO_COLOR is set.
    """
    return Console(
        file=file,
        stderr=stderr,
        no_color=no_color or None,
        markup=False,
        emoji=False,
        highlight=False,
    )


def comparison(result: Result) -> RenderableType:
    """All runs of `result` side by side."""
    runs = result.runs
    parts: list[RenderableType] = [
        *header(result),
        "",
        Text("Where the memory went, averaged over time", style="bold"),
        Bars(runs),
        "",
        Numbers(runs),
    ]
    if any(run.seeds for run in runs):
        parts += ["", Intervals(runs)]
    return Group(*parts, *footer(result))


def header(result: Result) -> list[RenderableType]:
    """What went in, on what device, and what was not served."""
    trace, device = result.trace, result.device
    model = f"{device.model} on {device.gpu}" if device.model and device.gpu else ""
    token = device.kv_bytes_per_token
    facts = (
        plain(model or device.model or device.gpu or "", 46),
        "" if token is None else f"{bytes_(token)} a token",
        f"{count(device.capacity_tokens)} tokens of KV",
    )
    first = Text.assemble(
        (plain(trace.name, TRACE), "bold"),
        f" · {requests(trace.requests)} · {count(trace.prompt_tokens)} in"
        f" + {count(trace.output_tokens)} out tokens",
    )
    load = Text(f"Load: {plain(trace.load or 'not stated', 72)}")
    pool = Text("Pool: " + " · ".join(fact for fact in facts if fact))
    return [first, load, pool, *_unserved(result.runs)]


def footer(result: Result) -> list[RenderableType]:
    """The span of the averages if it is not the whole run, what was assumed, what was said."""
    lines: list[str] = []
    spans = {
        f"averages over {significant(run.span.from_s)} to {significant(run.span.to_s)} s"
        for run in result.runs
        if run.span is not None and not run.span.whole
    }
    lines += sorted(spans)
    known = [run.provenance for run in result.runs]
    lines += dict.fromkeys(plain(word, 400) for part in known for word in part.estimates)
    lines += dict.fromkeys(plain(word, 400) for part in known for word in part.notes)
    lines += dict.fromkeys(part.scheduling for part in known)
    return ["", *(Text(line, style="dim") for line in lines)] if lines else []


@dataclass(frozen=True)
class Bars:
    """A bar a run, a scale over them and the legend below."""

    runs: Sequence[Run]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Bars take what the names leave."""
        width = _name_width(self.runs, options.max_width - 41)
        table = _grid()
        table.add_column(width=width, no_wrap=True)
        table.add_column(ratio=1)
        table.add_row("", Scale())
        for run in self.runs:
            table.add_row(Text(plain(run.name, width)), Bar(run.memory))
        yield table
        yield Legend()


@dataclass(frozen=True)
class Numbers:
    """The numbers of each run; the hit rate only where there is one."""

    runs: Sequence[Run]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Names are shortened to what the numbers leave."""
        rows = [_row(run) for run in self.runs]
        shown = list(range(len(_HEADINGS)))
        if not any(run.prefix.hit_tokens for run in self.runs):
            shown.remove(_HIT)
        yield _under_names(
            self.runs,
            [_HEADINGS[i] for i in shown],
            [[row[i] for i in shown] for row in rows],
            options.max_width,
        )


@dataclass(frozen=True)
class Intervals:
    """Mean and half the 95 % interval over seeds."""

    runs: Sequence[Run]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A line that says how many seeds, and a row a run."""
        seeded = [run for run in self.runs if run.seeds]
        counts = sorted({run.seeds.count for run in seeded if run.seeds})
        many = ", ".join(map(str, counts))
        yield Text(f"Mean ± 95 % interval over {many} seeds (above: the first)", style="bold")
        rows = []
        for run in seeded:
            found = run.seeds.intervals if run.seeds else {}
            row = []
            for _, path, unit in _SEEDED:
                at = found.get(path)
                half = None if at is None else (at.high - at.low) / 2 * unit
                mean = None if at is None else at.mean * unit
                row.append(f"{significant(mean)} ± {significant(half)}")
            rows.append(row)
        yield _under_names(seeded, [name for name, _, _ in _SEEDED], rows, options.max_width)


def _row(run: Run) -> list[str]:
    latency, tpot = run.latency, run.latency.tpot_s.p50
    return [
        per_cent(run.memory.live),
        per_cent(run.memory.waste),
        significant(run.batch.mean),
        count(run.batch.peak),
        count(run.preemptions),
        per_cent(run.prefix.hit_rate),
        significant(latency.ttft_s.p50),
        significant(latency.ttft_s.p99),
        significant(None if tpot is None else tpot * 1000),
        significant(run.throughput.requests_per_s),
    ]


def _under_names(
    runs: Sequence[Run], headings: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> Table:
    """A table with the runs' names at the left, right-aligned numbers, two lines of headings."""
    widths = [
        max(*map(cell_len, heading.split("\n")), *(cell_len(row[i]) for row in rows), 1)
        for i, heading in enumerate(headings)
    ]
    named = _name_width(runs, width - sum(widths) - len(widths))
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, expand=False)
    table.add_column(width=named, no_wrap=True)
    for heading, cells in zip(headings, widths, strict=True):
        table.add_column(Text(heading), width=cells, justify="right", no_wrap=True)
    for run, row in zip(runs, rows, strict=True):
        table.add_row(Text(plain(run.name, named)), *map(Text, row))
    return table


def _unserved(runs: Sequence[Run]) -> list[RenderableType]:
    """One line if it is the same for all runs, else one a run."""
    lines = {}
    for run in runs:
        words = []
        if run.refused:
            share = per_cent(run.refused_token_share)
            words.append(f"refused {requests(run.refused)} ({share} % of tokens)")
        if run.truncated:
            share = per_cent(run.truncated_token_share)
            words.append(f"truncated {run.truncated:,} ({share} % of tokens)")
        if run.unfinished:
            words.append(f"unfinished {requests(run.unfinished)}")
        if run.dropped:
            words.append(f"rows left out {run.dropped:,}")
        lines[plain(run.name, 20)] = ", ".join(words)
    if len(set(lines.values())) == 1:
        line = next(iter(lines.values()))
        return [_capital(line or "nothing refused or truncated", "yellow" if line else "dim")]
    return [
        Text.assemble(name, ": ", (line or "nothing refused or truncated", "yellow"))
        for name, line in lines.items()
    ]


def _capital(text: str, style: str) -> Text:
    return Text(text[0].upper() + text[1:], style=style)


def _name_width(runs: Sequence[Run], most: int) -> int:
    longest = max((cell_len(plain(run.name, 400)) for run in runs), default=0)
    return max(min(longest, most), LEAST)


def _grid() -> Table:
    return Table.grid(padding=(0, 1), expand=True)


__all__ = ["Bars", "Intervals", "Numbers", "comparison", "console", "footer", "header"]
