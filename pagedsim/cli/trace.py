"""``pagedsim trace``: look at request traces, convert and fetch them; other files do the rest."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pagedsim.cli import trace_compare, trace_cut, trace_fit
from pagedsim.cli.listing import Listing
from pagedsim.cli.trace_from import from_
from pagedsim.cli.values import Json, NoColor, Quiet, counted, one_of
from pagedsim.present.progress import busy

app = typer.Typer(
    cls=Listing,
    help="Look at request traces; read them from logs, convert, fit, make, fetch, cut, mix them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

for _name, _command in (
    ("from", from_),
    ("fit", trace_fit.fit),
    ("make", trace_fit.make),
    ("compare", trace_compare.compare),
    ("head", trace_cut.head),
    ("sample", trace_cut.sample),
    ("shift", trace_cut.shift),
    ("merge", trace_cut.merge),
    ("filter", trace_cut.filter_),
    ("anonymise", trace_cut.anonymise),
):
    app.command(_name)(_command)

_Limit = Annotated[int | None, counted("--limit", help="only the first N requests by arrival")]
_Zero = Annotated[
    str, one_of("--zero-output", "drop", "error", help="what to do with requests of zero output")
]


@app.command()
def info(
    file: Annotated[
        str, typer.Argument(metavar="TRACE", help="a trace file, - for standard input, or a name")
    ],
    block: Annotated[int | None, counted("--block", help="block size for ideal reuse")] = None,
    limit: _Limit = None,
    zero_output: _Zero = "drop",
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Rates, length percentiles, burstiness and ideal reuse of a trace."""
    from pagedsim.cli.outputs import target, writable
    from pagedsim.trace import load, stats

    writable({"json": json}, {target(file): "the trace"}, 1)
    with busy(f"reading {file}", no_color=no_color):
        trace = load(file, zero_output=zero_output, limit=limit)  # type: ignore[arg-type]
        found = stats.summary(trace, block)
    report(found, json, _info_table, quiet=quiet, no_color=no_color)


@app.command()
def convert(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="a trace file, - for standard input, or a name")
    ],
    target: Annotated[
        str,
        typer.Argument(metavar="OUT", help="NAME.jsonl, .jsonl.gz, .jsonl.zst, .parquet or -"),
    ],
    limit: _Limit = None,
    zero_output: _Zero = "drop",
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Write a trace in pagedsim's own format, which keeps everything."""
    from pagedsim.cli.outputs import apart
    from pagedsim.trace import load, store

    store.check(target)
    apart(target, json, name="OUT")
    with busy(f"converting {source}", no_color=no_color):
        trace = load(source, zero_output=zero_output, limit=limit)  # type: ignore[arg-type]
        store.write(trace, target)
    quiet = quiet or target == "-"
    report(written(trace, target), json, written_line, quiet=quiet, no_color=no_color)


