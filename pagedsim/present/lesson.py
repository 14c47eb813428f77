"""The lesson as one HTML file: numbers from `analysis.lesson`, texts from a catalogue.

A catalogue is a file of texts beside the page's template, one a language, with the same keys. Texts
may hold ``<b>`` and ``<code>``, and numbers in braces, which `facts` fills in: no number that
pagedsim computes is written into a text. What moves is worked out by scripts of whole numbers
(`formulas.js`) or chosen among results that stand in the page. It fetches nothing.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from markupsafe import Markup

from pagedsim import __version__
from pagedsim.analysis.lesson.numbers import Lesson
from pagedsim.device.work import work
from pagedsim.errors import SpecError
from pagedsim.files import write_whole
from pagedsim.present import formats
from pagedsim.present.numbers import bytes_, significant
from pagedsim.present.page import environment, inert, policy, source

LANGUAGES = {"en": "en", "zh": "zh-CN"}  # and what a page says of itself
SECTIONS = (
    *("passes", "same", "work", "grid", "formula"),
    *("calculator", "card", "intensity", "kinds", "replay"),
)
SCRIPTS = ("formulas", "parts", "passes", "memory", "speed")
LENGTHS = tuple(
    sorted([*(1 << p for p in range(7, 18)), *(3 << p for p in range(6, 16))])
)  # tokens
PROMPTS = tuple(1 << p for p in range(16))  # tokens; more would pass what is exact
WORDS = {  # what scripts draw with, by their own names
    **{name: f"same.{name}" for name in ("words", "other", "key", "value")},
    **{name: f"work.{name}" for name in ("dots", "projections")},
    "axis_tokens": "work.tokens",
    **{name: f"grid.{name}" for name in ("axis_pass", "axis_token")},
    **{name: f"card.{name}" for name in ("left", "over", "axis_length", "axis_memory")},
    "weights": "card.weights",
    "live": "calculator.all",
    **{name: f"intensity.{name}" for name in ("axis_x", "axis_y")},
    **{name: f"intensity.label_{name}" for name in ("prefill", "decode", "ridge")},
    **{name: f"replay.{name}" for name in ("contiguous", "paged", "outputs", "axis_time")},
    "axis_pool": "replay.axis_pool",
    "question": "passes.question_words",
    "answer": "passes.answer_words",
}

LISTS = ("passes.question_words", "passes.answer_words", "same.words")


class Catalogue:
    """The texts of a language; `used` are the keys that were asked for."""

    def __init__(self, texts: Mapping[str, Any], facts: Mapping[str, str]) -> None:
        self._texts, self._facts = texts, facts
        self.used: set[str] = set()

    def __call__(self, key: str) -> Markup:
        """The text at ``section.name``, its numbers filled in."""
        text = self._at(key)
        assert isinstance(text, str), key
        return Markup(text.format_map(self._facts))

    def words(self, key: str) -> list[str]:
        """A list of words."""
        found = self._at(key)
        assert isinstance(found, list), key
        return found

    def script(self) -> dict[str, str]:
        """What scripts fill in themselves."""
        texts: dict[str, str] = self._texts["script"]
        self.used |= {f"script.{name}" for name in texts}
        return texts

    def _at(self, key: str) -> Any:
        section, _, name = key.partition(".")
        self.used.add(key)
        return self._texts[section][name]


def texts(lang: str) -> dict[str, dict[str, Any]]:
    """The catalogue's file; SpecError for a language that there is none of."""
    if lang not in LANGUAGES:
        raise SpecError(f"--lang is {lang}, must be {' or '.join(LANGUAGES)}")
    return tomllib.loads(source(f"lesson/{lang}.toml"))


