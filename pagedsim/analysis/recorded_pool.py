"""What the configuration in a recording's header stands for: a pool, with groups or without."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from pagedsim.alloc.grouped import Grouped
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.analysis.recorded import Recorded
from pagedsim.errors import InputError
from pagedsim.protocols import LayerGroup

Pool: TypeAlias = Paged | PrefixPaged | Grouped


class Config(msgspec.Struct, kw_only=True):
    """What a header must say of a vLLM run; all else in it plays no part."""

    num_gpu_blocks: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    enable_prefix_caching: bool
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    policy: str = "fcfs"
    async_scheduling: bool = False
    groups: tuple[dict[str, Any], ...] = ({"type": "full"},)


def config_of(recorded: Recorded) -> Config:
    """The header's configuration. InputError where it is incomplete or cannot be replayed."""
    if recorded.header.get("engine") != "vllm":
        engine = recorded.header.get("engine")
        raise InputError(f"{recorded.path}: recordings of {engine!r} cannot be replayed yet")
    try:
        config = msgspec.convert(recorded.header.get("config", {}), Config)
    except msgspec.ValidationError as error:
        raise InputError(f"{recorded.path}:1: config: {error}") from None
    if config.async_scheduling:
        raise InputError(f"{recorded.path}: asynchronous scheduling cannot be replayed yet")
    return config


def pool_of(recorded: Recorded, config: Config) -> Pool:
    """The pool of a header's configuration. InputError where its groups cannot be replayed."""
    if [group.get("type") for group in config.groups] == ["full"]:
        pool = PrefixPaged if config.enable_prefix_caching else Paged
        return pool(config.num_gpu_blocks, block=config.block_size)
    groups = []
    for at, group in enumerate(config.groups):
        kind, window = group.get("type"), group.get("window", 0)
        least = 0 if kind == "full" else 1
        if kind not in ("full", "sliding", "chunked") or type(window) is not int or window < least:
            raise InputError(
                f"{recorded.path}:1: config: group {at} is {group}; its type must be full, sliding "
                "or chunked, and a window is whole tokens, at least 1"
            )
        groups.append(LayerGroup(kind, (at,), config.block_size, config.block_size, window))
    return Grouped(
        config.num_gpu_blocks,
        groups=tuple(groups),
        prefix=config.enable_prefix_caching,
        in_flight=config.max_num_batched_tokens,
    )


__all__ = ["Config", "Pool", "config_of", "pool_of"]
