"""The lesson's sections on cards and servers, in a real browser: their numbers are Python's.

Python's side is the device, the engine and the numbers' own texts, never the page's: of each number
the page has the exact value and the text.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from controls import in_bytes, said, shown, some

from pagedsim import simulate
from pagedsim.analysis.lesson import memory, replays
from pagedsim.device import Roofline, find_model, make_device
from pagedsim.device.sizing import size
from pagedsim.device.work import pairs
from pagedsim.errors import DeviceError
from pagedsim.present import lesson as present
from pagedsim.present.numbers import bytes_, per_cent, significant
from pagedsim.protocols import Load
from pagedsim.trace import Trace


def test_6_calculator(page: Any) -> None:
    settings = []
    for name in memory.MODELS:
        shape = find_model(name)
        able = [n for n in range(1, shape.heads + 1) if shape.heads % n == 0]
        offered = shown(page, "calculator", [{"model": name}]) and page.execute_script(
            "return [...document.getElementById('calculator-heads').options].map((o) => +o.value)"
        )
        assert offered == able
        own = "return +document.getElementById('calculator-heads').value"
        assert page.execute_script(own) == shape.kv_heads
        settings += [
            {"model": name, "heads": heads, "length": tokens, "batch": batch, "precision": dtype}
            for heads in able
            for tokens in (128, 4096, 98304, 131072)
            for batch in (1, 8, 64)
            for dtype in memory.DTYPES
        ]
    settings = some(settings, 150)
    for setting, found in zip(settings, shown(page, "calculator", settings), strict=True):
        shape = replace(find_model(setting["model"]), kv_heads=setting["heads"])
        weights = make_device(shape, "b200", kv_tokens=1 << 20).weights_bytes
        token = shape.kv_bytes_per_token(setting["precision"])
        one = token * setting["length"]
        assert found["token"] == in_bytes(token)
        assert found["one"] == in_bytes(one)
        assert found["all"] == in_bytes(one * setting["batch"])
        if setting["heads"] == find_model(setting["model"]).kv_heads:
            assert found["weights"] == in_bytes(weights)
            ratio = one * setting["batch"] / weights
            assert found["ratio"] == (float(ratio), f"{significant(ratio)} times")
            device = make_device(shape, "b200", kv_tokens=1 << 20, kv_dtype=setting["precision"])
            equal = size(device, max_len=128).kv_equals_weights_tokens
            assert found["equal"] == said(equal)


@pytest.mark.parametrize(("button", "said_all"), [(0, "2 GiB"), (1, "16 GiB"), (2, "64 GiB")])
def test_6_examples(page: Any, button: int, said_all: str) -> None:
    """The worked examples of the semantics, whatever was chosen before."""
    shown(page, "calculator", [{"model": "Qwen2.5-14B", "precision": "int4", "batch": 3}])
    page.execute_script(f"document.querySelectorAll('.examples button')[{button}].click()")
    assert shown(page, "calculator", [{}])[0]["all"][1] == said_all


def test_7_card(page: Any) -> None:
    settings = [
        {"card": card, "model": model, "precision": dtype, "length": tokens, "batch": batch}
        for card in memory.CARDS
        for model in memory.MODELS
        for dtype in memory.DTYPES
        for tokens, batch in ((128, 1), (4096, 7), (131072, 64))
    ]
    settings = some(settings, 70)
    for setting, found in zip(settings, shown(page, "card", settings), strict=True):
        length, batch = setting["length"], setting["batch"]
        try:
            device = make_device(setting["model"], setting["card"], kv_dtype=setting["precision"])
        except DeviceError:
            assert [found[name] for name in ("left", "longest", "fit")] == [(None, "–")] * 3
            continue
        fit = size(device, max_len=length).sequences_of_max_len
        assert found["fit"] == said(fit)
        longest, text = found["longest"]
        assert text == f"{longest:,}"
        assert longest == 0 or size(device, max_len=longest).sequences_of_max_len >= batch
        assert size(device, max_len=longest + 1).sequences_of_max_len < batch
        left, text = found["left"]
        assert text == bytes_(abs(left))
        assert (left >= 0) == (fit >= batch)
        held = batch * -(-length // device.block)
        assert left == (device.blocks - 1 - held) * device.block * device.kv_bytes_per_token


def test_7_says_on_which_side_of_the_edge_it_is(page: Any) -> None:
    label = "return document.querySelector('[data-number=\\'card.left\\']')"
    label += ".previousElementSibling.textContent"
    texts = present.texts("en")["card"]
    chosen = {"card": "RTX4090", "model": "Llama-2-7B", "precision": "fp16", "batch": 1}
    for length, words in ((128, texts["left"]), (131072, texts["over"]), (4096, texts["left"])):
        shown(page, "card", [{**chosen, "length": length}])
        assert page.execute_script(label) == words
    shown(page, "card", [{"model": "Llama-3.1-70B"}])
    said_so = "return document.querySelector('#card-picture').textContent"
    assert page.execute_script(said_so) == present.texts("en")["script"]["too_large"]


def test_8_intensity(page: Any) -> None:
    settings = [
        {"card": card, "model": model, "prompt": prompt, "batch": batch, "context": context}
        for card in memory.CARDS
        for model in memory.MODELS
        for prompt, batch, context in (
            *((1, 1, 1), (32, 3, 16), (128, 64, 512), (2048, 512, 1)),
            *((32768, 512, 32768), (256, 1, 32768)),
        )
    ]
    limits = {"compute": "calculating", "bandwidth": "the speed of memory"}
    settings = some(settings, 50)
    for setting, found in zip(settings, shown(page, "intensity", settings), strict=True):
        device = make_device(setting["model"], setting["card"], kv_tokens=1 << 20)
        roofline, full = Roofline(device), Roofline(device, mfu=1, mbu=1, overhead_ms=0)
        prompt, batch, context = setting["prompt"], setting["batch"], setting["context"]
        loads = {
            "prefill": Load(1, 1, prompt, pairs(0, prompt), prompt),
            "decode": Load(batch, 0, batch, batch * context, batch * context),
        }
        assert found["ridge"] == (roofline.ridge, significant(roofline.ridge))
        for name, load in loads.items():
            intensity = roofline.intensity(load)
            assert found[name] == (intensity, significant(intensity))
            use, text = found[f"{name}.use"]
            assert use == min(1, intensity / roofline.ridge)
            assert f"{name}: limited by {limits[full.bound(load)]};" in text
            assert f" {per_cent(use)} %" in text
            ns = full.ns(load)
            assert found[f"{name}.ns"] == (ns, f"{significant(ns / 1e6)} ms")
        rate = batch * 1e9 / full.ns(loads["decode"])
        assert found["rate"] == (rate, significant(rate))


def test_8_one_conversation_alone_uses_less_than_a_hundredth(page: Any) -> None:
    """... of what any of the cards can calculate, with any of the models: the lesson says so."""
    settings = [
        {"card": card, "model": model, "batch": 1, "context": 2048}
        for card in memory.CARDS
        for model in memory.MODELS
    ]
    for found in shown(page, "intensity", settings):
        assert found["decode.use"][0] < 0.01


def test_9_kinds(page: Any) -> None:
    base = find_model("llama-2-7b")
    latent = find_model("deepseek-v2").mla
    shapes = {
        "mha": base,
        "gqa": replace(base, kv_heads=8),
        "mqa": replace(base, kv_heads=1),
        "mla": replace(base, mla=latent),
        "paged": replace(base, kv_heads=8),
    }
    settings = [
        {"length": tokens, "precision": dtype}
        for tokens in (1, 15, 16, 17, 600, 4095, 4096)
        for dtype in memory.DTYPES
    ]
    for setting, found in zip(settings, shown(page, "kinds", settings), strict=True):
        length = setting["length"]
        slots = {name: held(length, name == "paged") for name in shapes}
        for name, shape in shapes.items():
            token = shape.kv_bytes_per_token(setting["precision"])
            assert found[f"{name}.token"] == in_bytes(token)
            assert found[f"{name}.used"] == in_bytes(token * length)
            assert found[f"{name}.held"] == in_bytes(token * slots[name])


def held(tokens: int, paged: bool) -> int:
    """Slots that pagedsim's allocators hold for one request that stores so many tokens."""
    spec = "paged:block=16,null=0" if paged else "contiguous:place=first,reserve=max"
    device = make_device("llama-3.1-8b", "a100-80gb", kv_tokens=8192)
    most = memory.KINDS_MAX_LEN if tokens < memory.KINDS_MAX_LEN else tokens + 1
    run = simulate(Trace.build("one", [0], [tokens], [1]), spec, device=device, max_len=most).run
    slots = round(run.memory_spread["held"].max * run.capacity_tokens)
    return min(slots, memory.KINDS_MAX_LEN)


