"""What `pagedsim size --available-gib` says, as one value: a start-up of vLLM 0.33, laid out.

Field names are those of the JSON (schema ``pagedsim.startup/1``); bytes are counts, of the rank
with the largest blocks where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pagedsim.device.dtypes import half
from pagedsim.device.layers import Layer
from pagedsim.device.shape import Model
from pagedsim.device.startup import Rank, Ranks, Startup, in_flight_batches, printed, start
from pagedsim.errors import DeviceError, SpecError


@dataclass(frozen=True, slots=True)
class SizedGroup:
    """One group. `padding_bytes` is what a block loses in it: to the widest group, and in pages.

    `request_blocks` are what one request of the maximum length takes, `request_padding_bytes`
    what these lose.
    """

    kind: str
    window: int
    layers: list[int]
    block_tokens: int
    page_bytes: int
    padding_bytes: int
    request_blocks: int
    request_padding_bytes: int


@dataclass(frozen=True, slots=True)
class SizedRank:
    """One GPU, or one stage whose GPUs are alike: layers `first` … `last` - 1, and bytes."""

    first: int
    last: int
    available_bytes: int
    block_bytes: int
    needed_bytes: int
    allocated_bytes: int


@dataclass(frozen=True, slots=True)
class SizedCost:
    """A request above `above` tokens takes `fixed_bytes + bytes_per_token · length`.

    In whole blocks: up to `rounding_bytes` more.
    """

    above: int
    fixed_bytes: float
    bytes_per_token: float
    rounding_bytes: int


@dataclass(frozen=True, slots=True)
class Otherwise:
    """What the engine would print with one thing changed; `refused` says why it would not start."""

    what: str
    tokens: int | None
    concurrency: float | None
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSizing:
    """The answer. `printed` are the lines that the engine logs, `older_tokens` what older ones did.

    `blocks` include the null block. `max_len` is below `asked_len` where it was fitted.
    """

    schema: str = "pagedsim.startup/1"
    model: str
    dtype: str
    kv_dtype: str
    tp: int
    pp: int
    dcp: int
    hybrid: bool
    asynchronous: bool
    prefix_caching: bool
    asked_len: int
    max_len: int
    max_batched_tokens: int
    in_flight_tokens: int
    groups: list[SizedGroup]
    ranks: list[SizedRank]
    blocks: int
    request_blocks: int
    concurrency: float
    tokens: int
    older_tokens: int
    printed: list[str]
    cost: list[SizedCost]
    otherwise: list[Otherwise] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How the engine is started; None: as it would choose itself.

    `max_len` of 0 fits the length to the memory. `exempt` layers keep the model's own KV format.
    """

    available: Sequence[int]
    max_len: int | None = None
    max_batched_tokens: int
    tp: int = 1
    pp: int = 1
    dcp: int = 1
    kv_dtype: str = "auto"
    block: int = 16
    blocks: int | None = None
    hybrid: bool | None = None
    asynchronous: bool = False
    prefix_caching: bool = True
    older: bool = False
    exempt: tuple[str, ...] = ()
    layout: str | None = None


def size_as_engine(model: Model, choices: Choices) -> EngineSizing:
    """Start `model` up as `choices` say.

    StartupError where one request does not fit, DeviceError or SpecError where something does not
    work out.
    """
    layers = model.layer_list(choices.exempt)
    _heads(model, layers, choices.tp)
    chunked = "chunked" in model.layer_kinds
    hybrid = not chunked if choices.hybrid is None else choices.hybrid
    up = _start(model, layers, choices, hybrid, choices.asynchronous)
    fullest = max(up.ranks, key=lambda rank: rank.block_bytes)
    return EngineSizing(
        model=model.name,
        dtype=half(model.dtype),
        kv_dtype=half(model.dtype) if choices.kv_dtype == "auto" else choices.kv_dtype.lower(),
        tp=choices.tp,
        pp=choices.pp,
        dcp=choices.dcp,
        hybrid=hybrid,
        asynchronous=choices.asynchronous,
        prefix_caching=choices.prefix_caching,
        asked_len=up.asked_len,
        max_len=up.max_len,
        max_batched_tokens=choices.max_batched_tokens,
        in_flight_tokens=up.in_flight,
        groups=_groups(up, fullest),
        ranks=[
            SizedRank(
                rank.first,
                rank.last,
                rank.available_bytes,
                rank.block_bytes,
                rank.needed_bytes,
                rank.allocated_bytes,
            )
            for rank in up.ranks
        ],
        blocks=up.blocks,
        request_blocks=up.request_blocks,
        concurrency=up.concurrency,
        tokens=up.tokens,
        older_tokens=up.older_tokens,
        printed=printed(up, older=choices.older),
        cost=[
            SizedCost(cost.above, float(cost.fixed), float(cost.per_token), cost.rounding)
            for cost in up.costs()
        ],
        otherwise=_otherwise(model, layers, choices, hybrid),
        notes=_notes(model, choices, chunked, hybrid),
    )


