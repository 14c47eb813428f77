"""The package from Python: one call from a trace to numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import pagedsim
from pagedsim.analysis.simulate import ALLOCATORS
from pagedsim.errors import ContractError, SpecError
from pagedsim.trace import Trace

_DEVICE = pagedsim.make_device("llama-3.1-8b", "a100-80gb", kv_tokens=4096)


def _trace(**more: Any) -> Trace:
    prompts = [100, 300, 50, 700, 20, 400]
    times = [at * 10**8 for at in range(len(prompts))]
    return Trace.build("six", times, prompts, [40, 10, 90, 30, 1, 60], **more)


def _timeless(run: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(run)
    for key in ("created", "wall_s"):
        del found["provenance"][key]
    return found


def test_compare_gives_a_report_an_allocator() -> None:
    reports = pagedsim.compare(_trace(), device=_DEVICE, max_len=1024)
    assert [report.name for report in reports] == list(ALLOCATORS)
    for report in reports:
        memory = report.run.memory
        terms = (memory.live, memory.reserved, memory.internal, memory.external, memory.cached)
        assert sum(term or 0 for term in terms) + (memory.idle or 0) == pytest.approx(1)
        assert report.run.finished == 6
    waste = [report.run.memory.waste or 0.0 for report in reports]
    assert waste[0] > waste[-1]


def test_results_are_arrays_and_frames() -> None:
    report = pagedsim.simulate(_trace(), "paged:block=8", device=_DEVICE, max_len=1024)
    assert report.column("live").dtype == np.int64
    assert report.windows_frame().height > 0
    assert report.requests_frame().height == 6
    assert report.requests_frame()["generated"].to_list() == [40, 10, 90, 30, 1, 60]


def test_parts_may_be_objects() -> None:
    specs = pagedsim.simulate(
        _trace(), "paged:block=8", scheduler="vllm:max_seqs=3", steptime="constant:ms=5",
        device=_DEVICE, max_len=1024,
    )  # fmt: skip
    scheduler = pagedsim.Vllm(max_seqs=3, max_batched_tokens=_DEVICE.max_batched_tokens)
    objects = pagedsim.simulate(
        _trace(), pagedsim.Paged(512, block=8), scheduler=scheduler,
        steptime=pagedsim.Constant(ms=5), device=_DEVICE, max_len=1024,
    )  # fmt: skip
    ours, theirs = _timeless(specs.run), _timeless(objects.run)
    for found in (ours, theirs):
        del found["name"], found["provenance"]
    assert ours == theirs


def test_two_runs_in_one_process_are_equal_and_leave_the_trace_alone() -> None:
    trace = _trace()
    before = [trace.prompt.copy(), trace.output.copy(), trace.arrival_ns.copy()]
    first, second = (
        [_timeless(r.run) for r in pagedsim.compare(trace, device=_DEVICE, max_len=1024)]
        for _ in range(2)
    )
    assert first == second
    after = [trace.prompt, trace.output, trace.arrival_ns]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_path_a_name_or_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,9,5\n")
    for trace in (path, str(path), pagedsim.load(path)):
        assert pagedsim.simulate(trace).run.finished == 1
    with pytest.raises(pagedsim.PagedsimError, match="nosuch: no such file, and no trace of that"):
        pagedsim.simulate("nosuch")


def test_the_maximum_length_is_the_models_or_what_the_pool_holds() -> None:
    report = pagedsim.simulate(_trace(), device=_DEVICE)
    assert report.run.provenance.specs["max_len"] == 4096
    (note,) = report.run.provenance.notes
    assert note == "maximum length 4096: what the pool holds (the model's is 131072)"
    large = pagedsim.make_device("opt-13b", "a100-80gb")
    report = pagedsim.simulate(_trace(), device=large)
    assert report.run.provenance.specs["max_len"] == large.model.max_len


def test_refusals_are_listed_with_their_numbers() -> None:
    run = pagedsim.simulate(_trace(), device=_DEVICE, max_len=400).run
    assert (run.refused, run.finished, run.truncated) == (2, 4, 0)
    assert [(r.row, r.reason, r.value, r.bound) for r in run.refused_requests] == [
        (3, "prompt", 700, 399),
        (5, "prompt", 400, 399),
    ]
    small = pagedsim.make_device("llama-3.1-8b", "a100-80gb", kv_tokens=320)
    run = pagedsim.simulate(_trace(), device=small, max_len=1024).run
    assert [(r.reason, r.value, r.bound) for r in run.refused_requests] == [
        ("capacity", 309, 304),
        ("capacity", 729, 304),
        ("capacity", 459, 304),
    ]


def test_nothing_to_run_is_no_error() -> None:
    run = pagedsim.simulate(_trace(), device=_DEVICE, max_len=2).run
    assert (run.refused, run.finished, run.steps, run.makespan_s) == (6, 0, 0, None)
    assert run.memory.live is None


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        ({"max_len": 1}, "max_len is 1, must be >= 2"),
        ({"max_len": True}, "max_len is True, must be a whole number"),
        ({"max_len": 1e4}, "max_len is 10000.0, must be a whole number"),
        ({"max_len": 1 << 41}, f"max_len is {1 << 41}, must be <= {1 << 40}"),
        ({"concurrency": -1}, "concurrency is -1, must be >= 0"),
        ({"engine": "slow"}, "engine is 'slow', must be fast or reference"),
        ({"window": "5:1"}, "window '5:1': ends at 1 s, must be after 5 s"),
        ({"window": "steady"}, "window steady: no step was blocked"),
        ({"scheduler": "vlm"}, "vlm: there is no scheduler 'vlm'"),
        ({"steptime": "fast"}, "fast: there is no step time 'fast'"),
        ({"allocator": "pagd"}, "pagd: there is no allocator 'pagd'"),
    ],
)
def test_what_cannot_be_meant(setup: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as refusal:
        pagedsim.simulate(_trace(), **{"device": _DEVICE, **setup})
    assert str(refusal.value).startswith(message)


def test_requests_without_times_need_a_load() -> None:
    untimed = _trace(timed=False)
    with pytest.raises(SpecError, match="six has lengths but no arrival times: give --rate"):
        pagedsim.simulate(untimed, device=_DEVICE)
    assert pagedsim.simulate(untimed, device=_DEVICE, concurrency=2).run.batch.peak == 2


def test_requests_and_samples_are_counted_apart() -> None:
    trace = _trace(samples=np.array([1, 3, 1, 1, 1, 1]))
    report = pagedsim.simulate(trace, device=_DEVICE)
    run, outputs = report.run, trace.output * trace.samples
    assert (run.finished, run.samples) == (6, 8)
    assert report.recording.requests.generated.tolist() == outputs.tolist()
    assert report.recording.requests.longest.tolist() == trace.output.tolist()
    seconds = run.makespan_s or 0.0
    assert run.throughput.output_tokens_per_s == pytest.approx(outputs.sum() / seconds)
    assert run.throughput.requests_per_s == pytest.approx(6 / seconds)
    held, shared = report.integral("held"), report.integral("shared")
    assert run.memory.saved == pytest.approx(shared / (held + shared))
    assert shared > 0
    last = report.recording.requests.finish_ns - report.recording.requests.arrival_ns
    per_token = (last / trace.output / 1e9).mean()
    assert run.latency.normalized_s_per_token.mean == pytest.approx(per_token)
    plain = pagedsim.simulate(_trace(), device=_DEVICE).run
    assert (plain.samples, plain.memory.saved) == (6, 0.0)
    with pytest.raises(SpecError, match=r"request 1 asks for 3 samples; Contiguous cannot fork"):
        pagedsim.simulate(trace, "contiguous:place=first,reserve=max", device=_DEVICE)


def test_a_part_that_breaks_its_contract_is_named() -> None:
    class Zero:
        def ns(self, load: Any, /) -> int:
            return 0

    with pytest.raises(ContractError):
        pagedsim.simulate(_trace(), steptime=Zero(), device=_DEVICE)


def test_a_window_is_refused_before_anything_runs() -> None:
    def never(_: int) -> None:
        raise AssertionError("a run began")

    with pytest.raises(SpecError, match=r"window '5:1': ends at 1 s, must be after 5 s"):
        pagedsim.simulate(_trace(), device=_DEVICE, window=(5, 1), progress=never)


def test_progress_ends_at_the_number_of_requests() -> None:
    for engine in ("fast", "reference"):
        done: list[int] = []
        pagedsim.simulate(
            _trace(), device=_DEVICE, max_len=400, engine=engine, progress=done.append
        )
        assert sum(done) == 6
        assert done[-1] == 2  # those that were refused


def test_the_batch_of_a_queue_that_never_empties() -> None:
    """Everything there at time 0: steady is from the first refusal to the last admission."""
    many = Trace.build("many", [0] * 40, [60] * 40, [20] * 40)
    small = pagedsim.make_device("llama-3.1-8b", "a100-80gb", kv_tokens=16 * 21)
    run = pagedsim.simulate(many, device=small, window="steady", max_len=512)
    assert run.blocked == 1.0
    assert run.run.batch.mean is not None
    assert 4 <= run.run.batch.mean <= run.run.batch.peak <= 5
    last = int(run.recording.requests.admitted_ns.max())
    assert run.span_ns is not None
    assert run.span_ns[1] == last
