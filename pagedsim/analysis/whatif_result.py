"""The answer of ``pagedsim whatif``, as its JSON has it: ``pagedsim.whatif/1``.

Times are seconds, shares parts of 1; docs/plan.md defines every field.
"""

from __future__ import annotations

import msgspec

from pagedsim.analysis.results import TraceInfo

SCHEMA = "pagedsim.whatif/1"


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A replay with `change` ("present": none). `value` is of the metric that ranks.

    `gain` is by how much the value is better than what it is compared with, as a share of that;
    None where either is not known or that is 0. `kept`, in a stack: whether the change stays.
    """

    change: str
    kind: str
    value: float | None
    gain: float | None = None
    kept: bool | None = None
    gpus: int
    capacity_tokens: int
    batch_mean: float | None
    waste: float | None
    ttft_p99_s: float | None
    tpot_p90_s: float | None
    output_tokens_per_s: float | None
    makespan_s: float | None
    preemptions: int
    refused: int
    truncated: int


class Not(msgspec.Struct, frozen=True, kw_only=True):
    """A change that cannot be made, and why."""

    change: str
    kind: str
    why: str


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer. `changes` are ranked, the best first; `stack` is in the order of trial."""

    schema: str = SCHEMA
    trace: TraceInfo
    by: str
    higher_is_better: bool
    present: Tried
    changes: tuple[Tried, ...]
    impossible: tuple[Not, ...]
    stack: tuple[Tried, ...] | None = None
    server: str = ""
    estimates: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    version: str = ""
    command: str = ""
    seed: int | None = None
    created: str = ""
    wall_s: float | None = None


__all__ = ["SCHEMA", "Not", "Tried", "WhatIf"]
