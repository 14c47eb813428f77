"""``pagedsim map``: what it writes, what it shows, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import pagedsim, refused

from pagedsim.analysis.results import TERMS

pytestmark = pytest.mark.usefixtures("folder")


def test_without_a_trace_it_is_the_first_look() -> None:
    said = pagedsim("map", "--out", "map.html", "--json", "scene.json")
    assert (said.code, said.err) == (0, "")
    assert max(map(len, said.out.splitlines())) <= 80
    scene = json.loads(Path("scene.json").read_text())
    contiguous, paged = scene["lanes"]
    assert contiguous["capacity"] == paged["capacity"] == 256
    texts = [
        {each["text"] for frame in lane["frames"] for each in frame.get("said", [])}
        for lane in scene["lanes"]
    ]
    assert "Request 4 is refused for now: 108 slots are free, the largest hole is 58." in texts[0]
    kinds = [
        {each["kind"] for frame in lane["frames"] for each in frame.get("said", [])}
        for lane in scene["lanes"]
    ]
    assert kinds[0] >= {"arrives", "admitted", "refused", "done"}
    assert kinds[1] >= {"hit", "preempted", "evicted", "refused", "done"}
    for lane in scene["lanes"]:
        assert all(sum(frame["terms"]) == 256 for frame in lane["frames"])
        seen = [
            sum(column) > 0 for column in zip(*(f["terms"] for f in lane["frames"]), strict=True)
        ]
        missing = {term for term, there in zip(TERMS, seen, strict=True) if not there}
        assert missing <= ({"cached"} if lane is contiguous else {"external"})
        assert lane["frames"][-1].get("running", 0) == 0


def test_the_same_command_writes_the_same_bytes() -> None:
    words = ("map", "t.csv", "--kv-tokens", 8000, "--max-len", 2000, "-q")
    for name in ("a.html", "b.html"):
        assert pagedsim(*words, "--out", name).out == ""
    assert Path("a.html").read_bytes() == Path("b.html").read_bytes()


def test_a_stretch_of_a_trace() -> None:
    words = ("map", "t.csv", "--kv-tokens", 8000, "--max-len", 2000, "--json", "-")
    scene = json.loads(pagedsim(*words, "--from", 1, "--seconds", 0.5).out)
    assert (scene["from_ns"], scene["to_ns"], scene["cut"]) == (10**9, 15 * 10**8, False)
    starts = [frame["start_ns"] for lane in scene["lanes"] for frame in lane["frames"]]
    assert starts
    assert all(10**9 <= start < 15 * 10**8 for start in starts)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give --out FILE.html"),
        (("--out", "map.pdf"), ".htm or .html"),
        (("--out", "no/map.html"), "there is no folder"),
        (("--kv-tokens", 99, "--out", "m.html"), "--kv-tokens needs a TRACE"),
        (("--from", -1, "--out", "m.html"), "--from is -1"),
        (("--from", "nan", "--out", "m.html"), "--from is nan, must be a number of seconds >= 0"),
        (("--seconds", 0, "--out", "m.html"), "--seconds is 0"),
        (("--from", 99, "--out", "m.html"), "no step starts from 99 s on"),
        (("--allocator", "pages", "--out", "m.html"), "pages"),
        (("--out", "m.html", "--json", "m.html"), "is --out as well"),
        (("t.csv", "--out", "m.html", "--kv-tokens", "8m"), "at most 4,194,304"),
    ],
)
def test_what_cannot_be_drawn_is_refused(words: tuple[object, ...], said: str) -> None:
    assert said in refused("map", *words)


@pytest.mark.parametrize("groups", ["on", "full"])
def test_instead_of_groups_of_layers_a_pool_of_tokens_can_be_drawn(groups: str) -> None:
    words = ("t.csv", "--model", "gemma-3-27b", "--gpu", "h100", "--kv-cache-memory-bytes", 4 << 30)
    made = ("--steptime", "constant:ms=20", "--max-len", 2000, "--out", "m.html")
    spec = f"paged:groups={groups}"
    said = refused("map", *words, *made, "--allocator", spec)
    advice = "a pool of tokens for all layers is: paged (groups=off)"
    assert f"{spec}: no map: blocks of groups of layers, whose slots are bytes," in said
    assert advice in said
    assert pagedsim("map", *words, *made, "--allocator", "paged:groups=off").code == 0
    report = ("--steptime", "constant:ms=20", "--max-len", 2000, "--report", "r.html")
    assert pagedsim("replay", *words, *report, "--allocator", spec).code == 0
    assert advice in Path("r.html").read_text()


def test_too_long_a_stretch_is_refused_with_one_that_fits() -> None:
    Path("long.csv").write_text("arrived_at,prompt_tokens,output_tokens\n0,9,3000\n")
    words = ("map", "long.csv", "--steptime", "constant:ms=0.1", "--out", "m.html")
    said = refused(*words, "--seconds", 9)
    assert "holds 2,000 of an allocator" in said
    fits = said.split("--seconds ")[1].split()[0]
    assert pagedsim(*words, "--seconds", fits, "-q").code == 0
    scene = json.loads(pagedsim(*words[:-2], "--json", "-").out)
    assert scene["cut"]
    assert max(len(lane["frames"]) for lane in scene["lanes"]) == 2000
