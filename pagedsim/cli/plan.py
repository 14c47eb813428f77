"""``pagedsim plan``: how much load a server takes while an objective holds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagedsim.cli.options import ONE_RUN, Options, with_options
from pagedsim.cli.values import counted, measured, one_of, option
from pagedsim.errors import DeviceError, SpecError

if TYPE_CHECKING:
    from pagedsim.analysis.configuration import Configuration
    from pagedsim.analysis.plan import Candidate, Question
    from pagedsim.analysis.plan_result import Answer

_MANY = "Candidates (each may be repeated: all combinations)"
_LISTS = ("gpu", "tp", "kv_dtype", "max_seqs", "max_batched_tokens")
_TOLERANCE = 0.05
FIND = ("rate", "kv-tokens", "max-len", "gpus", "batch")


def _plan(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE", help="a trace file, - for standard input, or a bundled name"
        ),
    ],
    options: Options,
    slo: Annotated[
        str,
        option(
            "--slo", metavar="BOUNDS", help="what must hold, as in 'ttft_p99<2s, tpot_p90<60ms'"
        ),
    ],
    allocator: Annotated[
        list[str] | None,
        option(
            "--allocator",
            metavar="SPEC",
            panel=_MANY,
            help="paged, contiguous, radix, slots (:key=value,…)  [paged:block=16]",
        ),
    ] = None,
    block_size: Annotated[
        list[int] | None,
        counted("--block-size", panel=_MANY, help="tokens of a block of the paged allocators"),
    ] = None,
    kv_dtype: Annotated[
        list[str] | None,
        option(
            "--kv-dtype",
            "--kv-cache-dtype",
            metavar="TYPE",
            panel=_MANY,
            help="fp16, bf16, fp8, int8, int4, …",
        ),
    ] = None,
    gpu: Annotated[
        list[str] | None,
        option("--gpu", metavar="NAME", panel=_MANY, help="a built-in GPU  [a100-80gb]"),
    ] = None,
    tp: Annotated[
        list[int] | None,
        counted("--tp", "-tp", "--tensor-parallel-size", panel=_MANY, help="tensor parallel GPUs"),
    ] = None,
    max_seqs: Annotated[
        list[int] | None,
        counted("--max-seqs", "--max-num-seqs", panel=_MANY, help="most sequences in a batch"),
    ] = None,
    max_batched_tokens: Annotated[
        list[int] | None,
        counted(
            "--max-batched-tokens",
            "--max-num-batched-tokens",
            panel=_MANY,
            help="token budget of a step",
        ),
    ] = None,
    find: Annotated[
        str,
        one_of("--find", *FIND, help="what to look for; all but rate at the wanted rate"),
    ] = FIND[0],
    no_advice: Annotated[
        bool, option("--no-advice", help="do not look for the change that gives the most")
    ] = False,
    price: Annotated[
        list[str] | None,
        option(
            "--price",
            metavar="[GPU=]P",
            help="of a GPU for an hour, for the cost of a million tokens; may be repeated",
        ),
    ] = None,
    tolerance: Annotated[
        float,
        measured("--tolerance", most=1.0, help="the rate that fails over the one that holds, - 1"),
    ] = _TOLERANCE,
    jobs: Annotated[
        int, counted("-j", "--jobs", most=256, help="processes; the numbers stay the same")
    ] = 1,
) -> None:
    """Find the highest rate of requests at which an objective holds, for each candidate.

    Or, at the rate that is wanted: the smallest pool, the longest maximum length, the fewest GPUs;
    or the most requests outstanding.
    """
    from pagedsim.analysis.plan import Question
    from pagedsim.analysis.plan_slo import parse
    from pagedsim.cli.configurations import check_files, configurations, offered
    from pagedsim.cli.outputs import target
    from pagedsim.files import write_json
    from pagedsim.present.plan import names, table
    from pagedsim.present.progress import busy
    from pagedsim.present.tables import console

    objective = parse(slo)
    if find != FIND[0] and price:
        raise SpecError(f"--price is given, but --find {find} has no rate to divide it by")
    if find == "batch" and options.closed_loop:
        raise SpecError("--find batch and --closed-loop contradict each other: give one")
    if tolerance < 0.001:
        raise SpecError(f"--tolerance is {tolerance:g}, must be a number >= 0.001 and <= 1")
    made, notes = configurations(
        options,
        allocator or [],
        block_size or [],
        gpu=gpu,
        tp=tp,
        kv_dtype=kv_dtype,
        max_seqs=max_seqs,
        max_batched_tokens=max_batched_tokens,
    )
    candidates = _priced(made, price or [])
    for one in made:
        with suppress(DeviceError):  # said in its row; other errors are found before any run
            one.setup()
    check_files(trace, options)
    with busy(f"reading {trace}", no_color=options.no_color):
        question = Question(
            load=offered(trace, options, rated=find != "batch"),
            objective=objective,
            tolerance=tolerance,
            find=find,
            curve=options.figure is not None,
            advice=not no_advice,
        )
    found = _asked(candidates, question, options, jobs, notes)
    write_json(options.json, found)
    if options.figure is not None:
        with busy("drawing the figure", no_color=options.no_color):
            from pagedsim.present import figures

            figures.save(figures.plan(found, names(found)), target(options.figure))
    if not options.quiet and options.json != "-":
        console(no_color=options.no_color).print(table(found))


plan = with_options(_plan, without=ONE_RUN | {*_LISTS})


def _asked(
    candidates: Sequence[Candidate],
    question: Question,
    options: Options,
    jobs: int,
    notes: Sequence[str],
) -> Any:
    """The whole answer; SpecError where there is none for any candidate."""
    from pagedsim.analysis.plan_result import Plan
    from pagedsim.analysis.requests import trace_info
    from pagedsim.cli.configurations import made_by

    load, about = question.load, made_by(options)
    alone = jobs == 1 or len(candidates) == 1
    watched = _watched if alone else _counted
    found = watched(candidates, question, jobs, options.no_color)
    if all(one.impossible for one in found):
        raise SpecError(_none(found))
    return Plan(
        trace=trace_info(load.trace),
        objective=question.objective,
        find=question.find,
        tolerance=question.tolerance,
        wanted_rate=load.rate(load.wanted) or None,
        answers=tuple(found),
        notes=tuple(notes),
        **about(),
    )


def _watched(
    candidates: Sequence[Candidate], question: Question, jobs: int, no_color: bool
) -> list[Answer]:
    """Answers one after another in this process, requests counted as they are done."""
    from pagedsim.analysis.plan import answers
    from pagedsim.present.progress import Progress

    usual = (30 if question.advice else 10) * len(question.load.trace) * len(candidates)
    found: list[Answer] = []
    with Progress(0, "replaying", no_color=no_color) as progress:
        done = 0

        def told(more: int) -> None:
            nonlocal done
            done += more
            # How many replays a search takes is not known before, but about the same for all.
            expected = done * len(candidates) // len(found) if found else 0
            progress.reach(done, max(expected, usual, done))

        for one in answers(candidates, question, jobs=jobs, told=told):
            found.append(one)  # noqa: PERF402 - `told` counts them as they come
    return found


def _counted(
    candidates: Sequence[Candidate], question: Question, jobs: int, no_color: bool
) -> list[Answer]:
    """Answers from several processes, candidates counted as they are done."""
    from pagedsim.analysis.plan import answers
    from pagedsim.present.progress import busy

    found: list[Answer] = []
    among = f"of {len(candidates)} candidates planned, {jobs} processes"
    with busy(f"0 {among}", no_color=no_color) as say:
        for one in answers(candidates, question, jobs=jobs):
            found.append(one)
            say(f"{len(found)} {among}")
    return found


def _none(found: Sequence[Answer]) -> str:
    """Why no candidate has an answer: once if it is the same for all, else for each."""
    said = list(dict.fromkeys(one.impossible for one in found))
    if len(said) == 1:
        return said[0]
    named = [f"{one.choices.allocator} on {one.choices.gpu}: {one.impossible}" for one in found]
    return "no candidate is possible:\n  " + "\n  ".join(named)


def _priced(made: Sequence[Configuration], prices: Sequence[str]) -> list[Candidate]:
    """Candidates with the price of their GPU; SpecError for a price that is nobody's."""
    from pagedsim.analysis.plan import Candidate
    from pagedsim.cli.values import number
    from pagedsim.device.tables import find_gpu

    of: dict[str, float] = {}
    for text in prices:
        name, equals, value = text.rpartition("=")
        key = find_gpu(name).name if equals else ""
        if key in of:
            raise SpecError(f"--price {text}: that price is given twice")
        of[key] = number("--price", value)
    names = [find_gpu(one.gpu).name for one in made]
    for key in of:
        if key and key not in names:
            raise SpecError(f"--price is given for {key}, which is no candidate's GPU")
    return [
        Candidate(configuration=one, price=of.get(name, of.get("")))
        for one, name in zip(made, names, strict=True)
    ]


__all__ = ["plan"]
