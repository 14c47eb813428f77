"""KV-cache events: read by another way, damaged ones named, and beside a replay of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from enginelogs import vllm
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pagedsim.alloc.prefix import PrefixPaged
from pagedsim.analysis.simulate import Setup, run
from pagedsim.cli import app
from pagedsim.device.device import make_device
from pagedsim.device.kvevents import parse_kv_events
from pagedsim.errors import InputError
from pagedsim.trace import load, store

ENCODE = msgspec.msgpack.encode
SECRET = [777_001] * 16  # token ids

HASHES = st.lists(st.integers(0, 9) | st.binary(min_size=1, max_size=2), max_size=4)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["stored", "removed", "cleared", "offloaded"]), HASHES, st.booleans()
    ),
    max_size=5,
)


def event(kind: str, hashes: list[Any], as_map: bool) -> Any:
    """As vLLM writes it, or with names."""
    if kind == "cleared":
        return {"type": "AllBlocksCleared"} if as_map else ["AllBlocksCleared"]
    medium = "CPU" if kind == "offloaded" else "GPU"
    if kind == "removed":
        named = {"type": "BlockRemoved", "block_hashes": hashes, "medium": medium}
        return named if as_map else ["BlockRemoved", hashes, medium]
    if as_map:
        named = {"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": None}
        return {**named, "token_ids": SECRET, "block_size": 16, "medium": medium}
    return ["BlockStored", hashes, None, SECRET, 16, None, medium]


@given(st.lists(EVENTS, min_size=1, max_size=6))
def test_books_are_those_of_a_plain_set(batches: list[list[tuple[str, list[Any], bool]]]) -> None:
    data = b"".join(
        ENCODE([1e9 + at / 4, [event(*one) for one in events], 0][: 3 - at % 2])
        for at, events in enumerate(batches)
    )
    held: list[Any] = []
    expected = []
    for events in batches:
        for kind, hashes, _ in events:
            if kind == "stored":
                held += [one for one in dict.fromkeys(hashes) if one not in held]
            elif kind == "removed":
                held = [one for one in held if one not in hashes]
            elif kind == "cleared":
                held = []
        expected.append(len(held))
    found = parse_kv_events(data)
    assert found.blocks.tolist() == expected
    assert found.at_ns.tolist() == [at * 250_000_000 for at in range(len(batches))]
    counts = [kind for events in batches for kind, _, _ in events]
    assert (found.cleared, found.elsewhere) == (counts.count("cleared"), counts.count("offloaded"))
    assert found.damaged == 0


PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats()
ANYTHING = st.recursive(
    PLAIN | st.text(max_size=300) | st.binary(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=4), inner, max_size=20)
    ),
    max_leaves=20,
)


@given(ANYTHING, st.integers(0, 3))
def test_any_message_is_passed_over_whole(message: Any, before: int) -> None:
    good = ENCODE([1.0, [["BlockStored", [1], None, [], 16]]])
    data = good * before + ENCODE(message) + good
    found = parse_kv_events(data)
    assert len(found.at_ns) + found.damaged == before + 2
    assert found.blocks[-1] == 1


@given(st.binary(max_size=60), st.integers(0, 80))
def test_rubbish_ends_in_an_answer(rubbish: bytes, cut: int) -> None:
    good = ENCODE([1.0, [["BlockStored", [1], None, SECRET, 16]]])
    for data in (good + rubbish, (good * 3)[:cut], good + b"\xc1" + good):
        if len(data) < len(good):
            with pytest.raises(InputError, match="holds no batch") as caught:
                parse_kv_events(data)
            assert "777001" not in str(caught.value)
        else:
            assert len(parse_kv_events(data).at_ns) >= 1


def test_what_is_damaged_is_named() -> None:
    good = ENCODE([5.0, [["BlockStored", [1], None, SECRET, 16]]])
    bad = [
        ([4.0, []], "its time is before that of a batch above"),
        ([6.0, [["Secret", [1]]]], "holds an event of an unknown kind"),
        ([6.0, [["BlockRemoved", ["secret"]]]], "holds hashes that are none"),
        ([6.0, ["secret"]], "holds what is no event"),
        (["secret", []], "has no time"),
        ({"secret": 1}, "is no batch of events"),
    ]
    data = good + b"".join(ENCODE(message) for message, _ in bad)
    found = parse_kv_events(data)
    assert found.damaged == len(bad)
    assert [each.partition(": ")[2] for each in found.named] == [said for _, said in bad]
    assert found.named[0] == f"batch 2 (byte {len(good)}): its time is before that of a batch above"
    assert "secret" not in str(found.named).lower().replace("secret-", "")
    assert parse_kv_events(good + good[:-4]).named[0].endswith("is cut, so the rest is lost")
    assert (
        parse_kv_events(good + b"\xc1").named[0].endswith("is no MessagePack, so the rest is lost")
    )
    with pytest.raises(InputError, match="holds no batch"):
        parse_kv_events(b"")


class Publisher:
    """Writes the events of a replay: which keys came and went at each step, told by the pool."""

    def __init__(self, pool: PrefixPaged) -> None:
        self.pool, self.batches, self.count = pool, [], 0

    def scheduled(self, _: int, __: Any, view: Any, /) -> None:
        keys = self.pool.keys_cached()
        events: list[Any] = []
        if keys > self.count:
            events.append(event("stored", list(range(self.count, keys)), False))
        elif keys < self.count:
            events.append(event("removed", list(range(keys, self.count)), True))
        self.count = keys
        if events:
            self.batches.append((view.now_ns, events))

    def finished(self, _: int, __: Any, /) -> None:
        pass


def test_events_beside_a_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = load("chat-shared", limit=200)
    device = make_device("llama-3.1-8b", "a100-80gb", kv_tokens=60_000, max_seqs=24)
    pool = PrefixPaged(device.capacity_tokens // 32, block=32)
    publisher = Publisher(pool)
    setup = Setup(device=device, max_len=16384, observers=(publisher,)).resolved()
    report = run(trace, pool, setup)
    store.write(trace, "t.jsonl")
    Path("e.log").write_text("\n".join(vllm(report, [1.0 + 5 * k for k in range(8)])))
    epoch = 1.7e9
    data = b"".join(ENCODE([epoch + at / 1e9, events, 0]) for at, events in publisher.batches)
    Path("k.bin").write_bytes(data)
    runner = CliRunner(env={"COLUMNS": "80"})
    words = ["verify", "--log", "e.log", "t.jsonl", "--events", "k.bin", "--figure", "v.svg"]
    said = runner.invoke(app, [*words, "--json", "v.json"])
    assert (said.exit_code, said.stderr) == (0, "")
    assert all(len(line) <= 80 for line in said.stdout.splitlines())
    assert f"{len(publisher.batches):,} batches of KV-cache events: " in said.stdout
    found = json.loads(Path("v.json").read_bytes())["cached"]
    first_ns = publisher.batches[0][0]
    assert found["offset_s"] == pytest.approx(-first_ns / 1e9, abs=1)
    assert found["side"]["engine_mean"] > 300
    assert found["side"]["error"] < 0.03  # the offset is of whole seconds
    everything = said.stdout + Path("v.json").read_text() + Path("v.svg").read_text()
    assert "777001" not in everything
    assert np.diff(found["at_s"]).min() >= 0
    for wrong, text in (
        ([*words[:3], "t.jsonl", "--events", "gone.bin"], "gone.bin: cannot be read"),
        ([*words[:3], "t.jsonl", "--events", "e.log"], "holds no batch"),
        (["verify", "t.jsonl", "--events", "k.bin"], "--events needs --log"),
    ):
        ran = runner.invoke(app, wrong)
        assert ran.exit_code == 2
        assert text in ran.stderr
