"""Parts that say wrong numbers are named, by both engines, in a step, a jump and a glide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import Fixed

from pagedsim.alloc.paged import Paged
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import Status
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import Load, Usage
from pagedsim.trace.trace import Trace

ONE = Trace.build("t", [0], [4], [40])
MANY = Trace.build("t", [0, 0, 30, 60], [4, 2, 3, 1], [40, 35, 30, 20])
LIES = {
    "held": lambda usage: usage._replace(held=199),
    "cached": lambda usage: usage._replace(cached=199),
    "shared": lambda usage: usage._replace(shared=usage.held + 1),
    "lost": lambda usage: usage._replace(lost=usage.held),
    "nothing": lambda usage: Usage(0),
}


class Lies(Paged):
    """Right until so much is held; the fast engine looks once a window.

    6 are held for the first time where `ONE` begins to glide.
    """

    def __init__(self, about: str, above: int) -> None:
        super().__init__(100, block=2)
        self._about, self._above = about, above

    def usage(self) -> Usage:
        usage = super().usage()
        return LIES[self._about](usage) if usage.held >= self._above else usage


@pytest.mark.parametrize("engine", [ReferenceEngine, FastEngine])
@pytest.mark.parametrize("scheduler", [Vllm, Orca, Static])
@pytest.mark.parametrize(("trace", "above"), [(ONE, 1), (ONE, 6), (MANY, 1), (MANY, 30)])
@pytest.mark.parametrize("about", LIES)
def test_a_usage_that_cannot_be_is_an_error(
    about: str, above: int, trace: Trace, scheduler: Any, engine: Any
) -> None:
    allocator = Lies(about, above)
    with pytest.raises(ContractError, match=r"none may be negative \(Lies, "):
        engine(trace, allocator, scheduler(), Fixed(), max_len=99).run()


class Priced(Fixed):
    """Few and many steps at once, by what `durations` makes of them."""

    def __init__(self, durations: Any) -> None:
        super().__init__(5)
        self._durations = durations

    def few(self, load: Load, steps: int) -> list[int]:
        return list(self._durations(steps))

    def ramp(self, load: Load, steps: int) -> Any:
        return np.array(self._durations(steps), np.int64)


@pytest.mark.parametrize(
    ("durations", "said"),
    [
        (lambda steps: [5] * (steps - 1), "the shortest of [05] ns; must be [0-9]+ of >= 1"),
        (lambda steps: [5] * (steps + 1), "the shortest of 5 ns; must be [0-9]+ of >= 1"),
        (lambda steps: [5] * (steps - 1) + [0], "are [0-9]+, the shortest of 0 ns"),
        (lambda steps: [-5] + [5] * (steps - 1), "are [0-9]+, the shortest of -5 ns"),
    ],
)
@pytest.mark.parametrize("output", [3, 40, 400])
def test_prices_of_steps_that_cannot_be_are_an_error(
    durations: Any, said: str, output: int
) -> None:
    trace = Trace.build("t", [0], [4], [output])
    with pytest.raises(ContractError, match=said):
        FastEngine(trace, Paged(500), Vllm(), Priced(durations), max_len=999).run()


WHOLE = {
    "max_seqs": (1, [Vllm, Orca, Static]),
    "max_batched_tokens": (1, [Vllm]),
    "long_prefill": (0, [Vllm]),
    "max_prompt_tokens": (0, [Orca]),
}


@pytest.mark.parametrize("key", WHOLE)
def test_whole_parameters_have_a_least_value(key: str) -> None:
    least, schedulers = WHOLE[key]
    for scheduler in schedulers:
        assert getattr(scheduler(**{key: least}), key) == least
        for wrong in (least - 1, True, False, 1.5, "2", None):
            with pytest.raises(SpecError, match=f"{key} is {wrong}, must be a whole number >= "):
                scheduler(**{key: wrong})


@pytest.mark.parametrize("scheduler", [Vllm, Orca])
def test_a_watermark_is_a_share_below_1(scheduler: Any) -> None:
    for fine in (0, 0.0, 0.5, 0.999):
        assert scheduler(watermark=fine).watermark == fine
    for wrong in (1, 1.0, 1.5, -0.1, True, False, "0.1", None, float("nan")):
        with pytest.raises(SpecError, match=f"watermark is {wrong}, must be >= 0 and < 1"):
            scheduler(watermark=wrong)


def test_schedulers_begin_as_the_engines_do() -> None:
    assert {part().max_seqs for part in (Vllm, Orca, Static)} == {256}
    assert Vllm().max_batched_tokens == 2048
    assert (Vllm().long_prefill, Vllm().watermark, Orca().max_prompt_tokens) == (0, 0, 0)


def test_each_status_is_one_of_its_own() -> None:
    assert [status.value for status in Status] == list(range(len(Status.__members__)))
