"""What a report says of its step times: estimated, fitted, measured, or given as they are."""

from __future__ import annotations

from pagedsim.device.device import Device
from pagedsim.device.fitted import read_fitted

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


__all__ = ["ROOFLINE", "step_times"]
