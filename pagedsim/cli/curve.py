"""``pagedsim curve``: the hit rate of a prefix cache against its capacity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagedsim.cli.options import whole
from pagedsim.cli.values import Json, NoColor, Quiet
from pagedsim.errors import SpecError

if TYPE_CHECKING:
    from pagedsim.analysis.curve import Lookups
    from pagedsim.analysis.curve_result import Curves


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
    json: Json = None,
    figure: Annotated[
        str | None, typer.Option(metavar="FILE", help="draw the curves: .png, .svg or .pdf")
    ] = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Hit rate of a prefix cache against its capacity, with its knee."""
    import msgspec

    from pagedsim.analysis.curve import Lookups, curves, usual
    from pagedsim.cli.outputs import target, writable
    from pagedsim.files import write_json
    from pagedsim.present.curves import show
    from pagedsim.present.progress import Progress, busy
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
    writable({"json": json, "figure": figure}, {target(trace): "the trace"}, 1)
    with busy(f"reading {trace}", no_color=no_color):
        read = load(trace, limit=limit)
        size = int(read.extra.get("block", 16)) if block is None else block
        what = "outputs" if outputs else "full" if partial == "off" else "all"
        lookups = Lookups(read, block=size, touch=touch, count=what, warmup=share)
        at = usual(lookups.needed) if at is None else at
        pool = None
        if pool_tokens is not None:
            if pool_tokens < size:
                raise SpecError(
                    f"--block is {size}, must be <= {pool_tokens}, the tokens of the pool"
                )
            pool = lookups.capacity(pool_tokens // size, token_bytes)
            at.append(pool.blocks)
    replays = len(set(at)) * sum(each != "lru" for each in policies)
    with Progress(replays * len(read), "replaying", no_color=no_color) as bar:
        lookups.progress = bar
        found = curves(lookups, policies, at, token_bytes)
    found = msgspec.structs.replace(found, model=model, gpu=gpu, pool=pool)
    write_json(json, found)
    if figure is not None:
        with busy("drawing the figure", no_color=no_color):
            _draw(found, lookups, target(figure))
    if json != "-" and not quiet:
        show(found, lookups, console(no_color=no_color))


def _draw(found: Curves, lookups: Lookups, path: str) -> None:
    import numpy as np

    from pagedsim.present import figures

    at = [point.capacity.blocks for point in found.curves[0].points]
    blocks = np.unique(np.geomspace(min(at), max(at), 300).round().astype(np.int64))
    smooth = {
        one.policy: (
            blocks.tolist(),
            (lookups.hits(one.policy, blocks).tokens / max(1, found.prompt_tokens)).tolist(),
        )
        for one in found.curves
        if one.exact
    }
    figures.save(figures.hit_rates(found, smooth), path)


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


__all__ = ["curve"]
