"""How layers become groups over one pool, as vLLM 0.33 decides it.

First each layer's page (`pages`): its block tokens and bytes; then groups (`group`), in the order
of the rules, over all pipeline stages together:

1. all pages alike: one group.
2. all of one type (full and MLA; or windows of one size) with the same block tokens: one group,
   its pages unequal.
3. else *hybrid*: smaller pages are brought to the largest, by more tokens a block where that
   divides, by padding where not; layers with equal pages form buckets, in the order in which they
   first appear; a bucket of n layers makes ``k = ceil(n / g)`` groups, and group i takes its layers
   i, i + k, i + 2k, …; g is the largest bucket if that is below 1.5 times the smallest, else the
   smallest.

Without the hybrid manager, windows are allocated as full attention wherever there is a full layer,
so that rule 1 or 2 holds; what cannot be brought to one type does not start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pagedsim.device.layers import KEEPS_NOTHING, Layer
from pagedsim.errors import DeviceError
from pagedsim.protocols import LayerGroup


class Page(NamedTuple):
    """One layer's part of a block on one rank: `used` bytes of `size`, `block` tokens."""

    layer: Layer
    heads: int
    block: int
    used: int
    size: int

    @property
    def kind(self) -> tuple[object, ...]:
        """What must be equal for two layers to share a group."""
        layer = self.layer
        shape = (layer.kind, self.heads, layer.head_dim, layer.latent, layer.window, layer.state)
        return (*shape, layer.exempt, self.block, self.size)


class Grouped(NamedTuple):
    """Groups of the whole model, and each layer's page by its index."""

    groups: tuple[LayerGroup, ...]
    pages: Mapping[int, Page]

    def on(self, first: int, last: int) -> tuple[LayerGroup, ...]:
        """The groups as the stage of layers first … last - 1 has them; some may be empty."""
        found = []
        for group in self.groups:
            layers = tuple(i for i in group.layers if first <= i < last)
            used = sum(self.pages[i].used for i in layers)
            found.append(group._replace(layers=layers, page_bytes=used))
        return tuple(found)

    def block_bytes(self, first: int, last: int) -> int:
        """Bytes of one block on that stage: the widest group's pages, their padding included."""
        return max(
            sum(self.pages[i].size for i in group.layers if first <= i < last)
            for group in self.groups
        )


