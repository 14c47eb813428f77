"""What `pagedsim plan` prints: a row a candidate, and for each the replays at both ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pagedsim.analysis.plan_slo import COUNTS, Bound
from pagedsim.present.labels import labels
from pagedsim.present.numbers import NONE, count, plain, requests, significant

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pagedsim.analysis.plan_result import Answer, Choices, Plan, Replay

_SOUGHT = {  # headings of what is sought
    "rate": "highest\nreq/s",
    "kv-tokens": "smallest pool\nKV tokens",
    "max-len": "longest\nmax length",
    "gpus": "fewest\nservers",
    "batch": "outstanding\nrequests",
}
WIDTH = 80  # cells of a line of text
_NAME = 24  # cells of an allocator's name
_LAST = {  # why there is no failing end
    "kv-tokens": "nothing smaller holds the longest request",
    "max-len": "nothing longer: the model's, or what the pool holds",
    "gpus": "one server is enough",
    "batch": "that is all of the trace's requests",
}
_VARIED = (  # heading, field of Choices
    ("allocator", "allocator"),
    ("GPU", "gpu"),
    ("tp", "tp"),
    ("KV", "kv_dtype"),
    ("max\nseqs", "max_seqs"),
    ("token\nbudget", "max_batched_tokens"),
)


def table(plan: Plan) -> RenderableType:
    """The answer; 80 columns are enough."""
    answers = plan.answers
    parts: list[RenderableType] = [*_head(plan), "", _rows(plan)]
    for at, one in enumerate(answers, 1):
        parts += ["", *_ends(plan, one, at if len(answers) > 1 else 0)]
    said = dict.fromkeys(line for one in answers for line in (*one.estimates, *one.notes))
    said |= dict.fromkeys(plan.notes)
    parts += ["", *(Text(plain(line, 400), "dim") for line in said)] if said else []
    return Group(*parts)


def _head(plan: Plan) -> list[RenderableType]:
    trace, first = plan.trace, plan.answers[0].choices
    lines: list[RenderableType] = [
        Text.assemble(
            (plain(trace.name, 30), "bold"),
            f" · {requests(trace.requests)} · {plain(trace.load, 34)}{_wanted(plan)}",
        ),
        Text(f"Holds: {plan.objective}"),
    ]
    same = [f"{first.model}"]
    if len({one.choices.gpu for one in plan.answers}) == 1:
        cards = first.tp * first.pp
        one_size = len({one.choices.tp for one in plan.answers}) == 1
        same.append(f"{cards}x {first.gpu}" if one_size and cards > 1 else first.gpu)
    if len({one.choices.allocator for one in plan.answers}) == 1:
        same.append(plain(first.allocator, _NAME))
    lines.append(Text(f"Server: {' · '.join(same)}"))
    return lines


def _wanted(plan: Plan) -> str:
    return "" if plan.wanted_rate is None else f" · {significant(plan.wanted_rate)}/s"


def _rows(plan: Plan) -> Table:
    answers = plan.answers
    varied = _varied([one.choices for one in answers])
    priced = any(one.cost for one in answers)
    gap = 2 if len(varied) + priced < 4 else 1
    shown = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    if len(answers) > 1:
        shown.add_column("\n#", justify="right")
    for heading, _ in varied:
        side = "left" if heading in ("allocator", "GPU", "KV") else "right"
        heading = heading if "\n" in heading else f"\n{heading}"
        shown.add_column(heading, justify=side, no_wrap=True)  # type: ignore[arg-type]
    rates = plan.find == "rate"
    headings = (_SOUGHT[plan.find], "batch\nthere", *(["queue\nfull"] if rates else []), "\nGPUs")
    for heading in headings:
        shown.add_column(heading, justify="right", no_wrap=True)
    if priced:
        shown.add_column("1M out\ncosts", justify="right", no_wrap=True)
    shown.add_column("\nbinds", no_wrap=True)
    for at, one in enumerate(answers):
        row = [str(at + 1)] if len(answers) > 1 else []
        row += [cells[at] for _, cells in varied]
        row += [_found(plan, one), _batch(one.passes)]
        row += [_batch(one.saturated)] if rates else []
        row.append(NONE if one.gpus is None else f"{one.gpus:,}")
        if priced:
            row.append(NONE if one.cost is None else significant(one.cost.output))
        row.append(one.binds or NONE)
        shown.add_row(*map(Text, row))
    return shown


def _varied(choices: Sequence[Choices]) -> list[tuple[str, list[str]]]:
    """Headings and cells of what tells candidates apart."""
    names = [field for _, field in _VARIED]
    for name in reversed(names):  # limits often follow from the GPU: then it says enough
        others = [field for field in names if field != name]
        if len({tuple(getattr(one, field) for field in others) for one in choices}) == len(choices):
            names = others
    found = []
    for heading, field in _VARIED:
        values = [getattr(one, field) for one in choices]
        if field in names:
            room = _NAME if len(names) < 3 else _NAME // 2
            cells = (
                labels([str(value) for value in values], room)
                if field == "allocator"
                else (
                    [
                        f"{value:,}" if isinstance(value, int) else plain(value, 16)
                        for value in values
                    ]
                )
            )
            found.append((heading, cells))
    return found


def names(plan: Plan) -> list[str]:
    """What tells each candidate apart, in a line; the allocator where there is one only."""
    choices = [one.choices for one in plan.answers]
    varied = [
        cells if heading in ("allocator", "GPU") else [f"{_line(heading)} {cell}" for cell in cells]
        for heading, cells in _varied(choices)
    ]
    if not varied:
        return [one.allocator for one in choices]
    return [" · ".join(cells) for cells in zip(*varied, strict=True)]


def _line(heading: str) -> str:
    return heading.replace("\n", " ")


def _found(plan: Plan, one: Answer) -> str:
    if plan.find == "rate":
        return "no limit" if one.unlimited else significant(one.rate)
    return NONE if one.found is None else f"{int(one.found):,}"


def _batch(replay: Replay | None) -> str:
    return NONE if replay is None else significant(replay.batch_mean)


def _ends(plan: Plan, one: Answer, number: int) -> list[RenderableType]:
    """The replays between which it stops to hold, or why there are none."""
    name = f"{number}  " if number else ""
    if one.impossible:
        return [Text.assemble(name, ("impossible: ", "yellow"), plain(one.impossible, 700))]
    bounds = plan.objective.bounds
    lines: list[RenderableType] = []
    if one.unlimited and plan.find == "rate":
        text = f"{name}holds even with all requests at time 0: "
        lines.append(Text(text + _values(bounds, one.saturated)))
    for word, replay in (("holds at", one.passes), ("fails at", one.fails)):
        if replay is None or replay.at is None:
            continue
        values = _values(bounds, replay)
        if replay is one.fails and replay.holds:  # what is within serves fewer than it should
            values += f", but {replay.refused:,} refused"
        lines.append(_wrapped(f"{name}{word} {_place(plan, replay)}: {values}", len(name)))
        name = " " * len(name)
    if one.unlimited and plan.find != "rate":
        lines.append(Text(f"{name}{_LAST[plan.find]}"))
    if one.advice is not None:
        lines.append(Text(f"{name}{_advised(plan, one)}"))
    if plan.find == "rate" and one.replicas is not None and one.rate is not None:
        cards = one.choices.tp * one.choices.pp
        wanted = significant(plan.wanted_rate)
        each = f" of {cards} GPUs" if cards > 1 else ""
        servers = f"{one.replicas:,} server{'s' if one.replicas > 1 else ''}{each}"
        lines.append(Text(f"{name}{wanted}/s needs {servers} (estimate: the rates' quotient)"))
    if not one.monotone:
        text = "it holds again at something harder than one at which it fails: not monotone"
        lines.append(Text(f"{name}{text}", "yellow"))
    if one.passes is not None and (one.passes.refused or one.passes.truncated):
        cut = f"{one.passes.refused:,} refused, {one.passes.truncated:,} truncated"
        lines.append(Text(f"{name}{cut}: refused ones are not in the latencies", "yellow"))
    return lines


def _place(plan: Plan, replay: Replay) -> str:
    """Where a replay stands: a rate, or what was sought."""
    options = " ".join(replay.options)
    if plan.find == "rate":
        return f"{significant(replay.rate)}/s ({options})"
    found = f"{int(replay.at or 0):,}"
    if plan.find != "gpus":
        return options
    return f"{found} server{'s' if replay.at != 1 else ''}"


def _advised(plan: Plan, one: Answer) -> str:
    """What one change gives, unless it is less than the search can tell."""
    advice = one.advice
    assert advice is not None
    if advice.gain is not None and advice.gain <= plan.tolerance:
        return f"none of {advice.tried} changes gives more than {100 * plan.tolerance:g} %"
    if advice.rate is None or advice.gain is None:
        more = "no limit"
    else:
        more = f"{significant(advice.rate)}/s (+{100 * advice.gain:.1f} %)"
    return f"of {advice.tried} changes {advice.change} gives the most: {more}"


def _wrapped(text: str, indent: int) -> Text:
    """In lines of a terminal; what goes on stands further in, and no number parts from its unit."""
    bound = re.sub(r"(?<=[0-9]) (?=\S{1,2}(?:,|$))", "\N{NO-BREAK SPACE}", text)
    lines = wrap(bound, WIDTH, subsequent_indent=" " * (indent + 2), break_on_hyphens=False)
    return Text("\n".join(lines).replace("\N{NO-BREAK SPACE}", " "))


def _values(bounds: Sequence[Bound], replay: Replay | None) -> str:
    if replay is None:
        return ""
    pairs = zip(bounds, replay.values, strict=True)
    return ", ".join(f"{bound.name} {value_text(bound, value)}" for bound, value in pairs)


def value_text(bound: Bound, value: float | None) -> str:
    """``1.92 s``, ``58.1 ms``, ``3``, ``0.4 %``."""
    if value is None:
        return NONE
    if bound.metric in COUNTS:
        return f"{significant(100 * value)} %" if bound.share else count(int(value))
    return f"{significant(value)} s" if value >= 1 else f"{significant(1000 * value)} ms"


__all__ = ["names", "table", "value_text"]
