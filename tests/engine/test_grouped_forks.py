"""Samples and beams over groups of layers: both engines alike, and accounts by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from agreement import Fixed, Odd, Rising, assert_equal, expand
from cases import Endless
from forked import forking_traces
from grouped import parts
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

import pagedsim.alloc.grouped_forks as module
from pagedsim.alloc.grouped import Grouped
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import BLOCKED
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import LayerGroup
from pagedsim.trace.samples import outputs
from pagedsim.trace.trace import Trace

TERMS = ("live", "reserved", "internal", "external", "cached", "padding", "outside")
ENGINES = [FastEngine, ReferenceEngine]


def _possible(found: tuple[Any, Any, int]) -> bool:
    try:
        return hasattr(found[0](), "fork") and type(found[1]()) in (Vllm, Orca, Static)
    except SpecError:
        return False


@st.composite
def runs(draw: st.DrawFn) -> tuple[Any, ...]:
    make, scheduler, max_len = draw(parts().filter(_possible))

    def planner() -> Any:
        made = scheduler()
        made.max_seqs = max(4, made.max_seqs)
        return made

    steptime = draw(st.sampled_from([Odd(), Rising(), Fixed(1), Fixed(10)]))
    return draw(forking_traces()), make, planner, steptime, max_len


def both(run: tuple[Any, ...]) -> list[Any]:
    """What both engines recorded, which is equal; rejects a run that goes on for ever in both."""
    trace, make, scheduler, steptime, max_len = run
    found: list[Any] = []
    for engine in ENGINES:
        pool = make()
        windows = iter(range(300 + 8 * int(trace.prompt.sum() + outputs(trace).sum())))

        def progress(_: int, windows: Any = windows) -> None:
            if next(windows, None) is None:
                raise Endless

        made = engine(trace, pool, scheduler(), steptime, max_len=max_len, progress=progress)
        try:
            found.append(made.run())
        except Endless:
            found.append(None)
            continue
        counts = pool.group_blocks()
        assert [(c.held, c.shared, c.gone, c.short) for c in counts] == [(0,) * 4] * len(counts)
        assert not pool._tails
    if None in found:
        assert found == [None, None]
        reject()
    assert_equal(found[0], found[1], steptime.ns)
    for step in expand(found[1], steptime.ns):
        assert min(step.values()) >= 0, step
        left = found[1].capacity - sum(step[name] for name in TERMS)
        assert left >= 0
        assert not (left if step["limit"] >= BLOCKED else step["external"])
    return found


@given(run=runs())
def test_fast_equals_reference(run: tuple[Any, ...]) -> None:
    both(run)


SAMPLE = settings(
    max_examples=200,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_what_could_go_wrong_happens() -> None:
    seen: Counter[str] = Counter()

    @SAMPLE
    @given(run=runs())
    def sample(run: tuple[Any, ...]) -> None:
        fast, reference = both(run)
        several, requests = run[0].samples > 1, reference.requests
        groups = run[1]().groups
        facts = {
            "shared": reference.column("shared").any(),
            "preempted": requests.preemptions[several].any(),
            "hits": requests.hit[several].any(),
            "beams": (requests.generated[run[0].beam == 1] > 0).any(),
            "outside": reference.grouped[:, 1].any(),
            "states": any(group.kind == "state" for group in groups),
            "jumps": len(fast.windows) < len(reference.windows),
            "refused": len(reference.refused),
        }
        seen.update(name for name, fact in facts.items() if fact)

    sample()
    for what, least in (("shared", 60), ("beams", 30), ("outside", 40), ("jumps", 60)):
        assert seen[what] >= least, (what, seen)
    for what in ("preempted", "hits", "states", "refused"):
        assert seen[what] >= 4, (what, seen)


@pytest.mark.parametrize("planted", ["never copied", "copied by all"])
def test_a_planted_mistake_is_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if planted == "never copied":
        monkeypatch.setattr(module.Tails, "copy", lambda self, at, table: None)
    else:
        monkeypatch.setattr(module.Tails, "_leaves", lambda self, at, block: None)

    @settings(SAMPLE, max_examples=600)
    @given(run=runs())
    def search(run: tuple[Any, ...]) -> None:
        both(run)

    with pytest.raises((AssertionError, ContractError, IndexError, KeyError, ValueError)):
        search()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_account_of_a_fork(engine: Any) -> None:
    """A prompt of 6, blocks of 4, a full group of 10 bytes a token, a window of 4 of 5; 3 samples.

    Forked after step 0: in step 1 the first two copy the last block of each group, and the third
    keeps it.
    """
    groups = (LayerGroup("full", (0,), 4, 40), LayerGroup("sliding", (1,), 4, 20, 4))
    trace = Trace.build("t", [0], [6], [3], columns={"samples": [3]}, sample_output=[3, 3, 3])
    pool = Grouped(30, groups=groups)
    steps = expand(engine(trace, pool, Vllm(), Fixed(1), max_len=50).run(), Fixed(1).ns)
    assert [step["tokens"] for step in steps] == [6, 3, 3]
    # step 1: 3 full blocks saved nothing; full: 1 shared and 3 own blocks, window: 1 and 3 too
    assert [step["held"] for step in steps] == [4 * 40, 8 * 40, 7 * 40]
    assert steps[1]["shared"] == 2 * 4 * 10 + 2 * 4 * 5
    # stored: 4 tokens once and 3 of each; the window of token 7 begins at token 3
    assert steps[1]["live"] + steps[1]["outside"] == 15 * (4 + 3 * 3)
    assert steps[1]["outside"] == 5 * 3
    assert steps[1]["padding"] == 4 * 20
    assert steps[1]["reserved"] == 3 * 10 + 3 * 5  # of tokens 4 … 7 of each sample the last
    assert steps[1]["internal"] == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_empty_in_a_shared_block_is_reserved_once(engine: Any) -> None:
    """Two tokens a step: of four samples of 6 + 2 the first two copy a step before the others.

    Then the block with tokens 4 and 5 is held by two, who will store one more: its two empty slots
    are reserved, once. The copies have one token more, and one slot that is never filled.
    """
    groups = (LayerGroup("full", (0,), 4, 40),)
    trace = Trace.build("t", [0], [6], [2], columns={"samples": [4]}, sample_output=[2] * 4)
    run = engine(trace, Grouped(30, groups=groups), Vllm(max_batched_tokens=2), Fixed(1), max_len=9)
    steps = expand(run.run(), Fixed(1).ns)
    assert [step["tokens"] for step in steps] == [2, 2, 2, 2, 2]
    terms = ("live", "reserved", "internal", "shared", "held")
    assert [steps[3][name] for name in terms] == [120, 20, 20, (3 * 4 + 2) * 10, 160]
    assert [steps[4][name] for name in terms] == [100, 0, 20, 40, 120]
