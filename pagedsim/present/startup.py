"""What `pagedsim size --available-gib` prints: a start-up as tables, at most 80 columns wide."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from pagedsim.device.enginesize import EngineSizing
from pagedsim.device.gpu import GIB
from pagedsim.present.sizing import WIDTH, titled
from pagedsim.present.tables import console as make_console


def show_startup(result: EngineSizing, *, no_color: bool = False) -> None:
    """Print a start-up, at most 80 columns wide."""
    console = make_console(no_color=no_color)
    console.width = WIDTH
    hybrid = "" if result.hybrid else ", without groups"
    console.print(
        Text(f"{result.model} as vLLM 0.33 starts up", "bold"),
        f"({result.kv_dtype} KV, tp {result.tp}, pp {result.pp}{hybrid})",
    )
    console.print(_main(result))
    console.print(_groups(result))
    for text in _explained(result):
        console.print(Text(text))
    console.print(_cost(result))
    if result.otherwise:
        console.print(_otherwise(result))
    for note in result.notes:
        console.print(Text(f"Note: {note}.", "yellow"))


def _main(result: EngineSizing) -> Table:
    shown = Table(box=None, show_header=False, padding=(0, 1))
    many = len(result.ranks) > 1
    for number, rank in enumerate(result.ranks):
        where = f"rank {number}, layers {rank.first}–{rank.last - 1}" if many else "for KV"
        shown.add_row(
            where,
            f"{_size(rank.available_bytes)} available, "
            f"{_size(rank.block_bytes)} a block, {_size(rank.allocated_bytes)} taken",
        )
    shown.add_row("blocks", f"{result.blocks:,}, the null block included")
    if result.max_len < result.asked_len:
        shown.add_row(
            "maximum length", f"{result.max_len:,} tokens, fitted (asked: {result.asked_len:,})"
        )
    shown.add_row(
        "one longest request",
        f"{result.request_blocks:,} blocks, with {result.in_flight_tokens:,} tokens in flight",
    )
    for line in result.printed:
        for number, part in enumerate(line.split(", Maximum", 1)):
            shown.add_row("the engine prints" if not number else "", ("Maximum" * number) + part)
    return shown


def _groups(result: EngineSizing) -> Table:
    shown = titled("Groups over one pool, a block table each")
    shown.pad_edge, shown.collapse_padding = False, True
    shown.add_column("group", justify="right")
    shown.add_column("keeps", no_wrap=True)
    for name in (
        "layers",
        "tokens\na block",
        "bytes\na block",
        "padding\na block",
        "blocks\na request",
        "lost\na request",
    ):
        shown.add_column(name, justify="right", no_wrap=True)
    for number, one in enumerate(result.groups):
        keeps = {
            "full": "all",
            "sliding": f"last {one.window:,}",
            "chunked": f"chunk of {one.window:,}",
            "state": "a state",
        }[one.kind]
        shown.add_row(
            str(number),
            keeps,
            f"{len(one.layers)}",
            "–" if one.kind == "state" and not result.prefix_caching else f"{one.block_tokens:,}",
            _size(one.page_bytes),
            _size(one.padding_bytes) if one.padding_bytes else "none",
            f"{one.request_blocks:,}",
            _size(one.request_padding_bytes) if one.padding_bytes else "none",
        )
    return shown


def _explained(result: EngineSizing) -> list[str]:
    found = []
    one = result.groups[0]
    if len(result.groups) == 1 and one.kind == "full" and result.dcp == 1:
        slots = result.blocks * one.block_tokens
        found.append(
            f"The printed tokens are derived, blocks / blocks of a request · maximum length: here "
            f"they stand for {slots:,} slots, the null block's included."
        )
    else:
        found.append(
            "The printed tokens are derived: concurrency · maximum length. They are no number of "
            "slots and move with the maximum length and the tokens in flight; the concurrency "
            "is what holds."
        )
    return found


def _cost(result: EngineSizing) -> Table:
    shown = titled("Most that a request of n tokens takes")
    shown.add_column("n")
    shown.add_column("bytes", no_wrap=True)
    shown.add_column("more, in whole blocks", justify="right")
    for cost, following in zip(result.cost, [*result.cost[1:], None], strict=True):
        above = f"above {cost.above:,}" if cost.above else "any" if following is None else ""
        to = f"up to {following.above:,}" if following else ""
        parts = [_size(cost.fixed_bytes)] if cost.fixed_bytes else []
        if cost.bytes_per_token:
            parts.append(f"{_size(cost.bytes_per_token)} · n")
        rounding = f"< {_size(cost.rounding_bytes)}" if cost.rounding_bytes else "none"
        where = ", ".join(part for part in (above, to) if part)
        shown.add_row(where, " + ".join(parts), rounding)
    return shown


def _otherwise(result: EngineSizing) -> Table:
    shown = titled("With one thing changed")
    shown.add_column("what")
    shown.add_column("printed tokens", justify="right")
    shown.add_column("concurrency", justify="right")
    shown.add_row("as asked", f"{result.tokens:,}", f"{result.concurrency:.2f}x")
    shown.add_row("as older versions print it", f"{result.older_tokens:,}", "")
    for other in result.otherwise:
        if other.tokens is None or other.concurrency is None:
            shown.add_row(other.what, "refused", "")
        else:
            shown.add_row(other.what, f"{other.tokens:,}", f"{other.concurrency:.2f}x")
    return shown


def _size(count: float) -> str:
    """Four digits of the largest unit that is filled."""
    for unit, name in ((GIB, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            digits = ".4g" if count < 10_000 * unit else ".0f"
            return f"{count / unit:,{digits}} {name}"
    return f"{count:,g} bytes"


__all__ = ["show_startup"]
