"""``pagedsim trace fit|make``: a recipe of a trace, and traces of a recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagedsim.cli.values import Json, NoColor, Quiet, counted, measured, option

if TYPE_CHECKING:
    from pagedsim.trace.recipe import Recipe

_REQUESTS = 1000  # of a trace from percentiles, where nothing else is said
_MOST = 10**8  # of a recipe
_LEARN = """\
None of the requests is in here: numbers are rates, quantiles and shares, to about a percent.
A reader can learn how busy the service was when (from the start of the trace), how long prompts,
answers and pauses are (the longest too), how many turns conversations have, and how long shared
prefixes are and how many conversations start with each; no name, date, id or content."""


def fit(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="a trace file, - for standard input, or a name")
    ],
    out: Annotated[str, option("--out", "-o", metavar="FILE", help="the recipe (TOML), or -")],
    limit: Annotated[int | None, counted("--limit", help="only the first N by arrival")] = None,
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Fit a recipe to a trace: what makes more of the same, without any request of it."""
    import msgspec

    from pagedsim.cli.outputs import apart, target
    from pagedsim.cli.trace import report
    from pagedsim.errors import SpecError
    from pagedsim.files import write_whole
    from pagedsim.present.progress import busy
    from pagedsim.trace import load
    from pagedsim.trace.fit.fit import fit as fitted
    from pagedsim.trace.fit.toml import dump

    apart(out, json)
    if out != "-" and target(source) == target(out):
        raise SpecError(f"--out: {out} is the trace as well: give another name")
    with busy(f"fitting {source}", no_color=no_color):
        trace = load(source, limit=limit)
        found = fitted(trace)
        text = dump(found.recipe, f"Made by pagedsim trace fit: {found.recipe.about}.\n{_LEARN}")
    with write_whole(out) as file:
        file.write(text.encode())
    facts = {"path": out, "requests": len(trace), "sessions": found.sessions}
    facts |= {"bytes": len(text.encode()), "notes": list(found.notes)}
    facts |= {"recipe": msgspec.to_builtins(found.recipe)}
    report(facts, json, _fitted, quiet=quiet or out == "-", no_color=no_color)


def make(
    out: Annotated[str, option("--out", "-o", metavar="FILE", help="where to write it")],
    recipe: Annotated[
        str | None,
        typer.Argument(metavar="RECIPE", help="a recipe (TOML) or the name of a bundled one"),
    ] = None,
    from_percentiles: Annotated[
        str | None,
        option(
            "--from-percentiles",
            metavar="TEXT",
            help="instead of a recipe: 'prompt p50=900 p99=6000, output mean=210, rate=5/s'",
        ),
    ] = None,
    seed: Annotated[
        int | None, counted("--seed", least=0, most=1 << 62, help="instead of the recipe's seed")
    ] = None,
    requests: Annotated[
        int | None,
        counted(
            "--requests",
            most=_MOST,
            help="instead of the recipe's number (percentiles: 1000)",
        ),
    ] = None,
    scale: Annotated[
        float | None, measured("--scale", most=1e6, help="X times the rate, and the requests")
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Make a trace from a recipe. The same recipe, seed, number and scale give the same bytes."""
    from pagedsim.cli.outputs import apart
    from pagedsim.cli.trace import report, written, written_line
    from pagedsim.present.progress import busy
    from pagedsim.trace import store
    from pagedsim.trace.make import make as made

    store.check(out)
    read = _recipe(recipe, from_percentiles)
    apart(out, json)
    said, notes = read()
    with busy(f"making {recipe or 'the trace'}", no_color=no_color):
        trace = made(said, seed=seed, requests=requests, scale=scale or 1.0)
        trace = replace(trace, notes=(*trace.notes, *notes))
        store.write(trace, out)
    quiet = quiet or out == "-"
    report(written(trace, out), json, written_line, quiet=quiet, no_color=no_color)


def _recipe(
    name: str | None, percentiles: str | None
) -> Callable[[], tuple[Recipe, tuple[str, ...]]]:
    """What gives the recipe that is meant, and how what it lacks was filled in: reads its file."""
    from pagedsim.errors import SpecError
    from pagedsim.trace import bundled
    from pagedsim.trace.percentiles import EXAMPLE, recipe_of
    from pagedsim.trace.reading import absent
    from pagedsim.trace.recipe import read

    if (name is None) == (percentiles is None):
        raise SpecError(f"give either a recipe or --from-percentiles '{EXAMPLE}'")
    if percentiles is not None:
        made = recipe_of(percentiles, requests=_REQUESTS)
        return lambda: made
    assert name is not None
    path = Path(name)

    def from_file() -> tuple[Recipe, tuple[str, ...]]:
        place = path if path.exists() else bundled.recipe(name)
        if place is None:
            raise absent(name, "recipe", [each for each in bundled.names() if bundled.recipe(each)])
        return read(place), ()

    return from_file


def _fitted(found: dict[str, Any], console: Any) -> None:
    from pagedsim.present.numbers import bytes_, requests

    console.print(
        f"{found['path']}: {bytes_(found['bytes'])}, fitted to {requests(found['requests'])} in "
        f"{found['sessions']:,} session{'' if found['sessions'] == 1 else 's'}"
    )
    console.print(" ".join(_LEARN.splitlines()))
    for note in found["notes"]:
        console.print(f"note: {note}")


__all__ = ["fit", "make"]
