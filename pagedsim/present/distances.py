"""Two traces side by side: means, distances, and in words where they differ."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from pagedsim.analysis.distances import POOR, Distances
from pagedsim.present.numbers import NONE, plain, significant


def show(found: Distances, console: Console) -> None:
    """The table, then what is poor. Fits 80 columns."""
    for key, name, count in (("a", found.a, found.requests_a), ("b", found.b, found.requests_b)):
        console.print(plain(f"{key}: {name}, {count:,} requests", 78), markup=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("mean of", "a", "b", "b to a", "KS", "Wasserstein"):
        table.add_column(heading, justify="left" if heading == "mean of" else "right")
    for each in found.spreads:
        error = None
        if each.mean_a and each.mean_b is not None:
            error = each.mean_b / each.mean_a - 1
        table.add_row(
            f"{each.name} ({each.unit})",
            significant(each.mean_a),
            significant(each.mean_b),
            _signed(error),
            NONE if each.ks is None else f"{each.ks:.3f}",
            NONE if each.wasserstein is None else f"{100 * each.wasserstein:.1f} %",
        )
    for one in found.singles:
        share = one.unit == "of prompt tokens"
        table.add_row(
            f"{one.name} ({one.unit})",
            *(significant(value) for value in (one.a, one.b)),
            f"{one.error:+.3f}" if share and one.error is not None else _signed(one.error),
            "",
            "",
        )
    if found.hits is not None:
        table.add_row("hit-rate curve, most apart", "", "", f"{found.hits.largest:.3f}", "", "")
    console.print(table)
    if not found.poor:
        console.print(f"No distance or error is above {POOR:g}, or chance explains it.")
    for said in found.poor:
        console.print(plain(f"poor: {said}", 400), markup=False)


def _signed(error: float | None) -> str:
    return NONE if error is None else f"{100 * error:+.1f} %"


__all__ = ["show"]
