"""Groups of a device's model over its pool, as a replay's allocator takes them.

One rank stands for all, the one with the widest blocks: every rank has the same tables. The pool is
what the rank with the fewest blocks has, so memory that others have beyond that is not in it.
"""

from __future__ import annotations

from typing import NamedTuple

from pagedsim.device.device import Device
from pagedsim.device.grouping import Grouped, Page, group, pages
from pagedsim.errors import DeviceError, SpecError
from pagedsim.protocols import LayerGroup, Narrow


class GroupedPool(NamedTuple):
    """`groups` over `blocks` blocks, the null block included, of `block_bytes` each."""

    groups: tuple[LayerGroup, ...]
    blocks: int
    block_bytes: int


def grouped_pool(
    device: Device, *, block: int = 16, full: bool = False, max_len: int = 1, prefix: bool = False
) -> GroupedPool:
    """The groups of `device`'s model as vLLM 0.33 makes them, or all layers as one full group.

    With `full` what a window has left is kept, and its layers are *narrow* (`protocols.groups`).
    A recurrent state's block stands for as many tokens as the attention's with `prefix`, so that
    states are found again at ends of blocks, else for `max_len`. DeviceError where a layer's size
    is unknown, or its kind has no such group.
    """
    model = device.model
    layers = model.layer_list(device.exempt)
    kinds = sorted({layer.kind for layer in layers} & {"state"})
    if full and kinds:
        raise DeviceError(
            f"{model.name} has recurrent layers, which no engine keeps as full attention: "
            "give groups=on"
        )
    kept = [layer.as_full() if full and layer.window else layer for layer in layers]
    found = pages(
        kept,
        block=block,
        tp=device.tp,
        dtype=model.dtype,
        kv_dtype=device.kv_dtype,
        state_block=None if prefix else max_len,
    )
    made = group(found, hybrid=True, kept=2 if prefix else 1)
    stages, first = [], 0
    for count in model.stages(device.pp):
        if size := made.block_bytes(first, first + count):
            stages.append((size, first, first + count))
        first += count
    widest, first, last = max(stages)
    groups = made.on(first, last)
    if full:
        groups = _narrowed(made, groups, device)
    blocks = device.stated_blocks or device.pool_bytes // widest
    if blocks < 2:
        raise DeviceError(
            f"a pool of {device.pool_bytes:,} bytes has {blocks} blocks of {widest:,}: there must "
            "be two, the null block and another"
        )
    return GroupedPool(groups, blocks, widest)


def pool_for(
    spec: str, mode: str, device: Device | None, block: int, max_len: int, prefix: bool
) -> GroupedPool | None:
    """What ``groups=on`` or ``groups=full`` of `spec` means on `device`.

    None with ``off``, or where it is one full group, which is what a pool of tokens is. SpecError
    for another mode, or where there is no model.
    """
    if mode == "off":
        return None
    if mode not in ("on", "full"):
        raise SpecError(f"{spec}: groups is {mode}, must be on, full or off")
    if device is None:
        raise SpecError(f"{spec}: groups={mode} needs a model")
    pool = grouped_pool(device, block=block, full=mode == "full", max_len=max_len, prefix=prefix)
    if len(pool.groups) == 1 and pool.groups[0].kind == "full" and not pool.groups[0].narrow:
        return None
    return pool


def _narrowed(
    made: Grouped, groups: tuple[LayerGroup, ...], device: Device
) -> tuple[LayerGroup, ...]:
    """Full groups that know which of their layers read a window alone."""
    own = device.model.layer_list(device.exempt)
    found = []
    for one in groups:
        sums: dict[tuple[str, int], int] = {}
        for at in one.layers:
            if own[at].window:
                part = (own[at].kind, own[at].window)
                sums[part] = sums.get(part, 0) + _token(made.pages[at])
        found.append(one._replace(narrow=tuple(Narrow(*k, size) for k, size in sums.items())))
    return tuple(found)


def _token(page: Page) -> int:
    return page.used // page.block


__all__ = ["GroupedPool", "grouped_pool", "pool_for"]
