"""Broken lines, folders of many formats, clocks and copies; large files in little memory."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from pagedsim.cli import app
from pagedsim.errors import InputError, SpecError
from pagedsim.trace import load
from pagedsim.trace.logs import stream
from pagedsim.trace.logs.record import BadRecord
from pagedsim.trace.logs.stream import values
from tests.trace.log_cases import chat, logs, read, talk, write
from tests.trace.odd_inputs import paths, replaced
from tests.trace.trace_cases import same


def test_bad_lines_are_named_counted_and_left_out_only_if_asked(tmp_path: Path) -> None:
    good = [json.dumps(line) for line in talk(0)]
    file = tmp_path / "log"
    file.write_text("\n".join([good[0], "{", good[1], "", '{"a": 1}', good[2], "nothing"]) + "\n")
    with pytest.raises(InputError, match=r"log:2: is no JSON \(--skip-bad leaves such lines out"):
        read(file)
    found = read(file, skip_bad=True)
    assert (len(found.trace), found.skipped, found.trace.dropped) == (3, 3, 3)
    assert found.skipped_first == [
        f"{file}:2: is no JSON",
        f"{file}:5: says neither how long the prompt is nor what it says (prompt_tokens)",
        f"{file}:7: is no JSON",
    ]
    assert found.trace.notes[-1] == "3 lines could not be read and were left out"
    # what is left is the trace of the good lines
    assert same_rows(found.trace, read(write(tmp_path / "good", talk(0))).trace)


def same_rows(left: Any, right: Any) -> bool:
    from dataclasses import replace

    facts = {"name": "", "notes": (), "dropped": 0}
    return same(replace(left, **facts), replace(right, **facts))


def test_a_first_line_that_is_broken(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text('{"messages": [\n' + "".join(f"{json.dumps(line)}\n" for line in talk(0)))
    with pytest.raises(InputError, match="log:1: is no JSON"):
        read(file)
    assert len(read(file, skip_bad=True).trace) == 3


def test_a_folder_of_many_formats(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    (folder / "inner").mkdir(parents=True)
    write(folder / "a.jsonl", talk(0))
    write(folder / "b.jsonl.gz", talk(1))
    (folder / "inner" / "c.zst").write_bytes(
        zstandard.compress("".join(f"{json.dumps(x)}\n" for x in talk(2)).encode())
    )
    (folder / "d.csv").write_text("time,input_tokens,output_tokens\n1700000000,9,2\n")
    (folder / ".hidden").write_text("not a log")
    found = read(folder)
    assert [each.requests for each in found.files] == [3, 3, 1, 3]
    assert len(found.trace) == 10
    assert found.trace.notes[0] == "from 3 files: OpenAI-style chat log, spreadsheet of lengths"
    (folder / "e.bin").write_bytes(b"\0\0")
    with pytest.raises(InputError, match=r"e\.bin: binary data or UTF-16"):
        read(folder)
    skipping = read(folder, skip_bad=True)
    assert (len(skipping.trace), skipping.skipped) == (10, 1)


@pytest.mark.parametrize("cut", [1, 9])
def test_broken_compression(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "log.gz"
    whole = gzip.compress("".join(f"{json.dumps(x)}\n" for x in talk(0)).encode())
    file.write_bytes(whole[:-cut])
    with pytest.raises(InputError, match=r"log\.gz: the compressed data are broken or end early"):
        read(file)


def test_out_of_order_and_clock_changes(tmp_path: Path) -> None:
    lines = talk(0) + talk(1) + talk(2)
    forward = read(write(tmp_path / "a", sorted(lines, key=lambda line: line["created"]))).trace
    mixed = read(write(tmp_path / "b", lines)).trace
    assert mixed.arrival_ns.tolist() == forward.arrival_ns.tolist()
    assert any("arrive before the row above them; sorted by arrival" in n for n in mixed.notes)
    for line in lines[5:]:
        line["created"] -= 3600
    notes = read(write(tmp_path / "c", lines)).trace.notes
    assert any("1 times go back by more than half an hour (most: 3," in note for note in notes)


def test_copies(tmp_path: Path) -> None:
    lines = talk(0) + talk(0)
    trace = read(write(tmp_path / "log", lines)).trace
    note = "3 requests are there again: "
    assert (len(trace), note + "kept; --drop-duplicates leaves them out" in trace.notes) == (
        6,
        True,
    )
    dropped = read(tmp_path / "log", drop_duplicates=True).trace
    assert (len(dropped), dropped.dropped, note + "left out" in dropped.notes) == (3, 3, True)
    assert same_rows(dropped, read(write(tmp_path / "once", talk(0))).trace)
    named = [{**line, "id": f"r{i}"} for i, line in enumerate(lines)]
    assert not any(note in n for n in read(write(tmp_path / "named", named)).trace.notes)


def test_failures_and_empty_answers(tmp_path: Path) -> None:
    lines = talk(0) + talk(1)
    lines[0]["error"] = {"code": 500}
    lines[1]["usage"]["completion_tokens"] = 0
    lines[2] = {"response": {"status_code": 429}, **lines[2]}
    trace = read(write(tmp_path / "log", lines)).trace
    assert (len(trace), trace.dropped) == (3, 3)
    assert "2 requests failed and were left out" in trace.notes
    assert "1 requests have zero output and were left out" in trace.notes


@given(
    st.lists(
        st.recursive(st.integers() | st.text(), st.lists, max_leaves=4).map(lambda v: {"k": v})
    ),
    st.integers(1, 40),
    st.sampled_from(["array", "pretty", "stream"]),
)
def test_values_are_found_however_the_stream_is_cut(
    expected: list[Any], size: int, layout: str
) -> None:
    if layout == "stream":
        text = "\n ".join(json.dumps(value) for value in expected)
    else:
        text = json.dumps(expected, indent=1 if layout == "pretty" else None, ensure_ascii=False)
    data = text.encode("utf-8", "surrogatepass")
    if any(0xD800 <= ord(letter) < 0xE000 for letter in text):
        return
    patched = stream._CHUNK
    try:
        stream._CHUNK = size
        assert [value for _, value in values(io.BytesIO(data))] == expected
    finally:
        stream._CHUNK = patched


def test_json_that_ends_early_or_breaks() -> None:
    for text, good in (('[{"a": 1}, {"b"', 1), ('[{"a": 1}, {x}, {"c": 2}]', 1), ("[", 0)):
        found = values(io.BytesIO(text.encode()))
        for _ in range(good):
            next(found)
        with pytest.raises(BadRecord, match="line 1: broken JSON, or JSON that ends early"):
            next(found)


def test_a_large_log_takes_little_memory(tmp_path: Path) -> None:
    """Memory goes with the blocks of the prompts, 8 bytes each, not with their text."""

    def peak(lines: int) -> int:
        file = tmp_path / "log.jsonl"
        with file.open("w") as out:
            for number in range(lines):
                text = f"{number} " + "some words of a long text " * 1000
                out.write(
                    json.dumps(chat(number, [{"role": "user", "content": text}], "ok")) + "\n"
                )
        tracemalloc.start()
        try:
            read(file, block=256)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    small, large = peak(250), peak(500)  # 7 and 13 MB of text
    assert large < 13 * 10**6
    assert large - small < 10**6


def test_the_command(tmp_path: Path) -> None:
    log, out = write(tmp_path / "log.jsonl", talk(0) + talk(1)), tmp_path / "t.jsonl"
    runner = CliRunner(env={"COLUMNS": "80"})
    result = runner.invoke(app, ["trace", "from", log, "--out", str(out)])
    assert result.exit_code == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert "log.jsonl: OpenAI-style chat log, 6 requests (messages: messages," in words
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert len(load(out)) == 6
    piped = runner.invoke(
        app, ["trace", "from", "-", "--out", "-"], input=(tmp_path / "log.jsonl").read_bytes()
    )
    assert piped.stdout.startswith('{"pagedsim":"trace/1","requests":6')
    json_ = runner.invoke(app, ["trace", "from", log, "--out", str(out), "--json", "-"])
    facts = json.loads(json_.stdout)
    assert facts["recognised"][0]["requests"] == facts["requests"] == 6
    assert facts["skipped"] == 0
    for words_, message in (
        (["--out", "x.csv"], "the name must end in one of"),
        (["--out", str(out), "--map", "prompt"], "--map is prompt, must be FIELD=NAME"),
        (["--out", str(out), "--map", "x=y"], "--map x: no such field; there are time, end"),
        (["--out", str(out), "--block", "0"], "--block is 0, must be a whole number >= 1"),
        (["--out", str(out), "--tokenizer", "none"], "none: cannot be read"),
    ):
        before = out.read_bytes()
        wrong = runner.invoke(app, ["trace", "from", log, *words_])
        assert (wrong.exit_code, message in wrong.stderr) == (2, True), wrong.stderr
        assert out.read_bytes() == before


KEYS = (
    *("messages", "prompt", "input", "usage", "prompt_tokens", "completion_tokens", "created"),
    *("role", "content", "choices", "message", "text", "response", "body", "request", "custom_id"),
    *("conversations", "from", "value", "resourceSpans", "scopeSpans", "spans", "attributes"),
    *("key", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.input.messages"),
    *("input_lens", "output_lens", "start_times", "itls", "ttfts", "errors", "hash_ids", "tools"),
    *("timestamp", "input_length", "output_length", "session_id", "tool_calls", "error", "system"),
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 10**20)
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(("user", "assistant", "human", "gpt", "\ud800", "1700000000", "[{}]")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=12,
)


@st.composite
def changed(draw: st.DrawFn) -> list[Any]:
    """A log of a format, with anything in a place or two of its lines."""
    _, values_ = draw(st.sampled_from(list(logs())))
    for _ in range(draw(st.integers(1, 3))):
        values_ = replaced(values_, draw(st.sampled_from(paths(values_)[1:])), draw(ANYTHING))
    return values_


@settings(max_examples=150)
@given(st.lists(ANYTHING, min_size=1, max_size=4) | changed(), st.booleans())
def test_whatever_json_holds_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Any], skip: bool
) -> None:
    """Nothing but a refusal, whatever stands where: no other error, no trace that is not sound."""
    file = write(tmp_path_factory.getbasetemp() / "anything.jsonl", lines)
    try:
        found = read(file, skip_bad=skip)
    except InputError as error:
        text = str(error)
    else:
        text, trace = " ".join(found.skipped_first), found.trace
        assert (trace.prompt >= 1).all()
        assert (trace.output >= 1).all()
        assert (trace.parent < len(trace)).all()
    assert "not expected" not in text


@pytest.mark.parametrize("cut", [1, 30])
def test_zstandard_that_is_cut_or_in_frames(tmp_path: Path, cut: int) -> None:
    data = [f"{json.dumps(x)}\n".encode() for x in talk(0, 5)]
    frames = [zstandard.compress(b"".join(data[:2])), zstandard.compress(b"".join(data[2:]))]
    (tmp_path / "whole").write_bytes(b"".join(frames))
    assert len(read(tmp_path / "whole").trace) == 5
    (tmp_path / "cut").write_bytes(b"".join(frames)[:-cut])
    with pytest.raises(InputError, match="cut: the compressed data are broken or end early"):
        read(tmp_path / "cut")
    (tmp_path / "broken").write_bytes(frames[0][:9] + b"\xff" * 40)
    with pytest.raises(InputError, match="broken: the compressed data are broken or end early"):
        read(tmp_path / "broken")


def test_a_copy_between_two_turns(tmp_path: Path) -> None:
    first, second, third = talk(0)
    trace = read(write(tmp_path / "log", [first, first, second, third]), drop_duplicates=True).trace
    assert trace.parent.tolist() == [-1, 0, 1]
    retried = {**second, "created": second["created"] + 5}
    trace = read(write(tmp_path / "log", [first, second, retried, third])).trace
    assert trace.parent.tolist() == [-1, 0, 0, 2]
    assert trace.session.tolist() == [0] * 4


def test_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LONGEST", 1 << 16)
    lines = talk(0)
    lines[1]["messages"] = [{"role": "user", "content": "x" * (1 << 17)}]
    file = write(tmp_path / "log", lines)
    with pytest.raises(InputError, match="line 2 is longer than 0 MiB; what follows is left out"):
        read(file)
    found = read(file, skip_bad=True)
    assert (len(found.trace), found.files[0].requests) == (1, 1)
    array = tmp_path / "array"
    array.write_text("[" + ",".join(json.dumps({"conversations": []}) for _ in range(2)) + ", [")
    with pytest.raises(InputError, match="broken JSON, or JSON that ends early; what follows"):
        read(array)


def test_without_the_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write(tmp_path / "log", talk(0))
    (tmp_path / "t.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(
        SpecError, match=r"--tokenizer needs the libraries of pagedsim\[text\]: pip"
    ):
        read(log, tokenizer=str(tmp_path / "t.json"))
    assert len(read(log).trace) == 3
