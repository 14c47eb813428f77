"""No text of a log appears anywhere: planted secrets, every format, every way to fail."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers
from typer.testing import CliRunner

from pagedsim.cli import app
from tests.trace.log_cases import chat, talk, write

SECRET = "xyzzy-plugh-4711"
PARTS = (SECRET, "xyzzy", "plugh", SECRET[::-1], SECRET.encode().hex())


def secret(value: Any) -> Any:
    """The same value with a secret in each of its texts, and one more key."""
    if isinstance(value, str):
        return f"{SECRET} {value} {SECRET}"
    if isinstance(value, list):
        return [secret(entry) for entry in value]
    if isinstance(value, dict):
        kept = ("role", "from", "type", "created", "time")
        return {k: v if k in kept else secret(v) for k, v in value.items()}
    return value


def logs() -> Iterator[tuple[str, list[Any]]]:
    """A log of each format, full of secrets."""
    plain = [{**secret(line), "user": SECRET, SECRET: SECRET} for line in talk(0)]
    yield "chat", plain
    yield "batch", [{"custom_id": f"{SECRET}{i}", "body": line} for i, line in enumerate(plain)]
    yield "prompts", [{"prompt": SECRET * 5, "completion": SECRET, "session_id": SECRET}]
    turns = [{"from": "human", "value": SECRET}, {"from": "gpt", "value": SECRET * 2}]
    yield "talks", [{"id": SECRET, "conversations": turns}]
    attributes = {
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.input.messages": json.dumps([{"role": "user", "content": SECRET}]),
        "gen_ai.conversation.id": SECRET,
        SECRET: SECRET,
    }
    yield "spans", [{"name": SECRET, "start_time": 5, "attributes": attributes}]
    yield (
        "bench",
        [{"input_lens": [3], "output_lens": [2], "generated_texts": [SECRET], "errors": [""]}],
    )
    yield "ids", [{"timestamp": 1, "input_length": 9, "output_length": 2, "hash_ids": [SECRET]}]
    # and what fails, each in a way of its own
    yield "key", [{SECRET: SECRET}]
    yield "role", [{"conversations": [{"from": SECRET, "value": SECRET}]}]
    yield "time", [{**plain[0], "created": SECRET}]
    yield "count", [{**plain[0], "usage": {"prompt_tokens": SECRET}, "prompt_tokens": 1e300}]
    yield "messages", [{"messages": [SECRET], "prompt_tokens": 2}]
    yield "failed", [{**plain[0], "error": {"message": SECRET}}]
    yield "nothing", [SECRET, [SECRET]]
    yield "template", [chat(1, [{"role": SECRET, "content": SECRET}], SECRET)]
    bench = {"input_lens": [SECRET], "output_lens": [SECRET], "start_times": [SECRET]}
    yield "bench that fails", [bench]
    yield "span that fails", [{"attributes": {"gen_ai.usage.input_tokens": SECRET}}]


TEXTS = {
    "broken": f'{{"messages": "{SECRET}", "usage": {{\n{SECRET}\n',
    "broken array": f'[{{"conversations": [{{"from": "human", "value": "{SECRET}"',
    "sheet": f"prompt,output\n{SECRET},{SECRET}\n",
    "sheet without a header": f"{SECRET},{SECRET}\n{SECRET},1\n",
    "sheet with a bad row": f"input_tokens,output_tokens\n{SECRET},{SECRET}\n1,{SECRET},3\n",
    "sheet with a time": f'input_tokens,output_tokens,time\n1,2,"{SECRET}\n',
    "no text": f"\xff\xfe{SECRET}",
    "words": SECRET,
}


@pytest.fixture
def tokenizer(tmp_path: Path) -> list[str]:
    """Options for a tokenizer that knows the secret, and a template that tells it on refusal."""
    words = ["?", SECRET, "xyzzy", "plugh"]
    library = Library(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="?"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.save(str(tmp_path / "tokenizer.json"))
    template = tmp_path / "chat.jinja"
    template.write_text(
        "{% for m in messages %}{% if m.role not in ['user', 'system', 'assistant'] %}"
        "{{ raise_exception('bad role ' + m.role + m.content) }}{% endif %}{{ m.content }} "
        "{% endfor %}"
    )
    return ["--tokenizer", str(tmp_path / "tokenizer.json"), "--chat-template", str(template)]


def hidden(data: bytes) -> None:
    for part in PARTS:
        assert part.encode() not in data
        assert part.encode("utf-16-le") not in data


def run(folder: Path, log: str, *options: str) -> int:
    """Run the command; everything it wrote must hide the secret. Returns its exit code."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    before = set(folder.rglob("*"))
    out, facts = work / "out.jsonl", work / "facts.json"
    words = ["trace", "from", log, "--out", str(out), "--json", str(facts), *options]
    environment = {"PAGEDSIM_CACHE": str(folder / "cache"), "HOME": str(folder), "COLUMNS": "80"}
    result = CliRunner(env=environment).invoke(app, words)
    assert result.exit_code in (0, 2)
    hidden(result.output.encode())
    hidden(result.stderr.encode())
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    for path in set(folder.rglob("*")) - before:
        if path.is_file():
            hidden(path.read_bytes())
            path.unlink()
    return int(result.exit_code)


def test_no_text_of_a_log_is_told(tmp_path: Path, tokenizer: list[str]) -> None:
    codes = []
    for number, (name, values) in enumerate(logs()):
        log = write(tmp_path / f"{number}.jsonl", values)
        ways = ([], ["--skip-bad"], tokenizer, [*tokenizer, "--skip-bad"])
        codes += [(name, run(tmp_path, log, *options)) for options in ways]
    for number, text in enumerate(TEXTS.values()):
        file = tmp_path / f"text-{number}"
        file.write_bytes(text.encode("latin-1"))
        codes += [("text", run(tmp_path, str(file), *way)) for way in ([], ["--skip-bad"])]
    read = {name for name, code in codes if code == 0}
    assert read >= {"chat", "prompts", "talks", "spans", "bench", "ids"}
    assert {name for name, code in codes if code == 2} >= {"key", "role", "time", "template"}


def test_the_test_would_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a reader that says what it saw, the check above fails."""
    from pagedsim.trace.logs import objects
    from pagedsim.trace.logs.record import BadRecord

    def tells(name: str, value: Any, unit: str | None = None) -> int:
        raise BadRecord(f"{name} is {value}")

    monkeypatch.setattr(objects, "moment", tells)
    log = write(tmp_path / "log", [{**talk(0)[0], "created": SECRET}])
    with pytest.raises(AssertionError):
        run(tmp_path, log)


def test_what_is_kept_has_no_way_back(tmp_path: Path) -> None:
    """Ids are numbers in order of first appearance: they say nothing of what they stand for."""
    from pagedsim.trace import own
    from tests.trace.log_cases import read

    one = [chat(i, [{"role": "user", "content": f"{w} " * 40}], "a") for i, w in enumerate("ab")]
    two = [chat(i, [{"role": "user", "content": f"{w} " * 40}], "a") for i, w in enumerate("xy")]
    first = own.dump(read(write(tmp_path / "l", one)).trace)
    assert first == own.dump(read(write(tmp_path / "l", two)).trace)
    assert not any("xyzzy" in text for text in os.listdir(tmp_path))
