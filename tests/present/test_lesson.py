"""The lesson as a file: its texts in two languages, its parts, its size."""

from __future__ import annotations

import base64
import hashlib
import re
import string
from pathlib import Path
from typing import Any

import pytest
from pages import Page

from pagedsim.analysis.lesson.numbers import Lesson
from pagedsim.errors import SpecError
from pagedsim.present import lesson as present
from pagedsim.present.page import source

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "".join(source(f"lesson/{name}.js") for name in present.SCRIPTS)


@pytest.fixture(scope="module", params=sorted(present.LANGUAGES))
def text(request: pytest.FixtureRequest, numbers: Lesson) -> str:
    return present.page(numbers, request.param)


@pytest.fixture(scope="module")
def read(text: str) -> Page:
    return Page(text)


def keys(lang: str) -> dict[str, Any]:
    return {
        f"{section}.{name}": value
        for section, table in present.texts(lang).items()
        for name, value in table.items()
    }


def named(text: str) -> list[str]:
    """The names in braces, sorted."""
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)


def test_both_languages_have_the_same_keys_and_numbers() -> None:
    english, chinese = keys("en"), keys("zh")
    assert list(english) == list(chinese)
    for key, value in english.items():
        other = chinese[key]
        assert type(value) is type(other), key
        if isinstance(value, str):
            assert value.strip() == value != "", key
            assert other.strip() == other != "", key
            assert named(value) == named(other), key
            tags = re.findall(r"<[^>]*>", value)
            assert sorted(tags) == sorted(re.findall(r"<[^>]*>", other)), key
            assert set(tags) <= {"<b>", "</b>", "<code>", "</code>"}, key
        else:
            assert len(value) == len(other), key
    assert not re.search(r"[\u3000-\u9fff]", "".join(map(str, english.values())))
    same = {key for key, value in english.items() if value == chinese[key]}
    assert same == {"same.layer_1", "same.layer_2", "same.key", "same.value", "card.axis_memory"}


@pytest.mark.parametrize("lang", sorted(present.LANGUAGES))
def test_every_text_and_number_is_used(numbers: Lesson, lang: str) -> None:
    facts = present.facts(numbers)
    catalogue = present.Catalogue(present.texts(lang), facts)
    present.render(numbers, catalogue, lang)
    assert set(keys(lang)) - catalogue.used == set()
    called = set(re.findall(r'text\("(\w+)"', SCRIPT))
    assert called == {key.partition(".")[2] for key in keys(lang) if key.startswith("script.")}
    texts = [v for k, v in keys(lang).items() if isinstance(v, str) and not k.startswith("script.")]
    assert {name for value in texts for name in named(value)} == set(facts)
    for name in present.WORDS:
        assert re.search(rf"words\.{name}\b|words\[", SCRIPT), name
    for name in re.findall(r"words\.(\w+)", SCRIPT):
        assert name in {*present.WORDS, "about"}, name


def test_numbers_of_the_texts_are_worked_out(numbers: Lesson) -> None:
    """No text has a number of its own, but layers, sections, examples and formats."""
    facts = present.facts(numbers)
    assert facts["grid_ratio"] == "7.5"
    assert facts["work_dots"] == "1,365.67"
    assert facts["work_projections"] == "1,024.5"
    assert facts["model_token"] == "512 KiB"
    assert facts["long_bytes"] == "64 GiB"
    assert facts["utilization"] == "90"
    known = {"1", "2", "8", "9", "10", "16", "1,000"}  # 8 heads are drawn, 1,000 tokens asked for
    for lang in present.LANGUAGES:
        for key, value in keys(lang).items():
            if isinstance(value, str) and not key.startswith("calculator.example"):
                plain = re.sub(r"\{\w+\}|fp16|fp8|int4", "", value)
                assert set(re.findall(r"\d[\d,.]*\d|\d", plain)) <= known, key


def test_chinese_terms_are_those_of_the_glossary() -> None:
    glossary = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8").partition("## 术语对照")[2]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", glossary, re.MULTILINE)
    terms = dict(rows)
    said = "".join(map(str, keys("zh").values()))
    wanted = {"token", "KV cache", "block", "pool", "request", "batch", "live", "reserved", "idle"}
    wanted |= {"internal fragmentation", "external fragmentation", "contiguous", "paged"}
    wanted |= {"time to first token (TTFT)", "preemption"}
    for term in wanted:
        assert terms[term] in said, term
    for word in terms["prefill, decode"].split("，"):
        assert word in said


def test_a_language_that_is_not_there(numbers: Lesson) -> None:
    with pytest.raises(SpecError, match="--lang is de, must be en or zh"):
        present.page(numbers, "de")


def test_ten_sections_each_with_its_parts(read: Page) -> None:
    sections = [each for each in read.of("section") if "id" in each]
    assert [each["id"] for each in sections] == list(present.SECTIONS)
    assert len(present.SECTIONS) == 10
    links = [each["href"] for each in read.of("a") if "href" in each]
    assert links == ["#passes", *(f"#{name}" for name in present.SECTIONS)]
    things = [each["data-thing"] for each in read.elements if "data-thing" in each]
    assert things == list(present.SECTIONS)
    for part in ("prose", "hint try", "hint notice", "takeaway"):
        found = [each for each in read.of("p") if each.get("class") == part]
        assert len(found) == 10 + (part == "prose"), part
        assert all(each.text.strip() for each in found)
    (html,) = read.of("html")
    assert html["lang"] in present.LANGUAGES.values()


def test_every_control_has_a_label(read: Page) -> None:
    labels = {each["for"]: each.text.strip() for each in read.of("label") if "for" in each}
    controls = [*read.of("select"), *(e for e in read.of("input") if e["type"] == "range")]
    assert len(controls) > 18
    for control in controls:
        assert labels[control["id"]], control
    for field in read.of("fieldset"):
        assert field.text.strip()
    assert len(read.of("legend")) == len(read.of("fieldset"))
    ids = [each["id"] for each in read.elements if "id" in each]
    assert len(ids) == len(set(ids))


def test_nothing_is_fetched_and_no_other_script_runs(read: Page, text: str) -> None:
    (policy,) = (m["content"] for m in read.of("meta") if "http-equiv" in m)
    scripts = [each for each in read.of("script") if "type" not in each]
    assert len(scripts) == len(present.SCRIPTS)
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert set(re.findall(r"https?://[^\s\"'<]*", text)) == {"http://www.w3.org/2000/svg"}
    assert not [name for each in read.elements for name in each if name.startswith("on")]


def test_it_is_small_and_the_same_every_time(numbers: Lesson, read: Page, text: str) -> None:
    assert len(text.encode()) < 600_000
    (html,) = read.of("html")
    lang = next(name for name, said in present.LANGUAGES.items() if said == html["lang"])
    assert present.page(numbers, lang) == text


def test_scripts_stay_readable() -> None:
    for name in present.SCRIPTS:
        lines = source(f"lesson/{name}.js").splitlines()
        assert len(lines) <= 300
        assert max(map(len, lines)) <= 160
