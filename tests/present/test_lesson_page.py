"""The lesson in a real browser: every control is moved, and what it shows is what Python says.

`shown` sets controls as a hand would and returns the numbers of a section: of each its exact value
and its text. Python's side is the device, the engine and the numbers' own texts, never the page's.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from browsers import asked, opened, press, screen, until

from pagedsim import simulate
from pagedsim.analysis.lesson import attention as tiny
from pagedsim.analysis.lesson import memory, replays
from pagedsim.analysis.lesson.numbers import Lesson
from pagedsim.device import Roofline, find_model, make_device
from pagedsim.device.sizing import size
from pagedsim.device.work import pairs, work
from pagedsim.errors import DeviceError
from pagedsim.present import lesson as present
from pagedsim.present.numbers import bytes_, per_cent, significant
from pagedsim.protocols import Load
from pagedsim.trace import Trace

SET = """
const set = (id, wanted) => {
  const control = document.getElementById(id);
  if (control.tagName === "FIELDSET") {
    const radios = [...control.querySelectorAll("input")];
    const radio = radios.find((each) => each.value === String(wanted));
    radio.checked = true;
    radio.dispatchEvent(new Event("input", { bubbles: true }));
    return;
  }
  const stops = control.dataset.stops?.split(",").map(Number);
  const value = String(stops ? stops.indexOf(wanted) : wanted);
  control.value = value;
  if (control.value !== value) throw Error(`${id} cannot be ${wanted}`);
  control.dispatchEvent(new Event("input", { bubbles: true }));
};
const [id, settings] = arguments;
const places = [...document.querySelectorAll(`[data-thing=${id}] [data-number]`)];
return settings.map((setting) => {
  for (const [name, wanted] of setting) set(`${id}-${name}`, wanted);
  return Object.fromEntries(places.map((place) => [
    place.dataset.number.slice(id.length + 1), [place.dataset.exact ?? "null", place.textContent],
  ]));
});
"""


@pytest.fixture(scope="module")
def pages(numbers: Lesson, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("lesson")
    made = {lang: folder / f"{lang}.html" for lang in present.LANGUAGES}
    for lang, path in made.items():
        present.save(numbers, path, lang)
    return made


@pytest.fixture(scope="module")
def page(browser: Any, pages: dict[str, Path]) -> Any:
    """The English page, opened once: sections do not see each other."""
    opened(browser, pages["en"])
    return browser


def shown(page: Any, section: str, settings: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The numbers of a section after each of `settings`: (exact, text) by name."""
    given = [list(setting.items()) for setting in settings]
    found = page.execute_script(SET, section, given)
    return [{k: (json.loads(e), t) for k, (e, t) in each.items()} for each in found]


