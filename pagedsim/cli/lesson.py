"""``pagedsim lesson``: a page that teaches the KV cache, with ten things to move."""

from __future__ import annotations

from typing import Annotated

import typer

from pagedsim.cli.values import NoColor, one_of


def lesson(
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="write the page: .html, opens from disk")
    ],
    lang: Annotated[str, one_of("--lang", "en", "zh", help="English or Simplified Chinese")] = "en",
    json: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="write the page's numbers to FILE, - for standard output"
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="say nothing")] = False,
    no_color: NoColor = False,
) -> None:
    """Write a page that teaches the KV cache: ten things to move, from the first pass to paging."""
    import os

    from pagedsim.analysis.lesson.numbers import lesson as made
    from pagedsim.cli.outputs import target, writable
    from pagedsim.files import write_json
    from pagedsim.present import formats
    from pagedsim.present import lesson as present
    from pagedsim.present.progress import Progress

    formats.suffix(out, formats.PAGES)
    writable({"out": out, "json": json}, {}, 1)
    with Progress(0, "replaying", no_color=no_color) as progress:
        numbers = made(progress.reach)
    present.save(numbers, target(out), lang)
    write_json(json, numbers)
    if json != "-" and not quiet:
        size = os.path.getsize(out) / 1000
        print(
            f"{out}: {size:,.0f} kB, {len(present.SECTIONS)} things to move; open it in a browser"
        )


__all__ = ["lesson"]
