"""Fit step-time models to measured steps, and say how far off they are.

Both fits minimise Σ ((model - measured) / measured)², so a short step counts as much as a long
one, over coefficients that are not negative:

- affine: ``base + a · sequences + b · prefill tokens + c · context``;
- roofline: ``overhead + max(FLOPs · u, bytes · v)``, u = 1 / (peak · mfu) and
  v = 1 / (bandwidth · mbu), mfu and mbu at most 1. Which of the two bounds a row is decided by the
  last fit, until that changes nothing more, from several starts; the best is taken.

With so few coefficients the non-negative least squares are exact: the best of the plain ones over
every subset of the columns (the optimum is that of the columns that it uses).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations, product
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from pagedsim import __version__
from pagedsim.device.device import Device
from pagedsim.device.fitted import Fitted, Region
from pagedsim.device.roofline import Roofline
from pagedsim.device.steplog import Measured
from pagedsim.errors import InputError
from pagedsim.files import write_whole
from pagedsim.protocols import StepTime

Floats = npt.NDArray[np.float64]
LEAST = 5  # rows
_STARTS = tuple(product((0.2, 0.5, 0.8), (0.4, 0.6, 0.9)))
_ROUNDS = 50
_MFU = 0.5  # where nothing is bound by compute
_MBU = 0.8


class Log(NamedTuple):
    """Where rows are from."""

    name: str
    sha256: str


def fit_affine(rows: Sequence[Measured], log: Log) -> Fitted:
    """The affine model. InputError for too few rows."""
    _enough(rows, log)
    columns = np.array([[1, r.sequences, r.prefill, r.context] for r in rows], np.float64)
    base, per_seq, per_prefill, per_context = _least(columns, _ms(rows)).tolist()
    options = {
        "base_ms": _digits(base),
        "per_seq_ms": _digits(per_seq),
        "per_prefill_token_us": _digits(per_prefill * 1e3),
        "per_context_token_ns": _digits(per_context * 1e6),
    }
    assumed = [
        f"no cost of {name}"
        for name, at in (("prefill tokens", 2), ("context", 3))
        if not columns[:, at].any()
    ]
    return _fitted("affine", options, assumed, rows, log, None)


def fit_roofline(rows: Sequence[Measured], log: Log, device: Device) -> Fitted:
    """The roofline of `device`. InputError for too few rows."""
    _enough(rows, log)
    model = Roofline(device)
    loads = [row.load for row in rows]
    # ms that each row takes at the full peak, and at the full bandwidth
    flops = np.array([model.flops(load) for load in loads], np.float64)
    size = np.array([float(model.bytes(load)) for load in loads], np.float64)
    compute = flops / (device.gpu.flops * device.tp) * 1e3
    memory = size / device.gpu.bandwidth * 1e3
    ms = _ms(rows)
    found = min((_rounds(compute, memory, ms, start) for start in _STARTS), key=lambda f: f[0])
    _, overhead, u, v = found
    bound = compute * u >= memory * v
    assumed = []
    if not bound.any():
        assumed.append("mfu")
        u = u if (compute / _MFU > memory * v).any() else 1 / _MFU
    if bound.all():
        assumed.append("mbu")
        v = v if (memory / _MBU > compute * u).any() else 1 / _MBU
    options = {
        "mfu": min(_digits(1 / u), 1.0),
        "mbu": min(_digits(1 / v), 1.0),
        "overhead_ms": _digits(overhead),
    }
    return _fitted("roofline", options, assumed, rows, log, device)


def _rounds(
    compute: Floats, memory: Floats, ms: Floats, start: tuple[float, float]
) -> tuple[float, float, float, float]:
    """(Σ of squared relative errors, overhead, u, v) from one start; u = 1 / mfu, v = 1 / mbu."""
    u, v, overhead = 1 / start[0], 1 / start[1], 0.0
    best = (np.inf, 0.0, u, v)
    seen: set[bytes] = set()
    for _ in range(_ROUNDS):
        bound = compute * u >= memory * v
        if bound.tobytes() in seen:
            break
        seen.add(bound.tobytes())
        columns = np.stack(
            [np.ones(len(ms)), np.where(bound, compute, 0), np.where(bound, 0, memory)], axis=1
        )
        full = columns[:, 1] + columns[:, 2]  # u and v are at least 1: fit what is above
        overhead, more_u, more_v = _least(columns, ms, ms - full).tolist()
        u = 1 + more_u if bound.any() else u
        v = 1 + more_v if not bound.all() else v
        error = (overhead + np.maximum(compute * u, memory * v) - ms) / ms
        best = min(best, (float(error @ error), overhead, u, v))
    return best


def _least(columns: Floats, ms: Floats, target: Floats | None = None) -> Floats:
    """Coefficients >= 0 that minimise Σ ((columns · x - target) / ms)²; of equals the fewest."""
    target = (ms if target is None else target) / ms
    scaled = columns / ms[:, None]
    norms = np.linalg.norm(scaled, axis=0)
    scaled = scaled / np.where(norms > 0, norms, 1)
    count = columns.shape[1]
    best, least = np.zeros(count), float(target @ target)
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            part = scaled[:, chosen]
            solved, _, rank, _ = np.linalg.lstsq(part, target, rcond=1e-9)
            if rank < size or (solved < 0).any():
                continue
            rest = target - part @ solved
            error = float(rest @ rest)
            if error < least * (1 - 1e-9):
                best, least = np.zeros(count), error
                best[list(chosen)] = solved / norms[list(chosen)]
    return best


def errors(rows: Sequence[Measured], model: StepTime) -> tuple[Region, ...]:
    """By region and by batch; regions without rows are left out."""
    ms = _ms(rows)
    off = (np.array([model.ns(row.load) for row in rows]) / 1e6 - ms) / ms
    batch = np.array([row.sequences for row in rows])
    median = np.sort(batch)[(len(batch) - 1) // 2]
    kinds = np.array([_kind(row) for row in rows])
    found = []
    for region in ("all", "decode only", "prefill only", "mixed"):
        there = kinds == region if region != "all" else np.ones(len(rows), bool)
        sizes = {
            "all": there,
            "small": there & (batch <= median),
            "large": there & (batch > median),
        }
        for name, picked in sizes.items():
            if picked.any():
                part = off[picked]
                found.append(
                    Region(
                        region=region,
                        batch=name,
                        rows=int(picked.sum()),
                        mean=float(np.abs(part).mean()),
                        worst=float(np.abs(part).max()),
                        bias=float(part.mean()),
                    )
                )
    return tuple(found)


def _kind(row: Measured) -> str:
    if not row.prefills:
        return "decode only"
    return "prefill only" if row.prefills == row.sequences else "mixed"


def write(path: str | os.PathLike[str], fitted: Fitted) -> None:
    """Write a step-time file whole or not at all."""
    with write_whole(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(fitted), indent=2) + b"\n")


def _fitted(
    kind: str,
    options: dict[str, float],
    assumed: Sequence[str],
    rows: Sequence[Measured],
    log: Log,
    device: Device | None,
) -> Fitted:
    """With the errors of the very model that its options make."""
    made = Fitted(
        version=__version__,
        kind=kind,
        options=options,
        rows=len(rows),
        source=log.name,
        sha256=log.sha256,
        errors=(),
        assumed=tuple(assumed),
        model=None if device is None else device.model.name,
        gpu=None if device is None else device.gpu.name,
        tp=None if device is None else device.tp,
    )
    return msgspec.structs.replace(made, errors=errors(rows, made.steptime(device)))


def _enough(rows: Sequence[Measured], log: Log) -> None:
    if len({row[:4] for row in rows}) < LEAST:
        different = len({row[:4] for row in rows})
        raise InputError(
            f"{log.name}: {different} different steps in {len(rows)} rows, must be >= {LEAST}"
        )


def _ms(rows: Sequence[Measured]) -> Floats:
    return np.array([row.ms for row in rows], np.float64)


def _digits(value: float) -> float:
    """Six digits that matter."""
    return float(f"{value:.6g}")


__all__ = ["LEAST", "Log", "errors", "fit_affine", "fit_roofline", "write"]
