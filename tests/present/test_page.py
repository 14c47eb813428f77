"""The HTML report as a file: its numbers, its texts, its size. What it does is in test_browser."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from pages import NASTY, Page, at_path, unpacked

from pagedsim import Report, compare
from pagedsim.analysis.report import report, result
from pagedsim.analysis.results import TERMS, DeviceInfo, Result, to_json
from pagedsim.engine.recording import Recording, Requests, Rows, Window
from pagedsim.present import page
from pagedsim.present.definitions import DEFINITIONS
from pagedsim.present.numbers import count, per_cent, significant
from pagedsim.trace import Trace, load

SPECS = ("contiguous:place=buddy,reserve=max", "paged:block=16", "paged:prefix=on")


def of(reports: list[Report]) -> Result:
    device = DeviceInfo(model=NASTY, gpu="g&g", kv_bytes_per_token=131072, capacity_tokens=99)
    return result(reports, device, reports[0].trace)


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    trace = replace(load("chat-shared", limit=200), name=NASTY, notes=("a <b>note</b>",))
    made = compare(trace, SPECS, max_len=4096, command=f"pagedsim compare '{NASTY}'")
    return [*made, replace(made[1], name=NASTY)]


@pytest.fixture(scope="module")
def text(reports: list[Report]) -> str:
    return page.page(of(reports), reports)


@pytest.fixture(scope="module")
def read(text: str) -> Page:
    return Page(text)


def test_every_number_of_the_table_is_the_files(reports: list[Report], read: Page) -> None:
    file = json.loads(to_json(of(reports)))
    cells = [each for each in read.of("td") if "data-exact" in each]
    columns = len(cells) // 4
    assert columns == 12
    for at, cell in enumerate(cells):
        value, label = at_path(file["runs"][at // columns], cell["data-field"]), cell["data-label"]
        assert json.loads(cell["data-exact"]) == value, label
        whole = count if isinstance(value, int) else significant
        known = per_cent if label.endswith("%") else whole
        assert cell.text == known(value * 1000 if label.endswith(" ms") else value)


def test_cards_name_the_best_and_the_worst(reports: list[Report], read: Page) -> None:
    runs = [each.run for each in reports]
    wastes = [run.memory.waste for run in runs]
    batches = [run.batch.mean for run in runs]
    numbers = {each["data-field"]: each for each in read.of("p") if "data-field" in each}
    waste, batch = numbers["memory.waste"], numbers["batch.mean"]
    assert wastes[int(waste["data-run"])] == min(wastes)
    assert waste.text.startswith(per_cent(min(wastes)))
    assert batches[int(batch["data-run"])] == max(batches)
    assert batch.text.startswith(significant(max(batches)))
    said = " ".join(each.text for each in read.of("p"))
    assert f"against {per_cent(max(wastes))}" in said


def test_bars_are_the_shares(reports: list[Report], read: Page) -> None:
    parts = [each for each in read.of("span") if "flex-grow" in each.get("style", "")]
    grown = iter(parts)
    for run in (each.run for each in reports):
        for term in TERMS:
            if share := getattr(run.memory, term):
                part = next(grown)
                assert part["class"] == term
                assert float(part["style"].removeprefix("flex-grow:")) == share
    assert next(grown, None) is None


def test_texts_of_the_input_stay_texts(read: Page) -> None:
    assert not read.of("img")
    assert not read.of("b") or not any("note" in each.text for each in read.of("b"))
    for element in read.elements:
        assert not [name for name in element if name.startswith("on")], element
        for name in ("href", "src"):
            assert element.get(name, "#").startswith(("#", "data:,")), element
    (title,) = (each.text for each in read.of("title"))
    assert NASTY in title
    (heading,) = (each.text for each in read.of("h1"))
    assert heading == NASTY
    assert f"pagedsim compare '{NASTY}'" in [each.text for each in read.of("code")]
    assert read.data["runs"][3]["name"] == NASTY


def test_scripts_are_those_that_the_policy_lists(read: Page) -> None:
    (policy,) = (m["content"] for m in read.of("meta") if "http-equiv" in m)
    scripts = [each for each in read.of("script") if "type" not in each]
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]


def test_what_is_drawn_is_what_was_recorded(reports: list[Report], read: Page) -> None:
    for run, found in zip(reports, read.data["runs"], strict=True):
        terms = [unpacked(found["terms"][term]) for term in TERMS]
        ran = np.sum(terms, axis=0) > 0
        assert np.sum(terms, axis=0)[ran] == pytest.approx(100, abs=1e-3)
        for term, shares in zip(TERMS, terms, strict=True):
            assert shares[ran].max() == pytest.approx(100 * run.memory_spread[term].max, abs=1e-3)
            assert shares[ran].min() == pytest.approx(100 * run.memory_spread[term].min, abs=1e-3)
        assert unpacked(found["batch"]).max() == run.batch.peak
        seconds = unpacked(found["at"])
        assert (np.diff(seconds) >= 0).all()
        assert seconds[-1] == pytest.approx(run.run.makespan_s, rel=1e-6)
        ttft = found["latency"]["ttft"]
        at = np.searchsorted(unpacked(ttft["share"]), 50 - 1e-6)
        assert unpacked(ttft["s"])[at] == pytest.approx(run.latency.ttft_s.p50, rel=1e-6)


def test_every_word_has_its_definition(read: Page) -> None:
    ids = {each["id"] for each in read.elements if "id" in each}
    links = [each for each in read.of("a") if each.get("class") == "def"]
    assert len(links) > 15
    assert {each["href"][1:] for each in links} <= ids
    assert {each["data-def"] for each in links} <= set(DEFINITIONS.values())


def test_warnings_are_said(reports: list[Report]) -> None:
    trace = Trace.build("t", [0, 0, 0], [5, 6000, 70], [3, 1, 99999], dropped=2)
    made = compare(trace, ["paged", "contiguous"], max_len=4096)
    said = " ".join(each.text for each in Page(page.page(of(made), made)).of("li"))
    assert "Refused 1 request (" in said
    assert "Truncated 1 request (" in said
    assert "2 rows without output were left out" in said
    assert "estimate" in said
    assert "Synchronous scheduling" in said
    assert said.count("Refused") == 1  # the same for both


def test_a_page_about_nothing() -> None:
    made = compare(Trace.build("none", [0], [99], [1]), ["paged"], max_len=10)
    read = Page(page.page(of(made), made))
    assert "No request ran." in [each.text for each in read.of("p")]
    assert "no step ran" in [each.text for each in read.of("div")]


def test_the_same_result_is_the_same_page(reports: list[Report], text: str) -> None:
    assert page.page(of(reports), reports) == text


def noise(windows: int, seed: int) -> Recording:
    """Steps of a millisecond whose accounts jump about, so that thinning keeps all that it can."""
    rng = np.random.default_rng(seed)
    table = np.zeros((windows, len(Window._fields)), np.int64)
    at = {name: index for index, name in enumerate(Window._fields)}
    table[:, at["steps"]] = 1
    table[:, at["step"]] = np.arange(windows)
    table[:, at["start_ns"]] = np.arange(windows) * 10**6
    table[:, at["end_ns"]] = table[:, at["start_ns"]] + 10**6
    table[:, at["batch"]] = rng.integers(0, 300, windows)
    for name in ("live", "reserved", "internal", "external", "cached"):
        table[:, at[name]] = rng.integers(0, 99_999, windows)
    ends = np.sort(rng.integers(1, windows, 5000)) * 10**6
    names = [each.name for each in fields(Requests)]
    columns: dict[str, Any] = dict.fromkeys(names, np.zeros(5000, np.int64))
    waits = rng.integers(0, 10**9, (3, 5000)).cumsum(axis=0)
    columns |= {"arrival_ns": ends, "admitted_ns": ends + waits[0], "generated": waits[0] % 9 + 2}
    columns["longest"] = columns["generated"]
    columns |= {"first_token_ns": ends + waits[1], "finish_ns": ends + waits[2]}
    return Recording(
        capacity=499_995, max_len=99, rows=Rows.of(table), requests=Requests(**columns), refused=()
    )


@pytest.mark.parametrize("runs", [1, 12, 40])
def test_it_stays_below_six_megabytes(runs: int) -> None:
    """The worst there is: every bin of every series full."""
    trace = Trace.build("noise", [0] * 5000, [5] * 5000, [5] * 5000)
    made = report(noise(60_000, 1), trace, name="a run with quite a long name, as a spec may be")
    shared = [made] * runs
    file = of(shared)
    assert len(page.page(file, shared).encode()) < 6_000_000
