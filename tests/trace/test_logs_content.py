"""What prompts hold: exact with a tokenizer, an estimate without one; answers in the next turn."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers

from pagedsim.errors import InputError
from pagedsim.trace import stats
from pagedsim.trace.logs.tokens import Tokenizer
from pagedsim.trace.trace import Trace
from tests.trace.log_cases import chat, read, talk, write
from tests.trace.trace_cases import tokens

TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}> {{ message.content }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    """A tokenizer of words, every word of the cases known, with a chat template beside it."""
    words = {word for t in range(4) for line in talk(t, 4) for word in json.dumps(line).split()}
    for line in [m for t in range(4) for x in talk(t, 4) for m in x["messages"]]:
        words.update(line["content"].split())
    words.update(f"<{name}>" for name in ("system", "user", "assistant", "end"))
    words.update(str(number) for number in range(40))
    vocabulary = {word: index for index, word in enumerate(["?", *sorted(words)])}
    library = Library(models.WordLevel(vocabulary, unk_token="?"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    library.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return str(folder / "tokenizer.json")


def shown(messages: list[dict[str, Any]]) -> list[str]:
    """The words of a prompt under `TEMPLATE`, by other means."""
    parts = [f"<{m['role']}> {m['content']} <end>" for m in messages]
    return " ".join([*parts, "<assistant>"]).split()


def same_as_text(trace: Trace, lines: list[dict[str, Any]], block: int) -> None:
    """Prompts share whole blocks of tokens exactly where their words are equal."""
    prompts = [shown(line["messages"]) for line in lines]
    held = [tokens(trace, row) for row in range(len(trace))]
    assert [len(each) for each in held] == [len(each) for each in prompts]
    for a, (one, words) in enumerate(zip(held, prompts, strict=True)):
        for other, others in list(zip(held, prompts, strict=True))[:a]:
            equal = 0
            while equal < min(len(words), len(others)) and words[equal] == others[equal]:
                equal += 1
            whole = equal // block * block
            assert one[:whole] == other[:whole]
            if len(words) >= whole + block <= len(others):
                assert one[: whole + block] != other[: whole + block]


@pytest.mark.parametrize("block", [1, 4, 16])
def test_exact(tmp_path: Path, tokenizer: str, block: int) -> None:
    lines = sorted(talk(0) + talk(1) + talk(2), key=lambda line: line["created"])
    for line in lines:
        del line["usage"]["prompt_tokens"]
    found = read(write(tmp_path / "log", lines), tokenizer=tokenizer, block=block)
    same_as_text(found.trace, lines, block)
    assert "content by tokenizer.json, chat template" in found.trace.notes[0]
    assert found.trace.extra == {"block": block}


def test_answers_are_content_of_the_next_turn(tmp_path: Path, tokenizer: str) -> None:
    lines = talk(0, 3)
    for line in lines:
        del line["usage"]["prompt_tokens"]
    trace = read(write(tmp_path / "log", lines), tokenizer=tokenizer, block=4).trace
    for row in (1, 2):
        before, now = tokens(trace, row - 1), tokens(trace, row)
        start, size = int(trace.output_token[row - 1]), int(trace.output[row - 1])
        history = [*before, *range(start, start + size)]
        assert now[: len(history)] == history
    reuse = stats.reuse(trace, 4)
    assert reuse.with_outputs > reuse.full_blocks
    # an answer that the client changed is not what was generated
    lines[1]["messages"][2]["content"] = "answer 0 1 " * 11
    changed = read(write(tmp_path / "b", lines), tokenizer=tokenizer, block=4).trace
    assert tokens(changed, 1)[len(tokens(changed, 0))] != changed.output_token[0]


def test_what_a_cache_of_answers_hits(tmp_path: Path, tokenizer: str) -> None:
    """Each turn hits the whole blocks stored of the turn before, its answer's among them."""
    lines = talk(0, 4)
    for line in lines:
        del line["usage"]["prompt_tokens"]
    block = 4
    trace = read(write(tmp_path / "log", lines), tokenizer=tokenizer, block=block).trace
    asked = int((trace.prompt // block).sum())
    hit = sum(
        int(trace.prompt[row] + trace.output[row] - 1) // block for row in range(len(trace) - 1)
    )
    assert stats.reuse(trace, block).with_outputs == hit / asked


def test_think_times(tmp_path: Path) -> None:
    lines = talk(0)
    lines[0]["latency_ms"] = 2500
    lines[1]["end_time"] = lines[1]["created"] + 90  # after the next turn: no think time
    trace = read(write(tmp_path / "log", lines)).trace
    assert trace.think_ns.tolist() == [-1, 57_500_000_000, -1]


def test_equal_logs_give_equal_bytes(tmp_path: Path, tokenizer: str) -> None:
    from pagedsim.trace import own

    log = write(tmp_path / "log", talk(0) + talk(1))
    for choices in ({}, {"tokenizer": tokenizer}):
        once, again = (own.dump(read(log, **choices).trace) for _ in range(2))
        assert once == again


def test_the_logs_own_count_goes_before(tmp_path: Path, tokenizer: str) -> None:
    lines = talk(0)
    lines[0]["usage"]["prompt_tokens"] = 500
    lines[1]["usage"]["prompt_tokens"] = 20
    trace = read(write(tmp_path / "log", lines), tokenizer=tokenizer).trace
    assert trace.prompt.tolist()[:2] == [500, 20]
    assert any("% of the log's own counts" in note for note in trace.notes)


def test_without_a_tokenizer_it_is_an_estimate(tmp_path: Path) -> None:
    trace = read(write(tmp_path / "log", talk(0) + talk(1))).trace
    note = next(note for note in trace.notes if "estimated from characters" in note)
    assert "bytes a token (median of the log); likely error" in note
    assert trace.prompt.tolist() == [
        sum(len(m["content"].split()) for m in line["messages"])
        for line in sorted(talk(0) + talk(1), key=lambda line: line["created"])
    ]
    # a turn holds the prompt and the answer before it by their own lengths
    for row, before in enumerate(trace.parent.tolist()):
        if before >= 0:
            start, size = int(trace.output_token[before]), int(trace.output[before])
            history = [*tokens(trace, before), *range(start, start + size)]
            assert tokens(trace, row)[: len(history)] == history
    bare = talk(0)
    for line in bare:
        del line["usage"]
    notes = read(write(tmp_path / "b", bare)).trace.notes
    assert any(
        "4.00 bytes a token, a rule of thumb for English text; likely error 30 %" in n
        for n in notes
    )
    assert any("3 outputs are estimated from their texts' length" in n for n in notes)


def test_the_stated_error_is_the_measured_one(tmp_path: Path) -> None:
    """Nine of ten prompts are as near as the note says, by a count of our own."""
    generator = np.random.default_rng(5)
    lines = []
    for number in range(120):
        words = ["w" * int(generator.integers(1, 9)) for _ in range(int(generator.integers(9, 90)))]
        lines.append(chat(number, [{"role": "user", "content": " ".join(words)}], "ok"))
    trace = read(write(tmp_path / "log", lines)).trace
    note = next(note for note in trace.notes if "likely error" in note)
    ratio = float(note.split("characters, ")[1].split(" ")[0])
    said = float(note.split("likely error ")[1].split(" ")[0])
    sizes = [len("\x02user\x03" + line["messages"][0]["content"]) for line in lines]
    counts = [line["usage"]["prompt_tokens"] for line in lines]
    off = sorted(abs(-(-size // ratio) / n - 1) for size, n in zip(sizes, counts, strict=True))
    assert 100 * off[int(0.85 * len(off))] - 1 <= said <= 100 * off[int(0.95 * len(off))] + 1


def test_branches_and_retries(tmp_path: Path) -> None:
    first, second, third = talk(0)
    other = chat(1.7e9 + 500, [*second["messages"][:-1], {"role": "user", "content": "no"}], "k")
    again = {**second, "created": 1.7e9 + 600}
    trace = read(write(tmp_path / "log", [first, second, third, other, again])).trace
    assert trace.parent.tolist() == [-1, 0, 1, 0, 2] or trace.parent.tolist()[:4] == [-1, 0, 1, 0]
    assert tokens(trace, 4) == tokens(trace, 1)
    shared = int(trace.prompt[0] + trace.output[0])
    assert tokens(trace, 3)[:shared] == tokens(trace, 1)[:shared]
    assert tokens(trace, 3)[shared:] != tokens(trace, 1)[shared:]


def test_another_system_prompt_shares_nothing(tmp_path: Path) -> None:
    lines = talk(0, 1) + talk(1, 1)
    lines[1]["messages"][0]["content"] = "x" + lines[1]["messages"][0]["content"]
    trace = read(write(tmp_path / "log", lines)).trace
    assert not set(tokens(trace, 0)) & set(tokens(trace, 1))
    tools = talk(0, 1) + talk(0, 1, at=1.8e9)
    tools[1]["tools"] = [{"type": "function", "function": {"name": "f"}}]
    trace = read(write(tmp_path / "b", tools)).trace
    assert not set(tokens(trace, 0)) & set(tokens(trace, 1))


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=2, max_size=6))
def test_token_ids_in_a_log_are_exact(tmp_path_factory: Any, prompts: list[list[int]]) -> None:
    lines = [{"prompt": ids, "usage": {"completion_tokens": 1}} for ids in prompts]
    file = write(tmp_path_factory.mktemp("ids") / "log", lines)
    trace = read(file, block=2).trace
    for a, one in enumerate(prompts):
        for b, other in enumerate(prompts[:a]):
            for cut in range(2, min(len(one), len(other)) + 1, 2):
                held = tokens(trace, a)[:cut] == tokens(trace, b)[:cut]
                assert held == (one[:cut] == other[:cut])


def test_a_tiktoken_file(tmp_path: Path) -> None:
    """Ranks as tiktoken writes them: merged as byte pairs are, lowest rank first."""
    pieces = [bytes([byte]) for byte in range(256)]
    pieces += [b"he", b"ll", b"llo", b"hello", b" w", b"or", b" wor", b"ld", b" world"]
    lines = (b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(pieces))
    file = tmp_path / "ranks.tiktoken"
    file.write_bytes(b"".join(lines))
    tokenizer = Tokenizer(file)
    assert tokenizer.about == "tiktoken ranks, cut as cl100k_base, no chat template"
    rank = {token: number for number, token in enumerate(pieces)}
    for text, expected in (
        ("hello world", [rank[b"hello"], rank[b" world"]]),
        ("hell", [rank[b"he"], rank[b"ll"]]),
        ("é", [0xC3, 0xA9]),
        ("world", [0x77, rank[b"or"], rank[b"ld"]]),
    ):
        assert tokenizer.text(text) == expected
    file.write_text("not ranks\n")
    with pytest.raises(InputError, match=r"ranks\.tiktoken:1: neither a tokenizer\.json nor"):
        Tokenizer(file)


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages.__class__.__mro__ }}",
        "{% for i in range(10**9) %}x{% endfor %}",
        "{{ raise_exception('x') }}",
        "{{ messages[99].content.x.y }}",
        "{% set _ = messages.append(1) %}",
        "{% include '/etc/passwd' %}",
    ],
)
def test_a_template_stays_in_its_sandbox(tmp_path: Path, tokenizer: str, template: str) -> None:
    file = tmp_path / "t.jinja"
    file.write_text(template)
    log = write(tmp_path / "log", talk(0))
    with pytest.raises(InputError, match=r"log:1: the chat template refuses it \(\w+\)"):
        read(log, tokenizer=tokenizer, chat_template=str(file))
    # the other lines could be read, if a template took them
    with pytest.raises(InputError, match="no request that was answered"):
        read(log, tokenizer=tokenizer, chat_template=str(file), skip_bad=True)


def test_templates_that_cannot_be_read(tmp_path: Path, tokenizer: str) -> None:
    log = write(tmp_path / "log", talk(0))
    for text, name, message in (
        ("{% for %}", "t.jinja", r"t\.jinja:1: no chat template that Jinja can read"),
        ("{}", "t.json", r"t\.json: has no chat_template"),
        ("{", "t.json", r"t\.json: is no JSON"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=message):
            read(log, tokenizer=tokenizer, chat_template=str(tmp_path / name))
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(InputError, match=r"broken\.json: no tokenizer\.json"):
        read(log, tokenizer=str(tmp_path / "broken.json"))
    with pytest.raises(InputError, match="cannot be read"):
        read(log, tokenizer=str(tmp_path / "none"))
