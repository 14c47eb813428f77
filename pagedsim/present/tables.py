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

from pagedsim.analysis.results import TERMS, Result, Run
from pagedsim.present.answer import unserved
from pagedsim.present.bars import Bar, Legend, Scale
from pagedsim.present.labels import labels, least
from pagedsim.present.numbers import bytes_, count, per_cent, plain, requests, significant

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType, RenderResult

_ALL_SERVED = ("Nothing refused or truncated", "dim")
_REASONS = {
    "prompt": "prompts of up to {most:,} tokens, must be <= {bound:,} (--max-len)",
    "capacity": "up to {most:,} tokens to store, must be <= {bound:,}",
}
TRACE = 30  # cells of a trace's name
WANTED = 12  # cells of a run's name for which a number is left out, if it is that long
LEAST = 8  # cells of a run's name, however narrow the terminal

_HEADINGS = (
    *("live\n%", "waste\n%", "batch\nmean", "\npeak", "preempt-\nions", "hit\n%"),
    *("TTFT s\np50", "\np99", "TPOT\np50 ms", "\nreq/s"),
)
_HIT = 5  # column of `_HEADINGS` left out where no run has a hit
_LEAVE = (8, 4, 7, 3, 6, 9, 2)  # columns left out one by one where the terminal is too narrow
_SEEDED = (
    ("live %", "memory.live", 100),
    ("waste %", "memory.waste", 100),
    ("batch mean", "batch.mean", 1),
    ("TTFT p50 s", "latency.ttft_s.p50", 1),
    ("req/s", "throughput.requests_per_s", 1),
)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would end the program with exit code 1, which means something else here."""
        raise BrokenPipeError


def console(
    *, no_color: bool = False, file: IO[str] | None = None, stderr: bool = False
) -> Console:
    """A console that prints what it is given: no markup, and no control codes but to a terminal.

    Colours go with `no_color`, or where NO_COLOR is set.
    """
    return _Console(
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
        f"{engines} replicas" if (engines := len(result.runs[0].replicas)) else "",
    )
    first = Text.assemble(
        (plain(trace.name, TRACE), "bold"),
        f" · {requests(trace.requests)} · {count(trace.prompt_tokens)} in"
        f" + {count(trace.output_tokens)} out tokens",
    )
    load = Text(f"Load: {plain(trace.load or 'not stated', 72)}")
    pool = Text("Pool: " + " · ".join(fact for fact in facts if fact))
    notes = [Text(plain(_sentence(note), 400), "yellow") for note in trace.notes]
    return [first, load, pool, *_unserved(result.runs, not notes), *notes]


def footer(result: Result) -> list[RenderableType]:
    """The span of the averages if it is not the whole run, what was assumed, what was said."""
    lines: list[str] = []
    spans = {
        f"Averages over {significant(run.span.from_s)} to {significant(run.span.to_s)} s"
        for run in result.runs
        if run.span is not None and not run.span.whole
    }
    lines += sorted(spans)
    known = [run.provenance for run in result.runs]
    lines += dict.fromkeys(plain(word, 400) for part in known for word in part.estimates)
    lines += dict.fromkeys(plain(word, 400) for part in known for word in part.notes)
    lines += dict.fromkeys(_sentence(part.scheduling) for part in known)
    return ["", *(Text(line, style="dim") for line in lines)] if lines else []


@dataclass(frozen=True)
class Bars:
    """A bar a run, a scale over them and the legend below."""

    runs: Sequence[Run]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Bars take what the names leave."""
        named = labels(_names(self.runs), max(options.max_width - 41, LEAST))
        width = max(*map(cell_len, named), LEAST)
        table = _grid()
        table.add_column(width=width, no_wrap=True)
        table.add_column(ratio=1)
        table.add_row("", Scale())
        for name, run in zip(named, self.runs, strict=True):
            table.add_row(Text(name), Bar(run.memory))
        yield table
        yield Legend(max((run.memory.terms for run in self.runs), key=len, default=TERMS))


