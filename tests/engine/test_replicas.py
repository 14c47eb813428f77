"""Engines that share a trace: each does what it would do alone, and the route is what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import Fixed, Odd, Rising, assert_equal
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.cli.options import _ROUTES
from pagedsim.engine.fast import FastEngine
from pagedsim.engine.recording import Recording, Status
from pagedsim.engine.reference import ReferenceEngine
from pagedsim.engine.replicas import merged, run_routed, run_shares
from pagedsim.engine.routes import ROUTES, least_loaded, shares
from pagedsim.engine.schedulers import Orca, Vllm
from pagedsim.errors import SpecError
from pagedsim.trace.trace import Trace

MAX_LEN = 60


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """A few requests, close together, some with a parent, some too long for anything."""
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 7, 40, 300]), min_size=1, max_size=12))
    rows = len(gaps)
    parents = [draw(st.integers(-1, row - 1)) for row in range(rows)]
    return Trace.build(
        "t",
        np.cumsum(gaps),
        draw(st.lists(st.integers(1, 70), min_size=rows, max_size=rows)),
        draw(st.lists(st.integers(1, 20), min_size=rows, max_size=rows)),
        columns={"parent": parents},
    )


PARTS = [
    lambda steptime: (Paged(9, block=8), Vllm(), steptime),
    lambda steptime: (PrefixPaged(9, block=4), Vllm(max_batched_tokens=64), steptime),
    lambda steptime: (Paged(12, block=4), Orca(max_seqs=3), steptime),
]
STEPTIMES = [Odd(), Rising(), Fixed(1), Fixed(10)]


def parts(kind: int, steptime: Any, replicas: int) -> list[Any]:
    return [PARTS[kind](steptime) for _ in range(replicas)]


def unseen(replicas: int) -> list[tuple[()]]:
    return [()] * replicas


def alone(trace: Trace, rows: Any, own: Any, engine: Any = ReferenceEngine) -> Recording:
    return engine(trace.take(np.flatnonzero(rows)), *own, max_len=MAX_LEN).run()


@given(
    trace=traces(),
    replicas=st.integers(1, 4),
    route=st.sampled_from(["round-robin", "random", "session"]),
    kind=st.integers(0, 2),
    steptime=st.sampled_from(STEPTIMES),
)
def test_a_share_is_replayed_as_if_alone(
    trace: Trace, replicas: int, route: str, kind: int, steptime: Any
) -> None:
    where = shares(trace, replicas, route, seed=3)
    ran = run_shares(
        trace, where, parts(kind, steptime, replicas), unseen(replicas), max_len=MAX_LEN
    )
    for number, found in enumerate(ran):
        own = PARTS[kind](steptime)
        assert_equal(found, alone(trace, where == number, own), steptime.ns)


@given(
    trace=traces(),
    replicas=st.integers(1, 4),
    kind=st.integers(0, 2),
    steptime=st.sampled_from(STEPTIMES),
)
def test_the_least_loaded_gets_it_and_does_what_it_would_alone(
    trace: Trace, replicas: int, kind: int, steptime: Any
) -> None:
    """The choice is checked on what came of it: answers that came before each arrival."""
    where, ran = run_routed(
        trace, parts(kind, steptime, replicas), unseen(replicas), max_len=MAX_LEN
    )
    whole = merged(trace, where, ran).requests
    for row, at in enumerate(trace.arrival_ns.tolist()):
        outstanding = [0] * replicas
        for before in range(row):
            if whole.status[before] != Status.REFUSED and whole.finish_ns[before] >= at:
                outstanding[where[before]] += 1
        assert where[row] == outstanding.index(min(outstanding)), row
    for number, found in enumerate(ran):
        own = PARTS[kind](steptime)
        assert_equal(found, alone(trace, where == number, own), steptime.ns)


@given(trace=traces(), kind=st.integers(0, 2), steptime=st.sampled_from(STEPTIMES))
def test_one_replica_is_none(trace: Trace, kind: int, steptime: Any) -> None:
    plain = FastEngine(trace, *PARTS[kind](steptime), max_len=MAX_LEN).run()
    where, routed = run_routed(trace, parts(kind, steptime, 1), unseen(1), max_len=MAX_LEN)
    shared = run_shares(trace, where, parts(kind, steptime, 1), unseen(1), max_len=MAX_LEN)
    assert where.tolist() == [0] * len(trace)
    for found in (*shared, merged(trace, where, shared)):
        assert found.windows.tolist() == plain.windows.tolist()
        assert found.starts.tolist() == plain.starts.tolist()
    for found in (*routed, *shared, merged(trace, where, routed)):
        assert_equal(Recording(**{**vars(found), "free": plain.free}), plain, steptime.ns)


@given(trace=traces(), replicas=st.integers(1, 5))
def test_sessions_stay_together(trace: Trace, replicas: int) -> None:
    where = shares(trace, replicas, "session")
    sessions = 0
    for row, parent in enumerate(trace.parent.tolist()):
        if parent >= 0:
            assert where[row] == where[parent]
        else:
            assert where[row] == sessions % replicas
            sessions += 1


def test_a_session_is_what_the_trace_calls_one() -> None:
    trace = Trace.build(
        "t", range(5), [4] * 5, [2] * 5, columns={"session": [7, 3, 7, -1, 3], "parent": [-1] * 5}
    )
    assert shares(trace, 2, "session").tolist() == [0, 1, 0, 0, 1]


def test_routes_by_hand() -> None:
    trace = Trace.build("t", range(7), [4] * 7, [2] * 7)
    assert shares(trace, 3, "round-robin").tolist() == [0, 1, 2, 0, 1, 2, 0]
    first = shares(trace, 3, "random", seed=5).tolist()
    assert shares(trace, 3, "random", seed=5).tolist() == first
    assert any(shares(trace, 3, "random", seed=s).tolist() != first for s in range(5))
    assert least_loaded([3, 1, 1, 2]) == 1
    assert ROUTES == _ROUTES
    with pytest.raises(SpecError, match="route is 'nearest', must be one of round-robin"):
        shares(trace, 3, "nearest")


def test_an_answer_at_the_moment_of_an_arrival_does_not_count() -> None:
    """Requests of 2 steps of 10 ns: the first answers at 20, when the third arrives."""
    trace = Trace.build("t", [0, 15, 20, 21], [4] * 4, [2] * 4)
    where, _ = run_routed(trace, parts(0, Fixed(10), 2), unseen(2), max_len=MAX_LEN)
    assert where.tolist() == [0, 1, 0, 0]  # 1 and 1 at 20; at 21 the first has one of its own


def test_sharing_of_work_does_not_break_long_jumps() -> None:
    """Engines that know their shares jump as far as they would alone: the windows are the same."""
    trace = Trace.build("t", range(0, 800, 100), [20] * 8, [900] * 8)
    where = shares(trace, 4, "round-robin")
    own = [(Paged(1000, block=8), Vllm(), Rising()) for _ in range(4)]
    ran = run_shares(trace, where, own, unseen(4), max_len=2000)
    for number, found in enumerate(ran):
        engine = FastEngine(
            trace.take(np.flatnonzero(where == number)),
            *(Paged(1000, block=8), Vllm(), Rising()),
            max_len=2000,
        )
        assert len(found.windows) == len(engine.run().windows) < 300
