"""The answer of ``pagedsim plan``, as its JSON has it: ``pagedsim.plan/1``.

Times are seconds, rates requests a second, shares parts of 1; docs/plan.md defines every field.
"""

from __future__ import annotations

import msgspec

from pagedsim.analysis.plan_slo import Objective
from pagedsim.analysis.results import Binds, Compute, TraceInfo

SCHEMA = "pagedsim.plan/1"


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """One replay that was really run. `values` are those of the objective's bounds, in order.

    `at` is the value of what was sought; None for the replay with all requests at time 0.
    `rate` is what was offered, None where there is no such number. `options` say how
    ``pagedsim replay`` is made to do the same.
    """

    at: float | None
    rate: float | None
    options: tuple[str, ...]
    holds: bool
    values: tuple[float | None, ...]
    broken: tuple[str, ...]
    binds: str
    batch_mean: float | None
    batch_peak: int
    limits: Binds
    compute: Compute | None
    requests_per_s: float | None
    output_tokens_per_s: float | None
    finished: int
    prompt_tokens: int
    output_tokens: int
    preemptions: int
    refused: int
    truncated: int
    makespan_s: float | None


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate is: the options that make it."""

    allocator: str
    scheduler: str
    steptime: str
    model: str
    gpu: str
    tp: int
    pp: int
    kv_dtype: str
    max_len: int
    max_seqs: int
    max_batched_tokens: int


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Money for a million tokens, in the currency of `per_gpu_hour`.

    `output` counts output tokens alone, `tokens` prompt tokens too, both at the highest rate;
    `output_at_wanted` is with the whole replicas that the wanted rate needs.
    """

    per_gpu_hour: float
    output: float
    tokens: float
    output_at_wanted: float


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The change that gives the most on the same GPUs, and the rate with it; None: no limit.

    `gain` is that rate over the candidate's, - 1. `tried` changes were replayed, `runs` times in
    all.
    """

    change: str
    kind: str
    rate: float | None
    gain: float | None
    tried: int
    runs: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What was found for a candidate.

    `found` is the value that holds: None where there is none (`impossible` says why), or no rate
    fails (`unlimited`, which says of other values that the last that can be tried holds).
    `passes` and `fails` are the ends of the last bracket, `replays` all that were tried, by value.
    `monotone`: nothing that holds is harder than something that does not. `replicas` and `gpus`
    are an estimate where a rate was sought: the wanted rate over the highest one, rounded up.
    """

    choices: Choices
    capacity_tokens: int
    found: float | None
    rate: float | None = None
    unlimited: bool = False
    impossible: str = ""
    passes: Replay | None = None
    fails: Replay | None = None
    saturated: Replay | None = None
    binds: str = ""
    monotone: bool = True
    replicas: int | None = None
    gpus: int | None = None
    cost: Cost | None = None
    advice: Advice | None = None
    replays: tuple[Replay, ...] = ()
    runs: int = 0
    estimates: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer: an objective, what was sought, and an answer a candidate."""

    schema: str = SCHEMA
    trace: TraceInfo
    objective: Objective
    find: str
    tolerance: float
    wanted_rate: float | None
    answers: tuple[Answer, ...]
    notes: tuple[str, ...] = ()
    version: str = ""
    command: str = ""
    seed: int | None = None
    created: str = ""
    wall_s: float | None = None


__all__ = ["SCHEMA", "Answer", "Choices", "Cost", "Plan", "Replay"]
