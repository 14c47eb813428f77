"""``pagedsim sweep``: many configurations into one folder, how they stand, and one table of them.

Exit code 1 says that a run failed (or, of `collect`, that one is missing).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagedsim.cli.listing import Listing
from pagedsim.cli.values import Json, NoColor, Quiet, counted, option
from pagedsim.errors import InputError, SpecError

if TYPE_CHECKING:
    from pagedsim.present.progress import Progress

_TICK_S = 0.2  # how often the bar is drawn while processes work


class _Sweep(Listing):
    """``sweep GRID.toml`` is short for ``sweep run GRID.toml``."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Sweep,
    help="Run many configurations; what is there is never run again. "
    "`pagedsim sweep GRID.toml --out DIR` is short for `sweep run`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Folder = Annotated[Path, typer.Argument(metavar="DIR", help="a folder that a sweep has filled")]


@app.command()
def run(
    grid: Annotated[Path, typer.Argument(metavar="GRID.toml", help="options, and which vary")],
    out: Annotated[Path, option("--out", metavar="DIR", help="the folder of results")],
    jobs: Annotated[
        int | None,
        counted("--jobs", "-j", most=1024, help="processes; the results stay the same  [all CPUs]"),
    ] = None,
    backend: Annotated[
        str, option("--backend", metavar="NAME", help="local, dask:ADDRESS or ray[:ADDRESS]")
    ] = "local",
    again: Annotated[
        bool, option("--again", help="run again what another version of pagedsim has left")
    ] = False,
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Run every configuration of a grid that has no result yet; exit 1 if one of them fails."""
    from pagedsim.analysis.store import Store
    from pagedsim.analysis.sweep import sweep
    from pagedsim.analysis.sweep_grid import read_grid
    from pagedsim.analysis.sweep_on import known
    from pagedsim.cli.sweep_cases import answer, cases, command
    from pagedsim.files import write_json
    from pagedsim.present.progress import Progress
    from pagedsim.present.sweeps import REPLAYED_NOTHING, some, swept
    from pagedsim.present.tables import console

    known(backend)
    if jobs is not None and backend != "local":
        raise SpecError(f"--jobs is {jobs}, but a cluster says itself how many it runs at once")
    _writable(json, grid)
    found = cases(os.fspath(grid), read_grid(grid))
    with (
        _stoppable(),
        Progress(len(found), "runs", no_color=no_color) as bar,
        _ticking(bar, len(found)) as told,
    ):
        done = sweep(
            Store(out),
            found,
            partial(answer, folder=os.getcwd()),
            jobs=jobs or len(os.sched_getaffinity(0)),
            backend=backend,
            again=again,
            told=told,
        )
    write_json(json, {"cases": found, **done._asdict()})
    if json != "-" and not quiet:
        failed = [
            (case.name, done.failed[case.key], command(case))
            for case in found
            if case.key in done.failed
        ]
        console(no_color=no_color).print(swept(done, failed, os.fspath(out)), soft_wrap=True)
    names = {case.key: case.name for case in found}
    if idle := [names[key] for key in done.idle]:
        said = console(no_color=no_color, stderr=True)
        said.print(some(idle, REPLAYED_NOTHING), soft_wrap=True)
    if done.failed:
        raise typer.Exit(1)


@app.command()
def status(
    folder: _Folder, json: Json = None, quiet: Quiet = False, no_color: NoColor = False
) -> None:
    """Say how the runs of a sweep stand: done, failed, under way, damaged, to do."""
    from pagedsim.analysis.store import State, Store
    from pagedsim.analysis.sweep import summary
    from pagedsim.cli.sweep_cases import command
    from pagedsim.files import write_json
    from pagedsim.present import sweeps
    from pagedsim.present.tables import console

    _writable(json, None)
    store = Store(folder)
    planned = store.plan().cases
    stands = list(summary(planned, store))
    failed = [
        (case, failure)
        for case, state, _ in stands
        if state is State.FAILED and (failure := store.failure(case.key)) is not None
    ]
    keys = {case.key for case in planned}
    earlier = sum(key not in keys for key in store.found())
    if json is not None:
        told = {case.key: failure for case, failure in failed}
        rows = [
            {"key": case.key, "name": case.name, "state": state.value, "under_way": at}
            | ({"failure": told[case.key]} if case.key in told else {})
            for case, state, at in stands
        ]
        write_json(json, {"runs": rows, "earlier": earlier})
    if json != "-" and not quiet:
        with_commands = [(case.name, failure, command(case)) for case, failure in failed]
        shown = sweeps.status(stands, with_commands, earlier)
        console(no_color=no_color).print(shown, soft_wrap=True)


@app.command()
def collect(
    folder: _Folder,
    out: Annotated[
        str | None, option("--out", metavar="FILE", help="the table: .parquet, a row a run")
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Make one table of all results; exit 1 if some of the grid are missing."""
    from pagedsim.analysis import sweep_table
    from pagedsim.analysis.store import Store
    from pagedsim.cli.outputs import target, writable
    from pagedsim.cli.sweep_cases import defaults
    from pagedsim.files import write_json
    from pagedsim.present.sweeps import REPLAYED_NOTHING, runs, some
    from pagedsim.present.tables import console

    if out is None and json is None:
        raise SpecError("collect: give --out FILE.parquet, --json FILE, or both")
    if out is not None and not out.endswith(".parquet"):
        raise SpecError(f"--out is {out}, must end in .parquet")
    writable({"out": out, "json": json}, {}, 1)
    store = Store(folder)
    store.plan()
    found = sweep_table.collect(store, defaults())
    if not found.rows:
        raise InputError(f"{folder}: there are no results yet")
    if out is not None:
        sweep_table.write(target(out), found.rows)
    write_json(json, found.rows)
    said = console(no_color=no_color, stderr=True)
    for names, what in (
        (found.missing, "not there yet: run the sweep again"),
        (found.damaged, "damaged: run the sweep again"),
        (found.other_version, "of another version: run the sweep again with --again"),
    ):
        if names:
            said.print(some(names, what), soft_wrap=True)
    if idle := [row["name"] for row in found.rows if row.get("steps") == 0]:
        said.print(some(idle, REPLAYED_NOTHING), soft_wrap=True)
    if json != "-" and not quiet:
        failed = sum(row["error"] is not None for row in found.rows)
        counts = [f"{failed:,} of them failed"] if failed else []
        counts += [f"{found.earlier:,} of earlier grids"] if found.earlier else []
        note = f" ({', '.join(counts)})" if counts else ""
        console(no_color=no_color).print(f"{runs(len(found.rows))}{note}")
    if found.missing or found.damaged or found.other_version:
        raise typer.Exit(1)


@contextmanager
def _stoppable() -> Iterator[None]:
    """What a scheduler of jobs sends to end a program ends it as Ctrl-C does."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _ticking(bar: Progress, total: int) -> Iterator[Any]:
    """What tells the bar; it is drawn while nothing is told too, for a first run may take long."""
    at, over = [0], threading.Event()

    def draw() -> None:
        while not over.wait(_TICK_S):
            bar.reach(at[0], total)

    def told(done: int, _: int) -> None:
        at[0] = done

    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        over.set()
        thread.join()


def _writable(json: str | None, grid: Path | None) -> None:
    from pagedsim.cli.outputs import target, writable

    writable({"json": json}, {} if grid is None else {target(os.fspath(grid)): "the grid"}, 1)


__all__ = ["app"]
