"""``pagedsim plan``: the highest rate of requests at which an objective holds.

For each candidate: all requests at time 0 first, which says how many the server can finish a second
when it is never short of work; then a bisection from there (`plan_search`), every value of which is
a replay of the whole trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pagedsim.analysis.configuration import Configuration
from pagedsim.analysis.plan_load import Offered
from pagedsim.analysis.plan_result import Answer, Choices, Cost, Replay
from pagedsim.analysis.plan_run import Runner
from pagedsim.analysis.plan_search import Bracket, bracket, digits
from pagedsim.analysis.plan_slo import TIMES, Bound, Objective
from pagedsim.analysis.simulate import Setup, device_info
from pagedsim.errors import DeviceError, PagedsimError
from pagedsim.trace import arrivals

TOLERANCE = 0.05
NEAR = 0.8  # of what a server finishes a second at most: where the search begins
CURVE = (0.2, 0.4, 0.6, 0.8, 0.9, 1.1, 1.25)  # of the rate that holds, for a picture
LOWEST = 1e-4  # of it: a rate at which every request is alone, or never will be


class Impossible(PagedsimError):
    """An objective that no load meets."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of every candidate. With `curve` rates around the answer are replayed too."""

    load: Offered
    objective: Objective
    tolerance: float = TOLERANCE
    curve: bool = False


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
    from joblib import Parallel, delayed

    work = Parallel(n_jobs=min(jobs, len(candidates)), return_as="generator")
    yield from work(delayed(answer)(candidate, question) for candidate in candidates)


def answer(
    candidate: Candidate, question: Question, *, told: Callable[[int], None] | None = None
) -> Answer:
    """The highest rate of one candidate. What cannot be is in the answer, not an error."""
    configuration = candidate.configuration
    try:
        setup = configuration.setup()
    except DeviceError as error:
        return _not_there(configuration, str(error))
    search = _Search(
        question,
        Runner(configuration=configuration, setup=setup, objective=question.objective, told=told),
    )
    known = _known(configuration, setup)
    try:
        found = search.run()
    except Impossible as error:
        return Answer(**known, **search.seen(), found=None, impossible=str(error))
    return Answer(**known, **search.seen(), **_answered(candidate, question, setup, search, found))


class _Search:
    """The replays of one candidate, each run once."""

    def __init__(self, question: Question, runner: Runner) -> None:
        self._load, self._runner, self._tolerance = question.load, runner, question.tolerance
        self._curve = question.curve
        self.replays: dict[float, Replay] = {}
        self.saturated: Replay | None = None
        self.lone: Replay | None = None

    def run(self) -> Bracket:
        """Impossible where no rate is low enough; (None, None) where none is too high."""
        load = self._load
        self.saturated = self._runner(
            arrivals.saturate(load.trace),
            at=None,
            rate=None,
            options=("--arrivals", "saturate"),
            full=True,
        )
        if not self.saturated.finished:
            refused = self.saturated.refused
            raise Impossible(f"all {refused} requests are refused: no prompt fits")
        if self.saturated.holds:
            return Bracket(None, None)
        finishes = self.saturated.requests_per_s
        assert finishes is not None
        top = finishes / load.per
        found = bracket(
            self.holds, top * NEAR, tolerance=self._tolerance, least=top * LOWEST, snap=digits
        )
        if found.passes is None:
            raise Impossible(
                f"{self._named(min(self.replays.items())[1])} at the lowest rate tried, "
                f"{load.rate(min(self.replays)):.4g} requests/s, although a request alone is "
                "within: requests that arrive at the same time stay together at any rate"
            )
        if self._curve:
            for share in CURVE:
                self.holds(digits(found.passes * share))
        return found

    def holds(self, x: float) -> bool:
        """Whether the objective does at value `x`. Impossible, if it does not for one alone."""
        if x not in self.replays:
            self.replays[x] = self._runner(
                self._load.at(x), at=x, rate=self._load.rate(x), options=self._load.options(x)
            )
        held = self.replays[x].holds
        if not held and self.lone is None and sum(not r.holds for r in self.replays.values()) == 2:
            self._alone()
        return held

    def _alone(self) -> None:
        """One request at a time is the end of all lower rates: is that within?"""
        if any(replay.holds for replay in self.replays.values()):
            return
        self.lone = self._runner(
            self._load.trace, at=None, rate=None, options=("--concurrency", "1"), concurrency=1
        )
        if not self.lone.holds:
            raise Impossible(f"{self._named(self.lone)} with one request at a time, at any rate")

    def _named(self, replay: Replay) -> str:
        """The bounds that a replay breaks, with its values."""
        said = []
        bounds = self._runner.objective.bounds
        for bound, value in zip(bounds, replay.values, strict=True):
            if not bound.holds(value):
                said.append(f"{bound.text}: it is {shown(bound, value)}")
        return "; ".join(said)

    def seen(self) -> dict[str, Any]:
        """What there is to say whatever was found."""
        every = [self.replays[x] for x in sorted(self.replays)]
        holding = [x for x, replay in self.replays.items() if replay.holds]
        failing = [x for x, replay in self.replays.items() if not replay.holds]
        return {
            "saturated": self.saturated,
            "replays": tuple(every),
            "runs": len(every) + (self.saturated is not None) + (self.lone is not None),
            "monotone": max(holding, default=0.0) <= min(failing, default=math.inf),
        }


def shown(bound: Bound, value: float | None) -> str:
    """A value as a bound writes it, for messages."""
    if value is None:
        return "not known, for no request that finished has one"
    if bound.metric not in TIMES:
        return f"{100 * value:.4g} %" if bound.share else f"{value:g}"
    return f"{value:.4g} s" if value >= 1 else f"{1000 * value:.4g} ms"


def _answered(
    candidate: Candidate, question: Question, setup: Setup, search: _Search, found: Bracket
) -> dict[str, Any]:
    load = question.load
    assert setup.device is not None
    assert search.saturated is not None
    gpus = setup.device.tp * setup.device.pp
    if found.passes is None:
        return {
            "found": None,
            "unlimited": True,
            "passes": search.saturated,
            "binds": search.saturated.binds,
            "replicas": 1,
            "gpus": gpus,
        }
    passes = search.replays[found.passes]
    fails = None if found.fails is None else search.replays[found.fails]
    wanted, rate = load.rate(load.wanted), load.rate(found.passes)
    replicas = math.ceil(wanted / rate)
    return {
        "found": found.passes,
        "rate": rate,
        "passes": passes,
        "fails": fails,
        "binds": (fails or search.saturated).binds,
        "replicas": replicas,
        "gpus": replicas * gpus,
        "cost": _cost(candidate.price, gpus, replicas, passes, rate, wanted),
    }


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


def _known(configuration: Configuration, setup: Setup) -> dict[str, Any]:
    device = setup.device
    assert device is not None
    assert setup.max_len is not None
    info = device_info(device)
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
        "capacity_tokens": info.capacity_tokens,
        "estimates": configuration.estimates(),
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


__all__ = ["TOLERANCE", "Candidate", "Impossible", "Question", "answer", "answers", "shown"]
