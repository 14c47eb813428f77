"""Models with groups of layers, from their shape to the result file: eight terms, in bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pagedsim.alloc.grouped import Grouped
from pagedsim.alloc.paged import Paged
from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.analysis import results
from pagedsim.analysis.configuration import Configuration
from pagedsim.analysis.outline import outline
from pagedsim.analysis.report import Report, report, result
from pagedsim.analysis.simulate import Setup, allocator_of, allocators_for, device_info, run
from pagedsim.device import find_model, make_device
from pagedsim.device.layers import State
from pagedsim.device.replaygroups import grouped_pool
from pagedsim.errors import DeviceError, SpecError
from pagedsim.present.page import page
from pagedsim.present.perfetto import events
from pagedsim.specs import make_allocator, part_of
from pagedsim.trace import Trace

GEMMA = make_device("gemma-3-27b", "h100", kv_memory_bytes=1 << 30, max_batched_tokens=512)
TERMS = ("live", "reserved", "internal", "external", "cached", "padding", "outside", "idle")
RECURRENT = replace(
    find_model("llama-3.1-8b"),
    kinds=("state", "state", "state", "full"),
    state=State(1024, 4, 65536),
)


def made(mode: str, device: Any = GEMMA, **setup: Any) -> Report:
    rows = [(5 * at, 300 + 400 * at % 1900, 5 + at % 7) for at in range(14)]
    trace = Trace.build("t", *zip(*rows, strict=True))
    setup = {"steptime": "constant:ms=20", "max_len": 2400, **setup}
    return run(trace, f"paged:groups={mode}", Setup(device=device, **setup).resolved())


@pytest.fixture(scope="module", params=["on", "full", "on,prefix=on"])
def ran(request: pytest.FixtureRequest) -> Report:
    return made(request.param)


def test_the_account_has_no_remainder(ran: Report) -> None:
    sums = ran.integrals
    assert sum(sums[term] for term in TERMS) == ran.recording.capacity * ran.busy_ns
    assert sum(getattr(ran.run.memory, term) for term in TERMS) == pytest.approx(1, abs=1e-12)
    assert set(ran.run.memory_spread) == {*TERMS, "shared", "held"}
    waste = sum(getattr(ran.run.memory, term) for term in TERMS[1:4] + TERMS[5:7])
    assert ran.run.memory.waste == pytest.approx(waste)
    assert ran.run.memory.outside
    cut = replace(ran, span_ns=(30, 700_000_000))
    assert sum(cut.integrals[term] for term in TERMS) == ran.recording.capacity * cut.busy_ns


def test_the_result_file(ran: Report) -> None:
    found = result([ran], device_info(GEMMA), ran.trace)
    again = results.from_json(results.to_json(found))
    assert again == found
    memory = json.loads(results.to_json(found))["runs"][0]["memory"]
    assert list(memory)[-2:] == ["padding", "outside"]
    assert again.runs[0].memory.terms == results.GROUP_TERMS
    assert again.runs[0].capacity_bytes == ran.recording.capacity
    assert again.runs[0].capacity_tokens == ran.recording.capacity // 507_904
    text = page(found, [ran])
    assert "--padding" in text
    assert "--outside" in text


def test_series_and_pictures_have_all_terms(ran: Report) -> None:
    frame = ran.windows_frame()
    sums = frame.select(TERMS).sum_horizontal().unique().to_list()
    assert sums == [ran.recording.capacity]
    thin = outline(ran.recording, 20)
    assert thin.columns == (*TERMS, "batch")
    assert set(thin.rows[:, :-1].sum(axis=1).tolist()) <= {0, ran.recording.capacity}
    memory = [each for each in events(ran, 1) if each["name"] == "memory (bytes)"]
    assert memory
    assert all(tuple(each["args"]) == results.GROUP_TERMS for each in memory)


def test_one_kind_of_layers_keeps_the_six_terms() -> None:
    device = make_device("llama-3.1-8b", "h100", kv_memory_bytes=1 << 30)
    runs = [made(mode, device).run for mode in ("off", "on", "full")]
    assert runs[0].memory.terms == results.TERMS
    assert runs[0].memory == runs[1].memory == runs[2].memory
    assert b"padding" not in results.to_json(result(runs, device_info(device), made("off").trace))


def test_without_groups_the_same_is_held() -> None:
    """What no layer reads is part of live where every layer counts as full attention."""
    tokens, bytes_ = made("off"), made("full")
    live = bytes_.column("live") + bytes_.column("outside")
    assert (tokens.column("live") * 507_904).tolist() == live.tolist()
    for term in ("held", "reserved", "internal", "external", "idle"):
        assert (tokens.column(term) * 507_904).tolist() == bytes_.column(term).tolist()
    assert bytes_.column("outside").any()


def test_averages_of_a_report_need_no_model() -> None:
    ran = made("on")
    alone = report(ran.recording, ran.trace, name="x")
    assert len(ran.recording.starts)
    assert alone.memory == ran.memory


# From a model to a pool.


def test_groups_of_gemma() -> None:
    """10 GiB a layer-block of 10 layers: what the engine's own sizing has."""
    pool = grouped_pool(make_device("gemma-3-27b", "h100", kv_memory_bytes=40 << 30))
    assert pool.blocks == (40 << 30) // pool.block_bytes == 32768
    assert [len(group.layers) for group in pool.groups] == [9, 9, 9, 9, 8, 8, 10]
    assert [group.kind for group in pool.groups] == ["sliding"] * 6 + ["full"]
    full = grouped_pool(make_device("gemma-3-27b", "h100", kv_memory_bytes=40 << 30), full=True)
    assert (full.blocks, len(full.groups)) == (5285, 1)
    (narrow,) = full.groups[0].narrow
    assert (narrow.window, narrow.token_bytes) == (1024, 52 * 8192)


