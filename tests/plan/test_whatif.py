"""One change at a time: each differs in one thing, is really replayed, and adds up as it should."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim import simulate
from pagedsim.analysis.configuration import Configuration
from pagedsim.analysis.whatif import gain, metric, ranked, stacked, tried
from pagedsim.analysis.whatif_changes import KINDS, Change, changes, rebased
from pagedsim.analysis.whatif_result import Tried
from pagedsim.errors import SpecError
from pagedsim.specs import parse
from pagedsim.trace import load
from pagedsim.trace.trace import Trace

TRACE = load("chat-shared", limit=60)
PLAIN = Configuration(max_len=16384)
POOL = replace(PLAIN, device={"kv_tokens": 32_000})


def of(configuration: Configuration, trace: Trace = TRACE) -> dict[str, Change]:
    return {change.text: change for change in changes(configuration, trace)}


def test_there_are_changes_of_every_kind_and_each_differs_in_one_field() -> None:
    found = changes(PLAIN, TRACE)
    assert {change.kind for change in found} == set(KINDS) - {"allocator"}
    for change in found:
        assert change.possible, change
        assert change.configuration is not None
        differs = [
            field.name
            for field in fields(Configuration)
            if getattr(change.configuration, field.name) != getattr(PLAIN, field.name)
        ]
        assert len(differs) == 1, change
        device = change.configuration.setup().device
        assert device is not None
    assert len({change.text for change in found}) == len(found)


def test_what_is_changed_is_what_is_said() -> None:
    found = of(PLAIN)

    def made(text: str) -> Configuration:
        change = found[text].configuration
        assert change is not None
        return change

    assert made("block size 8").allocator == "paged:block=8"
    assert made("prefix caching").allocator == "paged:block=16,prefix=on"
    assert made("KV in fp8").device == {"kv_dtype": "fp8"}
    assert made("max length 8,192").max_len == 8192
    longest = int((TRACE.prompt + TRACE.output).max())
    assert made(f"max length {longest:,} (longest)").max_len == longest
    assert made("max seqs 128").device == {"max_seqs": 128}
    assert made("token budget 4,096").device == {"max_batched_tokens": 4096}
    assert made("watermark 0.01").scheduler == "vllm:watermark=0.01"
    assert made("GPU memory 0.95").device == {"utilization": 0.95}
    assert made("tp 2").device == {"tp": 2}


def test_limits_in_the_schedulers_spec_are_changed_there() -> None:
    found = of(replace(PLAIN, scheduler="vllm:max_seqs=64,watermark=0.01"))
    change = found["max seqs 32"].configuration
    assert change is not None
    assert change.scheduler == "vllm:watermark=0.01"
    assert change.device == {"max_seqs": 32}
    without = found["no watermark"].configuration
    assert without is not None
    assert without.scheduler == "vllm:max_seqs=64"


def test_a_stated_pool_keeps_its_bytes_and_refuses_what_would_make_another() -> None:
    found = of(POOL)
    half = found["KV in fp8"].configuration
    assert half is not None
    device = half.setup().device
    assert device is not None
    assert device.capacity_tokens == 64_000
    assert found["GPU memory"].why == "--kv-tokens says how large the pool is"
    assert "that of tp 2 is not known" in found["tp 2"].why


@pytest.mark.parametrize(
    ("configuration", "text", "why"),
    [
        (replace(PLAIN, allocator="radix"), "prefix caching", "always shares prefixes"),
        (replace(PLAIN, allocator="radix"), "block size", "no blocks of a size"),
        (replace(PLAIN, allocator="contiguous"), "prefix caching", "cannot share"),
        (replace(PLAIN, scheduler="static"), "watermark", "has no watermark"),
        (replace(PLAIN, steptime="constant:ms=5"), "tp 2", "those of tp 2 are not known"),
        (replace(PLAIN, scheduler="orca"), "token budget", "has no max_batched_tokens"),
        (replace(PLAIN, max_len=131_072), "max length 262,144", "positions up to 131,072"),
        (replace(PLAIN, device={"utilization": 0.97}), "GPU memory 1.02", "nothing is left"),
        (replace(PLAIN, model="llama-3.1-70b", device={"tp": 2}), "tp 1", "no room for KV"),
        (replace(PLAIN, scheduler="vllm:chunked=0", device={"max_batched_tokens": 16384}),
         "token budget 8,192", "must be >= the maximum length"),
    ],
)  # fmt: skip
def test_what_cannot_be_says_why(configuration: Configuration, text: str, why: str) -> None:
    change = of(configuration)[text]
    assert not change.possible
    assert why in change.why


def test_instead_of_one_extent_there_are_pages() -> None:
    change = of(replace(PLAIN, allocator="contiguous:place=buddy,reserve=max"))["paged"]
    assert change.configuration is not None
    assert change.configuration.allocator == "paged:block=16"


def test_a_replay_is_the_one_that_simulate_gives() -> None:
    by = metric("ttft_p99")
    for text in ("block size 32", "KV in fp8", "max seqs 128", "prefix caching"):
        change = of(POOL)[text]
        assert change.configuration is not None
        one = tried(text, change.kind, change.configuration, TRACE, by)
        setup = change.configuration.setup()
        run = simulate(
            TRACE, change.configuration.allocator, device=setup.device, max_len=setup.max_len
        ).run
        assert one.value == run.latency.ttft_s.p99 == one.ttft_p99_s
        assert (one.batch_mean, one.waste) == (run.batch.mean, run.memory.waste)
        assert (one.makespan_s, one.preemptions) == (run.makespan_s, run.preemptions)
        assert one.output_tokens_per_s == run.throughput.output_tokens_per_s


@given(st.data())
def test_changes_of_different_kinds_add_up_in_any_order(data: st.DataObject) -> None:
    present = replace(POOL, allocator="paged:block=16,null=0", scheduler="vllm:watermark=0.02")
    possible = [change for change in changes(present, TRACE) if change.possible]
    kinds = sorted({change.kind for change in possible})
    picked = [
        data.draw(st.sampled_from([change for change in possible if change.kind == kind]))
        for kind in data.draw(st.lists(st.sampled_from(kinds), unique=True, max_size=4))
    ]
    ends = []
    for order in (picked, picked[::-1]):
        held = present
        for change in order:
            assert change.configuration is not None
            held = rebased(change.configuration, present, held)
        words = [parse(spec).words for spec in (held.allocator, held.scheduler)]
        ends.append((words, held.max_len, dict(held.device)))
    assert ends[0] == ends[1]
    if len(picked) == 1:
        only = picked[0].configuration
        assert only is not None
        assert ends[0][0] == [parse(spec).words for spec in (only.allocator, only.scheduler)]
        assert ends[0][1:] == (only.max_len, dict(only.device))


def outcome(change: str, value: float | None, **more: int) -> Tried:
    return Tried(
        change=change, kind=change[:1], value=value, gpus=1, capacity_tokens=1, batch_mean=None,
        waste=None, ttft_p99_s=None, tpot_p90_s=None, output_tokens_per_s=None, makespan_s=None,
        preemptions=0, refused=more.get("refused", 0), truncated=0,
    )  # fmt: skip


def test_the_best_come_first_and_what_serves_less_does_not_win() -> None:
    now = outcome("present", 2.0)
    rows = [
        outcome("a", 3.0), outcome("b", None), outcome("c", 1.0), outcome("d", 0.5, refused=1),
        outcome("e", 1.0),
    ]  # fmt: skip
    assert [one.change for one in ranked(rows, now, metric("makespan"))] == [*"ceadb"]
    assert [one.change for one in ranked(rows, now, metric("batch"))] == [*"acedb"]
    assert gain(1.0, 2.0, metric("makespan")) == 0.5
    assert gain(1.0, 2.0, metric("throughput")) == -0.5
    assert gain(None, 2.0, metric("waste")) is None
    assert gain(1.0, 0.0, metric("waste")) is None


def test_a_stack_keeps_what_helps_on_top_of_what_was_kept() -> None:
    """Each of three helps alone; two of them do not go together."""
    possible = {c.kind: c for c in changes(PLAIN, TRACE) if c.possible}
    order = [possible[kind] for kind in ("KV precision", "block size", "watermark")]
    seen: list[Configuration] = []

    def replay(text: str, kind: str, configuration: Configuration) -> Tried:
        seen.append(configuration)
        fp8, blocks = "kv_dtype" in configuration.device, configuration.allocator != PLAIN.allocator
        return outcome(text, 10.0 - 4 * fp8 - (-1 if fp8 and blocks else 2 * blocks)
                       - (configuration.scheduler != "vllm"))  # fmt: skip

    steps = stacked(outcome("present", 10.0), PLAIN, order, metric("makespan"), replay)
    assert [(one.value, one.kept) for one in steps] == [(6.0, True), (7.0, False), (5.0, True)]
    assert [one.gain for one in steps] == pytest.approx([0.4, -1 / 6, 1 / 6])
    assert "kv_dtype" in seen[-1].device
    assert seen[-1].allocator == PLAIN.allocator
    assert seen[-1].scheduler != "vllm"


def test_metrics_that_do_not_exist_say_which_do() -> None:
    with pytest.raises(SpecError, match="--by speed: there is no such metric; there are batch"):
        metric("speed")
    with pytest.raises(SpecError, match="--by ttft_p95"):
        metric("ttft_p95")