@app.command()
def fetch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="a public trace; see `pagedsim trace list`")
    ],
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Download a public trace, check it and keep it; prints where it is."""
    from pagedsim.cli.outputs import writable
    from pagedsim.present.progress import Progress
    from pagedsim.trace import fetch as public

    public.public(name)
    writable({"json": json}, {}, 1)
    with Progress(0, f"fetching {name}", bytes_=True, no_color=no_color) as bar:
        path = public.fetch(name, progress=bar.reach)
    source = public.SOURCES[name]
    found = {"name": name, "path": str(path), "url": source.url, "sha256": source.sha256}
    found["licence"] = source.licence
    report(found, json, _fetched_line, quiet=quiet, no_color=no_color)


@app.command("list")
def list_(json: Json = None, quiet: Quiet = False, no_color: NoColor = False) -> None:
    """The traces that can be given by name."""
    from pagedsim.cli.outputs import writable
    from pagedsim.trace import bundled, load
    from pagedsim.trace import fetch as public
    from pagedsim.trace.recipe import read

    writable({"json": json}, {}, 1)
    rows: list[dict[str, Any]] = []
    for name in bundled.names():
        recipe = bundled.recipe(name)
        about = read(recipe).about if recipe else ""
        requests = len(load(name))
        rows.append({"name": name, "kind": "bundled", "about": f"{requests:,} requests: {about}"})
    for name, source in public.SOURCES.items():
        kind = "fetched" if public.cached(name) else "to fetch"
        row = {"name": name, "kind": kind, "about": source.about, "licence": source.licence}
        rows.append({**row, "url": source.url})
    report({"traces": rows}, json, _list_table, quiet=quiet, no_color=no_color)


def written(trace: Any, path: str) -> dict[str, Any]:
    """What was written, for JSON."""
    counts = {"requests": len(trace), "dropped": trace.dropped, "notes": list(trace.notes)}
    tokens = {"prompt_tokens": int(trace.prompt.sum()), "output_tokens": int(trace.output.sum())}
    return {"path": path, "name": trace.name, "load": trace.load, **counts, **tokens}


def report(
    found: dict[str, Any], json: str | None, show: Any, *, quiet: bool, no_color: bool
) -> None:
    """JSON where it is asked for; for people unless standard output is taken."""
    from pagedsim.files import write_json

    write_json(json, found)
    if json != "-" and not quiet:
        from pagedsim.present.tables import console

        show(found, console(no_color=no_color))


def _info_table(found: dict[str, Any], console: Any) -> None:
    from rich.table import Table

    from pagedsim.present.numbers import count, per_cent, plain, significant
    from pagedsim.trace.stats import PERCENTS

    facts = Table.grid(padding=(0, 2))
    rows = [
        ("trace", f"{plain(found['name'], 40)} ({found['format'] or 'built'})"),
        ("requests", _requests_text(found)),
        ("load", plain(found["load"], 60)),
    ]
    if found["rate_per_s"] and found["timed"]:
        rate = (
            f"{significant(found['rate_per_s'])} requests/s over {significant(found['span_s'])} s"
        )
        rows.append(("rate", rate))
    if burst := found["burst"]:
        peak = f"busiest {burst['window_s']:g} s: {burst['peak']:.2f} of the mean"
        rows.append(("burstiness", f"gaps' CV {burst['cv']:.2f} (Poisson: 1); {peak}"))
    if turns := found["sessions"]:
        most = f"turns mean {turns['turns_mean']:.1f}, most {turns['turns_most']}"
        think = turns["think_s_median"]
        pause = "" if think is None else f"; median pause {significant(think)} s"
        rows.append(("sessions", f"{turns['sessions']:,}, {most}{pause}"))
    reuse = found["reuse"]
    share = {key: per_cent(value) for key, value in reuse.items() if key != "block"}
    rows.append(("ideal reuse", f"{share['tokens']} % of prompt tokens (unlimited cache)"))
    if reuse["tokens"] or reuse["with_outputs"]:
        parts = f"{share['blocks']} % of {reuse['block']}-token blocks; of full ones"
        rows.append(
            ("", f"{parts} {share['full_blocks']} %, {share['with_outputs']} % with outputs")
        )
    rows += [("note", note) for note in found["notes"]]
    for row in rows:
        facts.add_row(*row)
    console.print(facts)
    table = Table(box=None, pad_edge=False, padding=(0, 4, 0, 0))
    for heading in ("tokens", "prompt", "output"):
        table.add_column(heading, justify="left" if heading == "tokens" else "right")
    columns = found["prompt"], found["output"]
    table.add_row("total", *(count(column["total"]) for column in columns))
    table.add_row("mean", *(significant(column["mean"]) for column in columns))
    table.add_row("least", *(f"{column['least']:,}" for column in columns))
    for percent in PERCENTS:
        table.add_row(f"p{percent}", *(f"{column['percentiles'][percent]:,}" for column in columns))
    table.add_row("most", *(f"{column['most']:,}" for column in columns))
    console.print()
    console.print(table)


def _requests_text(found: dict[str, Any]) -> str:
    text = f"{found['requests']:,}"
    extra = [
        (found["dropped"], "left out"),
        (found["samples"] - found["requests"], "more samples"),
        (found["salts"], "salts"),
        (found["priorities"] - 1 and found["priorities"], "priorities"),
    ]
    said = ", ".join(f"{number:,} {what}" for number, what in extra if number)
    return f"{text} ({said})" if said else text


def _list_table(found: dict[str, Any], console: Any) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("name", "", "what"):
        table.add_column(heading, no_wrap=heading != "what", overflow="fold")
    for row in found["traces"]:
        table.add_row(row["name"], row["kind"], row["about"])
    console.print(table)


def written_line(found: dict[str, Any], console: Any) -> None:
    """What was written, for people."""
    from pagedsim.present.numbers import requests

    console.print(f"{found['path']}: {requests(found['requests'])}, {found['load']}")
    for note in found["notes"]:
        console.print(f"note: {note}")


def _fetched_line(found: dict[str, Any], console: Any) -> None:
    console.print(found["path"], soft_wrap=True)
