"""``--like 'vllm serve MODEL --flag value …'``: options out of an engine's own command line."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

from pagedsim.errors import SpecError

# vLLM's flag -> (field of Options or option of the scheduler, type)
_OPTIONS: dict[str, tuple[str, type]] = {
    "model": ("model", str),
    "tensor-parallel-size": ("tp", int),
    "tp": ("tp", int),
    "pipeline-parallel-size": ("pp", int),
    "pp": ("pp", int),
    "kv-cache-dtype": ("kv_dtype", str),
    "gpu-memory-utilization": ("utilization", float),
    "num-gpu-blocks-override": ("kv_blocks", int),
    "kv-cache-memory-bytes": ("kv_memory_bytes", int),
    "max-model-len": ("max_len", int),
    "max-num-seqs": ("max_seqs", int),
    "max-num-batched-tokens": ("max_batched_tokens", int),
}
_SCHEDULER: dict[str, tuple[str, type]] = {
    "scheduling-policy": ("policy", str),
    "long-prefill-token-threshold": ("long_prefill", int),
    "watermark": ("watermark", float),
}
_SWITCHES = {
    "enable-chunked-prefill": ("chunked", True),
    "no-enable-chunked-prefill": ("chunked", False),
}
_AMONG = {"block-size": "block"}  # of the paged allocator


class Like(NamedTuple):
    """What a command line says, sorted: `ignored` is what has no counterpart here."""

    options: dict[str, Any]
    scheduler: dict[str, Any]
    block: int | None
    ignored: list[str]


def read_like(text: str) -> Like:
    """Take ``vllm serve …`` apart. SpecError where it is not one, or a value is no number."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SpecError(f"--like: {error}") from None
    while words and ("=" in words[0] and not words[0].startswith("-")):
        words.pop(0)  # VARIABLE=value before the command
    if words[:2] != ["vllm", "serve"]:
        raise SpecError(f"--like: '{text}' does not start with 'vllm serve'")
    options: dict[str, Any] = {}
    scheduler: dict[str, Any] = {}
    block: int | None = None
    ignored: list[str] = []
    words = words[2:]
    if words and not words[0].startswith("-"):
        options["model"] = words.pop(0)
    while words:
        flag, equals, value = words.pop(0).partition("=")
        name = flag.lstrip("-").replace("_", "-")
        if name in _SWITCHES:
            key, on = _SWITCHES[name]
            scheduler[key] = on
            continue
        takes = not equals and words and not words[0].startswith("-")
        if takes:
            value = words.pop(0)
        if name in _OPTIONS and value:
            key, kind = _OPTIONS[name]
            if (key, value) != ("kv_dtype", "auto"):
                options[key] = _number(flag, value, kind)
        elif name in _SCHEDULER and value:
            key, kind = _SCHEDULER[name]
            scheduler[key] = _number(flag, value, kind)
        elif name in _AMONG and value:
            block = _number(flag, value, int)
        else:
            ignored.append(f"{flag}{equals}{value}" if equals else f"{flag} {value}".strip())
    return Like(options, scheduler, block, ignored)


def _number(flag: str, text: str, kind: type) -> Any:
    if kind is int and text[-1:].lower() == "k" and text[:-1].replace(".", "", 1).isdigit():
        return int(float(text[:-1]) * (1024 if text[-1] == "K" else 1000))
    try:
        return kind(text)
    except ValueError:
        raise SpecError(f"--like: {flag} is '{text}', must be {kind.__name__}") from None


__all__ = ["Like", "read_like"]