def _start(
    model: Model, layers: list[Layer], choices: Choices, hybrid: bool, asynchronous: bool
) -> Startup:
    longest = choices.max_len or model.max_len
    if longest is None:
        raise DeviceError(f"{model.name} states no maximum length: give --max-len")
    return start(
        layers,
        Ranks(model.stages(choices.pp), choices.tp, choices.dcp),
        choices.available,
        dtype=model.dtype,
        kv_dtype=choices.kv_dtype,
        max_len=longest,
        max_batched_tokens=choices.max_batched_tokens,
        block=choices.block,
        hybrid=hybrid,
        prefix_caching=choices.prefix_caching,
        batches=in_flight_batches(choices.pp, asynchronous=asynchronous),
        blocks=choices.blocks,
        fit=choices.max_len == 0,
        outer=_outer(choices.layout),
    )


def _outer(layout: str | None) -> bool:
    """Whether the block is outermost in a layout's letters, as vLLM spells it."""
    if layout is None:
        return False
    if sorted(layout.upper()) != sorted("BLHNC"):
        raise SpecError(f"--layout is {layout}, must be the letters B, L, H, N and C in some order")
    return layout.upper().startswith("B")


def _heads(model: Model, layers: list[Layer], tp: int) -> None:
    """DeviceError where ranks can neither split the KV heads evenly nor copy them evenly."""
    if tp < 1:
        raise SpecError(f"tp is {tp}, must be >= 1")
    for heads in sorted({layer.kv_heads for layer in layers if layer.kv_heads}):
        if heads % tp and tp % heads:
            raise DeviceError(
                f"{model.name}: tp {tp} neither divides {heads} KV heads nor is a multiple of them"
            )


def _groups(up: Startup, fullest: Rank) -> list[SizedGroup]:
    found = []
    for one, there in zip(up.groups, fullest.groups, strict=True):
        blocks = one.most_blocks(-(-up.max_len // up.dcp), up.in_flight)
        lost = fullest.block_bytes - there.page_bytes
        found.append(
            SizedGroup(
                kind=one.kind,
                window=one.window,
                layers=list(one.layers),
                block_tokens=one.block,
                page_bytes=there.page_bytes,
                padding_bytes=lost,
                request_blocks=blocks,
                request_padding_bytes=lost * blocks,
            )
        )
    return found


def _otherwise(
    model: Model, layers: list[Layer], choices: Choices, hybrid: bool
) -> list[Otherwise]:
    """The two choices that move the printed count of models with several kinds of layers."""
    if not model.mixed:
        return []
    other = "synchronous" if choices.asynchronous else "asynchronous"
    ways = [
        (f"{other} scheduling", hybrid, not choices.asynchronous),
        ("--no-hybrid" if hybrid else "--hybrid", not hybrid, choices.asynchronous),
    ]
    found = []
    for what, groups, asynchronous in ways:
        try:
            up = _start(model, layers, choices, groups, asynchronous)
        except DeviceError as error:
            found.append(Otherwise(what, None, None, str(error)))
        else:
            found.append(Otherwise(what, up.tokens, up.concurrency))
    return found


def _notes(model: Model, choices: Choices, chunked: bool, hybrid: bool) -> list[str]:
    notes = []
    if chunked and choices.hybrid is None:
        notes.append("vLLM switches groups off by itself for chunked attention; --hybrid is on")
    if chunked and hybrid:
        notes.append("vLLM takes groups for chunked attention only where its environment allows it")
    if model.mla is not None and choices.block == 16:
        notes.append("FlashMLA raises the block to 64 tokens: say --block 64 where that runs")
    if model.heads % choices.tp:
        notes.append(
            f"tp {choices.tp} does not divide {model.heads} query heads: the engine refuses that"
        )
    if _outer(choices.layout):
        notes.append("with the block outermost unequal pages are packed as far as that is known")
    if choices.exempt:
        notes.append("layers with another KV format are sized by the rules, not by a recorded run")
    if not choices.asynchronous:
        notes.append("synchronous scheduling; a stock server schedules asynchronously")
    return notes


__all__ = [
    "Choices",
    "EngineSizing",
    "Otherwise",
    "SizedCost",
    "SizedGroup",
    "SizedRank",
    "size_as_engine",
]
