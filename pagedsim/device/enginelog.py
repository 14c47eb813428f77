"""Find in an engine's log how many blocks or tokens its KV pool has.

The last statement wins: engines that restart or profile twice repeat it. Numbers may carry
thousands separators, lines any prefix. Bytes that are no UTF-8 are replaced, not refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pagedsim.errors import InputError

_N = r"(\d[\d,_]*)"
# engine, what the number counts, how a person would recognise it, pattern
_PATTERNS = tuple(
    (engine, unit, example, re.compile(pattern, re.IGNORECASE))
    for engine, unit, example, pattern in (
        ("vLLM V0", "blocks", "# GPU blocks: N", rf"# ?(?:GPU|cuda) blocks: *{_N}"),
        ("vLLM V0", "tokens", "KV cache (N)", rf"stored in KV cache \({_N}\)|> KV cache \({_N}\)"),
        ("vLLM V1", "tokens", "GPU KV cache size: N tokens", rf"KV cache size: *{_N} tokens"),
        ("vLLM V1", "tokens", "KV cache: N tokens", rf"\bKV cache: *{_N} tokens"),
        (
            "vLLM V1",
            "blocks",
            "num_gpu_blocks: N",
            rf"\b(?:num_gpu_blocks|total_kv_blocks)['\"]?(?: is)? *[:=]? *{_N}",
        ),
        ("SGLang", "tokens", "#tokens: N, K size", rf"KV Cache is allocated\..*?#tokens: *{_N}"),
        ("SGLang", "tokens", "max_total_num_tokens=N", rf"\bmax_total_num_tokens *[=:] *{_N}"),
        (
            "TensorRT-LLM",
            "tokens",
            "for max tokens in paged KV cache (N)",
            rf"max tokens in paged KV cache \({_N}\)",
        ),
        (
            "TensorRT-LLM",
            "tokens",
            "Using N tokens in paged KV cache",
            rf"Using {_N} tokens in paged KV cache",
        ),
        ("llama.cpp", "tokens", "KV … size = … (N cells", rf"KV.*size *=.*\( *{_N} cells"),
        ("llama.cpp", "tokens", "n_ctx = N", rf"\bn_ctx *= *{_N}"),
    )
)


@dataclass(frozen=True, slots=True)
class EngineLog:
    """What a log states: `count` of `unit` ('blocks', null block included, or 'tokens')."""

    engine: str
    unit: str
    count: int
    line: int
    text: str

    def tokens(self, block: int) -> int:
        """Slots of the pool, at `block` slots a block."""
        return self.count * block if self.unit == "blocks" else self.count


def read_engine_log(path: str | Path) -> EngineLog:
    """The last statement of the pool's size in a log file; see `parse_engine_log`."""
    return parse_engine_log(log_text(path), str(path))


def log_text(path: str | Path) -> str:
    """A log whole, whatever bytes it holds; InputError where it cannot be read."""
    try:
        return Path(path).read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def parse_engine_log(text: str, name: str = "log") -> EngineLog:
    """The last statement of the pool's size in `text`, O(length).

    On one line the earlier pattern of the table wins. InputError lists what is looked for if
    there is none, or if the number is zero.
    """
    found: EngineLog | None = None
    for number, line in enumerate(text.splitlines(), 1):
        for engine, unit, _, pattern in _PATTERNS:
            match = pattern.search(line)
            if match:
                digits = next(group for group in match.groups() if group)
                count = int(digits.replace(",", "").replace("_", ""))
                # n_ctx is what llama.cpp was asked for; a stated buffer is what it took
                weaker = found is not None and "n_ctx" in pattern.pattern
                if not (weaker and found is not None and found.engine == "llama.cpp"):
                    found = EngineLog(engine, unit, count, number, line.strip()[:200])
                break
    if found is None:
        wanted = "; ".join(f"{engine}: {example!r}" for engine, _, example, _ in _PATTERNS)
        raise InputError(f"{name}: states no KV blocks or tokens; looked for {wanted}")
    if found.count < 1:
        raise InputError(f"{name}:{found.line}: {found.unit} is {found.count}, must be >= 1")
    return found


__all__ = ["EngineLog", "log_text", "parse_engine_log", "read_engine_log"]
