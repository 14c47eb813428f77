"""Every recorded start-up of vLLM 0.33, exactly; and what must hold for any layers."""

from __future__ import annotations

import itertools
import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pagedsim.device import find_model, grouping, startup
from pagedsim.device.layers import Layer, State
from pagedsim.device.startup import Ranks, Startup, in_flight_batches, printed, start
from pagedsim.errors import DeviceError, SpecError, StartupError
from pagedsim.protocols import LayerGroup

RECORDED = json.loads((Path(__file__).parent / "vllm_sizing_cases.json").read_text())
KINDS = {
    "FullAttentionSpec": "full",
    "MLAAttentionSpec": "full",
    "SlidingWindowSpec": "sliding",
    "ChunkedLocalAttentionSpec": "chunked",
    "MambaSpec": "state",
}


def layer(row: dict[str, Any]) -> Layer:
    """A layer as the recordings describe it."""
    kind = row["kind"]
    if kind == "mla":
        return Layer("mla", latent=row["latent"] + row["rope"])
    if kind == "kv_shared":
        return Layer("shared")
    if kind == "mamba":
        keys, values = row["k_heads"] * row["k_dim"], row["v_heads"] * row["v_dim"]
        dtype = row["ssm_dtype"].replace("float32", "fp32")
        state = State(2 * keys + values, row["conv"], values * row["k_dim"], dtype)
        return Layer("state", state=state)
    window = row.get("window", row.get("chunk", 0))
    return Layer(kind, row["kv_heads"], row["head_dim"], window)


def restart(case: dict[str, Any]) -> Startup:
    """Start up with a recording's input."""
    asked = case["input"]
    ranges = case["vllm"]["pp_ranges"]
    return start(
        [layer(row) for row in RECORDED["layer_sets"][asked["layers"]]],
        Ranks(tuple(last - first for first, last in ranges), asked["tp"], asked["dcp"]),
        asked["available_bytes"],
        dtype=asked["dtype"],
        kv_dtype=asked["kv_dtype"],
        max_len=asked["max_model_len"],
        max_batched_tokens=asked["max_num_batched_tokens"],
        block=asked["block_size"],
        hybrid=not asked["disable_hybrid"],
        prefix_caching=asked["prefix_caching"],
        batches=in_flight_batches(
            asked["pp"],
            asynchronous=asked["async_scheduling"],
            older_runner=not asked["v2_runner"],
        ),
        blocks=asked["num_gpu_blocks_override"],
        fit=asked["auto_fit"],
        outer=(asked["layout"] or "L").startswith("B"),
    )


def groups(up: Startup) -> list[list[dict[str, Any]]]:
    """A start-up's groups a rank, as the recordings write them."""
    return [
        [
            {
                "layers": list(one.layers),
                "kind": one.kind,
                "block_size": one.block,
                "page": sum(up.grouped.pages[i].size for i in one.layers),
                "blocks_per_request": one.most_blocks(up.max_len, up.in_flight),
            }
            for one in rank.groups
        ]
        for rank in up.ranks
    ]


def recorded_groups(engine: dict[str, Any]) -> list[list[dict[str, Any]]]:
    return [
        [
            {
                "layers": one["layers"],
                "kind": KINDS[one["inner"][0]],
                "block_size": one["block_size"],
                "page": one["page_size_bytes"]
                * (1 if one["spec"].startswith("Uniform") else len(one["layers"])),
                "blocks_per_request": one["blocks_per_request"],
            }
            for one in rank
        ]
        for rank in engine["worker_groups"]
    ]


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: case["input"]["label"])
def test_recorded_start_up(case: dict[str, Any]) -> None:
    engine = case["vllm"]
    if "error" in engine:
        with pytest.raises(DeviceError) as caught:
            restart(case)
        refused(caught.value, engine)
        return
    up = restart(case)
    assert up.blocks == engine["num_blocks"]
    assert up.max_len == engine["max_model_len_used"]
    assert up.in_flight == engine["max_in_flight_tokens"]
    assert up.concurrency == engine["max_concurrency"]
    assert up.tokens == engine["tokens"]
    assert len(up.groups) == engine["num_groups"]
    assert min(one.block for one in up.groups) == engine["min_group_block_size"]
    assert [rank.block_bytes for rank in up.ranks] == engine["bytes_per_block"]
    assert [rank.needed_bytes for rank in up.ranks] == engine["needed_bytes"]
    assert [rank.allocated_bytes for rank in up.ranks] == engine["allocated_bytes"]
    assert groups(up) == recorded_groups(engine)
    assert printed(up) == [line for line in engine["log"] if line.startswith("GPU KV")]


