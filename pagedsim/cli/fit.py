"""``pagedsim fit``: step-time models from measured steps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pagedsim.cli.values import Json, NoColor, Quiet, counted, one_of, option
from pagedsim.errors import SpecError


def fit(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="batch, prefill_tokens, context, ms of steps")
    ],
    out: Annotated[
        str | None, option("--out", metavar="FILE", help="the model, for --steptime fitted:FILE")
    ] = None,
    kind: Annotated[
        str | None, one_of("--kind", "affine", "roofline", help="by default whichever is closer")
    ] = None,
    model: Annotated[
        str | None, option("--model", metavar="NAME", help="what was measured: for a roofline")
    ] = None,
    gpu: Annotated[str | None, option("--gpu", metavar="NAME", help="and on which GPU")] = None,
    tp: Annotated[
        int, counted("--tp", "-tp", "--tensor-parallel-size", help="tensor parallel GPUs")
    ] = 1,
    kv_dtype: Annotated[
        str, option("--kv-dtype", "--kv-cache-dtype", metavar="TYPE", help="fp16, bf16, fp8, …")
    ] = "auto",
    weights_dtype: Annotated[
        str, option("--weights-dtype", metavar="TYPE", help="the same")
    ] = "auto",
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Fit the affine and, with --model and --gpu, the roofline step time to measured steps.

    Shows how far each is off, by what the steps do, and writes the chosen one with --out.
    """
    from pagedsim.analysis import fit as fits
    from pagedsim.cli.outputs import target, writable
    from pagedsim.device.device import make_device
    from pagedsim.device.steplog import read_steps
    from pagedsim.files import write_json
    from pagedsim.present.fits import table
    from pagedsim.present.tables import console

    if (model is None) is not (gpu is None):
        raise SpecError("a roofline is of a model on a GPU: give both --model and --gpu")
    if kind == "roofline" and model is None:
        raise SpecError("--kind is roofline, which is of a model on a GPU: give --model and --gpu")
    device = None
    if model is not None and gpu is not None:
        device = make_device(
            model, gpu, tp=tp, kv_dtype=kv_dtype, weights_dtype=weights_dtype, kv_tokens=1 << 20
        )
    writable({"out": out, "json": json}, {target(str(log)): "the log"}, 1)
    rows = read_steps(log)
    source = fits.Log(log.name, _sha256(log))
    found = [fits.fit_affine(rows, source)]
    if device is not None:
        found.append(fits.fit_roofline(rows, source, device))
    chosen = next((f for f in found if f.kind == kind), min(found, key=lambda f: f.errors[0].mean))
    if out is not None:
        fits.write(target(out), chosen)
    write_json(json, {"chosen": chosen.kind, "fits": found})
    if json != "-" and not quiet:
        console(no_color=no_color).print(table(found, chosen, out))


def _sha256(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


__all__ = ["fit"]
