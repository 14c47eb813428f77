"""Fig 17: chat: a prompt is the last 1,024 tokens of a conversation, and at most 1,024 follow.

The conversations are made: a request comes after some earlier rounds of ShareGPT lengths (how many
is our assumption), its prompt is what was said, cut to the end, and no KV is kept between rounds.
Long prompts are what matters: prompt and answer together pass 1,024, so a buddy gives every Orca
2,048 slots, whatever it asks for::

    ... round, round, query        |<------- last 1,024 ------->|<--- answer, up to 1,024 --->|
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pagedsim.analysis.experiments import opt
from pagedsim.analysis.experiments.crossing import (
    OUTSIDE,
    THRESHOLD,
    Case,
    Curve,
    crossings,
    of_curve,
)
from pagedsim.analysis.experiments.experiment import Bench, Claim, Experiment, Found, Row, over
from pagedsim.analysis.experiments.opt import MAX, ORACLE, POW2, SOURCE, VLLM, Settings, System
from pagedsim.trace import arrivals
from pagedsim.trace.draws import stream
from pagedsim.trace.lengthmodels import Geometric, tokens
from pagedsim.trace.trace import Trace

CURVES: dict[str, Curve] = {  # requests/s, s a token
    "Orca (Max)": (
        *((0.1, 0.0314), (0.2, 0.0324), (0.3, 0.0356), (0.35, 0.0405), (0.4, 0.049)),
        *((0.45, 0.0901), (0.55, 0.4498), (0.5965, 1.4264)),
    ),
    "Orca (Pow2)": (
        *((0.1, 0.0313), (0.2, 0.0327), (0.3, 0.0352), (0.35, 0.0387), (0.4, 0.0451)),
        *((0.45, 0.0752), (0.55, 0.2746), (0.6, 0.9636), (0.6422, 1.4264)),
    ),
    "Orca (Oracle)": (
        *((0.1, 0.0314), (0.2, 0.0327), (0.3, 0.035), (0.35, 0.0381), (0.4, 0.0441)),
        *((0.45, 0.0692), (0.55, 0.241), (0.6, 0.8372), (0.65, 1.2179)),
    ),
    "vLLM": (
        *((0.1, 0.0314), (0.2, 0.0326), (0.3, 0.0341), (0.4, 0.0356), (0.55, 0.053)),
        *((0.6, 0.0708), (0.7, 0.1083), (0.8, 0.2002), (0.85, 0.4279), (0.8901, 1.4264)),
    ),
}
SYSTEMS = (MAX, POW2, ORACLE, VLLM)
_GUESSES = {"Orca (Max)": 0.65, "Orca (Pow2)": 0.65, "Orca (Oracle)": 0.65, "vLLM": 1.1}
_SOFT = "hangs on the time of a step, as in fig12, and on how long conversations are"


@dataclass(frozen=True, kw_only=True)
class Chat(Settings):
    """`rounds` is the mean number of rounds before a request, geometric from 0: an assumption."""

    rounds: float = 4.0
    last: int = 1_024  # tokens of the conversation that are kept
    most: int = 1_024  # tokens that are generated


def trace(seed: int, settings: Chat) -> Trace:
    """The requests of an hour, each with a prompt of its own."""
    count = int(settings.seconds * settings.rate * 1.5) + 100
    times = arrivals.poisson_ns(count, settings.rate, seed)
    times = times[times < settings.seconds * 10**9]
    rng = stream(seed, 5)
    before = tokens(Geometric(mean=settings.rounds, least=0), rng, len(times), least=0)
    ends = np.cumsum(before + 1)
    query, answer = (
        tokens(opt.lengths(settings.lengths, column), rng, int(ends[-1]))
        for column in ("input", "output")
    )
    answered = answer.copy()
    answered[ends - 1] = 0  # the last round of each is the request itself
    said = np.add.reduceat(query + answered, np.concatenate(([0], ends[:-1])))
    prompt = np.minimum(said, settings.last)
    output = np.minimum(answer[ends - 1], settings.most)
    output = np.minimum(output, settings.max_len - prompt)
    return Trace.build("sharegpt-chat", times, prompt, output, load=f"Poisson {settings.rate:g}/s")


def found_again(seed: int, settings: Chat, conversations: int = 100) -> tuple[float, float]:
    """% of prompt tokens hit if KV were kept: of later prompts still whole, and of those cut.

    Whole conversations, a round at a time, over a pool that never fills. A prompt is a stretch of
    its conversation's own tokens, so one that was cut begins at another token.
    """
    rng = stream(seed, 6)
    rounds = tokens(Geometric(mean=settings.rounds, least=0), rng, conversations, least=0) + 1
    many = int(rounds.sum())
    query, answer = (
        tokens(opt.lengths(settings.lengths, column), rng, many).tolist()
        for column in ("input", "output")
    )
    starts, prompts, outputs, later = [], [], [], []
    base = at = 0
    for count in rounds.tolist():
        said = 0
        for turn in range(count):
            end = said + query[at]
            start = max(0, end - settings.last)
            output = min(answer[at], settings.most, settings.max_len - (end - start))
            starts.append((base + start, start))
            prompts.append(end - start)
            outputs.append(output)
            later.append(turn > 0)
            said, at = end + output, at + 1
        base += said
    runs = (range(many + 1), [token for token, _ in starts], prompts)
    ends = [token + length for (token, _), length in zip(starts, prompts, strict=True)]
    one_by_one = np.arange(many, dtype=np.int64) * 10**12
    made = Trace.build("chat-kept", one_by_one, prompts, outputs, runs=runs, output_token=ends)
    room = replace(settings, slots=(sum(prompts) + sum(outputs)) // 16 * 16 + 16 * many)
    system = System(name="kept", allocator="paged:block=16,null=0,prefix=on")
    hits = opt.replay(system, seed, room, made).recording.requests.hit
    cut = np.array([start > 0 for _, start in starts])
    parts = np.array(later) & ~cut, cut
    whole, gone = (
        100 * float(hits[part].sum()) / max(1, int(made.prompt[part].sum())) for part in parts
    )
    return whole, gone


def latency(system: System, seed: int, settings: Chat) -> float:
    """Mean normalized latency of one run, in s a token."""
    run = opt.replay(system, seed, settings, trace(seed, settings))
    return run.latency.normalized_s_per_token.mean or 0.0


def measure(settings: Chat, bench: Bench) -> Found:
    """The rate that each system sustains, and vLLM's over each of the others'."""
    seeds = settings.seeds
    cases = [
        Case(system, seed, settings, _GUESSES[system.name]) for system in SYSTEMS for seed in seeds
    ]
    rates = crossings(bench, cases, measured=latency)
    published = {name: of_curve(curve) for name, curve in CURVES.items()}
    rows: list[Row] = []
    ours: dict[str, float] = {}
    for at, system in enumerate(SYSTEMS):
        own = rates[at * len(seeds) : (at + 1) * len(seeds)]
        found = [rate for rate in own if rate is not None]
        name = f"{system.name}: rate at {THRESHOLD} s/token"
        known = published[system.name]
        if len(found) < len(own):
            row = Row(
                name=name, unit="requests/s", published=known, ours=None, digits=3, note=OUTSIDE
            )
            rows.append(row)
            continue
        row = over(found, name=name, unit="requests/s", published=known, digits=3, note=_SOFT)
        rows.append(row)
        ours[system.name] = row.ours or 0.0
    for system in SYSTEMS[:-1]:
        both = {"vLLM", system.name} <= ours.keys()
        rows.append(
            Row(
                name=f"vLLM / {system.name}",
                unit="x",
                published=published["vLLM"] / published[system.name],
                ours=ours["vLLM"] / ours[system.name] if both else None,
                note=_SOFT,
            )
        )
    made = [trace(seed, settings) for seed in seeds]
    full = sum(int((one.prompt == settings.last).sum()) for one in made)
    rows.append(
        Row(
            name=f"prompts of {settings.last:,} tokens",
            unit="%",
            ours=100 * full / sum(map(len, made)),
            digits=1,
            note=f"{settings.rounds:g} earlier rounds on average are an assumption",
        )
    )
    again = bench.map(found_again, [(seed, settings) for seed in seeds])
    for at, which in enumerate(("whole", "cut")):
        name = f"if KV were kept: tokens found of prompts {which}"
        rows.append(over([one[at] for one in again], name=name, unit="%", digits=1))
    return Found(rows, claims=[_claim(ours)])


def _claim(ours: dict[str, float]) -> Claim:
    vllm = CURVES["vLLM"]
    ratios = [
        of_curve(vllm, threshold) / of_curve(CURVES[system.name], threshold)
        for system in SYSTEMS[:-1]
        for threshold in (0.1, 0.2, 0.5, 1.0)
    ]
    said = ""
    if len(ours) == len(SYSTEMS):
        own = [ours["vLLM"] / ours[system.name] for system in SYSTEMS[:-1]]
        said = f"{min(own):.2f} to {max(own):.2f}x"
    return Claim(
        printed="2x the request rate of the three Orca baselines",
        figures=f"{min(ratios):.2f} to {max(ratios):.2f}x at 0.1 to 1 s/token",
        ours=said,
    )


EXPERIMENT = Experiment(
    name="fig17",
    title="Request rate sustained in chat: OPT-13B, ShareGPT",
    source=f"{SOURCE}: Fig 17",
    settings=Chat(seeds=(0, 1, 2)),
    quick=Chat(seconds=600, seeds=(0,)),
    measure=measure,
    minutes=0.8,
    notes=(
        "No KV is kept between rounds, as in the paper. The last two rows keep it without limit: "
        "what is left of a conversation that is cut begins at another token each time, so none of "
        "its blocks is found again.",
    ),
)

__all__ = ["CURVES", "EXPERIMENT", "SYSTEMS", "Chat", "latency", "measure", "trace"]