@pytest.mark.parametrize(
    "case",
    [c for c in RECORDED["cases"] if c["input"]["shape_source"] == "models.json"],
    ids=lambda case: case["input"]["label"],
)
def test_the_built_in_models_have_the_recorded_layers(case: dict[str, Any]) -> None:
    model = find_model(case["input"]["model"])
    assert model.layer_list() == [layer(r) for r in RECORDED["layer_sets"][case["input"]["layers"]]]
    ends = [last for _, last in case["vllm"]["pp_ranges"]]
    assert list(itertools.accumulate(model.stages(case["input"]["pp"]))) == ends


def refused(error: DeviceError, engine: dict[str, Any]) -> None:
    """The refusal that was recorded, number by number."""
    if "unified type" in engine["error"]:
        assert "all layers must be of one type" in str(error)
        return
    assert isinstance(error, StartupError)
    assert [error.needed] == engine["needed_bytes"]
    assert [error.longest] == engine["estimated_max_model_len"]
    pattern = r"\(([\d.]+ GiB) KV cache is needed.*available KV cache memory \(([\d.]+ GiB)\)"
    found = re.search(pattern, engine["error"])
    assert found is not None
    for text in found.groups():
        assert text in str(error)


def test_the_recordings_cover_what_they_should() -> None:
    cases = RECORDED["cases"]
    assert len(cases) == 59
    assert sum("error" in case["vllm"] for case in cases) == 7


FULL = Layer("full", 8, 128)
SLIDING = Layer("sliding", 8, 128, 1024)
MLA = Layer("mla", latent=576)
STATE = Layer("state", state=State(8192, 4, 2**19))
GIB = 1 << 30


def up(layers: list[Layer], **options: Any) -> Startup:
    """A start-up on one GPU with plenty of memory."""
    ranks = options.pop("ranks", Ranks((len(layers),)))
    plain = {"dtype": "bf16", "max_len": 4096, "max_batched_tokens": 2048}
    return start(layers, ranks, options.pop("available", [64 * GIB]), **{**plain, **options})


def shapes(found: Startup) -> list[tuple[str, int, int]]:
    return [(one.kind, len(one.layers), one.block) for one in found.groups]


def test_how_wide_a_group_is() -> None:
    """As wide as the largest bucket if that is below 1.5 times the smallest, else the smallest."""
    for full, sliding, wide, count in (
        (20, 29, 29, 2),
        (20, 30, 20, 3),
        (13, 12, 13, 2),
        (1, 7, 1, 8),
    ):
        found = up([FULL] * full + [SLIDING] * sliding)
        assert max(len(one.layers) for one in found.groups) <= wide
        assert len(found.groups) == count
        assert found.ranks[0].block_bytes == 16 * 4096 * max(len(g.layers) for g in found.groups)


def test_layers_are_taken_in_strides() -> None:
    gemma = ([SLIDING] * 5 + [FULL]) * 10 + [SLIDING] * 2
    groups = up(gemma).groups
    assert [len(one.layers) for one in groups] == [9, 9, 9, 9, 8, 8, 10]
    assert groups[0].layers == (0, 7, 14, 21, 28, 36, 43, 50, 57)
    assert groups[-1].layers == tuple(range(5, 62, 6))


