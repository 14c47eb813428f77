"""What `pagedsim size` prints: a sizing as tables, at most 80 columns wide."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from pagedsim.device.gpu import GIB
from pagedsim.device.sizing import Sizing, WorkCounts
from pagedsim.present.tables import console as make_console

WIDTH = 80


def show(result: Sizing, *, no_color: bool = False) -> None:
    """Print a sizing, at most 80 columns wide."""
    console = make_console(no_color=no_color)
    console.width = WIDTH
    d = result.device
    console.print(
        Text(f"{d.model} on {d.gpu}, tp {d.tp}, pp {d.pp}", "bold"),
        f"({d.attention}, {d.params / 1e9:.2f}B parameters"
        + (f", {d.active_params / 1e9:.2f}B active)" if d.active_params != d.params else ")"),
    )
    for caveat in result.caveats:
        console.print(Text(f"Note: {caveat}.", "yellow"))
    if result.caveats:
        console.print(Text("--available-gib estimate sizes each kind for what it keeps.", "yellow"))
    console.print(_main(result))
    console.print(_steps(result))
    console.print(_decode(result))
    if result.work is not None:
        console.print(_work(result.work))
        console.print(_bounds(result))
    console.print(Text("Where the numbers come from", "bold"))
    sources = Table(box=None, show_header=False, padding=(0, 1))
    for name, why in result.provenance.items():
        sources.add_row(name, why)
    console.print(sources)


def _main(result: Sizing) -> Table:
    d = result.device
    called = "estimate" if d.estimated else "stated"
    share = (
        "" if d.tp * d.pp == 1 else f"; {size_text(d.kv_bytes_per_token_rank)} on the fullest rank"
    )
    rank = "" if d.tp * d.pp == 1 else f"; {size_text(d.weights_bytes_rank)} on the largest rank"
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_row("KV of a token", f"{size_text(d.kv_bytes_per_token)} ({d.kv_dtype}){share}")
    table.add_row("weights", f"{size_text(d.weights_bytes)} ({d.weights_dtype}, counted){rank}")
    table.add_row(
        "activation peak",
        f"{size_text(d.activation_bytes)} at {d.max_batched_tokens:,} tokens a step (estimate)",
    )
    where = "" if d.tp * d.pp == 1 else " a rank"
    table.add_row(
        "KV pool",
        f"{size_text(d.pool_bytes)}{where}: {d.blocks:,} blocks of {d.block} = "
        f"{d.capacity_tokens:,} tokens ({called})",
    )
    table.add_row(
        "longest sequences",
        f"{result.sequences_of_max_len:,} of {result.max_len:,} tokens fit at once "
        f"(engines print {result.concurrency:.2f}x)",
    )
    table.add_row(
        "KV equals weights",
        f"at {result.kv_equals_weights_tokens:,} tokens in all",
    )
    return table


def _steps(result: Sizing) -> Table:
    table = titled("How the pool shrinks with the tokens of a step (estimate)")
    for name in ("tokens a step", "activation peak", "KV pool", "tokens"):
        table.add_column(name, justify="right")
    for room in result.step_room:
        table.add_row(
            f"{room.max_batched_tokens:,}",
            size_text(room.activation_bytes),
            "none" if room.pool_bytes is None else size_text(room.pool_bytes),
            "none" if room.capacity_tokens is None else f"{room.capacity_tokens:,}",
        )
    return table


def _decode(result: Sizing) -> Table:
    table = titled("Decode tokens/s against context (estimate)")
    for name in ("context", "one sequence", "bound by", "batch that fits", "in all", "bound by"):
        table.add_column(name, justify="right")
    for rate in result.decode:
        table.add_row(
            f"{rate.context:,}",
            f"{rate.tokens_per_s:,.1f}",
            rate.bound,
            f"{rate.batch:,}",
            "" if rate.batch_tokens_per_s is None else f"{rate.batch_tokens_per_s:,.0f}",
            rate.batch_bound or "",
        )
    return table


def _work(counts: WorkCounts) -> Table:
    table = titled(f"Generating {counts.tokens:,} tokens, {counts.passes:,} forward passes")
    for name in ("a layer and head", "without a cache", "cached", "ratio"):
        table.add_column(name, justify="left" if name.startswith("a ") else "right")
    table.add_row(
        "dot products (refeed)",
        f"{counts.refeed_dots:,}",
        f"{counts.cached_dots:,}",
        f"{counts.dots_ratio:,.2f}",
    )
    table.add_row(
        "K, V projections (recompute)",
        f"{counts.recompute_projections:,}",
        f"{counts.cached_projections:,}",
        f"{counts.projections_ratio:,.1f}",
    )
    return table


def _bounds(result: Sizing) -> Table:
    ridge = result.ridge_flops_per_byte
    table = titled(f"What bounds a step; ridge point {ridge:.0f} FLOPs a byte (estimate)")
    for name in ("step", "tokens", "context", "ms", "FLOPs a byte", "bound by"):
        table.add_column(name, justify="left" if name == "step" else "right")
    for step in result.bounds:
        table.add_row(
            step.step,
            f"{step.tokens:,}",
            f"{step.context:,}",
            f"{step.ms:,.2f}",
            f"{step.intensity:,.1f}",
            step.bound,
        )
    return table


def titled(title: str) -> Table:
    """An empty table under a title."""
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def size_text(count: float) -> str:
    """Bytes in the largest unit that they fill."""
    for unit, name in ((GIB, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if abs(count) >= unit:
            return f"{count / unit:,.2f} {name}"
    return f"{count:,g} bytes"


__all__ = ["WIDTH", "show", "size_text", "titled"]
