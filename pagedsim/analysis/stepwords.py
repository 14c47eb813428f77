"""What a report says of its step times: estimated, fitted, measured, or given as they are.

And of layers that are no full attention, where something counts them as if they were.
"""

from __future__ import annotations

from pagedsim.device.device import Device
from pagedsim.device.fitted import read_fitted
from pagedsim.device.shape import Model

ROOFLINE = (
    "Step times are a roofline estimate (by default half of peak compute, 80 % of "
    "bandwidth and 2 ms a step; communication between GPUs is not modelled)"
)


def step_times(steptime: object, device: Device) -> tuple[str, str]:
    """(estimated, fitted, measured or given; a sentence) of a spec, or of a model of one's own."""
    spec = steptime.strip() if isinstance(steptime, str) else ""
    name, _, rest = spec.partition(":")
    if name == "roofline":
        return "estimated", ROOFLINE
    if name == "fitted":
        return "fitted", read_fitted(rest).sentence(device)
    if name == "table":
        return "measured", f"Step times are measured: the table {rest}, interpolated"
    said = spec or type(steptime).__name__
    return "given", f"Step times are given ({said}), neither estimated nor fitted"


def layer_words(model: Model, *, roofline: bool, grouped: bool) -> list[str]:
    """What a run takes as full attention although it is not: which layers, then in what.

    Without groups of layers that is its pool; with a roofline, what its steps read and compute.
    """
    said = [f"{model.uncounted}: kept besides KV, and not counted"] if model.uncounted else []
    if not model.unlike:
        return said
    said += model.unlike
    if roofline:
        said.append("Step times count all layers as full attention")
    if not grouped:
        said.append(
            f"Without groups of layers a pool counts every token's KV for all {model.layers} layers"
        )
    return said


__all__ = ["ROOFLINE", "layer_words", "step_times"]
