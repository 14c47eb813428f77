"""Recipes: the bundled traces come out byte for byte, and sessions hold what came before."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trace_cases import same, tokens

from pagedsim.errors import InputError
from pagedsim.trace import bundled, free, load, store
from pagedsim.trace import make as making
from pagedsim.trace.make import make
from pagedsim.trace.recipe import parse, read
from pagedsim.trace.source import decompress

PLAIN = """
name = "t"
requests = 500
arrivals = { kind = "poisson", rate = 2.0 }
prompt = { kind = "lognormal", mean = 200, cv = 1.0, least = 4, most = 900 }
output = { kind = "uniform", lo = 5, hi = 15 }
"""
TURNS = """
name = "t"
requests = 60
seed = 5
max_total = 400
arrivals = { kind = "gamma", rate = 1.0, cv = 2.0 }
prompt = { kind = "uniform", lo = 3, hi = 30 }
output = { kind = "geometric", mean = 12 }
system = { prompts = 3, share = 0.7, tokens = { kind = "uniform", lo = 10, hi = 20 } }
turns = { count = { kind = "geometric", mean = 4 }, think_s = { kind = "constant", value = 1.5 } }
"""
AGENT = """
[agent]
calls = { kind = "constant", value = 3 }
tokens = { kind = "constant", value = 8 }
output = { kind = "constant", value = 2 }
seconds = { kind = "constant", value = 0.25 }
"""


@pytest.mark.parametrize("name", ["agent", "chat", "chat-shared", "code"])
def test_bundled_traces_come_out_of_their_recipes(name: str) -> None:
    path, recipe = bundled.find(name), bundled.recipe(name)
    assert path is not None
    assert recipe is not None
    made = store.dump(make(read(recipe)), ".jsonl")
    assert made == decompress(path.read_bytes(), name)  # gzip itself differs between zlibs
    assert path.stat().st_size < 150_000
    assert 1000 <= len(load(name)) <= 3000


def test_bundled_names() -> None:
    assert bundled.names() == ["agent", "chat", "chat-shared", "code"]
    assert bundled.find("nothing") is None


def test_bundled_means_are_those_they_are_shaped_after() -> None:
    means = {
        name: (load(name).prompt.mean(), load(name).output.mean()) for name in ("chat", "code")
    }
    assert means["chat"] == pytest.approx((1155, 211), rel=0.05)
    assert means["code"] == pytest.approx((2048, 28), rel=0.05)


def test_requests_of_their_own() -> None:
    trace = make(parse(PLAIN))
    assert len(trace) == 500
    assert trace.load == "Poisson 2/s, seed 0"
    assert (trace.prompt.min() >= 4) & (trace.prompt.max() <= 900)
    assert trace.output.mean() == pytest.approx(10, rel=0.05)
    assert same(make(parse(PLAIN)), trace)
    assert same(make(parse(PLAIN), requests=100), trace.head(100)) is False  # lengths: one stream
    assert make(parse(PLAIN), requests=100).arrival_ns.tolist() == trace.arrival_ns[:100].tolist()
    assert not same(make(parse(PLAIN), seed=1), trace)


def test_seconds_instead_of_requests() -> None:
    trace = make(parse(PLAIN.replace("requests = 500", "seconds = 600")))
    assert len(trace) == pytest.approx(1200, rel=0.1)
    assert trace.arrival_ns.max() < 600e9


def test_totals_are_drawn_again() -> None:
    trace = make(parse(PLAIN + "max_total = 120\n"))
    assert (trace.prompt + trace.output).max() <= 120
    with pytest.raises(InputError, match="no lengths within max_total 5"):
        make(parse(PLAIN + "max_total = 5\n"))


def test_histogram_from_a_file(tmp_path: Path) -> None:
    histogram = {"lo": 1.0, "hi": 5.0, "density": [0.0, 1.0, 0.0, 3.0]}
    (tmp_path / "h.json").write_text(json.dumps({"a": {"b": histogram}}))
    text = PLAIN.replace('"uniform", lo = 5, hi = 15', '"histogram", file = "h.json", key = "a.b"')
    (tmp_path / "r.toml").write_text(text)
    trace = make(read(tmp_path / "r.toml"))
    assert set(trace.output.tolist()) == {2, 3, 4, 5}
    assert (trace.output >= 4).mean() == pytest.approx(0.75, abs=0.06)
    (tmp_path / "r.toml").write_text(text.replace("a.b", "a.c"))
    with pytest.raises(InputError, match=r"h\.json: no histogram"):
        read(tmp_path / "r.toml")


def test_empirical_from_a_trace(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("prompt,output\n3,7\n4,9\n")
    text = PLAIN.replace(
        '"uniform", lo = 5, hi = 15', '"empirical", file = "l.csv", column = "output"'
    )
    (tmp_path / "r.toml").write_text(text)
    assert set(make(read(tmp_path / "r.toml")).output.tolist()) == {7, 9}


def test_shared_histograms_of_the_paper(shared: Path) -> None:
    file = shared / "reference" / "pagedattention_figures.json"
    text = 'name = "sharegpt"\nseconds = 3600\nmax_total = 2048\n'
    text += 'arrivals = { kind = "poisson", rate = 2.0 }\n'
    for key, column in (("input", "prompt"), ("output", "output")):
        path = f'file = "{file}", key = "fig11_histograms.sharegpt_{key}"'
        text += f'{column} = {{ kind = "histogram", {path} }}\n'
    trace = make(parse(text))
    assert trace.prompt.mean() == pytest.approx(155, rel=0.06)
    assert trace.output.mean() == pytest.approx(335, rel=0.04)


def test_a_turn_holds_all_that_came_before() -> None:
    trace = make(parse(TURNS))
    assert len(trace) == 60
    assert trace.notes == ()
    assert (np.diff(trace.arrival_ns) >= 0).all()
    later = np.flatnonzero(trace.parent >= 0)
    assert len(later) > 20
    for row in later.tolist():
        parent = int(trace.parent[row])
        answer = int(trace.output_token[parent])
        before = tokens(trace, parent) + list(range(answer, answer + int(trace.output[parent])))
        assert tokens(trace, row)[: len(before)] == before
        assert trace.prompt[row] > len(before)
        assert trace.session[row] == trace.session[parent]
        waited = trace.arrival_ns[row] - trace.arrival_ns[parent]
        assert waited >= trace.think_ns[row] == 1_500_000_000
    assert (trace.prompt + trace.output).max() <= 400


def test_system_prompts_are_shared_and_nothing_else_is() -> None:
    trace = make(parse(TURNS))
    roots = [row for row in range(len(trace)) if trace.parent[row] < 0]
    heads = {tuple(tokens(trace, row)[:10]) for row in roots}
    assert 3 < len(heads) < len(roots)
    seen: set[int] = set()
    for row in roots:
        own = set(tokens(trace, row)[20:])
        assert not own & seen
        seen |= own


def test_agent_loops() -> None:
    trace = make(parse(PLAIN.replace("requests = 500", "requests = 40") + AGENT))
    one = np.flatnonzero(trace.session == 0)
    assert len(one) == 4
    assert trace.output[one][:3].tolist() == [2, 2, 2]
    assert np.diff(trace.prompt[one]).tolist() == [10, 10, 10]
    assert trace.think_ns[one].tolist() == [-1, 250_000_000, 250_000_000, 250_000_000]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("requests = 500", ""), "needs either requests or seconds"),
        (("requests = 500", "requests = 0"), "requests is 0, must be from 1"),
        (("requests = 500", "requests = 500\nseconds = 3"), "needs either requests or seconds"),
        (("rate = 2.0", "rate = -2.0"), "rate is -2, must be > 0"),
        (("rate = 2.0", "speed = 2.0"), "not a recipe: Object contains unknown field `speed`"),
        (('"poisson"', '"fish"'), "not a recipe: Invalid value 'fish'"),
        (("mean = 200", "mean = 0"), "prompt: mean must be > 0"),
        (("lo = 5", "lo = 50"), "output: lo must not be above hi"),
        (('name = "t"', "name = "), "not a recipe: "),
        (("least = 4, most = 900", "least = 800000, most = 800001"), "no draw between"),
    ],
)
def test_bad_recipes(change: tuple[str, str], message: str) -> None:
    from pagedsim.errors import PagedsimError

    with pytest.raises(PagedsimError) as caught:
        make(parse(PLAIN.replace(*change)))
    assert message in str(caught.value)


def test_missing_recipe(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read(tmp_path / "nothing.toml")


@pytest.mark.parametrize("name", ["chat-shared", "agent"])
@pytest.mark.parametrize("wanted", [1, 40, 300])
def test_sessions_that_come_too_late_are_left_out_and_change_nothing(
    name: str, wanted: int
) -> None:
    recipe = read(bundled.recipe(name) or Path())
    starts = recipe.arrivals.times(300, 3)
    every = making._sessions(recipe, 3, starts, 10**9)
    some = making._sessions(recipe, 3, starts, wanted)
    assert wanted <= len(some) < len(every)
    assert same(some.head(wanted), every.head(wanted))


@pytest.mark.parametrize(("name", "usual"), [("chat", making._ROW), ("agent", making._TURN)])
def test_what_a_request_takes(tmp_path: Path, name: str, usual: int) -> None:
    recipe, count = read(bundled.recipe(name) or Path()), 20_000
    store.write(make(recipe, requests=9), str(tmp_path / "t.parquet"))  # all that is imported is
    tracemalloc.start()
    store.write(make(recipe, requests=count), str(tmp_path / "t.parquet"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert usual / 4 < peak / count < usual


def test_what_needs_more_memory_than_is_free_is_refused_at_once(monkeypatch: Any) -> None:
    monkeypatch.setattr(free, "free_bytes", lambda: 10**6)
    recipe = read(bundled.recipe("chat") or Path())
    said = "chat: 100,000,000 requests take about 56,000,000,000 bytes of memory .* 1,000,000 "
    with pytest.raises(InputError, match=said):
        make(recipe, requests=10**8)
    assert len(make(recipe, requests=1000)) == 1000
    text = (bundled.recipe("agent") or Path()).read_text()
    days = parse(text.replace("requests = 1200", "seconds = 9e5"), "agent", Path())
    with pytest.raises(InputError, match=r"agent: 33,400 arrivals take about 1,068,800 bytes"):
        make(days)
    monkeypatch.setattr(free, "free_bytes", lambda: 10**8)
    with pytest.raises(InputError, match=r"agent: [0-9,]{7,} requests take about [0-9,]{11,} by"):
        make(days)


def test_free_memory_is_what_the_system_and_the_container_leave(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(free, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(free, "_GROUP", tmp_path)
    assert free.free_bytes() is None
    free.check_room("anything", 10**30)
    (tmp_path / "meminfo").write_text("MemTotal:  900 kB\nMemAvailable:    500 kB\nBuffers: 3 kB\n")
    assert free.free_bytes() == 512_000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert free.free_bytes() == 512_000
    (tmp_path / "memory.max").write_text("5000\n")
    assert free.free_bytes() == 4000