def test_unequal_pages() -> None:
    wide, narrow = Layer("sliding", 16, 256, 1024), Layer("full", 4, 512)
    gemma4 = up(([wide] * 5 + [narrow]) * 10)
    assert shapes(gemma4) == [("sliding", 10, 16)] * 5 + [("full", 10, 32)]
    assert gemma4.ranks[0].block_bytes == 10 * 16 * 16 * 2 * 256 * 2
    three, four = Layer("sliding", 3, 128, 1024), Layer("full", 4, 128)
    padded = up([three, four] * 8)
    assert shapes(padded) == [("sliding", 8, 16), ("full", 8, 16)]
    assert padded.ranks[0].block_bytes == 8 * 16 * 4 * 512
    assert padded.groups[0].page_bytes == 8 * 16 * 3 * 512
    mixed = up([Layer("full", 2, 128), Layer("full", 5, 128), MLA])
    assert shapes(mixed) == [("full", 3, 16)]
    assert mixed.ranks[0].block_bytes == 16 * (2 * 512 + 5 * 512 + 576 * 2)
    heads = up([SLIDING, Layer("sliding", 4, 128, 1024)] * 6)
    assert shapes(heads) == [("sliding", 12, 16)]
    with pytest.raises(DeviceError, match=r"layer 0: a page of MLA latents .* cannot be padded"):
        up([MLA, SLIDING, MLA])


def test_the_block_outermost() -> None:
    """Gemma-4: 11 groups of 1.3 MB blocks in place of 6 of 2.6 MB, and the same concurrency."""
    layers = ([Layer("sliding", 16, 256, 1024)] * 5 + [Layer("full", 4, 512)]) * 10
    inner, outer = up(layers), up(layers, outer=True)
    assert (len(inner.groups), len(outer.groups)) == (6, 11)
    assert inner.ranks[0].block_bytes == 2 * outer.ranks[0].block_bytes == 2 * 1_310_720
    assert outer.concurrency == pytest.approx(inner.concurrency, rel=0.01)
    assert sorted(i for one in outer.groups for i in one.layers) == list(range(60))
    assert {one.page_bytes for one in outer.groups} == {1_310_720}
    assert up([SLIDING, FULL], outer=True).groups == up([SLIDING, FULL]).groups
    with pytest.raises(DeviceError, match="layer 0: pages of 49,152 bytes do not fill blocks of"):
        up([Layer("sliding", 6, 128, 1024)] * 3 + [FULL], outer=True)


def test_layers_without_kv_do_not_exist() -> None:
    found = up([SLIDING, FULL] * 4 + [Layer("shared"), Layer("none")] * 2)
    assert [one.layers for one in found.groups] == [(0, 2, 4, 6), (1, 3, 5, 7)]
    with pytest.raises(DeviceError, match="no layer keeps any KV"):
        up([Layer("shared")])


def test_a_stage_without_kv_decides_nothing() -> None:
    layers = [FULL, FULL, Layer("shared"), Layer("shared")]
    found = up(layers, ranks=Ranks((2, 2)), available=[GIB, 1])
    assert [rank.block_bytes for rank in found.ranks] == [2 * 16 * 4096, 0]
    assert found.blocks == GIB // (2 * 16 * 4096)


