"""``pagedsim curve``: the hit rate of a prefix cache against its capacity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagedsim.cli.options import whole
from pagedsim.errors import SpecError
from pagedsim.present.numbers import count, per_cent, plain, requests, significant

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from pagedsim.analysis.curve import Lookups
    from pagedsim.analysis.curve_result import Capacity, Curve, Curves

_MARKS = {"lru": "●*", "fifo": "○o", "lfu": "◇+", "optimal": "▲^"}  # Unicode, and else


def _number(*names: str, help: str) -> Any:
    return typer.Option(*names, parser=lambda t: whole(names[0], t), metavar="N", help=help)


def _word(name: str, *words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            known = f"{', '.join(words[:-1])} or {words[-1]}"
            raise SpecError(f"{name} is {text}, must be {known}")
        return text

    return read


def curve(
    trace: Annotated[
        str, typer.Argument(metavar="TRACE", help="a trace file, - for stdin, or a name")
    ],
    block: Annotated[
        int | None,
        _number("--block", "--block-size", help="tokens a block  [the trace's own, else 16]"),
    ] = None,
    policy: Annotated[
        str, typer.Option(metavar="NAME,…", help="of lru, fifo, lfu and optimal, or all")
    ] = "lru",
    capacities: Annotated[
        str | None, typer.Option(metavar="N,…", help="blocks  [up to what gives LRU all hits]")
    ] = None,
    touch: Annotated[
        str,
        typer.Option(
            parser=_word("--touch", "leaf", "root"),
            metavar="leaf|root",
            help="which end of a prompt is touched first; the last one touched stays longest",
        ),
    ] = "leaf",
    partial: Annotated[
        str | None,
        typer.Option(
            parser=_word("--partial", "on", "off"),
            metavar="on|off",
            help="count a prompt's partial last block  [on; off with --outputs]",
        ),
    ] = None,
    outputs: Annotated[bool, typer.Option("--outputs", help="cache answers too")] = False,
    warmup: Annotated[
        str, typer.Option(metavar="X", help="share of the requests that fill the cache uncounted")
    ] = "0",
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="give GiB for this model, or a config.json")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME", help="add the capacity that this GPU has")
    ] = None,
    tp: Annotated[
        int, _number("--tp", "-tp", "--tensor-parallel-size", help="how many of this GPU")
    ] = 1,
    kv_dtype: Annotated[
        str,
        typer.Option("--kv-dtype", "--kv-cache-dtype", metavar="TYPE", help="fp16, fp8, int4, …"),
    ] = "auto",
    limit: Annotated[
        int | None, _number("--limit", help="only the first N requests by arrival")
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="write JSON to FILE, - for standard output")
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="no colours")] = False,
) -> None:
    """Hit rate of a prefix cache against its capacity, with its knee."""
    import msgspec

    from pagedsim.analysis.curve import Lookups, curves, usual
    from pagedsim.files import write_whole
    from pagedsim.present.tables import console
    from pagedsim.trace import load

    policies = _policies(policy)
    at = None if capacities is None else [whole("--capacities", c) for c in capacities.split(",")]
    share = _share("--warmup", warmup)
    if partial == "on" and outputs:
        raise SpecError("--partial on cannot go with --outputs: an answer fills that block")
    if "lfu" in policies and touch == "root":
        raise SpecError("--touch is root, which --policy lfu has not: it is there for lru and fifo")
    token_bytes, pool_tokens = _sized(model, gpu, tp, kv_dtype)
    read = load(trace, limit=limit)
    size = int(read.extra.get("block", 16)) if block is None else block
    what = "outputs" if outputs else "full" if partial == "off" else "all"
    lookups = Lookups(read, block=size, touch=touch, count=what, warmup=share)
    at = usual(lookups.needed) if at is None else at
    pool = None
    if pool_tokens is not None:
        if pool_tokens < size:
            raise SpecError(f"--block is {size}, must be <= {pool_tokens}, the tokens of the pool")
        pool = lookups.capacity(pool_tokens // size, token_bytes)
        at.append(pool.blocks)
    found = curves(lookups, policies, at, token_bytes)
    found = msgspec.structs.replace(found, model=model, gpu=gpu, pool=pool)
    if json is not None:
        with write_whole(json) as file:
            file.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    if json != "-":
        show(found, lookups, console(no_color=no_color))


def show(found: Curves, lookups: Lookups, console: Console) -> None:
    """Print the table, the plot and what the trace is like; 80 columns are enough."""
    kind = "blocks" if found.count == "all" else "full blocks"
    answers = ", answers too" if found.count == "outputs" else ""
    end = {"leaf": "end", "root": "start"}[found.touch]
    warm = "" if found.counted == found.requests else f", the last {found.counted:,} counted"
    console.print(f"{plain(found.trace, 30)} · {requests(found.requests)}{warm}", style="bold")
    console.print(
        f"{count(found.blocks)} {kind} of {found.block:,} tokens looked up, "
        f"{count(found.distinct.blocks)} different ones{answers}"
    )
    ideal = found.ideal
    console.print(
        f"Unlimited: {per_cent(ideal.blocks)} % of blocks, {per_cent(ideal.tokens)} % of tokens "
        f"hit; touched from the {end}\n"
    )
    console.print(_table(found))
    for line in _plot(found, lookups, console.options.ascii_only):
        console.print(line, soft_wrap=True)
    console.print()
    for one in found.curves:
        _said(one, console)
    if found.pool is not None:
        _pool(found, console)
    _facts(found, console)
    for note in found.notes:
        console.print(f"Note: {plain(note, 400)}", style="yellow")


def _table(found: Curves) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    sized = found.kv_bytes_per_token is not None
    if len(found.curves) == 1:
        rates = ["blocks\n%", "tokens\n%", "a prompt\n%", "requests\n%", "of ideal\n%"]
    else:
        rates = [f"{one.policy}\n% of tokens" for one in found.curves]
    for heading in ("capacity\nblocks", "\ntokens", *(("\nGiB",) if sized else ()), *rates):
        table.add_column(heading, justify="right", no_wrap=True)
    for index, point in enumerate(found.curves[0].points):
        size = point.capacity
        cells = [count(size.blocks), count(size.tokens)]
        if size.gib is not None:
            cells.append(significant(size.gib))
        if len(found.curves) == 1:
            own = point.rates
            cells += map(per_cent, (own.blocks, own.tokens, own.prompts, own.requests))
            cells.append(per_cent(point.ideal))
        else:
            cells += [per_cent(one.points[index].rates.tokens) for one in found.curves]
        table.add_row(*cells)
    return table


def _plot(found: Curves, lookups: Lookups, ascii_only: bool) -> list[str]:
    """Lines; none where there is nothing to see."""
    import numpy as np

    from pagedsim.analysis.curve_plot import places, plot, steps

    at = [point.capacity.blocks for point in found.curves[0].points]
    if len(at) < 2 or not found.ideal.tokens:
        return []
    columns = steps(at[0], at[-1])
    values = {}
    for one in found.curves:
        if one.exact:
            rates = lookups.hits(one.policy, columns).tokens / max(1, found.prompt_tokens)
        else:
            known = [point.rates.tokens for point in one.points]
            rates = np.interp(np.log(columns), np.log(at), known)
        values[_MARKS[one.policy][ascii_only]] = rates.tolist()
    ticks = [count(int(columns[place])) for place in places()]
    key = ", ".join(f"{_MARKS[one.policy][ascii_only]} {one.policy}" for one in found.curves)
    lines = plot(values, found.ideal.tokens, ticks, ascii_only=ascii_only)
    return ["", *lines, f"       % of tokens hit, by blocks: {key}"]


def _said(one: Curve, console: Console) -> None:
    about = "Knee of" if one.exact else "Of these, knee of"
    if one.knee is not None:
        rate = f"{per_cent(one.knee.rates.tokens)} %"
        console.print(f"{about} {one.policy}: {_size(one.knee.capacity)}: {rate}")
    if one.exact and one.enough:
        parts = " / ".join(f"{part.part * 100:g}" for part in one.enough)
        blocks = " / ".join(f"{part.capacity.blocks:,}" for part in one.enough)
        console.print(f"{parts} % of all hits: {one.policy} needs {blocks} blocks")


def _pool(found: Curves, console: Console) -> None:
    assert found.pool is not None
    rates = [
        f"{one.policy} {per_cent(point.rates.tokens)}"
        for one in found.curves
        for point in one.points
        if point.capacity == found.pool
    ]
    name = f"{plain(found.model or '', 24)} on {plain(found.gpu or '', 16)}"
    console.print(f"{name} has room for {_size(found.pool)}")
    console.print(f"(estimate, if all of it is cache): {', '.join(rates)} %")


def _facts(found: Curves, console: Console) -> None:
    if (reuse := found.times.reuse_s) is not None:
        p50, p90, p99 = map(significant, (reuse.p50, reuse.p90, reuse.p99))
        console.print(f"Blocks come back after {p50} s (median of hits), p90 {p90} s, p99 {p99} s")
    popular = found.popularity
    if not popular.top:
        console.print("No block is looked up again: nothing to hit, whatever the capacity")
    else:
        top = " / ".join(f"{part.blocks * 100:g}" for part in popular.top)
        hits = " / ".join(per_cent(part.hits) for part in popular.top)
        console.print(f"{per_cent(popular.once)} % of blocks are used once")
        console.print(f"The most hit {top} % of blocks have {hits} % of the hits")


def _size(capacity: Capacity) -> str:
    gib = "" if capacity.gib is None else f" = {significant(capacity.gib)} GiB"
    return f"{capacity.blocks:,} blocks = {count(capacity.tokens)} tokens{gib}"


def _share(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise SpecError(f"{name} is {text}, must be a number >= 0 and < 1")
    return value


def _policies(text: str) -> Sequence[str]:
    from pagedsim.analysis.curve import POLICIES

    names = POLICIES if text == "all" else tuple(dict.fromkeys(text.split(",")))
    for name in names:
        _word("--policy", *POLICIES, "all")(name)
    return names


def _sized(
    model: str | None, gpu: str | None, tp: int, kv_dtype: str
) -> tuple[float | None, int | None]:
    """Bytes of a token of `model`, and the tokens that `gpu` has room for."""
    from pagedsim.device.device import make_device
    from pagedsim.device.tables import find_model

    if model is None:
        for name, said in (("--gpu", gpu), ("--tp", tp > 1), ("--kv-dtype", kv_dtype != "auto")):
            if said:
                raise SpecError(f"{name} needs --model")
        return None, None
    shape = find_model(model)
    if gpu is None:
        if tp > 1:
            raise SpecError("--tp needs --gpu")
        return float(shape.kv_bytes_per_token(kv_dtype)), None
    device = make_device(shape, gpu, tp=tp, kv_dtype=kv_dtype)
    return float(device.kv_bytes_per_token), device.capacity_tokens


__all__ = ["curve", "show"]