def test_10_replay(page: Any) -> None:
    device = make_device(replays.MODEL, replays.CARD, kv_tokens=replays.POOL)
    settings = [
        {"max-len": max_len, "spread": f"{spread}", "block": block}
        for max_len in replays.MAX_LENS
        for spread in replays.SPREADS
        for block in replays.BLOCKS
    ]
    settings = some(settings, 8)
    for setting, found in zip(settings, shown(page, "replay", settings), strict=True):
        trace = replays.trace(float(setting["spread"]))
        sides = {
            "contiguous": "contiguous:place=first,reserve=max",
            "paged": f"paged:block={setting['block']},null=0",
        }
        for side, spec in sides.items():
            run = simulate(trace, spec, device=device, max_len=setting["max-len"]).run
            empty = run.memory.waste_of_held
            ttft = run.latency.ttft_s.mean
            assert found[f"{side}.empty"] == (empty, f"{per_cent(empty)} %")
            assert found[f"{side}.batch"] == (run.batch.mean, significant(run.batch.mean))
            assert found[f"{side}.peak"] == said(run.batch.peak)
            assert found[f"{side}.done"] == (run.makespan_s, f"{significant(run.makespan_s)} s")
            shorter = f"{significant(ttft)} s" if ttft >= 1 else f"{significant(1000 * ttft)} ms"
            assert found[f"{side}.ttft"] == (ttft, shorter)
            assert found[f"{side}.preemptions"] == said(run.preemptions)
    assert page.get_log("browser") == []
