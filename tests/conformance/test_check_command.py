"""``pagedsim check`` and ``--check``: what is said, and with which exit code."""

from __future__ import annotations

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from pagedsim.alloc.contiguous import Contiguous
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.alloc.radix import Radix
from pagedsim.alloc.ranked import RankedPaged
from pagedsim.analysis.check import Checked
from pagedsim.cli import app
from pagedsim.device.steptime import Constant
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.schedulers import Orca, Static, Vllm
from pagedsim.errors import ContractError
from pagedsim.testing import traces
from pagedsim.trace.samples import with_beams, with_samples
from pagedsim.trace.trace import Trace


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["check", *words], env={"COLUMNS": "80"})


def test_a_sound_part() -> None:
    ran = run("constant:ms=2", "--profile", "dev")
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.startswith("step time constant:ms=2: ")
    assert ran.stdout.endswith("6 laws hold\n")


def test_a_broken_part_shows_the_shortest_calls(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    file = tmp_path / "found.json"
    ran = run("planted_parts:Warms", "--profile", "ci", "--json", str(file))
    assert ran.exit_code == 1, ran.output
    assert "pure                " in ran.stdout
    assert "BROKEN" in ran.stdout
    assert "the shortest calls that show it:\n    model = Warms()\n" in ran.stdout
    assert ran.stdout.endswith("1 of 3 laws broken\n")
    found = json.loads(file.read_text())
    (broken,) = [law for law in found["laws"] if law["broken"]]
    assert broken["law"] == "pure"
    assert len(broken["broken"]["history"]) == 4
    assert found["absent"] == ["SupportsFew", "SupportsMany", "SupportsRamp"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch"], "there is no part 'nosuch'"),
        (["paged:blok=3"], "has no option 'blok'"),
        (["json:JSONDecoder"], "is no part"),
        (["slots"], "needs n"),
        (["collections:OrderedDict"], "OrderedDict does not say what it takes: no part"),
        (["paged", "--kind", "steptime"], "--kind is steptime, but paged has no ns"),
        (["lfu", "--kind", "allocator"], "there is no part 'lfu'"),
        (["vllm", "--profile", "x"], "--profile is x, must be dev or ci or deep"),
    ],
)
def test_a_mistake_is_said(words: list[str], said: str) -> None:
    ran = run(*words)
    assert ran.exit_code == 2
    assert said in ran.stderr


