"""Plans against closed forms: where the highest rate is known, it is found; what binds is named."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

from pagedsim.analysis.configuration import Configuration
from pagedsim.analysis.plan import Candidate, Question, answer, answers
from pagedsim.analysis.plan_binds import WORDS
from pagedsim.analysis.plan_load import generated, recorded
from pagedsim.analysis.plan_result import Answer
from pagedsim.analysis.plan_slo import parse
from pagedsim.analysis.processes import in_processes
from pagedsim.errors import InputError, SpecError
from pagedsim.trace import load
from pagedsim.trace.trace import Trace

SECOND = 10**9


def even(requests: int = 200, prompt: int = 8, output: int = 10, gap_s: float = 1.0) -> Trace:
    """Requests of one kind, one every `gap_s`: D/D/1 under one sequence at a time."""
    return Trace.build(
        "even",
        [round(at * gap_s * SECOND) for at in range(requests)],
        [prompt] * requests,
        [output] * requests,
    )


def server(*, steptime: str = "constant:ms=10", **more) -> Configuration:
    device = {"kv_tokens": 1600, **more.pop("device", {})}
    return Configuration(steptime=steptime, max_len=200, device=device, **more)


def asked(configuration: Configuration, trace: Trace, slo: str, **more) -> Answer:
    question = Question(load=recorded(trace), objective=parse(slo), **more)
    return answer(Candidate(configuration=configuration), question)


@pytest.mark.parametrize("tolerance", [0.05, 0.01, 0.001])
def test_one_server_in_series_sustains_one_over_its_service_time(tolerance: float) -> None:
    # 10 tokens in 10 steps of 10 ms: up to 10 requests/s nobody ever waits, beyond the queue grows.
    found = asked(server(device={"max_seqs": 1}), even(), "queue_max<=10ms", tolerance=tolerance)
    assert found.passes is not None
    assert found.fails is not None
    assert found.rate is not None
    assert found.passes.rate == found.rate
    scale = 200 / 199  # the rate of the trace is requests over the span of arrivals
    assert found.rate <= 10 * scale * 1.002  # within 10 ms over 200 requests
    assert found.fails.rate is not None
    assert found.fails.rate >= 10 * scale
    assert found.fails.rate <= found.rate * (1 + tolerance)
    assert found.passes.holds
    assert not found.fails.holds
    assert found.fails.broken == ("queue_max",)
    assert found.binds == "sequences"
    assert found.monotone


def test_a_full_queue_runs_at_the_sequence_limit() -> None:
    found = asked(server(device={"max_seqs": 4}), even(), "queue_max<=10ms")
    assert found.saturated is not None
    assert found.saturated.batch_mean == 4
    assert found.saturated.requests_per_s == pytest.approx(40, rel=0.03)
    assert found.saturated.binds == "sequences"


def test_what_binds_is_what_is_short() -> None:
    """Each server is short of one thing."""
    long = even(output=60)
    roofline = {"steptime": "roofline", "max_len": 4000}
    heavy = even(prompt=1500, output=2)
    cases = {
        "memory": (server(device={"kv_tokens": 224}), long, "queue_max<100ms"),
        "sequences": (server(device={"max_seqs": 2}), long, "queue_max<100ms"),
        "budget": (
            server(device={"max_batched_tokens": 16}), even(prompt=64, output=1), "ttft_max<100ms",
        ),
        "compute": (
            replace(server(device={"kv_tokens": 100_000}), **roofline), heavy, "ttft_max<1s",
        ),
        "bandwidth": (
            replace(server(device={"kv_tokens": 400_000}), **roofline),
            even(prompt=10, output=400), "tpot_p99<13ms",
        ),
        "step time": (
            server(steptime="affine:base_ms=1,per_seq_ms=1", device={"kv_tokens": 100_000}),
            long, "tpot_p99<20ms",
        ),
    }  # fmt: skip
    assert set(cases) == set(WORDS)
    for word, (configuration, trace, slo) in cases.items():
        found = asked(configuration, trace, slo)
        assert found.fails is not None, word
        assert found.binds == word, (word, found.fails)


def test_preemptions_are_a_want_of_memory() -> None:
    watermarked = server(device={"kv_tokens": 320})
    found = asked(watermarked, even(output=150), "preemptions<1")
    assert found.binds == "memory"
    assert found.fails is not None
    assert found.fails.preemptions >= 1
    assert found.passes is not None
    assert found.passes.preemptions == 0


def test_a_lone_request_that_is_too_slow_is_said_with_its_number() -> None:
    found = asked(server(), even(), "ttft_p99<2s, tpot_p50<9ms, e2e_max<99.5ms")
    assert found.found is None
    assert found.impossible == (
        "tpot_p50<9ms: it is 10 ms; e2e_max<99.5ms: it is 100 ms "
        "with one request at a time, at any rate"
    )
    assert not found.unlimited


def test_an_objective_that_nothing_breaks_has_no_limit() -> None:
    found = asked(server(device={"kv_tokens": 16_000}), even(), "tpot_max<11ms")
    assert found.unlimited
    assert found.passes == found.saturated
    assert (found.found, found.fails, found.impossible) == (None, None, "")
    assert found.runs == 1


def test_requests_of_one_moment_stay_together_at_any_rate() -> None:
    pairs = Trace.build("pairs", [at // 2 * SECOND for at in range(100)], [8] * 100, [10] * 100)
    found = asked(server(device={"max_seqs": 1}), pairs, "queue_max<50ms")
    assert "at the lowest rate tried" in found.impossible
    assert "stay together at any rate" in found.impossible


def test_when_all_are_refused_that_is_the_reason() -> None:
    found = asked(server(), even(prompt=300), "ttft_p99<2s")
    assert found.impossible == (
        "all 200 requests are refused: a pool of 1,600 tokens, a maximum length of 200"
    )


def test_a_model_that_does_not_fit_is_an_answer_and_the_others_go_on() -> None:
    large = Configuration(model="llama-3.1-70b", gpu="a100-80gb")
    question = Question(load=recorded(even()), objective=parse("ttft_p99<2s"))
    found = list(answers([Candidate(configuration=c) for c in (large, server())], question))
    assert "no room for KV" in found[0].impossible
    assert found[0].replays == ()
    assert not found[1].impossible


def test_money_and_servers_are_the_equations_of_the_docs() -> None:
    trace = even(gap_s=0.04)  # 25/s and a bit
    question = Question(load=recorded(trace), objective=parse("queue_max<=10ms"))
    configuration = server(device={"max_seqs": 1, "tp": 2})
    found = answer(Candidate(configuration=configuration, price=3.0), question)
    assert found.rate is not None
    assert found.cost is not None
    wanted = 200 / (199 * 0.04)
    assert found.replicas == 3  # 25.1 over about 10
    assert found.gpus == 6
    hours = 2 / (3600 * found.rate)  # of two GPUs, a request
    assert found.cost.output == pytest.approx(3.0 * hours / 10 * 1e6)
    assert found.cost.tokens == pytest.approx(3.0 * hours / 18 * 1e6)
    assert found.cost.output_at_wanted == pytest.approx(3 * 3.0 * 2 / (3600 * wanted) / 10 * 1e6)


def test_every_replay_of_a_plan_is_one_that_replay_gives() -> None:
    from pagedsim import simulate

    question = Question(load=recorded(load("chat", limit=200)), objective=parse("ttft_p90<400ms"))
    configuration = server(steptime="roofline", device={"kv_tokens": 40_000})
    configuration = replace(configuration, max_len=4096)
    found = answer(Candidate(configuration=configuration), question)
    assert len(found.replays) >= 4
    setup = configuration.setup()
    for replay in found.replays:
        assert replay.at is not None
        assert replay.options == ("--rate-scale", repr(replay.at))
        run = simulate(
            question.load.at(float(replay.options[1])),
            configuration.allocator,
            **{k: getattr(setup, k) for k in ("device", "max_len", "scheduler", "steptime")},
        ).run
        assert (run.latency.ttft_s.p90,) == replay.values
        assert (run.batch.mean, run.batch.peak) == (replay.batch_mean, replay.batch_peak)
        assert run.binds == replay.limits
        assert run.compute is not None
        assert replay.compute is not None
        assert run.compute.compute_bound == replay.compute.compute_bound
    rates = [replay.rate for replay in found.replays]
    assert rates == sorted(rates)


def test_generated_arrivals_are_drawn_again_at_each_rate() -> None:
    trace = replace(even(), timed=False)
    with pytest.raises(SpecError, match="give --rate R"):
        recorded(trace)
    question = Question(load=generated(trace, 5.0, seed=3), objective=parse("queue_p90<=50ms"))
    found = answer(Candidate(configuration=server(device={"max_seqs": 1})), question)
    assert found.passes is not None
    assert found.passes.options == ("--rate", repr(found.found))
    assert found.rate == found.found
    assert found.rate is not None
    assert found.rate < 10


def test_a_trace_without_a_rate_says_so() -> None:
    together = Trace.build("one", [0, 0, 0], [8] * 3, [10] * 3)
    with pytest.raises(SpecError, match="arrive at one time"):
        recorded(together)


def test_sessions_that_wait_for_answers_are_planned_too() -> None:
    trace = load("agent", limit=60)
    configuration = server(
        steptime="roofline", device={"kv_tokens": 400_000}, allocator="paged:prefix=on"
    )
    configuration = replace(configuration, max_len=131_072, closed_loop=True)
    question = Question(load=recorded(trace), objective=parse("ttft_p90<1s, e2e_max<1us"))
    found = answer(Candidate(configuration=configuration), question)
    assert "e2e_max<1us" in found.impossible
    assert "with one request at a time" in found.impossible
    question = replace(question, objective=parse("queue_p90<100ms"))
    found = answer(Candidate(configuration=configuration), question)
    assert found.passes is not None
    assert found.unlimited or found.fails is not None


def test_a_process_that_is_killed_is_an_error_and_no_hang() -> None:
    with pytest.raises(InputError, match="a process was killed at its work"):
        list(in_processes(_killed, [(at,) for at in range(4)], 2))
    assert list(in_processes(_doubled, [(1,), (2,), (3,)], 2)) == [2, 4, 6]
    with pytest.raises(SpecError, match="not one"):
        list(in_processes(_refused, [(1,), (2,)], 2))


def _killed(at: int) -> int:
    if at == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return at


def _doubled(at: int) -> int:
    return 2 * at


def _refused(at: int) -> int:
    raise SpecError("not one")


def test_several_processes_give_the_same_answers() -> None:
    question = Question(load=recorded(even(50)), objective=parse("queue_max<=20ms"))
    candidates = [Candidate(configuration=server(device={"max_seqs": n})) for n in (1, 2, 3)]
    assert list(answers(candidates, question, jobs=2)) == list(answers(candidates, question))
