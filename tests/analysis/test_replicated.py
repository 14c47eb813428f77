"""Reports of several engines: what a merged number means, and what contradicts replicas."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from pagedsim import simulate
from pagedsim.analysis.report import result
from pagedsim.analysis.results import TERMS, to_json
from pagedsim.analysis.simulate import Setup, device_info
from pagedsim.errors import SpecError
from pagedsim.trace import load

CHAT = load("chat", limit=300)
TURNS = load("chat-shared", limit=200)
SMALL: dict[str, Any] = {"max_len": 4096}


def busy(run: Any) -> Fraction:
    return Fraction(run.span.busy_s)


@pytest.mark.parametrize("route", ["round-robin", "random", "least-loaded-at-arrival", "session"])
def test_merged_numbers_are_of_all_steps(route: str) -> None:
    whole = simulate(CHAT, "paged", replicas=3, route=route, **SMALL)
    run, own = whole.run, [part.run for part in whole.replicas]
    assert len(own) == len(run.replicas) == 3
    for field in ("finished", "refused", "truncated", "preemptions", "steps", "recomputed_tokens"):
        assert getattr(run, field) == sum(getattr(part, field) for part in own), field
    assert run.capacity_tokens == sum(part.capacity_tokens for part in own)
    assert run.batch.peak == max(part.batch.peak for part in own)
    assert run.span.busy_s == pytest.approx(sum(part.span.busy_s for part in own), abs=1e-9)
    for get in (
        *(lambda r, term=term: getattr(r.memory, term) for term in TERMS),
        lambda r: r.batch.mean,
        lambda r: r.binds.arrivals,
        lambda r: r.compute.bandwidth_bound,
    ):
        weighted = sum(get(part) * float(busy(part)) for part in own)
        assert get(run) == pytest.approx(weighted / run.span.busy_s, rel=1e-9, abs=1e-12)
    assert math.fsum(getattr(run.memory, term) for term in TERMS) == pytest.approx(1, abs=1e-12)
    ends = [r.requests.finish_ns.max() for r in (part.recording for part in whole.replicas)]
    assert run.makespan_s == (max(ends) - CHAT.arrival_ns[0]) / 1e9
    times = sorted(
        first - arrived
        for part in whole.replicas
        for first, arrived in zip(
            part.recording.requests.first_token_ns.tolist(),
            part.trace.arrival_ns.tolist(),
            strict=True,
        )
        if first >= 0
    )
    assert run.latency.ttft_s.p99 == times[math.ceil(0.99 * len(times)) - 1] / 1e9


@pytest.mark.parametrize("window", ["5:20", "steady"])
def test_a_span_is_the_same_for_all(window: str) -> None:
    whole = simulate(CHAT, "paged", replicas=2, window=window, max_len=2000, device=_tight(), **{})
    assert {part.span_ns for part in whole.replicas} == {whole.span_ns}
    assert whole.run.span.busy_s == pytest.approx(
        sum(part.run.span.busy_s for part in whole.replicas)
    )


def _tight() -> Any:
    from pagedsim.device.device import make_device

    return make_device("llama-3.1-8b", "a100-80gb", kv_tokens=6000)


@pytest.mark.parametrize("route", ["round-robin", "random", "session"])
def test_a_replica_says_what_a_replay_of_its_share_says(route: str) -> None:
    whole = simulate(TURNS, "paged:prefix=on", replicas=3, route=route, **SMALL)
    for part in whole.replicas:
        single = simulate(part.trace, "paged:prefix=on", **SMALL)
        assert _plain(part) == _plain(single)
        assert part.run.finished == single.run.finished > 0


def _plain(report: Any) -> bytes:
    import msgspec

    run = msgspec.structs.replace(report.run, name="", provenance=None)
    return msgspec.json.encode(run)


def test_the_engines_agree_on_shares() -> None:
    found = [
        simulate(TURNS.head(40), "paged", replicas=3, route="session", engine=engine, **SMALL)
        for engine in ("fast", "reference")
    ]
    assert _plain(found[0]) == _plain(found[1])


def test_sessions_in_a_closed_loop() -> None:
    whole = simulate(TURNS, "paged", replicas=2, route="session", closed_loop=True, **SMALL)
    requests = whole.recording.requests
    for row, parent in enumerate(TURNS.parent.tolist()):
        if parent >= 0:
            assert requests.arrival_ns[row] >= requests.finish_ns[parent]
    assert whole.run.finished == len(TURNS)


def test_more_engines_than_requests() -> None:
    whole = simulate(CHAT.head(2), "paged", replicas=4, **SMALL)
    assert [part.requests for part in whole.run.replicas] == [1, 1, 0, 0]
    assert whole.run.replicas[3].live is None
    assert whole.run.finished == 2
    assert to_json(result([whole], device_info(_tight()), CHAT.head(2)))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"replicas": 0}, "replicas is 0, must be a whole number from 1 to 1024"),
        ({"replicas": True}, "replicas is True, must be"),
        ({"replicas": 2, "route": "best"}, "route is 'best', must be one of round-robin, random"),
        ({"replicas": 2, "closed_loop": True}, "session keeps them on one replica"),
        (
            {"replicas": 2, "route": "least-loaded-at-arrival", "concurrency": 3},
            "needs arrivals, but a concurrency has none",
        ),
        (
            {"replicas": 2, "route": "least-loaded-at-arrival", "engine": "reference"},
            "needs the fast engine",
        ),
        ({"replicas": 2, "observers": (object(),)}, "observers are of one engine"),
    ],
)
def test_what_contradicts_replicas(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said.replace("(", r"\(")):
        Setup(**more)


def test_parts_that_cannot_be_shared() -> None:
    from pagedsim.alloc.paged import Paged

    with pytest.raises(SpecError, match="Paged is one, but 2 replicas need each its own"):
        simulate(CHAT, Paged(99, block=16), replicas=2, **SMALL)
    with pytest.raises(SpecError, match="an optimal policy must know which requests"):
        simulate(
            TURNS,
            "paged:prefix=on,evict=optimal",
            replicas=2,
            route="least-loaded-at-arrival",
            **SMALL,
        )