def test_without_hypothesis(monkeypatch: Any) -> None:
    for name in [n for n in sys.modules if n.startswith(("hypothesis", "pagedsim.testing"))]:
        monkeypatch.delitem(sys.modules, name)
    plain = builtins.__import__

    def refuse(name: str, *args: Any, **more: Any) -> Any:
        if name.split(".")[0] == "hypothesis":
            raise ModuleNotFoundError("No module named 'hypothesis'", name="hypothesis")
        return plain(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    ran = run("paged")
    assert ran.exit_code == 2
    assert "pip install 'pagedsim[testing]'" in ran.stderr


MAKERS = [
    lambda slots, most: Paged(slots // 2 + 1, block=2),
    lambda slots, most: PrefixPaged(slots // 2 + 1, block=2),
    lambda slots, most: Radix(slots, page=2),
    lambda slots, most: Contiguous(2 * slots, max_len=most, place="buddy", reserve="exact"),
]


def replay(engine: Any, trace: Any, allocator: Any, scheduler: Any, most: int) -> Checked:
    checked = Checked(allocator)
    engine(trace, allocator, scheduler, Constant(ms=1e-6), max_len=most, observers=[checked]).run()
    return checked


@pytest.mark.parametrize("engine", [FastEngine, ReferenceEngine])
@given(
    trace=traces(rows=6),
    maker=st.sampled_from(MAKERS),
    scheduler=st.sampled_from([Vllm, Orca, Static]),
    more=st.integers(2, 30),
)
@settings(max_examples=40)
def test_every_step_of_a_replay_holds(
    engine: Any, trace: Any, maker: Any, scheduler: Any, more: int
) -> None:
    most = int((trace.prompt + trace.output).max()) + 1
    assert replay(engine, trace, maker(most + more, most), scheduler(), most).steps > 0


class Swaps(Paged):
    """Moves what it has stored."""

    def grow(self, seq: Any, tokens: int, /) -> bool:
        granted = super().grow(seq, tokens)
        table = self._table(seq)
        if len(table) > 2:
            table[0], table[1] = table[1], table[0]
        return granted


def test_a_broken_replay_is_stopped() -> None:
    trace = Trace.build("t", [0], [9], [9])
    with pytest.raises(ContractError, match=r"step \d+: request 0 token 0 reads back as another's"):
        replay(ReferenceEngine, trace, Swaps(30, block=2), Vllm(), 40)


class KeepsWhatIsHeld(PrefixPaged):
    """Shows the right number of kept slots, but other ones."""

    def kept(self) -> Any:
        return np.arange(len(super().kept())) + self.block


class KeepsLess(PrefixPaged):
    """Shows a slot too few."""

    def kept(self) -> Any:
        return super().kept()[1:]


class LosesElsewhere(Contiguous):
    """Shows as lost what a sequence has room in."""

    def lost(self, seq: Any, /) -> Any:
        return super().lost(seq) - self.room(seq)


class LosesMore(Contiguous):
    """Shows a slot too many as lost."""

    def lost(self, seq: Any, /) -> Any:
        return np.append(super().lost(seq), self.capacity - 1)


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (lambda: KeepsWhatIsHeld(30, block=2), "slots are kept or lost, and something else"),
        (lambda: KeepsLess(30, block=2), "slots are shown as kept"),
        (lambda: LosesElsewhere(64, max_len=40, place="buddy", reserve="exact"), "something else"),
        (lambda: LosesMore(64, max_len=40, place="buddy", reserve="exact"), "shown as lost"),
    ],
)
def test_who_shows_other_slots_as_kept_or_lost_is_stopped(planted: Any, said: str) -> None:
    trace = Trace.build("t", [0, 40, 41], [9, 5, 7], [4, 9, 9])
    with pytest.raises(ContractError, match=said):
        replay(ReferenceEngine, trace, planted(), Vllm(), 40)


FORKERS = [
    lambda slots: Paged(slots // 3 + 1, block=3),
    lambda slots: PrefixPaged(slots // 3 + 1, block=3),
    lambda slots: RankedPaged(slots // 3 + 1, block=3, evict="fifo"),
]


@pytest.mark.parametrize("engine", [FastEngine, ReferenceEngine])
@given(
    trace=traces(rows=4),
    maker=st.sampled_from(FORKERS),
    scheduler=st.sampled_from([Vllm, Orca, Static]),
    count=st.integers(2, 4),
    beams=st.booleans(),
    more=st.integers(2, 30),
)
@settings(max_examples=40)
def test_every_step_with_forks_holds(
    engine: Any, trace: Any, maker: Any, scheduler: Any, count: int, beams: bool, more: int
) -> None:
    forked = with_beams(trace, count, death=0.4) if beams else with_samples(trace, count)
    most = int((trace.prompt + trace.output).max()) + 1
    slots = count * (most + 6) + more
    assert replay(engine, forked, maker(slots), scheduler(), most).steps > 0


class SharesOnWrite(Paged):
    """Forgets to copy the block that forks share, and writes into it."""

    def fork(self, parent: Any, child: Any, tokens: int, /) -> None:
        super().fork(parent, child, tokens)
        self._tails.clear()


class ForksAnother(Paged):
    """A fork gets its parent's blocks in another order."""

    def fork(self, parent: Any, child: Any, tokens: int, /) -> None:
        super().fork(parent, child, tokens)
        self._tables[child].reverse()


@pytest.mark.parametrize("planted", [SharesOnWrite, ForksAnother])
@pytest.mark.parametrize("engine", [FastEngine, ReferenceEngine])
def test_a_broken_fork_is_stopped(engine: Any, planted: Any) -> None:
    trace = with_samples(Trace.build("t", [0], [9], [9]), 2)
    with pytest.raises(ContractError, match=r"step \d+: "):
        replay(engine, trace, planted(30, block=2), Vllm(), 40)
