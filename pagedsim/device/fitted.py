"""A step-time model fitted to measured steps, as a file: ``pagedsim.steptime/1``.

`pagedsim fit` writes it, ``--steptime fitted:FILE`` takes it. It says which model it is, with which
coefficients, what it was fitted to, and how far off it is there.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from pagedsim.device.device import Device
from pagedsim.device.roofline import Roofline
from pagedsim.device.steptime import Affine
from pagedsim.errors import InputError, PagedsimError, SpecError
from pagedsim.protocols import StepTime

SCHEMA = "pagedsim.steptime/1"


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """How far the model is off over some rows: |model - measured| / measured, and its sign."""

    region: str  # all, decode only, prefill only, mixed
    batch: str  # all, small, large: up to the median of the log, above it
    rows: int
    mean: float
    worst: float
    bias: float  # mean of (model - measured) / measured


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """The file. `options` are those of the spec of `kind`; `assumed` could not be told from rows.

    `model`, `gpu` and `tp` are what a roofline was fitted on; affine coefficients have none.
    """

    schema: str = SCHEMA
    version: str
    kind: str  # affine, roofline
    options: dict[str, float]
    rows: int
    source: str
    sha256: str
    errors: tuple[Region, ...]
    assumed: tuple[str, ...] = ()
    model: str | None = None
    gpu: str | None = None
    tp: int | None = None

    def spec(self) -> str:
        """The same model without the file."""
        return f"{self.kind}:{','.join(f'{k}={v}' for k, v in self.options.items())}"

    def steptime(self, device: Device | None) -> StepTime:
        """The model. SpecError for options that it does not have, or for want of a device."""
        if self.kind == "affine":
            return Affine(**_known(self.options, _AFFINE))
        if self.kind != "roofline":
            raise SpecError(f"kind is {self.kind!r}, must be affine or roofline")
        if device is None:
            raise SpecError("a roofline needs a device")
        return Roofline(device, **_known(self.options, _ROOFLINE))

    def sentence(self, device: Device) -> str:
        """What a report says of times that this model gives."""
        mean = next((e.mean for e in self.errors if (e.region, e.batch) == ("all", "all")), 0.0)
        said = (
            f"Step times are fitted: {self.kind}, to {self.rows} measured steps of {self.source}, "
            f"{100 * mean:.1f} % off on average"
        )
        if self.assumed:
            said += f"; {', '.join(self.assumed)} assumed, for no row tells"
        here = (device.model.name, device.gpu.name, device.tp)
        if self.kind == "roofline" and here != (self.model, self.gpu, self.tp):
            said += f"; measured on {self.model} on {self.gpu} (tp {self.tp}), carried over to this"
        return said


_AFFINE = ("base_ms", "per_seq_ms", "per_prefill_token_us", "per_context_token_ns")
_ROOFLINE = ("mfu", "mbu", "overhead_ms")


def _known(options: dict[str, float], names: tuple[str, ...]) -> dict[str, float]:
    for key in options:
        if key not in names:
            raise SpecError(f"there is no option {key!r}; there are {', '.join(names)}")
    return options


def read_fitted(path: str | Path) -> Fitted:
    """Read a file. InputError names it and what is wrong."""
    try:
        found = msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not JSON: {error}") from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise InputError(f"{path}: schema must be {SCHEMA!r}, it is {schema!r}; see pagedsim fit")
    try:
        return msgspec.convert(found, Fitted)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {error}") from None


def fitted_steptime(path: str | Path, device: Device | None) -> StepTime:
    """The model in a file. InputError names the file."""
    fitted = read_fitted(path)
    try:
        return fitted.steptime(device)
    except PagedsimError as error:
        raise InputError(f"{path}: {error}") from None


__all__ = ["SCHEMA", "Fitted", "Region", "fitted_steptime", "read_fitted"]
