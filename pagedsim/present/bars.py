"""Where the memory went, as a bar: its terms told apart by character and by colour.

A bar stretches over the width it is given. Its cells are handed out by largest remainder, so they
always fill the bar and no term is off by a whole cell. Where the terminal is not Unicode, letters
stand in for the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.measure import Measurement
from rich.segment import Segment
from rich.text import Text

from pagedsim.analysis.results import GROUP_TERMS, TERMS, Memory
from pagedsim.present.palette import COLORS

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

STYLES = {**COLORS, "idle": "bright_black"}  # its colour is a page's ground
_BLOCKS = dict(zip(GROUP_TERMS, "█▒░x=+~·", strict=True))
_LETTERS = dict(zip(GROUP_TERMS, "#roxcp~.", strict=True))


@dataclass(frozen=True)
class Bar:
    """The account of one run; empty where no step ran."""

    memory: Memory

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(10, options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Nothing but a word where no step ran."""
        if self.memory.live is None:
            yield Text("no step ran", style="dim")
            return
        marks = _LETTERS if options.ascii_only else _BLOCKS
        for term, count in cells(self.memory, options.max_width):
            yield Segment(marks[term] * count, console.get_style(STYLES[term]))
        yield Segment.line()


@dataclass(frozen=True)
class Legend:
    """What the characters of a `Bar` mean, of `terms`."""

    terms: tuple[str, ...] = TERMS

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lines are broken between terms only."""
        marks = _LETTERS if options.ascii_only else _BLOCKS
        line = Text()
        for term in self.terms:
            item = Text.assemble((marks[term], STYLES[term]), f" {term}")
            if line and line.cell_len + 3 + item.cell_len > options.max_width:
                yield line
                line = Text()
            line = Text("   ").join([line, item]) if line else item
        yield line


@dataclass(frozen=True)
class Scale:
    """0, 50 and 100 % over the bars."""

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(10, options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        middle = "50 %".center(width - 2 * len("100 %"))
        yield Text(f"0 %  {middle}100 %"[:width], style="dim", no_wrap=True)


def cells(memory: Memory, width: int) -> Iterator[tuple[str, int]]:
    """Each term's cells of a bar of `width`; they add up to `width` unless nothing ran."""
    shares = {term: getattr(memory, term) for term in memory.terms}
    if any(share is None for share in shares.values()):
        return
    exact = {term: share * width for term, share in shares.items()}
    counts = {term: int(value) for term, value in exact.items()}
    by_rest = sorted(memory.terms, key=lambda term: counts[term] - exact[term])
    for term in by_rest[: width - sum(counts.values())]:
        counts[term] += 1
    yield from counts.items()


__all__ = ["STYLES", "Bar", "Legend", "Scale", "cells"]
