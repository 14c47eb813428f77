"""``pagedsim trace compare``: how far a trace is from another."""

from __future__ import annotations

from typing import Annotated

import typer

from pagedsim.cli.values import Json, NoColor, Quiet, counted, option


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="a trace, - for standard input, or a name")],
    b: Annotated[str, typer.Argument(metavar="B", help="the trace that is held against it")],
    block: Annotated[
        int | None, counted("--block", most=1 << 20, help="block size of reuse  [the traces' own]")
    ] = None,
    limit: Annotated[int | None, counted("--limit", help="only the first N of each")] = None,
    model: Annotated[
        str | None, option("--model", metavar="NAME", help="that serves both  [llama-3.1-8b]")
    ] = None,
    gpu: Annotated[
        str | None, option("--gpu", metavar="NAME", help="that it runs on  [a100-80gb]")
    ] = None,
    tp: Annotated[
        int, counted("--tp", "-tp", "--tensor-parallel-size", help="how many of this GPU")
    ] = 1,
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Distances of two traces: lengths, gaps, turns, reuse, batch; and in words what is poor."""
    from pagedsim.analysis.distances import distances
    from pagedsim.analysis.simulate import GPU, MODEL, Setup
    from pagedsim.cli.outputs import target, writable
    from pagedsim.device.device import make_device
    from pagedsim.errors import SpecError
    from pagedsim.files import write_json
    from pagedsim.present.distances import show
    from pagedsim.present.progress import busy
    from pagedsim.present.tables import console
    from pagedsim.trace import load

    if a == b == "-":
        raise SpecError("standard input can be one of the traces, not both")
    device = make_device(model or MODEL, gpu or GPU, tp=tp)
    writable({"json": json}, {target(a): "trace A", target(b): "trace B"}, 1)
    with busy(f"comparing {b} with {a}", no_color=no_color):
        one, other = (load(source, limit=limit) for source in (a, b))
        longest = max(int((trace.prompt + trace.output).max()) for trace in (one, other))
        setup = Setup(device=device, max_len=min(longest + 1, device.capacity_tokens))
        found = distances(one, other, setup.resolved(), block=block)
    write_json(json, found)
    if json != "-" and not quiet:
        show(found, console(no_color=no_color))


__all__ = ["compare"]
