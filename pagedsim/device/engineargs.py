"""The configuration that an engine writes into its log when it starts.

vLLM says ``non-default args: {'max_model_len': 32768, …}``, SGLang ``server_args=ServerArgs(
context_length=32768, …)``. Only keys of the table below are read: no other value is looked at.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from pagedsim.device.enginelog import log_text

_VALUE = r"('(?:[^'\\]|\\.)*'|[-\w.]+)"
_STARTS = (
    ("vLLM", re.compile(r"non-default args: \{")),
    ("SGLang", re.compile(r"server_args=(?:ServerArgs\(|\{)")),
)
# key of the engine -> (field here, type)
_VLLM: dict[str, tuple[str, type]] = {
    "model": ("model", str),
    "max_model_len": ("max_len", int),
    "max_num_seqs": ("max_seqs", int),
    "max_num_batched_tokens": ("max_batched_tokens", int),
    "tensor_parallel_size": ("tp", int),
    "pipeline_parallel_size": ("pp", int),
    "kv_cache_dtype": ("kv_dtype", str),
    "gpu_memory_utilization": ("utilization", float),
    "block_size": ("block", int),
    "enable_prefix_caching": ("prefix", bool),
    "enable_chunked_prefill": ("chunked", bool),
    "scheduling_policy": ("policy", str),
}
_SGLANG: dict[str, tuple[str, type]] = {
    "model_path": ("model", str),
    "context_length": ("max_len", int),
    "max_running_requests": ("max_seqs", int),
    "chunked_prefill_size": ("max_batched_tokens", int),
    "tp_size": ("tp", int),
    "pp_size": ("pp", int),
    "kv_cache_dtype": ("kv_dtype", str),
    "page_size": ("block", int),
    "disable_radix_cache": ("no_prefix", bool),
}
_WORDS = re.compile(r"[\w.-]{1,40}")


class EngineArgs(NamedTuple):
    """`values` by field; empty where a log has no such line."""

    engine: str
    values: dict[str, Any]


def read_engine_args(path: str | Path) -> EngineArgs:
    """Of a log file, the last statement: engines that restart repeat it."""
    return parse_engine_args(log_text(path))


def parse_engine_args(text: str) -> EngineArgs:
    """The values in `text`; a value that is none of its type is left out. O(length)."""
    found = EngineArgs("", {})
    for line in text.splitlines():
        for engine, start in _STARTS:
            if at := start.search(line):
                keys = _VLLM if engine == "vLLM" else _SGLANG
                found = EngineArgs(engine, _values(line[at.end() :], keys))
    return found


def _values(text: str, keys: dict[str, tuple[str, type]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, (field, kind) in keys.items():
        match = re.search(rf"(?:(?<=[\s{{(,])|^)['\"]?{key}['\"]?(?:=|: ){_VALUE}", text)
        if match is None or match[1] in ("None", "'auto'"):
            continue
        word = match[1].strip("'")
        if kind is bool and word in ("True", "False"):
            values[field] = word == "True"
        elif (kind is str and field == "model") or (kind is str and _WORDS.fullmatch(word)):
            values[field] = word
        elif kind in (int, float):
            try:
                number = kind(word)
            except ValueError:
                continue
            if number > 0:
                values[field] = number
    if values.pop("no_prefix", False):
        values["prefix"] = False
    return values


__all__ = ["EngineArgs", "parse_engine_args", "read_engine_args"]
