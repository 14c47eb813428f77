"""The question turned round, against closed forms; and what one change gives."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pagedsim import simulate
from pagedsim.analysis.configuration import Configuration
from pagedsim.analysis.plan import FIND, Candidate, Question, answer
from pagedsim.analysis.plan_load import recorded, untimed
from pagedsim.analysis.plan_result import Answer
from pagedsim.analysis.plan_slo import measure, parse
from pagedsim.analysis.whatif_changes import changes
from pagedsim.cli.plan import FIND as ON_THE_COMMAND_LINE
from pagedsim.trace.trace import Trace

SECOND = 10**9
STEP = "constant:ms=10"


def even(requests: int = 60, prompt: int = 8, output: int = 9, gap_s: float = 0.1) -> Trace:
    arrivals = [round(at * gap_s * SECOND) for at in range(requests)]
    return Trace.build("even", arrivals, [prompt] * requests, [output] * requests)


def asked(trace: Trace, slo: str, find: str, **more) -> Answer:
    device = {"kv_tokens": 1600, **more.pop("device", {})}
    configuration = Configuration(steptime=STEP, max_len=200, device=device, **more)
    load = untimed(trace) if find == "batch" else recorded(trace)
    question = Question(load=load, objective=parse(slo), find=find)
    return answer(Candidate(configuration=configuration), question)


def test_the_command_line_offers_what_there_is() -> None:
    assert FIND == ON_THE_COMMAND_LINE


def test_the_smallest_pool_holds_just_those_that_overlap() -> None:
    # One comes every 0.1 s and takes 0.29 s: 3 overlap. Each grows to 8 + 29 - 1 = 36 tokens, but
    # they are of different age, so the most that is ever held is what a run in a large pool says.
    trace = even(output=29)
    allocator = "paged:block=4,null=0"
    run = simulate(trace, allocator, max_len=200, steptime=STEP)
    most = run.run.memory_spread["held"].max * run.recording.capacity
    found = asked(trace, "preemptions<=0, queue_max<=10ms", "kv-tokens", allocator=allocator)
    assert found.found is not None
    assert found.found % 4 == 0
    assert found.fails is not None
    assert found.fails.at is not None
    assert found.fails.at < most <= found.found <= 1.05 * found.fails.at + 4
    assert found.passes is not None
    assert found.passes.options[-2:] == ("--kv-tokens", f"{int(found.found)}")
    assert found.binds == "memory"


def test_a_pool_that_refuses_the_long_ones_does_not_hold() -> None:
    prompts = [8] * 59 + [150]
    trace = Trace.build("t", [at * SECOND for at in range(60)], prompts, [9] * 60)
    found = asked(trace, "e2e_p50<1s", "kv-tokens", allocator="contiguous:reserve=exact")
    assert found.found is not None
    assert 158 <= found.found <= 158 * 1.05 + 1
    assert found.passes is not None
    assert found.passes.refused == 0


def test_no_pool_makes_steps_shorter() -> None:
    found = asked(even(), "tpot_max<9ms", "kv-tokens")
    assert found.impossible.startswith("tpot_max<9ms: it is 10 ms with a pool of ")


def test_the_longest_length_that_a_reservation_allows() -> None:
    # Each takes 90 ms of every 100: reserving the maximum, one must fit at a time, and with prompts
    # that overlap by nothing the pool is the only limit.
    found = asked(
        even(), "queue_max<=10ms", "max-len", allocator="contiguous:reserve=max",
    )  # fmt: skip
    assert found.found == 1600
    assert found.unlimited
    assert found.fails is None
    two = even(output=18)  # 180 ms of every 100: two at a time
    found = asked(two, "queue_max<=10ms", "max-len", allocator="contiguous:reserve=max")
    assert found.found is not None
    assert found.fails is not None
    assert found.fails.at is not None
    assert found.found <= 800 < found.fails.at <= 1.05 * found.found


def test_as_many_servers_as_the_work_needs() -> None:
    # 90 ms of work every 20 ms, one at a time: 4.5 servers' worth, dealt out in turn.
    trace = even(gap_s=0.02)
    found = asked(trace, "queue_max<=10ms", "gpus", device={"max_seqs": 1, "tp": 2})
    assert found.found == 5
    assert found.replicas == 5
    assert found.gpus == 10
    assert found.fails is not None
    assert found.fails.at == 4
    assert found.passes is not None
    assert found.passes.finished == 60
    assert found.passes.batch_mean == 1


@pytest.mark.parametrize("sessions", [False, True])
def test_several_servers_are_measured_together(sessions: bool) -> None:
    """... as those of `simulate` with replicas are, and as each alone with its share is."""
    trace = even(gap_s=0.02)
    if sessions:  # each request of the second half waits for one of the first
        parents = [-1] * 30 + [*range(30)]
        trace = replace(trace, parent=np.array(parents))
    slo = "queue_mean<30ms, queue_p99<1s"
    found = asked(trace, slo, "gpus", device={"max_seqs": 1}, closed_loop=sessions)
    assert found.found is not None
    assert found.found > 1
    for replay in found.replays:
        assert replay.at is not None
        servers = int(replay.at)
        options = dict(zip(replay.options[::2], replay.options[1::2], strict=True))
        assert options.get("--replicas", "1") == f"{servers}"
        assert options.get("--route") == ("session" if sessions and servers > 1 else None)
        report = simulate(
            trace, max_len=200, steptime=STEP, scheduler="vllm:max_seqs=1", closed_loop=sessions,
            replicas=servers, route=options.get("--route", "round-robin"),
        )  # fmt: skip
        queue = report.latency.queue_s
        assert replay.values == (queue.mean, queue.p99)
        assert replay.finished == 60
        if not sessions:
            waited = []
            for server in range(servers):
                share = trace.take(np.arange(server, 60, servers))
                own = simulate(share, max_len=200, steptime=STEP, scheduler="vllm:max_seqs=1")
                rows = own.recording.requests
                waited.append(rows.admitted_ns - rows.arrival_ns)
            every = np.sort(np.concatenate(waited)) / SECOND
            rank = every[math.ceil(0.99 * len(every)) - 1]
            assert replay.values == pytest.approx((every.mean(), rank), rel=1e-12)


def test_no_number_of_servers_makes_a_request_shorter() -> None:
    found = asked(even(), "e2e_max<89ms", "gpus")
    assert found.impossible == (
        "e2e_max<89ms: it is 90 ms with one request at a time, on any number of servers"
    )
    together = replace(even(), arrival_ns=np.arange(60, dtype=np.int64) // 59 * SECOND)
    found = asked(together, "queue_max<1ms", "gpus", device={"max_seqs": 1})
    assert found.found in (59, 60)  # within 5 %
    assert found.fails is not None
    assert found.fails.holds is False


def test_as_many_outstanding_as_time_to_first_token_allows() -> None:
    # A budget of 8 tokens a step: N that arrive together wait up to N steps for their first token.
    found = asked(
        even(), "ttft_max<=50ms", "batch", device={"max_batched_tokens": 8}, scheduler="orca"
    )
    assert found.unlimited
    assert found.found == 60
    found = asked(even(output=1), "ttft_max<=50ms", "batch", device={"max_batched_tokens": 8})
    assert found.found == 5
    assert found.fails is not None
    assert found.fails.at == 6
    assert found.passes is not None
    assert found.passes.options == ("--concurrency", "5")


def test_the_change_that_is_advised_is_planned_and_the_best() -> None:
    """The pool is what is short: a KV of half the size doubles it."""
    trace = even(output=100, requests=120)
    configuration = Configuration(
        steptime=STEP, max_len=108, device={"kv_tokens": 432, "max_seqs": 64}
    )
    question = Question(load=recorded(trace), objective=parse("queue_max<=20ms"), advice=True)
    found = answer(Candidate(configuration=configuration), question)
    assert found.binds == "memory"
    assert found.advice is not None
    assert found.advice.kind == "KV precision"
    possible = [c for c in changes(configuration, trace) if c.possible]
    assert found.advice.tried == len([c for c in possible if c.kind != "tensor parallel"])
    rates = {}
    for change in possible:
        if change.kind in ("tensor parallel", "maximum length"):  # the latter would refuse them
            continue
        assert change.configuration is not None
        changed = answer(
            Candidate(configuration=change.configuration), replace(question, advice=False)
        )
        rates[change.text] = math.inf if changed.unlimited else changed.rate or 0.0
    advised = math.inf if found.advice.rate is None else found.advice.rate
    assert rates[found.advice.change] == advised == max(rates.values())
    assert found.rate is not None
    assert found.advice.gain == pytest.approx(advised / found.rate - 1)


def test_measures_of_one_run_are_its_own() -> None:
    run = simulate(even(), max_len=200, steptime=STEP)
    assert measure(run.recording.requests, parse("e2e_max<1s")) == (0.09,)
