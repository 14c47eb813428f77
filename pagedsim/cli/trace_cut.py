"""``pagedsim trace head|sample|shift|merge|filter``: cut and mix, conversations whole."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pagedsim.cli.values import Json, NoColor, Quiet, counted, measured, number, option, whole
from pagedsim.errors import SpecError

_In = Annotated[
    str, typer.Argument(metavar="IN", help="a trace file, - for standard input, or a name")
]
_Out = Annotated[
    str, option("--out", "-o", metavar="FILE", help="NAME.jsonl, .jsonl.gz, .jsonl.zst, .parquet")
]


def head(
    source: _In,
    out: _Out,
    requests: Annotated[int | None, counted("--requests", help="up to N requests in all")] = None,
    seconds: Annotated[
        float | None, measured("--seconds", help="conversations that start this early")
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """The conversations that start first, whole."""
    from pagedsim.trace import cut

    if (requests is None) == (seconds is None):
        raise SpecError("give --requests N or --seconds X")
    _one(
        source,
        out,
        json,
        (quiet, no_color),
        lambda trace: cut.head(trace, requests=requests, seconds=seconds),
    )


def sample(
    source: _In,
    out: _Out,
    share: Annotated[float, measured("--share", most=1.0, help="probability of each conversation")],
    seed: Annotated[int, counted("--seed", least=0, most=1 << 62, help="of the draw")] = 0,
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """A random share of the conversations, each whole. The same seed takes the same ones."""
    from pagedsim.trace import cut

    _one(source, out, json, (quiet, no_color), lambda trace: cut.sample(trace, share, seed=seed))


def shift(
    source: _In,
    out: _Out,
    seconds: Annotated[
        str | None,
        option("--seconds", metavar="X", help="later by X, may be negative  [first at 0]"),
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """All arrivals later or earlier."""
    from pagedsim.trace import cut

    by = None
    if seconds is not None:
        size = number("--seconds", seconds.lstrip("+-"), most=1e9)
        by = -size if seconds.startswith("-") else size
    _one(source, out, json, (quiet, no_color), lambda trace: cut.shift(trace, by))


def merge(
    sources: Annotated[list[str], typer.Argument(metavar="IN", help="two traces or more")],
    out: _Out,
    same_content: Annotated[
        bool, option("--same-content", help="equal token ids mean equal tokens, as in parts of one")
    ] = False,
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """All requests of some traces, by arrival; their contents stay apart."""
    from pagedsim.cli.outputs import apart
    from pagedsim.trace import cut, load, store

    if len(sources) < 2:
        raise SpecError("merge needs two traces or more")
    store.check(out)
    apart(out, json)
    traces = [load(source) for source in sources]
    _write(traces, cut.merge(traces, same_content=same_content), out, json, (quiet, no_color))


def filter_(
    source: _In,
    out: _Out,
    prompt: Annotated[
        str | None, option("--prompt", metavar="A:B", help="tokens of every prompt")
    ] = None,
    output: Annotated[
        str | None, option("--output", metavar="A:B", help="tokens of every output")
    ] = None,
    turns: Annotated[
        str | None, option("--turns", metavar="A:B", help="requests of a conversation")
    ] = None,
    seconds: Annotated[
        str | None, option("--seconds", metavar="A:B", help="arrivals of all its requests")
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Conversations of which every request is within bounds; A: and :B are open."""
    from pagedsim.trace import cut

    given = {"prompt": prompt, "output": output, "turns": turns, "seconds": seconds}
    bounds = {name: _bounds(f"--{name}", text) for name, text in given.items() if text is not None}
    if not bounds:
        raise SpecError(f"give one of {', '.join(f'--{name} A:B' for name in given)}")
    _one(source, out, json, (quiet, no_color), lambda trace: cut.keep(trace, **bounds))


def anonymise(
    source: _In,
    out: _Out,
    round_to: Annotated[
        int, counted("--round", most=1 << 20, help="lengths to multiples of N tokens")
    ] = 1,
    jitter: Annotated[
        float | None, measured("--jitter", most=1e9, help="move times by up to X seconds")
    ] = None,
    seed: Annotated[
        int | None,
        counted("--seed", least=0, most=1 << 62, help="of the jitter  [drawn, and not kept]"),
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Drop names and ids, round lengths, jitter times; says what a reader could still learn."""
    from pagedsim.trace.anonymise import anonymise as told_less

    _one(
        source,
        out,
        json,
        (quiet, no_color),
        lambda trace: told_less(trace, round_to=round_to, jitter_s=jitter or 0.0, seed=seed),
    )


def _bounds(name: str, text: str) -> Any:
    from pagedsim.trace.cut import Bounds

    low, sign, high = text.partition(":")
    if not sign or not (low or high):
        raise SpecError(f"{name} is {text}, must be A:B, A: or :B")
    ends: list[float | None] = []
    for end in (low, high):
        if not end:
            ends.append(None)
        elif name == "--seconds" and end != "0":
            ends.append(number(name, end))
        else:
            ends.append(float(whole(name, end, least=0)))
    if ends[0] is not None and ends[1] is not None and ends[0] > ends[1]:
        raise SpecError(f"{name} is {text}: {low} is more than {high}")
    return Bounds(*ends)


def _one(source: str, out: str, json: str | None, look: tuple[bool, bool], change: Any) -> None:
    """Read, change and write; `look`: whether to be quiet, and without colours."""
    from pagedsim.cli.outputs import apart
    from pagedsim.present.progress import busy
    from pagedsim.trace import load, store

    store.check(out)
    apart(out, json)
    with busy(f"reading {source}", no_color=look[1]):
        trace = load(source)
        after = change(trace)
    _write([trace], after, out, json, look)


def _write(
    traces: list[Any], after: Any, out: str, json: str | None, look: tuple[bool, bool]
) -> None:
    from pagedsim.cli.trace import report, written
    from pagedsim.trace import cut, store

    rows = cut.effect(traces, after)
    store.write(after, out)
    found = {**written(after, out), "before": rows[:-1], "after": rows[-1]}
    report(found, json, _table, quiet=look[0] or out == "-", no_color=look[1])


def _table(found: dict[str, Any], console: Any) -> None:
    from rich.table import Table

    from pagedsim.present.numbers import per_cent, plain, significant

    console.print(plain(f"{found['path']}: {'; '.join(found['notes'][-1:])}", 400))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    headings = ("", "requests", "convers.", "req/s", "prompt", "output", "reuse %", "with outputs")
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    rows = [*((plain(row["name"], 14), row) for row in found["before"]), ("after", found["after"])]
    for name, row in rows:
        table.add_row(
            name,
            f"{row['requests']:,}",
            f"{row['conversations']:,}",
            "–" if row["rate_per_s"] is None else significant(row["rate_per_s"]),
            significant(row["prompt_mean"]),
            significant(row["output_mean"]),
            per_cent(row["reuse"]),
            per_cent(row["reuse_with_outputs"]),
        )
    console.print(table)


__all__ = ["anonymise", "filter_", "head", "merge", "sample", "shift"]