def facts(lesson: Lesson) -> dict[str, str]:
    """The numbers that texts mention, as they are read."""
    small, large = work(14), work(lesson.work_up_to)
    model, replays = lesson.models[0], lesson.replays
    token = model.kv_bytes_per_token
    long = LENGTHS[-1]
    sizes = [kind.kv_bytes_per_token[next(iter(lesson.dtypes))] for kind in lesson.kinds]
    return {
        "version": __version__,
        "layers": str(lesson.attention.layers),
        "width": str(lesson.attention.heads * lesson.attention.head_dim),
        "work_tokens": f"{large.tokens:,}",
        "work_dots": f"{float(large.dots_ratio):,.2f}",
        "work_projections": f"{float(large.projections_ratio):,.1f}",
        "grid_tokens": str(small.tokens),
        "grid_without": str(small.recompute_projections),
        "grid_with": str(small.cached_projections),
        "grid_ratio": f"{float(small.projections_ratio):g}",
        "model": model.name,
        "model_token": bytes_(token),
        "long_tokens": f"{long:,}",
        "long_bytes": bytes_(token * long),
        "long_ratio": significant(token * long / model.weights_bytes),
        "block": str(lesson.block),
        "utilization": f"{100 * lesson.utilization:g}",
        "kinds_max_len": f"{lesson.kinds_max_len:,}",
        "kinds_heads": str(lesson.kinds[0].heads),
        "kinds_most": str(max(sizes) // min(sizes)),
        "kinds_share": str(lesson.kinds[1].heads // lesson.kinds[1].kv_heads),
        "replay_model": replays.model,
        "replay_card": replays.card,
        "replay_requests": str(replays.requests),
        "replay_gap": f"{replays.gap_ns / 1e6:g}",
        "replay_pool": f"{replays.pool:,}",
    }


def page(lesson: Lesson, lang: str = "en") -> str:
    """The whole file as text."""
    return render(lesson, Catalogue(texts(lang), facts(lesson)), LANGUAGES[lang])


def render(lesson: Lesson, t: Catalogue, lang: str) -> str:
    """The page from one catalogue's texts."""
    made = environment()
    scripts = [source(f"lesson/{name}.js") for name in SCRIPTS]
    symbols = ("two", "layers", "heads", "size", "bytes")
    words = {name: t.words(key) if key in LISTS else str(t(key)) for name, key in WORDS.items()}
    data = {
        "numbers": msgspec.to_builtins(lesson),
        "texts": t.script(),
        "words": {**words, "about": {name: str(t(f"formula.about_{name}")) for name in symbols}},
    }
    swaps = [(-1, t("same.swap_none")), *enumerate(t.words("same.words"))]
    bits = {name: f"{count / 8:g}".replace("0.5", "½") for name, count in lesson.dtypes.items()}
    replays = lesson.replays
    return made.get_template("lesson/page.html").render(
        t=t,
        lang=lang,
        lesson=lesson,
        sections=SECTIONS,
        words=len(lesson.attention.passes),
        swaps=swaps,
        dtypes=[(name, f"{name} ({bits[name]})") for name in lesson.dtypes],
        precisions=[(name, name) for name in lesson.dtypes],
        models=[(model.name, model.name) for model in lesson.models],
        cards=[(card.name, f"{card.name}, {card.memory_gib} GB") for card in lesson.cards],
        lengths=LENGTHS,
        prompts=PROMPTS,
        ways=list(_ways(t)),
        choices={
            "max_lens": [(n, f"{n:,}") for n in replays.max_lens],
            "spreads": [(s, t(f"replay.spread_{i}")) for i, s in enumerate(replays.spreads)],
            "blocks": [(n, str(n)) for n in replays.blocks],
        },
        style=Markup(source("report.css") + source("lesson/lesson.css")),
        scripts=[Markup(script) for script in scripts],
        policy=policy(scripts),
        data=inert(json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)),
    )


def _ways(t: Catalogue) -> Iterator[dict[str, Any]]:
    """Section 9's columns; `boxes` are the K and V drawn for 8 heads, "" for a latent."""
    for key, boxes in (("mha", 8), ("gqa", 2), ("mqa", 1), ("mla", 0), ("paged", 2)):
        yield {
            "key": key,
            "name": t("kinds.paged") if key == "paged" else key.upper(),
            "boxes": boxes,
        }


def save(lesson: Lesson, path: str | os.PathLike[str], lang: str = "en") -> None:
    """Write the page whole or not at all."""
    formats.suffix(path, formats.PAGES)
    text = page(lesson, lang)
    with write_whole(path) as file:
        file.write(text.encode())


__all__ = ["LANGUAGES", "SECTIONS", "Catalogue", "facts", "page", "render", "save", "texts"]