def test_states() -> None:
    layers = [STATE, STATE, STATE, Layer("full", 2, 256)]
    cached = up(layers)
    state = 8192 * 3 * 2 + 2**19 * 2
    block = 16 * -(-state // (16 * 2048))
    assert shapes(cached) == [("state", 1, block)] * 3 + [("full", 1, block)]
    assert cached.ranks[0].block_bytes == block * 2048
    assert cached.request_blocks == 3 * 2 + -(-4096 // block)
    assert up(layers, prefix_caching=False).request_blocks == 3 + -(-4096 // block)
    assert up([STATE, STATE]).ranks[0].block_bytes == 2 * state
    with pytest.raises(DeviceError, match="tp 3 does not divide a recurrent layer's conv channels"):
        up(layers, ranks=Ranks((4,), 3))
    with pytest.raises(DeviceError, match="a recurrent layer needs a state"):
        Layer("state")


def test_context_parallelism() -> None:
    plain, split = up([FULL] * 4), up([FULL] * 4, ranks=Ranks((4,), 8, 2))
    assert plain.request_blocks == 2 * split.request_blocks == 256
    with pytest.raises(DeviceError, match="dcp 3 does not divide tp 8"):
        up([FULL] * 4, ranks=Ranks((4,), 8, 3))
    with pytest.raises(DeviceError, match="dcp 2: sliding layers cannot be split"):
        up([FULL, SLIDING], ranks=Ranks((2,), 2, 2))


def test_in_flight() -> None:
    assert [in_flight_batches(n, asynchronous=False) for n in (1, 3)] == [1, 3]
    assert [in_flight_batches(n, asynchronous=True) for n in (1, 3)] == [2, 4]
    older = [in_flight_batches(n, asynchronous=True, older_runner=True) for n in (1, 3)]
    assert older == [2, 3]


def test_older_print() -> None:
    found = up([SLIDING, FULL] * 3, available=[GIB])
    blocks = GIB // (3 * 16 * 4096)
    assert printed(found, older=True) == [
        f"GPU KV cache size: {blocks // 2 * 16:,} tokens",
        f"Maximum concurrency for 4,096 tokens per request: {found.concurrency:.2f}x",
    ]


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([SLIDING, Layer("sliding", 8, 128, 64)], "windows of several sizes (sliding 64 and"),
        ([SLIDING, Layer("sliding", 8, 128, 64), FULL], "windows of several sizes"),
        ([SLIDING, Layer("chunked", 8, 128, 1024), FULL], "chunked 1,024 and sliding 1,024"),
        ([STATE, FULL], "recurrent layers stand beside attention"),
    ],
)
def test_what_does_not_start_without_groups(layers: list[Layer], message: str) -> None:
    assert up(layers).blocks
    with pytest.raises(DeviceError) as caught:
        up(layers, hybrid=False)
    assert message in str(caught.value)


def test_what_does_not_work_out() -> None:
    for options, message in (
        ({"available": [GIB] * 3}, "3 sizes of available memory given, must be 1"),
        ({"available": [0]}, "available memory is 0 bytes"),
        ({"ranks": Ranks((1, 2))}, r"4 layers do not fill stages of \(1, 2\)"),
        ({"kv_dtype": "q8_0"}, "vLLM keeps no KV as q8_0; it has auto, fp16"),
        ({"kv_dtype": "int8"}, "vLLM keeps no KV as int8; it has .*int8_per_token_head"),
    ):
        with pytest.raises((DeviceError, SpecError), match=message):
            up([FULL] * 4, **options)
    for kind, message in (("odd", "unknown kind of layer 'odd'"), ("sliding", "window is 0")):
        with pytest.raises(DeviceError, match=message):
            Layer(kind, 8, 128)
    for kind, message in (("full", "0 KV heads of 0, must be >= 1"), ("mla", "keeps 0 elements")):
        with pytest.raises(DeviceError, match=message):
            Layer(kind)
    with pytest.raises(DeviceError, match="MLA latents cannot be kept as fp8_per_token_head"):
        up([MLA], kv_dtype="fp8_per_token_head")


def test_nothing_fits() -> None:
    for fit in (False, True):
        with pytest.raises(StartupError, match="no length fits") as caught:
            up([FULL], available=[16 * 4096], fit=fit)
        assert (caught.value.longest, caught.value.rank) == (0, 0)


SOME = st.one_of(
    st.builds(Layer, st.just("full"), st.integers(1, 4), st.sampled_from((8, 16))),
    st.builds(Layer, st.just("sliding"), st.integers(1, 4), st.sampled_from((8, 16)), st.just(40)),
    st.builds(Layer, st.just("chunked"), st.integers(1, 4), st.just(8), st.sampled_from((32, 50))),
    st.just(Layer("state", state=State(6, 3, 40))),
    st.just(Layer("shared")),
)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Layer], dict[str, Any]]:
    kinds = draw(st.lists(SOME, min_size=1, max_size=4))
    layers = draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=9))
    assume(any(layer.kind != "shared" for layer in layers))
    stages = draw(st.integers(1, 2))
    options = {
        "ranks": Ranks((len(layers) - stages + 1, *[1] * (stages - 1))),
        "available": [draw(st.integers(2**12, 2**17))],
        "max_len": draw(st.integers(1, 600)),
        "max_batched_tokens": draw(st.integers(1, 64)),
        "block": draw(st.sampled_from((4, 16))),
        "prefix_caching": draw(st.booleans()),
    }
    return layers, options


