"""Fitted step times in a terminal: coefficients, and how far off by what a step does."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pagedsim.device.fitted import Fitted
from pagedsim.present.numbers import NONE, count, plain

_SIZES = {"all": "", "small": "small batch", "large": "large batch"}


def table(found: Sequence[Fitted], chosen: Fitted, out: str | None) -> RenderableType:
    """All fits side by side, the chosen one's name marked, and how it is used."""
    first = found[0]
    parts: list[RenderableType] = [
        Text(f"{plain(first.source, 40)} · {count(first.rows)} measured steps", style="bold")
    ]
    for fit in found:
        mark = " (chosen)" if fit is chosen and len(found) > 1 else ""
        parts.append(Text(f"{fit.kind}{mark}: {fit.spec().partition(':')[2].replace(',', ', ')}"))
        if fit.assumed:
            parts.append(Text(f"  {', '.join(fit.assumed)}: assumed, for no row tells"))
    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    shown.add_column("% off")
    shown.add_column("")
    shown.add_column("rows", justify="right")
    for fit in found:
        for heading in (f"{fit.kind}\nmean", "\nworst", "\nbias"):
            shown.add_column(heading, justify="right")
    for at, region in enumerate(first.errors):
        cells = ["" if region.batch != "all" else region.region, _SIZES[region.batch]]
        cells.append(count(region.rows))
        for fit in found:
            one = fit.errors[at]
            cells += [_off(one.mean), _off(one.worst), f"{100 * one.bias:+.1f}"]
        shown.add_row(*(Text(cell) for cell in cells))
    parts += ["", shown, ""]
    said = f"--steptime fitted:{out}" if out is not None and out != "-" else chosen.spec()
    if out is None:
        said = f"--steptime {said}"
    parts += [Text(line) for line in textwrap.wrap(f"Use it: {said}", 80, break_on_hyphens=False)]
    return Group(*parts)


def _off(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.1f}"


__all__ = ["table"]
