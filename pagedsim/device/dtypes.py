"""Bytes of one element, exactly.

A *format* is how an engine stores an element of KV or of a weight. Sizes are Fractions, since
4-bit formats take half a byte and llama.cpp's block formats carry their scales inside.
Formats that keep scales beside the elements name the bytes that these take.
"""

from __future__ import annotations

import difflib
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from pagedsim.errors import DeviceError

Bytes: TypeAlias = int | Fraction


class Format(NamedTuple):
    """`element` bytes each; `scales`, bytes per KV head and token (K and V together)."""

    name: str
    element: Fraction
    scales: int = 0


_SIZES = {
    "fp32": Fraction(4),
    "fp16": Fraction(2),
    "bf16": Fraction(2),
    "fp8": Fraction(1),
    "int8": Fraction(1),
    "fp4": Fraction(1, 2),
    "int4": Fraction(1, 2),
    "nvfp4": Fraction(9, 16),  # 16 elements share one fp8 scale
    "mxfp4": Fraction(17, 32),  # 32 elements share one 8-bit scale
    "q8_0": Fraction(34, 32),  # llama.cpp: 32 elements and an fp16 scale
    "q5_1": Fraction(24, 32),
    "q5_0": Fraction(22, 32),
    "q4_1": Fraction(20, 32),
    "q4_0": Fraction(18, 32),
}
_SAME = {
    "float32": "fp32",
    "float": "fp32",
    "f32": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "bfloat16": "bf16",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "fp8_inc": "fp8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "awq": "int4",
    "gptq": "int4",
    "w4a16": "int4",
    "w8a8": "int8",
    "w8a16": "int8",
}
_KV_SCALED = {
    # two fp32 scales a head and token; vLLM's names
    "fp8_per_token_head": Format("fp8_per_token_head", Fraction(1), 8),
    "int8_per_token_head": Format("int8_per_token_head", Fraction(1), 8),
    "int4_per_token_head": Format("int4_per_token_head", Fraction(1, 2), 8),
}
_KV_ONLY_ELSEWHERE = ("mxfp4", "nvfp4")  # weight formats: no engine's KV layout is known for them
_WEIGHT_ONLY_ELSEWHERE = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0")


def half(dtype: str) -> str:
    """What 'auto' means for a checkpoint in `dtype`: itself, or fp16 for 32-bit ones (as vLLM)."""
    name = _SAME.get(dtype.lower(), dtype.lower())
    return "fp16" if name == "fp32" else name


def kv_format(dtype: str) -> Format:
    """The KV format called `dtype`; DeviceError lists the formats otherwise."""
    key = dtype.lower()
    if key in _KV_SCALED:
        return _KV_SCALED[key]
    name = _SAME.get(key, key)
    if name in _SIZES and name not in _KV_ONLY_ELSEWHERE:
        return Format(name, _SIZES[name])
    known = [n for n in _SIZES if n not in _KV_ONLY_ELSEWHERE]
    raise DeviceError(_unknown("KV dtype", dtype, [*known, *_KV_SCALED]))


def weight_format(dtype: str) -> Format:
    """The weight format called `dtype`; scales beside int4 and fp8 weights are left out."""
    name = _SAME.get(dtype.lower(), dtype.lower())
    if name in _SIZES and name not in _WEIGHT_ONLY_ELSEWHERE:
        return Format(name, _SIZES[name])
    known = [n for n in _SIZES if n not in _WEIGHT_ONLY_ELSEWHERE]
    raise DeviceError(_unknown("weights dtype", dtype, known))


def whole(value: Fraction) -> Bytes:
    """An int where `value` is one."""
    return value.numerator if value.denominator == 1 else value


def _unknown(what: str, name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.4)
    rest = [n for n in known if n not in close]
    return f"unknown {what} {name!r}; there are: auto, {', '.join([*close, *rest])}"


__all__ = ["Bytes", "Format", "half", "kv_format", "weight_format", "whole"]