def attempt(layers: list[Layer], **options: Any) -> Startup | StartupError:
    """The start-up, or its refusal."""
    try:
        return up(layers, **options)
    except StartupError as error:
        return error


@given(runs())
def test_what_holds_for_any_layers(run: tuple[list[Layer], dict[str, Any]]) -> None:
    layers, options = run
    found = attempt(layers, **options)
    if isinstance(found, StartupError):
        assert found.needed > found.available
        alone = len(options["ranks"].stages) == 1
        if found.longest and alone and (options["prefix_caching"] or STATE not in layers):
            assert up(layers, **{**options, "max_len": found.longest}).blocks
        return
    kept = sorted(i for one in found.groups for i in one.layers)
    assert kept == [i for i, layer in enumerate(layers) if layer.kind != "shared"]
    for rank in found.ranks:
        assert all(one.page_bytes <= rank.block_bytes for one in rank.groups)
        assert rank.allocated_bytes <= rank.available_bytes
        assert rank.needed_bytes + rank.block_bytes <= rank.available_bytes
    assert found.tokens <= Fraction(found.blocks * found.max_len, found.request_blocks)
    # it costs what it says, piece by piece
    block = max(rank.block_bytes for rank in found.ranks)
    costs = found.costs()
    for length in {1, found.max_len, *(c.above + 1 for c in costs), *(c.above for c in costs)}:
        if 1 <= length <= found.max_len:
            cost = max((c for c in costs if c.above < length), key=lambda c: c.above)
            blocks = sum(one.most_blocks(length, found.in_flight) for one in found.groups)
            least = cost.fixed + cost.per_token * length
            assert least <= blocks * block <= least + cost.rounding


@given(runs())
@example(
    run=(
        [Layer("sliding", 1, 16, 40), Layer("sliding", 2, 16, 40)],  # one rank holds 32, one none
        {
            "ranks": Ranks((1, 1)),
            "available": [4096],
            "max_len": 33,
            "max_batched_tokens": 1,
            "block": 16,
            "prefix_caching": False,
        },
    )
)
def test_the_fitted_length_is_the_longest(run: tuple[list[Layer], dict[str, Any]]) -> None:
    layers, options = run
    found = attempt(layers, **options, fit=True)
    if isinstance(found, StartupError):
        assert found.longest == 0
        return
    again = {**options, "max_len": found.max_len}
    if "state" not in {layer.kind for layer in layers}:  # its block is of the asked length
        assert up(layers, **again).tokens == found.tokens
    if found.max_len < options["max_len"]:
        with pytest.raises(StartupError) as caught:
            up(layers, **{**options, "max_len": found.max_len + 1})
        assert caught.value.longest >= found.max_len


@pytest.mark.parametrize("planted", ["one_more", "first_seen", "cut"])
def test_the_recordings_notice(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if planted == "one_more":
        right = LayerGroup.most_blocks
        monkeypatch.setattr(
            LayerGroup,
            "most_blocks",
            lambda one, length, flight: right(one, length, flight) - (one.kind == "sliding"),
        )
    elif planted == "first_seen":
        right_pages = grouping.pages
        monkeypatch.setattr(
            startup,
            "pages",
            lambda layers, **more: dict(sorted(right_pages(layers, **more).items(), reverse=True)),
        )
    else:
        monkeypatch.setattr(
            Startup, "tokens", property(lambda one: one.blocks * one.max_len // one.request_blocks)
        )
    wrong = 0
    for case in RECORDED["cases"]:
        try:
            test_recorded_start_up(case)
        except AssertionError:
            wrong += 1
    assert wrong
