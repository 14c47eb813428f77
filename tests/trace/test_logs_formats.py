"""Every format of log: told by content, with the right lengths, times and conversations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pagedsim.errors import InputError, PagedsimError, SpecError
from tests.trace.log_cases import chat, read, talk, write


def rows(trace: Any) -> list[tuple[float, int, int]]:
    columns = (trace.arrival_ns / 1e9, trace.prompt, trace.output)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("key", ["timestamp", "ts", "created_at", "startTime", "@timestamp"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1700000000, 1700000002.5),
        (1700000000000, 1700000002500),
        ("1700000000", "1700000002.5"),
        ("2023-11-14T22:13:20Z", "2023-11-14T23:13:22.5+01:00"),
        ("2023-11-14 22:13:20.0000000", "2023-11-14 22:13:22.5000000"),
        ("2023-11-14T22:13:20", "2023-11-14T22:13:22,500"),
    ],
)
def test_times(tmp_path: Path, key: str, first: Any, second: Any) -> None:
    lines = [chat(None, [{"role": "user", "content": "a b c"}], "d e") for _ in range(2)]
    for line, at in zip(lines, (first, second), strict=True):
        del line["created"]
        line[key] = at
    found = read(write(tmp_path / "log", lines))
    assert rows(found.trace) == [(0, 3, 2), (2.5, 3, 2)]
    assert f"time: {key}" in found.files[0].names


def test_chat_log(tmp_path: Path) -> None:
    found = read(write(tmp_path / "x.bin", talk(0) + talk(1)))
    assert (found.files[0].format, found.files[0].requests) == ("OpenAI-style chat log", 6)
    trace = found.trace
    assert trace.session.tolist() == [0, 1, 0, 1, 0, 1]
    assert trace.parent.tolist() == [-1, -1, 0, 1, 2, 3]
    assert trace.prompt.tolist()[:1] == [36 + 27]
    assert trace.notes[0] == "from OpenAI-style chat log"


@pytest.mark.parametrize(
    "wrap",
    [
        lambda line: {"request": {"messages": line.pop("messages")}, "response": line},
        lambda line: {"request": {"body": line}, "time": line["created"]},
        lambda line: {"kwargs": {"messages": line.pop("messages")}, "response_obj": line},
    ],
)
def test_what_was_asked_and_answered_may_stand_within(tmp_path: Path, wrap: Any) -> None:
    plain = read(write(tmp_path / "a", talk(0))).trace
    inner = read(write(tmp_path / "b", [wrap(line) for line in talk(0)])).trace
    assert rows(inner) == rows(plain)
    assert inner.parent.tolist() == plain.parent.tolist()


def test_completion_log(tmp_path: Path) -> None:
    lines = [
        {"time": 5, "prompt": "one two three four", "completion": "five six", "prompt_tokens": 4},
        {"time": 6, "prompt": [7, 8, 9], "usage": {"completion_tokens": 4}},
        {"time": 7, "prompt": ["one", " two"], "choices": [{"text": "x"}, {"text": "y"}]}
        | {"usage": {"prompt_tokens": 2, "completion_tokens": 10}},
    ]
    found = read(write(tmp_path / "log", lines))
    assert found.files[0].format == "OpenAI-style completion log"
    assert found.trace.prompt.tolist() == [4, 3, 2]
    assert found.trace.samples.tolist() == [1, 1, 2]
    assert found.trace.output.tolist()[1:] == [4, 5]
    assert any(note.startswith("1 outputs are estimated") for note in found.trace.notes)


def test_the_responses_api(tmp_path: Path) -> None:
    asked = [{"role": "user", "content": [{"type": "input_text", "text": "one two"}]}]
    more = [*asked, {"role": "assistant", "content": "three"}, {"role": "user", "content": "four"}]
    usage = {"input_tokens": 9, "output_tokens": 2}
    lines = [{"created_at": i, "input": m, "usage": usage} for i, m in enumerate((asked, more))]
    found = read(write(tmp_path / "log", lines))
    assert found.files[0].format == "OpenAI-style chat log"
    assert found.trace.parent.tolist() == [-1, 0]
    text = read(write(tmp_path / "text", [{"created_at": 1, "input": "one two", "usage": usage}]))
    assert text.files[0].format == "OpenAI-style completion log"


def test_tokens_of_a_cache_count_as_prompt(tmp_path: Path) -> None:
    usage = {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 90}
    line = {"created": 1, "system": "s", "messages": [{"role": "user", "content": "a"}]}
    found = read(write(tmp_path / "log", [{**line, "usage": usage}]))
    assert found.trace.prompt.tolist() == [95]


@pytest.mark.parametrize("order", [("in", "out"), ("out", "in")])
def test_batch_files(tmp_path: Path, order: tuple[str, str]) -> None:
    asked, answered = [], []
    for number, line in enumerate(talk(3)):
        usage, choices = line.pop("usage"), line.pop("choices")
        name = f"request-{number}"
        asked.append({"custom_id": name, "method": "POST", "url": "/v1", "body": line})
        body = {"usage": usage, "choices": choices}
        answered.append({"custom_id": name, "response": {"status_code": 200, "body": body}})
    files = {
        "in": write(tmp_path / "a.jsonl", asked),
        "out": write(tmp_path / "b.jsonl", answered[::-1]),
    }
    found = read(*(files[which] for which in order))
    assert {each.format for each in found.files} == {"batch-API file"}
    expected = read(write(tmp_path / "c", talk(3))).trace
    assert sorted(found.trace.prompt.tolist()) == expected.prompt.tolist()
    assert sorted(found.trace.output.tolist()) == sorted(expected.output.tolist())
    with pytest.raises(InputError, match=r"3 requests have no answer: give the batch's output"):
        read(files["in"])
    with pytest.raises(InputError, match=r"3 answers have no request"):
        read(
            write(
                tmp_path / "d",
                [{**a, "response": {"body": {"usage": {"output_tokens": 3}}}} for a in answered],
            )
        )


@pytest.mark.parametrize("layout", ["array", "pretty", "lines"])
def test_sharegpt(tmp_path: Path, layout: str) -> None:
    conversations = [
        {
            "id": f"c{number}",
            "conversations": [
                {"from": "human", "value": f"hello {number} there"},
                {"from": "gpt", "value": "well hello"},
                {"from": "human", "value": "and now"},
                {"from": "gpt", "value": "nothing much"},
            ],
        }
        for number in range(3)
    ]
    file = tmp_path / "x"
    if layout == "lines":
        write(file, conversations)
    else:
        file.write_text(json.dumps(conversations, indent=2 if layout == "pretty" else None))
    found = read(file)
    assert (found.files[0].format, len(found.trace)) == ("ShareGPT-style conversations", 6)
    assert not found.trace.timed
    assert found.trace.session.tolist() == [0, 0, 1, 1, 2, 2]
    assert found.trace.parent.tolist() == [-1, 0, -1, 2, -1, 4]
    assert (found.trace.prompt[1::2] > found.trace.prompt[::2]).all()


def span(at: int, prompt: int, output: int, **more: Any) -> dict[str, Any]:
    return {
        "name": "chat",
        "startTimeUnixNano": str(1_700_000_000_000_000_000 + at),
        "endTimeUnixNano": str(1_700_000_000_000_000_000 + at + 10**9),
        "attributes": [
            {"key": "gen_ai.usage.input_tokens", "value": {"intValue": str(prompt)}},
            {"key": "gen_ai.usage.output_tokens", "value": {"intValue": output}},
            *({"key": k, "value": {"stringValue": v}} for k, v in more.items()),
        ],
    }


def test_spans(tmp_path: Path) -> None:
    other = {"name": "GET /", "startTimeUnixNano": "17", "attributes": []}
    more = {"gen_ai.conversation.id": "c"}
    document = {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {"spans": [span(0, 9, 3, **more), other, span(5 * 10**9, 14, 1, **more)]}
                ]
            }
        ]
    }
    found = read(write(tmp_path / "otlp", [document]))
    assert found.files[0].format == "OpenTelemetry GenAI spans"
    assert rows(found.trace) == [(0, 9, 3), (5, 14, 1)]
    assert found.trace.parent.tolist() == [-1, 0]
    assert found.trace.think_ns.tolist() == [-1, 4 * 10**9]
    plain = {
        "start_time": "2023-11-14T22:13:20Z",
        "attributes": {"gen_ai.usage.prompt_tokens": 7, "gen_ai.usage.completion_tokens": 2}
        | {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hello there"},
    }
    found = read(write(tmp_path / "flat", [plain, plain]))
    assert rows(found.trace) == [(0, 7, 2), (0, 7, 2)]
    assert "2 requests are there again" not in " ".join(found.trace.notes)


def test_benchmark_result(tmp_path: Path) -> None:
    result = {
        "backend": "vllm",
        "input_lens": [5, 6, 7],
        "output_lens": [2, 3, 0],
        "start_times": [100.25, 101.0, 102.0],
        "ttfts": [0.5, 0.25, 0.0],
        "itls": [[0.1], [0.1, 0.2], []],
        "errors": ["", "", "boom"],
        "generated_texts": ["a", "b", ""],
    }
    found = read(write(tmp_path / "bench.json", [result]))
    assert found.files[0].format == "vLLM benchmark result"
    assert rows(found.trace) == [(100.25, 5, 2), (101.0, 6, 3)]
    assert found.trace.dropped == 1
    with pytest.raises(InputError, match="output_lens is no list of 3 values"):
        read(write(tmp_path / "bad", [{**result, "output_lens": [1]}]))
    with pytest.raises(InputError, match="output_lens is missing; was it saved with --save-det"):
        read(write(tmp_path / "bad", [{"input_lens": [1]}]))


@pytest.mark.parametrize("block", [16, 512])
def test_timed_trace(tmp_path: Path, block: int) -> None:
    lines = [
        {"timestamp": 0, "input_length": 2 * block + 3, "output_length": 5, "hash_ids": [1, 2, 3]},
        {"timestamp": 1500, "input_length": 2 * block, "output_length": 5, "hash_ids": [1, 2]},
    ]
    found = read(write(tmp_path / "t", lines))
    assert found.files[0].format == "timed trace of lengths"
    trace = found.trace
    assert rows(trace) == [(0, 2 * block + 3, 5), (1.5, 2 * block, 5)]
    assert trace.extra == {"block": block}
    assert trace.run_token[trace.run_rows[0]] == trace.run_token[trace.run_rows[1]] == 0
    text = "no block size does not fit the number of hash_ids in all rows"
    with pytest.raises(InputError, match="hash_ids in all rows; say --hash-block N"):
        read(write(tmp_path / "u", [{**lines[0], "hash_ids": [1] * 9}, lines[1]]))
    assert text


def test_own_names(tmp_path: Path) -> None:
    line = {"when": 3, "in": 12, "n": {"out": 4}, "who": "x"}
    mapping = {"time": "when", "prompt_tokens": "in", "output_tokens": "n.out", "session": "who"}
    found = read(write(tmp_path / "l", [line, {**line, "when": 5}]), mapping=mapping)
    assert rows(found.trace) == [(3, 12, 4), (5, 12, 4)]
    assert found.trace.parent.tolist() == [-1, 0]
    assert "output_tokens: n.out" in found.files[0].names
    units = read(write(tmp_path / "m", [line]), mapping=mapping, unit="ms")
    assert rows(units.trace) == [(0.003, 12, 4)]
    with pytest.raises(SpecError, match=r"--map prompt: no such|--map x: no such field; there are"):
        read(write(tmp_path / "l", [line]), mapping={"x": "in"})
    with pytest.raises(SpecError, match="--time-unit is h, must be s or ms or us or ns"):
        read(write(tmp_path / "l", [line]), unit="h")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_sheet(tmp_path: Path, separator: str) -> None:
    table = [["Time", "Input Tokens", "completion_tokens"], ["0", "7", "2"], ["1.5", "9", "4"]]
    file = tmp_path / "sheet"
    file.write_text("\ufeff" + "".join(f"{separator.join(cells)}\r\n" for cells in table))
    with pytest.raises(InputError, match=r"sheet:1: no log that is known: no column of prompt_to"):
        read(file)
    found = read(file, mapping={"prompt_tokens": "input tokens"})
    assert found.files[0].format == "spreadsheet of lengths"
    assert rows(found.trace) == [(0, 7, 2), (1.5, 9, 4)]


def test_a_sheet_of_texts(tmp_path: Path) -> None:
    file = tmp_path / "texts.csv"
    file.write_text('prompt,output\n"tell me, please",now\n"tell me, please",\n')
    with pytest.raises(InputError, match=r"texts\.csv:3: says neither how long the answer is"):
        read(file)
    trace = read(file, skip_bad=True).trace
    assert (len(trace), trace.prompt.tolist()) == (1, [4])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("PK\x03\x04", "a workbook: save its sheet as CSV"),
        ("PAR1", "a Parquet file: 'pagedsim trace convert'"),
        ("ab\0cd", "binary data or UTF-16"),
        ('{"pagedsim":"trace/1"}\n', "a trace, not a log: 'pagedsim trace convert' reads it"),
        ('{"a": 1, "b": 2}\n', "an object with 2 keys, none of them such as messages, prompt"),
        ("[1, 2]", "no log that is known: no object"),
        ("a,b\n1,2\n", "no column of prompt_tokens and none of output_tokens among its 2 columns"),
        ('{"messages": [1]}\n', "messages is no list of messages"),
        ('{"messages": [{"role": "user", "content": "x"}]}\n', "says neither how long the answer"),
        ('{"prompt_tokens": 3.5, "output_tokens": 1}\n', "prompt_tokens is no whole number from 0"),
        ('{"prompt_tokens": 0, "output_tokens": 1}\n', "the prompt has 0 tokens, must be >= 1"),
        ('{"prompt": "", "output_tokens": 1}\n', "the prompt is empty"),
        ('{"prompt_tokens": 1, "output_tokens": 1, "time": "soon"}\n', "time is no date that is"),
        ('{"prompt_tokens": 1, "output_tokens": 1, "time": -4}\n', "time is no time from 0 on"),
        ('{"prompt_tokens": 1, "output_tokens": 0}\n', "no request that was answered"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "log"
    file.write_text(text)
    with pytest.raises(PagedsimError) as caught:
        read(file)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none: no such file"):
        read(tmp_path / "none")
    with pytest.raises(InputError, match="the folder has no files"):
        read(tmp_path)
    with pytest.raises(SpecError, match="--chat-template needs --tokenizer"):
        read(write(tmp_path / "l", talk(0)), chat_template="x")


def test_times_in_some_rows_only(tmp_path: Path) -> None:
    lines = talk(0)
    del lines[1]["created"]
    with pytest.raises(InputError, match="1 of 3 requests have no time; name where it stands"):
        read(write(tmp_path / "l", lines))
    lines[1]["created"] = 12
    with pytest.raises(InputError, match="some times are dates and some are seconds of a clock"):
        read(write(tmp_path / "l", lines))