def pages(
    layers: Sequence[Layer],
    *,
    block: int,
    tp: int,
    dtype: str,
    kv_dtype: str,
    state_block: int | None = None,
) -> dict[int, Page]:
    """Each layer's page, by index; layers that keep nothing have none.

    With recurrent layers, the attention's block grows until its page holds a state, in steps of
    ``max(16, block)`` tokens, and the state is padded to that page. `state_block` is what a
    state's block counts as in tokens, None for the attention's.
    """
    kept = {i: layer for i, layer in enumerate(layers) if layer.kind not in KEEPS_NOTHING}
    if not kept:
        raise DeviceError("no layer keeps any KV")
    states = {i: layer.state.bytes_per_rank(dtype, tp) for i, layer in kept.items() if layer.state}
    tokens = {
        i: layer.token_bytes(tp=tp, dtype=dtype, kv_dtype=kv_dtype)
        for i, layer in kept.items()
        if i not in states
    }
    padded = max(states.values(), default=0)
    if states and tokens:
        unit, widest = max(16, block), max(tokens.values())
        block = max(block, unit * -int(-padded // (unit * widest)))
        padded = int(block * widest)
    found = {}
    for i, layer in kept.items():
        if i in states:
            found[i] = Page(layer, 0, state_block or block, states[i], padded)
        else:
            used = int(block * tokens[i])
            found[i] = Page(layer, layer.heads(tp), block, used, used)
    return found


def group(found: dict[int, Page], *, hybrid: bool, kept: int = 1, outer: bool = False) -> Grouped:
    """Groups by the rules above; DeviceError where the engine would not start.

    `outer`: the layout has the block outermost, so that unequal pages are packed (`_packed`).
    """
    if not hybrid:
        found = _one_type(found)
    if len({page.kind for page in found.values()}) == 1 or _uniform(found):
        return Grouped((_make(tuple(found), found, kept),), found)
    if outer and len({page.size for page in found.values()}) > 1:
        return _packed(found, kept)
    found = _equalised(found)
    buckets = _buckets(found)
    sizes = [len(bucket) for bucket in buckets.values()]
    width = max(sizes) if 2 * max(sizes) < 3 * min(sizes) else min(sizes)
    groups = []
    for bucket in buckets.values():
        stride = -(-len(bucket) // width)
        groups += [_make(tuple(bucket[i::stride]), found, kept) for i in range(stride)]
    return Grouped(tuple(groups), found)


def _buckets(found: Mapping[int, Page]) -> dict[tuple[object, ...], list[int]]:
    """Layers with equal pages, in the order in which they first appear."""
    buckets: dict[tuple[object, ...], list[int]] = {}
    for i, page in found.items():
        buckets.setdefault(page.kind, []).append(i)
    return buckets


def _packed(found: dict[int, Page], kept: int) -> Grouped:
    """Groups of equal bytes, pages as they are: those of the bucket with the fewest bytes.

    Known where every bucket is a multiple of that and a page divides it, as in Gemma-4; else a
    DeviceError.
    """
    buckets = list(_buckets(found).values())
    unit = min(found[bucket[0]].size * len(bucket) for bucket in buckets)
    groups = []
    for bucket in buckets:
        size = found[bucket[0]].size
        if unit % size or size * len(bucket) % unit or found[bucket[0]].layer.kind == "state":
            raise DeviceError(
                f"layer {bucket[0]}: pages of {size:,} bytes do not fill blocks of {unit:,}: how "
                "the engine packs them with the block outermost is not known here"
            )
        stride = size * len(bucket) // unit
        groups += [_make(tuple(bucket[i::stride]), found, kept) for i in range(stride)]
    return Grouped(tuple(groups), found)


def _make(layers: tuple[int, ...], found: Mapping[int, Page], kept: int) -> LayerGroup:
    first = found[layers[0]]
    kind = "full" if first.layer.kind == "mla" else first.layer.kind
    used = sum(found[i].used for i in layers)
    return LayerGroup(kind, layers, first.block, used, first.layer.window, kept)


def _uniform(found: Mapping[int, Page]) -> bool:
    """Whether rule 2 holds."""
    kinds = {("full" if p.layer.kind == "mla" else p.layer.kind) for p in found.values()}
    blocks = {page.block for page in found.values()}
    windows = {page.layer.window for page in found.values()}
    return len(kinds) == len(blocks) == len(windows) == 1


def _one_type(found: dict[int, Page]) -> dict[int, Page]:
    """Windows as full attention where there is a full layer; else all must be of one type."""
    kinds = {page.layer.kind for page in found.values()}
    windows = {(p.layer.kind, p.layer.window) for p in found.values() if p.layer.window}
    full = bool(kinds & {"full", "mla"})
    if kinds == {"state"} or (len(windows) <= 1 and "state" not in kinds and full):
        return {
            i: page._replace(layer=page.layer.as_full()) if page.layer.window else page
            for i, page in found.items()
        }
    if len(windows) == len(kinds) == 1:
        return found
    if "state" in kinds:
        why = "recurrent layers stand beside attention"
    elif len(windows) > 1:
        sizes = " and ".join(f"{kind} {window:,}" for kind, window in sorted(windows))
        why = f"there are windows of several sizes ({sizes} tokens)"
    else:
        why = f"there are {' and '.join(sorted(kinds))} layers of one window, and no full ones"
    raise DeviceError(
        "without the hybrid manager all layers must be of one type, and "
        f"{why}: the engine does not start; leave out --no-hybrid"
    )


def _equalised(found: dict[int, Page]) -> dict[int, Page]:
    """Pages of the largest one's bytes: more tokens a block where that divides, else padding."""
    widest = max(page.size for page in found.values())
    equal = {}
    for i, page in found.items():
        times, rest = divmod(widest, page.size)
        if page.layer.kind == "state":
            page = page._replace(size=widest)
        elif rest == 0:
            page = page._replace(block=page.block * times, used=page.used * times, size=widest)
        elif page.layer.kind == "mla":
            raise DeviceError(
                f"layer {i}: a page of MLA latents of {page.size:,} bytes does not divide the "
                f"largest page of {widest:,}, and cannot be padded; another --block may help"
            )
        else:
            page = page._replace(size=widest)
        equal[i] = page
    return equal


__all__ = ["Grouped", "Page", "group", "pages"]