def test_a_number_of_blocks_wins() -> None:
    device = make_device("gemma-3-27b", "h100", kv_blocks=1000)
    assert grouped_pool(device).blocks == 1000


def test_ranks_share_tables() -> None:
    """On two stages the widest blocks count, and a group may have no layers on a stage."""
    pool = grouped_pool(make_device("gemma-3-27b", "h100", pp=2, kv_memory_bytes=1 << 30))
    whole = grouped_pool(make_device("gemma-3-27b", "h100", kv_memory_bytes=1 << 30))
    assert pool.block_bytes < whole.block_bytes
    halved = grouped_pool(make_device("gemma-3-27b", "h100", tp=2, kv_memory_bytes=1 << 30))
    assert halved.block_bytes * 2 == whole.block_bytes


def test_layers_that_keep_their_format() -> None:
    """fp8 but for the windows: their pages are twice as wide, so full ones take 32 tokens."""
    device = make_device("gpt-oss-20b", "h100", kv_dtype="fp8", exempt=("sliding",))
    sizes = {group.kind: (group.block, group.token_bytes) for group in grouped_pool(device).groups}
    assert sizes["full"][0] == 2 * sizes["sliding"][0]
    assert 2 * sizes["full"][1] == sizes["sliding"][1]


def test_a_recurrent_model() -> None:
    device = make_device(RECURRENT, "h100", kv_memory_bytes=1 << 30)
    ran = made("on", device)
    assert ran.run.finished == 14
    assert ran.run.memory.padding
    with pytest.raises(DeviceError, match="recurrent layers, which no engine keeps as full"):
        made("full", device)
    assert made("on,prefix=on", device).run.finished == 14
    again: Any = allocator_of("paged:groups=on,prefix=on", Setup(device=device).resolved())
    assert again.state_block == 48  # a state of 137,216 bytes fits in 3 · 16 tokens of 4,096
    assert {group.block for group in again.groups} == {48}
    with pytest.raises(SpecError, match="max_batched_tokens is 40, must be >= 48 with prefix=on"):
        made("on,prefix=on", replace(device, max_batched_tokens=40))
    assert allocators_for(RECURRENT)[1:] == ("paged:block=16", "paged:block=16,groups=on")


def test_a_configuration_may_have_groups() -> None:
    """As plans and sweeps change it: its parts are made before any run."""
    asked = Configuration(
        model="gemma-3-27b", gpu="h100", allocator="paged:groups=on", max_len=2048
    )
    assert asked.setup().max_len == 2048
    with pytest.raises(SpecError, match="groups is some"):
        replace(asked, allocator="paged:groups=some").setup()


def test_which_allocator_a_spec_means() -> None:
    setup = Setup(device=GEMMA, max_len=2048).resolved()
    found: Any = allocator_of("paged:groups=on,prefix=on,block=32,free_order=0.11", setup)
    assert isinstance(found, Grouped)
    assert found.prefix
    assert {group.block for group in found.groups} == {32}
    assert isinstance(allocator_of("paged:groups=off", setup), Paged)
    alike = Setup(device=make_device("llama-3.1-8b", "h100"), max_len=2048).resolved()
    assert isinstance(allocator_of("paged:groups=on,prefix=on", alike), PrefixPaged)
    assert len(allocators_for(GEMMA.model)) == 3
    assert len(allocators_for(alike.device.model)) == 4  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("paged:groups=maybe", "groups is maybe, must be on, full or off"),
        ("paged:groups=on,evict=lfu", "evict is 'lfu', which needs prefix=on"),
        ("paged:groups=on,evict=x,prefix=on", "paged: evict is 'x', must be one of fifo, lfu, "),
        ("paged:groups=on,evict=optimal,prefix=on", "needs the future, and of several groups"),
        ("paged:groups=on,null=0", "has no option 'null'"),
        ("paged:groups=on,in_flight=3", "has no option 'in_flight'"),
        ("paged:groups=on,block=0", "block is 0"),
        ("radix:groups=on", "has no option 'groups'"),
    ],
)
def test_a_wrong_spec(spec: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        allocator_of(spec, Setup(device=GEMMA, max_len=2048).resolved())


def test_a_pool_that_is_too_small() -> None:
    device = make_device("gemma-3-27b", "h100", kv_memory_bytes=9 << 20)
    with pytest.raises(SpecError, match="holds no token of all 7 groups"):
        allocator_of("paged:groups=on", Setup(device=device, max_len=64).resolved())
    with pytest.raises(SpecError, match="needs a model"):
        make_allocator("paged:groups=on", tokens=1000, max_len=64)
    with pytest.raises(SpecError, match="groups are those of a model"):
        part_of("paged:groups=on")
    assert part_of("paged:groups=off,block=8") == (Paged, {"block": 8})