def some(settings: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The first, the last, and others of them: drawing each takes its time."""
    middle = random.Random(2).sample(settings[1:-1], min(count, len(settings) - 2))
    return [settings[0], *middle, settings[-1]]


def said(value: int) -> tuple[int, str]:
    return value, f"{value:,}"


def in_bytes(value: Any) -> tuple[int, str]:
    assert value == int(value)
    return int(value), bytes_(int(value))


@pytest.mark.parametrize("lang", sorted(present.LANGUAGES))
def test_it_opens_without_a_word_and_without_a_request(
    browser: Any, pages: dict[str, Path], lang: str
) -> None:
    opened(browser, pages[lang], prefers_color_scheme="dark")
    assert until(
        lambda: browser.execute_script(
            "return [...document.querySelectorAll('[data-number]')].filter((e) => !e.textContent)"
            ".every((e) => e.closest('[hidden]'))"
        )
    )
    assert browser.get_log("browser") == []
    urls = asked(browser)
    assert [url for url in urls if url.startswith("file:")] == [pages[lang].as_uri()]
    assert [url for url in urls if not url.startswith(("file:", "data:", "chrome"))] == []
    blank = browser.execute_script(
        "return [...document.querySelectorAll('.picture')].filter((e) => !e.innerText"
        " && !e.querySelector('svg [class]')).map((e) => e.id)"
    )
    assert blank == []
    assert "undefined" not in browser.execute_script("return document.body.innerText")
    assert "NaN" not in browser.execute_script("return document.body.innerHTML")


@pytest.mark.parametrize("lang", sorted(present.LANGUAGES))
@pytest.mark.parametrize("width", [360, 400, 900, 1280])
def test_nothing_is_wider_than_the_screen(
    browser: Any, pages: dict[str, Path], width: int, lang: str
) -> None:
    opened(browser, pages[lang])
    screen(browser, width)
    wide = "return document.documentElement.scrollWidth"
    assert until(lambda: browser.execute_script(wide) <= width)
    small = (
        "return Math.min(...[...document.querySelectorAll('td, p, dt, dd, label, text')]"
        ".filter((each) => each.textContent.trim())"
        ".map((each) => parseFloat(getComputedStyle(each).fontSize)))"
    )
    assert browser.execute_script(small) >= 11


def test_every_control_moves_with_the_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    """... changes a number or a drawing of its own section, and counts the section as moved."""
    opened(browser, pages["en"])
    state = (
        "const thing = arguments[0].closest('.thing');"
        "return [...thing.querySelectorAll('[data-number], .picture, .column, table, #same-with')]"
        ".map((each) => each.outerHTML).join()"
    )
    controls = browser.execute_script(
        "return [...document.querySelectorAll('input[type=range], select, input:checked')]"
    )
    assert len(controls) > 30
    for control in controls:
        browser.execute_script(
            "arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", control
        )
        before = browser.execute_script(state, control)
        key, back = "\ue014", "\ue012"  # arrows: right, left
        if control.tag_name == "select":
            key, back = "\ue015", "\ue013"  # down, up
        press(browser, key)
        if browser.execute_script(state, control) == before:
            press(browser, back)  # it was at its end
        assert browser.execute_script(state, control) != before, control.get_attribute("outerHTML")
    assert browser.execute_script("return document.getElementById('moved').textContent") == (
        "10 of 10 moved"
    )
    assert browser.execute_script("return document.querySelectorAll('nav .done').length") == 10
    assert browser.get_log("browser") == []


# Texts of numbers


def test_numbers_read_as_python_writes_them(page: Any) -> None:
    draw = random.Random(1)
    values = [0, 1e-9, 0.00005, 0.00004999, 0.125, 0.25, 0.375, 2.5, 0.5, 99.95, 9.995, 0.9995]
    values += [draw.uniform(0, 10 ** draw.randint(-5, 9)) for _ in range(2000)]
    values += [draw.randrange(1, 4096) / 2 ** draw.randint(0, 12) for _ in range(2000)]  # ties
    shares = [value for value in values if value <= 1]
    sizes = [draw.randrange(2 ** draw.randint(0, 53)) for _ in range(2000)]
    sizes += [draw.randrange(1, 1 << 14) << draw.randint(0, 37) for _ in range(2000)]
    texts = page.execute_script(
        "const [values, shares, sizes] = arguments;"
        "return [values.map(formulas.significant), shares.map(formulas.share),"
        " sizes.map(formulas.bytes), sizes.map(formulas.whole)]",
        *(values, shares, sizes),
    )
    assert texts[0] == [significant(value) for value in values]
    assert texts[1] == [per_cent(value) for value in shares]
    assert texts[2] == [bytes_(value) for value in sizes]
    assert texts[3] == [f"{value:,}" for value in sizes]


def test_what_is_not_exact_is_refused(page: Any) -> None:
    error = page.execute_script(
        "try { formulas.token(2 ** 30, 2 ** 20, 128, 16); } catch (error) { return error.name; }"
    )
    assert error == "RangeError"


# Section by section


def test_1_passes(page: Any) -> None:
    settings = some([{"question": q, "answer": a} for q in range(1, 9) for a in range(1, 14)], 30)
    for setting, found in zip(settings, shown(page, "passes", settings), strict=True):
        question, answer = setting["question"], setting["answer"]
        assert found["passes"] == said(work(answer).passes)
        assert found["read"] == said(question + answer - 1)
    drawn = "return document.querySelectorAll('#passes-picture .written-token').length"
    assert page.execute_script(drawn) == 13
    tokens = "return document.querySelectorAll('#passes-sentence .token').length"
    assert page.execute_script(tokens) == 8 + 13


def test_2_what_never_changes(page: Any) -> None:
    model = tiny.weights()
    sentence = list(range(tiny.WORDS))
    whole = tiny.forward(model, sentence)
    for layer in range(tiny.LAYERS):
        settings = [{"pass": t, "layer": layer, "swap": -1} for t in range(1, tiny.WORDS + 1)]
        for t, found in enumerate(shown(page, "same", settings), 1):
            assert found["without"] == said(sum(range(1, t + 1)))
            assert found["with"] == said(t)
            compared = t * 2 * tiny.WIDTH + tiny.WIDTH
            assert found["equal"] == ([compared] * 2, f"{compared} of {compared}")
        cells = page.execute_script(
            "return ['same-without', 'same-with'].map((id) =>"
            " [...document.querySelectorAll(`#${id} tbody tr`)].map((row) =>"
            " [...row.querySelectorAll('td')].map((td) => td.textContent)))"
        )
        rows = np_rows(whole.keys[layer], whole.values[layer])
        assert cells == [rows, rows]
        settings = [{"layer": layer, "swap": at} for at in range(tiny.WORDS)]
        for at, found in enumerate(shown(page, "same", settings)):
            other = tiny.forward(model, [*sentence[:at], tiny.WORDS, *sentence[at + 1 :]])
            changed = int((other.keys[layer] != whole.keys[layer]).any(axis=1).sum())
            assert found["changed"] == (changed, f"{changed} of {tiny.WORDS}")


def np_rows(keys: Any, values: Any) -> list[list[str]]:
    return [[f"{n:.2f}" for n in (*k, *v)] for k, v in zip(keys, values, strict=True)]


def test_a_bit_that_differs_is_seen(browser: Any, pages: dict[str, Path], tmp_path: Path) -> None:
    """The page compares; it does not repeat what it was told."""
    text = pages["en"].read_text(encoding="utf-8")
    start = text.index('"cached_keys":[[[') + len('"cached_keys":[[[')
    end = text.index(",", start)
    value = math.nextafter(float(text[start:end]), math.inf)
    other = tmp_path / "other.html"
    other.write_text(f"{text[:start]}{value!r}{text[end:]}", encoding="utf-8")
    opened(browser, other)
    found = shown(browser, "same", [{"pass": 3, "layer": 0}])[0]
    assert found["equal"] == ([27, 28], "27 of 28")
    opened(browser, pages["en"])


def test_3_work(page: Any) -> None:
    counts = page.execute_script(
        "return Array.from({ length: 2048 }, (_, i) => formulas.work(i + 1))"
    )
    for n, found in enumerate(counts, 1):
        assert found == {k: v for k, v in work(n)._asdict().items() if k in found}
    settings = [
        {"tokens": n, "kind": kind, "ruler": ruler}
        for n in (1, 2, 3, 14, 511, 512, 2047, 2048)
        for kind in ("dots", "projections")
        for ruler in ("even", "powers")
    ]
    for setting, found in zip(settings, shown(page, "work", settings), strict=True):
        w = work(setting["tokens"])
        dots = setting["kind"] == "dots"
        more = w.refeed_dots if dots else w.recompute_projections
        less = w.cached_dots if dots else w.cached_projections
        ratio = w.dots_ratio if dots else w.projections_ratio
        assert found["without"] == said(more)
        assert found["with"] == said(less)
        assert found["ratio"] == (float(ratio), f"{float(ratio):,.2f}")
        assert found["passes"] == said(w.passes)


def test_4_grid(page: Any) -> None:
    settings = [{"tokens": n, "cache": cache} for n in range(1, 25) for cache in ("off", "on")]
    for setting, found in zip(settings, shown(page, "grid", settings), strict=True):
        w = work(setting["tokens"])
        on = setting["cache"] == "on"
        computed = w.cached_projections if on else w.recompute_projections
        assert found["computed"] == said(computed)
        assert found["read"] == said(w.recompute_projections - computed)
        assert found["last"] == said(1 if on else setting["tokens"])
    cells = (
        "return ['computed', 'read'].map((kind) =>"
        " document.querySelectorAll(`#grid-picture .${kind}`).length)"
    )
    shown(page, "grid", [{"tokens": 14, "cache": "on"}])
    assert page.execute_script(cells) == [14, 91]
    shown(page, "grid", [{"cache": "off"}])
    assert page.execute_script(cells) == [105, 0]


def test_5_formula(page: Any) -> None:
    base = find_model("llama-2-7b")
    settings = [
        {"layers": layers, "heads": heads, "size": head_size, "precision": dtype}
        for layers in (1, 2, 31, 32, 80, 128)
        for heads in (1, 7, 8, 32, 127, 128)
        for head_size in (64, 96, 128, 256)
        for dtype in memory.DTYPES
    ]
    settings = some(settings, 150)
    for setting, found in zip(settings, shown(page, "formula", settings), strict=True):
        heads = setting["heads"]
        shape = replace(base, layers=setting["layers"], heads=heads, kv_heads=heads)
        shape = replace(shape, head_dim=setting["size"])
        token = shape.kv_bytes_per_token(setting["precision"])
        assert found["token"] == in_bytes(token)
        assert found["thousand"] == in_bytes(1000 * token)
        assert found["layers"] == said(setting["layers"])
        assert found["heads"] == said(heads)
        factors = [Fraction(found[k][0]) for k in ("two", "layers", "heads", "size", "bytes")]
        assert math.prod(factors) == token


def test_5_a_symbol_and_its_control_light_up_together(page: Any) -> None:
    lit = (
        "return [...document.querySelectorAll('[data-thing=formula] .lit')]"
        ".map((each) => [each.tagName, each.dataset.symbol])"
    )
    for symbol in ("layers", "heads", "size", "bytes"):
        focus = f"document.querySelector('.control[data-symbol={symbol}] input').focus()"
        page.execute_script(focus)
        found = page.execute_script(lit)
        assert [name for _, name in found] == [symbol, symbol]
        assert found[0][0] == "BUTTON"
    for symbol in ("size", "layers"):
        page.execute_script(
            f"const button = document.querySelector('button[data-symbol={symbol}]');"
            "button.focus(); button.click()"
        )
        at = "return document.activeElement.closest('[data-symbol]').dataset.symbol"
        assert page.execute_script(at) == symbol
        about = page.execute_script("return document.getElementById('formula-about').textContent")
        assert about == present.texts("en")["formula"][f"about_{symbol}"]


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
        roofline, full = Roofline(device), Roofline(device, mfu=1, mbu=1)
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


def test_paper_is_white_and_shows_every_section(browser: Any, pages: dict[str, Path]) -> None:
    opened(browser, pages["zh"], prefers_color_scheme="dark")
    ground = "return getComputedStyle(document.body).backgroundColor"
    assert browser.execute_script(ground) == "rgb(21, 24, 29)"
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    assert until(lambda: browser.execute_script(ground) == "rgb(255, 255, 255)")
    heights = "return [...document.querySelectorAll('nav, .thing')].map((e) => e.offsetHeight)"
    contents, *things = browser.execute_script(heights)
    assert contents == 0
    assert len(things) == 10
    assert min(things) > 100
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
