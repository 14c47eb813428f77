"""Fig 16: translation with a prompt prefix that all requests share, of 80 or 341 tokens.

The prefix-cached allocator keeps the prefix's full blocks once, and they are not computed again: of
80 tokens 5 blocks of 16, of 341 tokens 21 blocks with 5 tokens left over. The figure's values and
the lengths of the sentences (WMT) are not at hand, so nothing here is a target, and sentences are
assumed. Sharing gives two things, memory and prompts that are not computed, so it is run twice:
with prompts priced, and with Fig 1's fit alone, where prompt tokens cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pagedsim.analysis.experiments import opt
from pagedsim.analysis.experiments.crossing import THRESHOLD, Case, crossings
from pagedsim.analysis.experiments.experiment import Bench, Experiment, Found, Row, over
from pagedsim.analysis.experiments.fig13 import priced
from pagedsim.analysis.experiments.opt import ORACLE, PAPER, SOURCE, VLLM, Settings, System
from pagedsim.trace.arrivalmodels import Poisson
from pagedsim.trace.lengthmodels import Constant, Geometric
from pagedsim.trace.make import make
from pagedsim.trace.recipe import Recipe
from pagedsim.trace.recipe import System as SystemPrompt
from pagedsim.trace.trace import Trace

SHARED = System(
    name="vLLM, sharing", allocator="paged:block=16,null=0,prefix=on", scheduler=VLLM.scheduler
)
SYSTEMS = (ORACLE, replace(VLLM, name="vLLM, no sharing"), SHARED)
PREFIXES = (80, 341)


@dataclass(frozen=True, kw_only=True)
class Translation(Settings):
    """`prefix` tokens that all prompts begin with; sentences and translations are geometric.

    Their mean of 32 tokens is an assumption, as is the model: Fig 1's fit is of OPT-13B.
    """

    prefix: int = 80
    sentence: float = 32.0
    translation: float = 32.0
    prompts: bool = True  # whether the step time prices them
    guesses: tuple[float, ...] = (10.0, 10.0, 20.0)

    @property
    def label(self) -> str:
        """What rows begin with."""
        return f"prefix {self.prefix}" + ("" if self.prompts else ", prompts free")


def trace(seed: int, settings: Translation) -> Trace:
    """The requests; every prompt begins with the same tokens."""
    recipe = Recipe(
        name=f"translation-{settings.prefix}",
        arrivals=Poisson(rate=settings.rate),
        system=SystemPrompt(prompts=1, tokens=Constant(value=settings.prefix)),
        prompt=Geometric(mean=settings.sentence),
        output=Geometric(mean=settings.translation),
        seconds=settings.seconds,
        max_total=settings.max_len,
    )
    return make(recipe, seed=seed)


def latency(system: System, seed: int, settings: Translation) -> float:
    """Mean normalized latency of one run, in s a token."""
    run = opt.replay(system, seed, settings, trace(seed, settings))
    return run.latency.normalized_s_per_token.mean or 0.0


def saved(seed: int, settings: Translation) -> tuple[float, float]:
    """Prompt tokens hit, and slots not needed thanks to sharing, both in %."""
    run = opt.replay(SHARED, seed, settings, trace(seed, settings))
    live, shared = run.memory.live or 0.0, run.memory.shared or 0.0
    return 100 * (run.prefix.hit_rate or 0.0), 100 * shared / max(live + shared, 1e-9)


def measure(settings: tuple[Translation, ...], bench: Bench) -> Found:
    """For each prefix the rate that each system sustains, and what is saved at a modest rate."""
    rows: list[Row] = []
    for load in settings:
        cases = [
            Case(system, seed, load, guess)
            for system, guess in zip(SYSTEMS, load.guesses, strict=True)
            for seed in load.seeds
        ]
        rates = crossings(bench, cases, measured=latency)
        ours: list[float | None] = []
        for at, system in enumerate(SYSTEMS):
            own = rates[at * len(load.seeds) : (at + 1) * len(load.seeds)]
            name = f"{load.label}, {system.name}: rate at {THRESHOLD} s/token"
            found = [rate for rate in own if rate is not None]
            row = Row(name=name, unit="requests/s", ours=None)
            if len(found) == len(own):
                row = over(found, name=name, unit="requests/s")
            rows.append(row)
            ours.append(row.ours)
        for at, system in enumerate(SYSTEMS[:-1]):
            name = f"{load.label}, sharing / {system.name}"
            mine, theirs = ours[-1], ours[at]
            ratio = None if mine is None or theirs is None else mine / theirs
            rows.append(Row(name=name, unit="x", ours=ratio))
        if not load.prompts:
            continue
        both = bench.map(saved, [(seed, load) for seed in load.seeds])
        for at, what in enumerate(("prompt tokens hit", "slots saved")):
            name = f"{load.label}, sharing: {what} at {load.rate:g}/s"
            rows.append(over([one[at] for one in both], name=name, unit="%", digits=1))
    return Found(rows)


def _settings(seconds: int) -> tuple[Translation, ...]:
    paid = Translation(rate=4.0, seconds=seconds, seeds=(0,), steptime=priced(PAPER).steptime)
    free = replace(paid, steptime=PAPER.steptime, prompts=False, guesses=(20.0, 30.0, 40.0))
    return tuple(replace(base, prefix=prefix) for base in (paid, free) for prefix in PREFIXES)


EXPERIMENT = Experiment(
    name="fig16",
    title="A prompt prefix that all requests share: 80 and 341 tokens",
    source=f"{SOURCE}: Fig 16",
    settings=_settings(900),
    quick=_settings(60),
    measure=measure,
    minutes=2,
    notes=(
        "Assumptions: sentences and translations of 32 tokens on average (geometric), OPT-13B's "
        "slots and step time, 166.7 us a prompt token, 15 minutes of arrivals.",
        "With prompts free, what sharing gives is memory alone.",
    ),
)

__all__ = ["EXPERIMENT", "PREFIXES", "SHARED", "SYSTEMS", "Translation", "measure", "trace"]
