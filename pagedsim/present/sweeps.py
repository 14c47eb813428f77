"""Sweeps in a terminal: what ran, what stands how, what went wrong."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from pagedsim.analysis.store import Case, Failure, State
from pagedsim.analysis.sweep import Swept
from pagedsim.present.numbers import plain

REPLAYED_NOTHING = "replayed nothing, every request is refused"
_WIDTH = 80
_SHOWN = 20  # runs that are named one by one


def runs(number: int) -> str:
    """1 run, 2,000 runs."""
    return f"{number:,} run{'' if number == 1 else 's'}"


def some(names: Sequence[str], what: str) -> str:
    """What is so of a run, and of how many more: ``a and 2 more: damaged``."""
    more = f" and {len(names) - 1:,} more" if names[1:] else ""
    return f"{names[0]}{more}: {what}"


Failed = Sequence[tuple[str, Failure, str]]  # name, what went wrong, a command that shows it


def swept(found: Swept, failed: Failed, folder: str) -> RenderableType:
    """What came of a sweep."""
    total = len(found.there) + len(found.ran) + len(found.failed)
    counts = [f"{len(found.ran):,} ran"]
    counts += [f"{len(found.there):,} there already"] if found.there else []
    counts += [f"{len(found.failed):,} failed"] if found.failed else []
    parts: list[RenderableType] = [Text(f"{runs(total)}: {', '.join(counts)}", style="bold")]
    if found.damaged:
        parts.append(Text(f"Damaged, so run again: {', '.join(found.damaged)}", style="yellow"))
    parts += failures(failed)
    parts += _wrapped(f"As a table: pagedsim sweep collect {plain(folder, 50)} --out FILE.parquet")
    return Group(*parts)


def status(
    stands: Sequence[tuple[Case, State, bool]], failed: Failed, earlier: int
) -> RenderableType:
    """How each case of a folder stands."""
    counts = Counter(_word(state, at) for _, state, at in stands)
    said = [f"{count:,} {word}" for word, count in counts.items() if word != "done"]
    done = ", ".join([f"{counts['done']:,} done", *said])
    parts: list[RenderableType] = [Text(f"{runs(len(stands))}: {done}", style="bold")]
    left = [(case.name, _word(state, at)) for case, state, at in stands if state is not State.DONE]
    left = [(name, word) for name, word in left if word != "failed"]
    for name, word in left[:_SHOWN]:
        parts.append(Text(f"  {word:13} {plain(name, _WIDTH - 16)}"))
    parts += _more(len(left))
    parts += failures(failed)
    if earlier:
        parts.append(Text(f"And {earlier:,} of earlier grids"))
    return Group(*parts)


def failures(of: Failed) -> list[RenderableType]:
    """What failed: a run's name, its error and its command below."""
    parts: list[RenderableType] = []
    for name, failure, command in of[:_SHOWN]:
        parts.append(Text(f"Failed: {plain(name, _WIDTH - 8)}", style="red"))
        said = f"{failure.kind}: {failure.message}"
        parts += [Text(f"  {line}") for line in textwrap.wrap(said, _WIDTH - 2)]
        parts.append(Text(f"  {command}", style="dim"))
    return parts + _more(len(of))


def _more(number: int) -> list[RenderableType]:
    return [Text(f"  … and {number - _SHOWN:,} more")] if number > _SHOWN else []


def _word(state: State, claimed: bool) -> str:
    if claimed and state is not State.DONE:
        return "under way"
    return "to do" if state is State.ABSENT else state.value


def _wrapped(text: str) -> list[RenderableType]:
    return [Text(line) for line in textwrap.wrap(text, _WIDTH, break_long_words=False)]


__all__ = ["REPLAYED_NOTHING", "failures", "runs", "some", "status", "swept"]
