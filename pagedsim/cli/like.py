"""``--like 'vllm serve MODEL --flag value …'``: options out of an engine's own command line.

The server may be started in any of the usual ways, as a shell would read them::

    VARIABLE=value vllm serve MODEL …        python -m vllm.entrypoints.openai.api_server …
    docker run … vllm/vllm-openai:TAG …      … > log 2>&1 &   (the rest is the shell's)

What has no counterpart here is listed by name, without its value, which may be a secret.
"""

from __future__ import annotations

import re
import shlex
from typing import Any, NamedTuple

from pagedsim.cli.options import number, whole
from pagedsim.errors import SpecError

# vLLM's flag -> (field of Options or option of the scheduler, type)
_OPTIONS: dict[str, tuple[str, type]] = {
    "model": ("model", str),
    "tensor-parallel-size": ("tp", int),
    "tp": ("tp", int),
    "pipeline-parallel-size": ("pp", int),
    "pp": ("pp", int),
    "dtype": ("weights_dtype", str),
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
    "watermark": ("watermark", str),
}
_SWITCHES = {
    "enable-chunked-prefill": ("chunked", True),
    "no-enable-chunked-prefill": ("chunked", False),
}
_BLOCK = "block-size"  # of the paged allocator
_LEAST = {"long_prefill": 0, "max_len": 2}
_LEFT_TO_VLLM = {("max_len", "auto"), ("max_len", "-1"), ("kv_dtype", "auto")}
_LEFT_TO_VLLM |= {("weights_dtype", "auto")}
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
_ALONE = re.compile("(enable|disable|no|trust|enforce|headless)(-|$)")  # flags without a value
_SHELL = re.compile(r"[|;&]|&&|\|\||[0-9&]?>.*|<.*")
_SECRET = re.compile(
    r"((?:[\w-]*(?:api[-_]?key|token|secret|password))(?!s)(?:=|\s+))('[^']*'|[^\s'\"-][^\s'\"]*)",
    re.IGNORECASE,
)


class Like(NamedTuple):
    """What a command line says, sorted: `ignored` is what has no counterpart here."""

    options: dict[str, Any]
    scheduler: dict[str, Any]
    block: int | None
    ignored: list[str]


def read_like(text: str) -> Like:
    """Take a command line apart. SpecError where it starts no server, or a value is wrong."""
    words, ignored = _server(text)
    options: dict[str, Any] = {}
    scheduler: dict[str, Any] = {}
    block: int | None = None
    while words:
        flag, equals, value = words.pop(0).partition("=")
        name = flag.lstrip("-").replace("_", "-")
        if name in _SWITCHES:
            key, on = _SWITCHES[name]
            scheduler[key] = on
            continue
        if not flag.startswith("-"):
            options.setdefault("model", flag)  # what no option took
            continue
        if not equals and words and _is_value(words[0]) and not _ALONE.match(name):
            value = words.pop(0)
        if not (name in _OPTIONS or name in _SCHEDULER or name == _BLOCK):
            ignored.append(flag)
            continue
        if not value:
            raise SpecError(f"--like: {flag} has no value")
        if name in _OPTIONS:
            key, kind = _OPTIONS[name]
            if (key, value) not in _LEFT_TO_VLLM:
                options[key] = _read(flag, key, value, kind)
        elif name in _SCHEDULER:
            key, kind = _SCHEDULER[name]
            scheduler[key] = _read(flag, key, value, kind)
        else:
            block = whole(f"--like: {flag}", value)
    return Like(options, scheduler, block, list(dict.fromkeys(ignored)))


def masked(command: str) -> str:
    """`command` without the values of keys, tokens and passwords."""
    return _SECRET.sub(r"\1***", command)


def _server(text: str) -> tuple[list[str], list[str]]:
    """The words after the server's name, and the names of what stood before it."""
    try:
        words = [word for word in shlex.split(text.replace("\\\n", " ")) if word.strip()]
    except ValueError as error:
        raise SpecError(f"--like: {error}: {masked(text)}") from None
    end = next((at for at, word in enumerate(words) if _SHELL.fullmatch(word)), len(words))
    words = words[:end]
    for at, word in enumerate(words):
        after = words[at + 1 : at + 2]
        if word.rpartition("/")[2] == "vllm" and after == ["serve"]:
            return words[at + 2 :], _names(words[:at])
        if word == "-m" and after and after[0] in _MODULES:
            return words[at + 2 :], _names(words[:at])
        if "vllm-openai" in word.rpartition("/")[2] and not word.startswith("-"):
            return words[at + 1 :], _names(words[:at])
    raise SpecError(
        f"--like: '{masked(text)}' starts no server; there are 'vllm serve MODEL …', "
        f"'python -m {_MODULES[0]} …' and 'docker run … vllm/vllm-openai …'"
    )


def _names(words: list[str]) -> list[str]:
    """Variables and flags without their values; the programs that start the server say nothing."""
    return [
        word.partition("=")[0]
        for word in words
        if word.startswith("-") or ("=" in word and word.partition("=")[0].isidentifier())
    ]


def _is_value(word: str) -> bool:
    return not word.startswith("-") or word[1:2].isdigit()


def _read(flag: str, key: str, text: str, kind: type) -> Any:
    if kind is int:
        return whole(f"--like: {flag}", text, least=_LEAST.get(key, 1), most=1 << 50)
    if kind is float:
        return number(f"--like: {flag}", text, most=1.0)
    return text


__all__ = ["Like", "masked", "read_like"]