@dataclass(frozen=True)
class Numbers:
    """The numbers of each run; the hit rate only where there is one."""

    runs: Sequence[Run]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Names are shortened to what the numbers leave, and then numbers left out."""
        rows = [_row(run) for run in self.runs]
        leave = [] if any(run.prefix.hit_tokens for run in self.runs) else [_HIT]
        yield _under_names(self.runs, _HEADINGS, rows, options.max_width, leave, _LEAVE)


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
        headings = [name for name, _, _ in _SEEDED]
        yield _under_names(seeded, headings, rows, options.max_width, [], (3, 4, 2))


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
    runs: Sequence[Run],
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    without: Sequence[int],
    leave: Sequence[int],
) -> Table:
    """A table with the runs' names at the left, right-aligned numbers, two lines of headings.

    Columns `without` are left out; those of `leave` too, one by one, while a name has no room.
    """
    widths = {
        i: max(*map(cell_len, heading.split("\n")), *(cell_len(row[i]) for row in rows), 1)
        for i, heading in enumerate(headings)
        if i not in without
    }
    wanted = max(min(least(_names(runs)), WANTED), LEAST)
    for i in leave:
        if sum(widths.values()) + len(widths) + wanted <= width:
            break
        widths.pop(i, None)
    room = max(width - sum(widths.values()) - len(widths), LEAST)
    named = labels(_names(runs), room)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, expand=False)
    table.add_column(width=max(*map(cell_len, named), LEAST), no_wrap=True)
    for i, cells in widths.items():
        table.add_column(Text(headings[i]), width=cells, justify="right", no_wrap=True)
    for name, row in zip(named, rows, strict=True):
        table.add_row(Text(name), *(Text(row[i]) for i in widths))
    return table


def _unserved(runs: Sequence[Run], dropped: bool) -> list[RenderableType]:
    """What was refused or truncated and why: once if it is the same for all runs, else for each."""
    said = [_unserved_by(run, dropped) for run in runs]
    if len(set(said)) == 1:
        return [Text(line, style) for line, style in said[0]]
    lines: list[RenderableType] = []
    for name, own in zip(labels(_names(runs), 24), said, strict=True):
        for line, style in own:
            lines.append(Text.assemble(f"{name}: ", (line[:1].lower() + line[1:], style)))
    return lines


def nothing_ran(found: Result) -> list[str]:
    """A line for each run of which no step ran, and why; once if that is all of them alike."""
    idle = [run for run in found.runs if not run.steps]
    why = [". ".join(line for line, _ in _unserved_by(run, False)) for run in idle]
    if len(idle) == len(found.runs) and len(set(why)) == 1:
        return [f"Nothing was replayed. {why[0]}"]
    return [
        f"{run.name}: nothing was replayed. {said}" for run, said in zip(idle, why, strict=True)
    ]


def _unserved_by(run: Run, dropped: bool) -> tuple[tuple[str, str], ...]:
    """Lines and their styles."""
    words = unserved(run)
    lines = [(_sentence(", ".join(words)), "yellow")] if words else [_ALL_SERVED]
    for reason, text in _REASONS.items():
        of = [refused for refused in run.refused_requests if refused.reason == reason]
        if of:
            most, bound = max(refused.value for refused in of), of[0].bound
            text = text.format(most=most, bound=bound)
            lines.append((f"{_sentence(text)}: {requests(len(of))}", "dim"))
    if run.dropped and dropped:
        lines.append((f"Rows without output, left out: {run.dropped:,}", "yellow"))
    return tuple(lines)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _names(runs: Sequence[Run]) -> list[str]:
    return [run.name for run in runs]


def _grid() -> Table:
    return Table.grid(padding=(0, 1), expand=True)


__all__ = [
    "Bars",
    "Intervals",
    "Numbers",
    "comparison",
    "console",
    "footer",
    "header",
    "nothing_ran",
]
