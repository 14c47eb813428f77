"""``pagedsim whatif``: what one change would give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagedsim.cli.options import ONE_RUN, Options, with_options
from pagedsim.cli.values import Allocator, counted, option

if TYPE_CHECKING:
    from pagedsim.analysis.configuration import Configuration
    from pagedsim.analysis.whatif import Metric
    from pagedsim.analysis.whatif_result import Tried, WhatIf
    from pagedsim.trace import Trace

_FILES = {"figure"}
_LOADS = {"arrivals", "concurrency"}  # of one replay, and of use here


def _whatif(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE", help="a trace file, - for standard input, or a bundled name"
        ),
    ],
    options: Options,
    allocator: Allocator = None,
    by: Annotated[
        str,
        option(
            "--by",
            metavar="METRIC",
            help="rank by batch, throughput, makespan, waste, ttft_p99, tpot_p90, …",
        ),
    ] = "ttft_p99",
    stack: Annotated[
        bool, option("--stack", help="add the best ones up, one after another, each replayed")
    ] = False,
    jobs: Annotated[
        int, counted("-j", "--jobs", most=256, help="processes; the numbers stay the same")
    ] = 1,
) -> None:
    """Compare the present configuration with one change at a time, and rank them."""
    from pagedsim.analysis.whatif import metric
    from pagedsim.cli.configurations import check_files, configurations, loaded
    from pagedsim.files import write_json
    from pagedsim.present.numbers import requests as count
    from pagedsim.present.progress import busy
    from pagedsim.present.tables import console
    from pagedsim.present.whatif import table

    ranks = metric(by)
    (present,), notes = configurations(options, [] if allocator is None else [allocator])
    present.setup(concurrency=options.concurrency or 0)
    check_files(trace, options)
    with busy(f"reading {trace}", no_color=options.no_color):
        requests = loaded(trace, options)
    found = _asked(present, requests, ranks, options, stack=stack, jobs=jobs, notes=notes)
    write_json(options.json, found)
    if not options.quiet and options.json != "-":
        console(no_color=options.no_color).print(table(found))
    if found.present.refused == found.trace.requests:
        said = f"Nothing was replayed at present. Refused {count(found.present.refused)}"
        console(no_color=options.no_color, stderr=True).print(said, soft_wrap=True)


whatif = with_options(_whatif, without=(ONE_RUN - _LOADS) | _FILES)


def _asked(
    present: Configuration,
    trace: Trace,
    by: Metric,
    options: Options,
    *,
    stack: bool,
    jobs: int,
    notes: list[str],
) -> WhatIf:
    from functools import partial

    from pagedsim.analysis.processes import in_processes
    from pagedsim.analysis.requests import trace_info
    from pagedsim.analysis.whatif import PRESENT, gain, ranked, stacked, tried
    from pagedsim.analysis.whatif_changes import changes
    from pagedsim.analysis.whatif_result import Not, WhatIf
    from pagedsim.cli.configurations import made_by
    from pagedsim.present.progress import Progress

    about = made_by(options)
    every = changes(present, trace)
    possible = [change for change in every if change.possible]
    best_of = len({change.kind for change in possible}) if stack else 0
    runs = 1 + len(possible) + best_of
    given: dict[str, Any] = {"concurrency": options.concurrency or 0}
    cases = [(PRESENT, "", present), *((c.text, c.kind, c.configuration) for c in possible)]
    with Progress(runs * len(trace), "replaying", no_color=options.no_color) as progress:

        def replay(text: str, kind: str, configuration: Configuration | None) -> Tried:
            assert configuration is not None
            return tried(text, kind, configuration, trace, by, progress=progress, **given)

        if jobs == 1:
            results = [replay(*case) for case in cases]
        else:
            results = []
            work = [(*case, trace, by) for case in cases]
            for one in in_processes(partial(tried, **given), work, jobs):
                results.append(one)
                progress(len(trace))
        now, *rest = results
        compared = [_gained(one, gain(one.value, now.value, by)) for one in rest]
        best = ranked(compared, now, by)
        added = None
        if stack:
            first = {one.kind: one for one in reversed(best)}  # the best of each kind
            by_text = {change.text: change for change in possible}
            order = [by_text[one.change] for one in best if first[one.kind] is one]
            added = stacked(now, present, order, by, replay)
    setup = present.setup(**given)
    return WhatIf(
        trace=trace_info(trace),
        by=by.name,
        higher_is_better=by.higher,
        present=now,
        changes=tuple(best),
        impossible=tuple(Not(change=c.text, kind=c.kind, why=c.why) for c in every if c.why),
        stack=None if added is None else tuple(added),
        server=present.named(),
        estimates=present.estimates(),
        notes=(*notes, *setup.notes),
        **about(),
    )


def _gained(one: Tried, gained: float | None) -> Tried:
    from msgspec.structs import replace

    return replace(one, gain=gained)


__all__ = ["whatif"]
