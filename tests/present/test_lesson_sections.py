"""The lesson's sections on work and one token, in a real browser: their numbers are Python's.

Python's side is the device, the engine and the numbers' own texts, never the page's: of each number
the page has the exact value and the text.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from browsers import opened
from controls import in_bytes, said, shown, some

from pagedsim.analysis.lesson import attention as tiny
from pagedsim.analysis.lesson import memory
from pagedsim.device import find_model
from pagedsim.device.work import work
from pagedsim.present import lesson as present


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
        shades = page.execute_script(
            "return ['same-without', 'same-with'].map((id) => ['computed', 'read'].map((kind) =>"
            " document.querySelectorAll(`#${id} tr.${kind}`).length))"
        )
        assert shades == [[tiny.WORDS, 0], [1, tiny.WORDS - 1]]
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
