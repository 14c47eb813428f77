"""No text of a log appears anywhere: planted secrets, every format, every way to fail."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers
from typer.testing import CliRunner

from pagedsim.cli import app
from tests.trace.log_cases import SECRET, chat, logs, talk, write

PARTS = (SECRET, "xyzzy", "plugh", SECRET[::-1], SECRET.encode().hex())


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
