"""``pagedsim plan``: what each candidate takes, or needs, for an objective to hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pagedsim.analysis.configuration import Configuration
from pagedsim.analysis.plan_advice import advice
from pagedsim.analysis.plan_binds import MEMORY
from pagedsim.analysis.plan_find import FINDS
from pagedsim.analysis.plan_load import Offered
from pagedsim.analysis.plan_rate import Rates
from pagedsim.analysis.plan_result import Answer, Choices, Cost, Replay
from pagedsim.analysis.plan_run import Runner
from pagedsim.analysis.plan_search import Bracket
from pagedsim.analysis.plan_slo import Objective
from pagedsim.analysis.plan_trials import Impossible, Trials
from pagedsim.analysis.processes import in_processes
from pagedsim.analysis.simulate import Setup
from pagedsim.errors import DeviceError

TOLERANCE = 0.05
RATE = "rate"  # what is sought where nothing else is asked for
FIND = (RATE, *FINDS)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of every candidate.

    `find` is one of `FIND`. With `curve` rates around the answer are replayed too, with `advice`
    every change that could be made to the candidate (`plan_advice`).
    """

    load: Offered
    objective: Objective
    tolerance: float = TOLERANCE
    find: str = RATE
    curve: bool = False
    advice: bool = False


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A server that is asked about. `price` is of one of its GPUs for an hour."""

    configuration: Configuration
    price: float | None = None


def answers(
    candidates: Sequence[Candidate],
    question: Question,
    *,
    jobs: int = 1,
    told: Callable[[int], None] | None = None,
) -> Iterator[Answer]:
    """An answer a candidate, in order, as they are found.

    With several `jobs` candidates are worked on in as many processes, and `told`, which hears of
    requests done, is only called in this one. The answers are the same.
    """
    if jobs == 1 or len(candidates) == 1:
        yield from (answer(candidate, question, told=told) for candidate in candidates)
        return
    yield from in_processes(answer, [(candidate, question) for candidate in candidates], jobs)


def answer(
    candidate: Candidate, question: Question, *, told: Callable[[int], None] | None = None
) -> Answer:
    """The answer of one candidate. What cannot be is in the answer, not an error."""
    configuration = candidate.configuration
    try:
        setup = configuration.setup()
    except DeviceError as error:
        return _not_there(configuration, str(error))
    runner = Runner(
        configuration=configuration, setup=setup, objective=question.objective, told=told
    )
    known = _known(configuration, setup, sized=question.find == "kv-tokens")
    if question.find == RATE:
        return _rate(candidate, question, runner, known)
    return _other(question, runner, known)


def _rate(
    candidate: Candidate, question: Question, runner: Runner, known: dict[str, Any]
) -> Answer:
    load, rates = question.load, Rates(question.load, runner)
    try:
        found = rates.search(question.tolerance, curve=question.curve)
    except Impossible as error:
        return Answer(**known, **rates.seen(), found=None, impossible=str(error))
    full, setup = rates.saturated, runner.setup
    assert full is not None
    assert setup.device is not None
    gpus = setup.device.tp * setup.device.pp
    if found.passes is None:
        return Answer(
            **known,
            **rates.seen(),
            found=None,
            unlimited=True,
            passes=full,
            binds=full.binds,
            replicas=1,
            gpus=gpus,
        )
    passes, fails = _ends(rates, found)
    assert passes is not None
    wanted, rate = load.rate(load.wanted), load.rate(found.passes)
    replicas = math.ceil(wanted / rate)
    return Answer(
        **known,
        **rates.seen(),
        found=found.passes,
        rate=rate,
        passes=passes,
        fails=fails,
        binds=(fails or full).binds,
        replicas=replicas,
        gpus=replicas * gpus,
        cost=_cost(candidate.price, gpus, replicas, passes, rate, wanted),
        advice=advice(load, runner, passes, fails, question.tolerance)
        if question.advice and fails is not None
        else None,
    )


def _other(question: Question, runner: Runner, known: dict[str, Any]) -> Answer:
    """Something else than a rate; its load is the wanted one."""
    load = question.load
    trials, found, impossible = FINDS[question.find](load, runner, question.tolerance)
    if impossible:
        return Answer(**known, **trials.seen(), found=None, impossible=impossible)
    passes, fails = _ends(trials, found)
    assert passes is not None
    assert runner.setup.device is not None
    replicas = int(passes.at or 1) if question.find == "gpus" else None
    return Answer(
        **known,
        **trials.seen(),
        found=passes.at,
        rate=passes.rate,
        unlimited=fails is None,
        passes=passes,
        fails=fails,
        binds="" if fails is None else MEMORY if fails.holds else fails.binds,
        replicas=replicas,
        gpus=(replicas or 1) * runner.setup.device.tp * runner.setup.device.pp,
    )


def _ends(trials: Trials, found: Bracket) -> tuple[Replay | None, Replay | None]:
    at = trials.replays
    return (
        None if found.passes is None else at[found.passes],
        None if found.fails is None else at[found.fails],
    )


def _cost(
    price: float | None, gpus: int, replicas: int, passes: Replay, rate: float, wanted: float
) -> Cost | None:
    if price is None:
        return None
    output = passes.output_tokens / passes.finished
    tokens = output + passes.prompt_tokens / passes.finished
    a_request = price * gpus / (3600 * rate)
    return Cost(
        per_gpu_hour=price,
        output=a_request / output * 1e6,
        tokens=a_request / tokens * 1e6,
        output_at_wanted=price * gpus * replicas / (3600 * wanted) / output * 1e6,
    )


def _known(configuration: Configuration, setup: Setup, *, sized: bool) -> dict[str, Any]:
    """What there is to say of a candidate before anything runs; `sized`: its pool is sought."""
    device = setup.device
    assert device is not None
    assert setup.max_len is not None
    return {
        "choices": Choices(
            allocator=configuration.allocator,
            scheduler=configuration.scheduler,
            steptime=configuration.steptime,
            model=device.model.name,
            gpu=device.gpu.name,
            tp=device.tp,
            pp=device.pp,
            kv_dtype=device.kv_dtype,
            max_len=setup.max_len,
            max_seqs=device.max_seqs,
            max_batched_tokens=device.max_batched_tokens,
        ),
        "capacity_tokens": device.capacity_tokens,
        "estimates": configuration.estimates(pool=not sized),
        "notes": setup.notes,
    }


def _not_there(configuration: Configuration, why: str) -> Answer:
    """The answer for a candidate that cannot be sized."""
    given = configuration.device
    return Answer(
        choices=Choices(
            allocator=configuration.allocator,
            scheduler=configuration.scheduler,
            steptime=configuration.steptime,
            model=configuration.model,
            gpu=configuration.gpu,
            tp=given.get("tp", 1),
            pp=given.get("pp", 1),
            kv_dtype=given.get("kv_dtype", "auto"),
            max_len=configuration.max_len or 0,
            max_seqs=given.get("max_seqs", 0),
            max_batched_tokens=given.get("max_batched_tokens", 0),
        ),
        capacity_tokens=0,
        found=None,
        impossible=why,
    )


__all__ = ["FIND", "RATE", "TOLERANCE", "Candidate", "Question", "answer", "answers"]
