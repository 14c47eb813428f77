"""What ``pagedsim size --available-gib`` does once its options are read."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pagedsim.cli.values import MOST
from pagedsim.errors import SpecError

if TYPE_CHECKING:
    from pagedsim.device.shape import Model


def start_up(
    model: Model,
    json: str | None,
    source: list[str],
    *,
    quiet: bool,
    no_color: bool,
    **choices: Any,
) -> None:
    """Size `model` as the engine starts it up, and say so."""
    from dataclasses import replace

    from pagedsim.device.enginesize import Choices, size_as_engine
    from pagedsim.files import write_json
    from pagedsim.present.startup import show_startup

    result = size_as_engine(model, Choices(**choices))
    result = replace(result, notes=[*source, *result.notes])
    write_json(json, result)
    if json != "-" and not quiet:
        show_startup(result, no_color=no_color)


def available_bytes(
    text: str, model: Model, gpu: str | None, max_batched_tokens: int | None, **sizes: Any
) -> tuple[list[int], int, list[str]]:
    """Bytes for KV, the token budget of a step, and notes on what of them was not given."""
    from pagedsim.device.device import make_device
    from pagedsim.device.tables import find_gpu

    notes = []
    if max_batched_tokens is None:
        card = None if gpu is None else find_gpu(gpu)
        max_batched_tokens = 8192 if card is None else card.max_batched_tokens
        notes.append(f"{max_batched_tokens:,} tokens a step, an assumption: --max-batched-tokens")
    if text == "estimate":
        if gpu is None:
            raise SpecError("--available-gib estimate needs --gpu NAME")
        device = make_device(model, gpu, max_batched_tokens=max_batched_tokens, **sizes)
        notes.append(
            f"the memory is an {device.provenance['capacity'].removesuffix(', in whole blocks')}"
        )
        return [device.pool_bytes], max_batched_tokens, notes
    return [_gib(part.strip()) for part in text.split(",")], max_batched_tokens, notes


def _gib(text: str) -> int:
    """GiB as bytes, exactly, cut to a whole byte."""
    try:
        value = int(Fraction(text) * 2**30)
    except (ValueError, ZeroDivisionError, OverflowError):
        value = 0
    if not 1 <= value <= MOST * 1024:
        raise SpecError(f"--available-gib is {text}, must be a number > 0 and <= {MOST >> 20}")
    return value


__all__ = ["available_bytes", "start_up"]
