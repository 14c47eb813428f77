"""Whether requests of several samples can run on these parts at all."""

from __future__ import annotations

from pagedsim.errors import SpecError
from pagedsim.protocols import (
    Allocator,
    Scheduler,
    SupportsBudget,
    SupportsFork,
    SupportsPlaces,
)
from pagedsim.trace.samples import forking
from pagedsim.trace.trace import Trace


def check_samples(trace: Trace, allocator: Allocator, scheduler: Scheduler) -> None:
    """SpecError where a request has samples, but the allocator cannot fork, or too many."""
    if not forking(trace):
        return
    row = int(trace.samples.argmax())
    asks = f"{trace.name}: request {row} asks for {trace.samples[row]} "
    asks += "beams" if trace.beam[row] else "samples"
    if not isinstance(allocator, SupportsFork):
        raise SpecError(
            f"{asks}; {type(allocator).__name__} cannot fork a sequence: use paged or "
            "paged:prefix=on as the only allocators (--allocator paged)"
        )
    if isinstance(scheduler, SupportsPlaces) and scheduler.max_seqs < trace.samples[row]:
        raise SpecError(
            f"{asks}, but max_seqs is {scheduler.max_seqs}: they run together or not at all"
        )


def parts_samples(trace: Trace, scheduler: Scheduler) -> bool:
    """Whether the budget of a step can be less than a token for each sequence of the batch.

    The samples of a request then need not have stored equally much. There are no more sequences
    than places, nor than samples in the trace.
    """
    return isinstance(scheduler, SupportsBudget) and scheduler.max_batched_tokens < min(
        scheduler.max_seqs, int(trace.samples.sum())
    )


__all__ = ["check_samples", "parts_samples"]
