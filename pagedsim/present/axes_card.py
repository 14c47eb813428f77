"""What fills one set of axes: the memory of a card, and how many requests of a length it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pagedsim.device.gpu import GIB
from pagedsim.device.sizing import size
from pagedsim.errors import SpecError
from pagedsim.present.axes_style import SMALL, Axes, literal, plain_axes, powers, run_line
from pagedsim.present.numbers import count, requests
from pagedsim.present.palette import FAINT, INK, TERM_COLORS

if TYPE_CHECKING:
    from pagedsim.device.device import Device

WEIGHTS, ACTIVATIONS, OVER = "#5C6670", "#B8C0C8", "#D2003F"


def card(axes: Axes, device: Device, *, length: int, batch: int) -> str:
    """Weights, activations and the KV of `batch` requests on the fullest rank, against its budget.

    Requests hold whole blocks, and one block is the null block's. The text says whether they fit:
    the blocks decide, not the bytes that are drawn.
    """
    if device.estimate is None:
        raise SpecError("the pool is stated: what else is on the card is not known, nor drawn")
    if length < 1 or batch < 1:
        raise SpecError(f"length is {length}, batch is {batch}: both must be >= 1")
    pool = device.estimate
    fit = size(device, max_len=length).sequences_of_max_len
    blocks = 1 + batch * -(-length // device.block)
    parts = (
        ("weights", pool.weights_bytes / GIB, WEIGHTS),
        ("activation peak", pool.activation_bytes / GIB, ACTIVATIONS),
        (
            f"KV of {requests(batch)}",
            float(blocks * device.block * pool.kv_bytes_per_token) / GIB,
            TERM_COLORS["live"],
        ),
    )
    end = 0.0
    for name, gib, colour in parts:
        axes.barh([0], [gib], 0.6, left=end, color=colour, edgecolor="white", label=name)
        end += gib
    budget = pool.budget_bytes / GIB
    if batch > fit:
        over = {"color": OVER, "edgecolor": "white", "hatch": "///", "label": "too much"}
        axes.barh([0], [end - budget], 0.6, left=budget, **over)
    axes.axvline(budget, color=OVER, linewidth=1.5)
    axes.annotate(
        literal(f"{device.utilization:.0%} of {device.gpu.name}: {budget:.1f} GiB"),
        (budget, 1), (0, 2), xycoords=("data", "axes fraction"), textcoords="offset points",
        ha="center", fontsize=SMALL, color=OVER,
    )  # fmt: skip
    axes.set_xlim(0, 1.02 * max(end, device.gpu.usable_bytes / GIB))
    axes.set_yticks([])
    axes.set_xlabel("GiB", fontsize=SMALL, color=FAINT)
    plain_axes(axes, grid="x")
    axes.spines["left"].set_visible(False)
    said = "fit" if batch <= fit else "do not fit"
    return f"{requests(batch)} of {length:,} tokens {said}: {fit:,} would"


def fits(axes: Axes, devices: Mapping[str, Device], lengths: Sequence[int]) -> None:
    """How many requests of each length a pool holds at once: a line a device, both logarithmic."""
    for index, (name, device) in enumerate(devices.items()):
        held = [size(device, max_len=length).sequences_of_max_len for length in lengths]
        known = [(length, many) for length, many in zip(lengths, held, strict=True) if many]
        x, y = ([point[at] for point in known] for at in (0, 1))
        style = run_line(index, len(devices))
        axes.plot(x, y, marker="o", markersize=3, label=name, **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("tokens of a request, prompt and answer", fontsize=SMALL, color=FAINT)
    axes.set_ylabel("requests at once", fontsize=SMALL, color=FAINT)
    powers(axes.xaxis, lambda value: count(round(value)))
    powers(axes.yaxis, lambda value: count(round(value)))
    plain_axes(axes, grid="both")
    axes.legend(loc="upper right", fontsize=SMALL, frameon=False, labelcolor=INK)


__all__ = ["card", "fits"]
