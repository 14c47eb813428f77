"""A prompt's tokens by a tokenizer of the user's: ``tokenizer.json``, or a tiktoken file.

Chat messages go through the model's chat template, in Jinja's sandbox: no attribute that starts
with an underscore, no import, no file. Neither library's message is repeated, for it may hold text.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pagedsim.errors import InputError, SpecError
from pagedsim.trace.logs.record import BadRecord, Record, message_text

_INSTALL = (
    "needs the libraries of pagedsim[text]: pip install 'pagedsim[text]', or '.[text]' in a clone"
)
# how tiktoken's cl100k_base cuts text before it merges bytes
_CUTS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Tokenizer:
    """Token ids of text and of chat messages. `about` says what it is, in words without paths."""

    def __init__(self, file: str | Path, template: str | Path | None = None) -> None:
        path = Path(file)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror}") from None
        self._encode: Any
        if data.lstrip()[:1] == b"{":
            self._encode, kind = _of_json(data, path), "tokenizer.json"
        else:
            self._encode, kind = _of_ranks(data, path), "tiktoken ranks, cut as cl100k_base"
        found = template or _beside(path)
        self._template = None if found is None else _template(Path(found))
        self.about = f"{kind}, {'chat template' if self._template else 'no chat template'}"

    def text(self, text: str) -> list[int]:
        """Ids of a text as it stands."""
        return list(self._encode.encode(_whole(text), add_special_tokens=False).ids)

    def prompt(self, record: Record) -> list[int]:
        """Ids of what a model reads of a request. BadRecord if the template refuses it."""
        if record.messages is None:
            assert record.text is not None
            return list(self._encode.encode(_whole(record.text)).ids)
        if self._template is None:
            parts = [f"{m.get('role')}\n{message_text(m)}\n" for m in record.messages]
            return self.text("".join(parts))
        try:
            shown = self._template.render(
                messages=record.messages, tools=record.tools, add_generation_prompt=True
            )
        except Exception as error:  # of Jinja, or of what a template does with the messages
            raise BadRecord(f"the chat template refuses it ({type(error).__name__})") from None
        return self.text(shown)


def _whole(text: str) -> str:
    """A text that can be UTF-8: half a surrogate pair, which JSON may hold, becomes a mark."""
    return text.encode("utf-8", "replace").decode()


def _of_json(data: bytes, path: Path) -> Any:
    try:
        from tokenizers import Tokenizer as Library
    except ImportError:
        raise SpecError(f"--tokenizer {_INSTALL}") from None
    try:
        return Library.from_str(data.decode())
    except Exception as error:  # the library raises bare Exception
        raise InputError(f"{path}: no tokenizer.json ({type(error).__name__})") from None


def _of_ranks(data: bytes, path: Path) -> Any:
    """A tiktoken file: a token in base64 and its rank, a line each."""
    try:
        from tokenizers import Regex, models, pre_tokenizers
        from tokenizers import Tokenizer as Library
    except ImportError:
        raise SpecError(f"--tokenizer {_INSTALL}") from None
    ranks = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error):
            raise InputError(
                f"{path}:{number}: neither a tokenizer.json nor a tiktoken file (base64, rank)"
            ) from None
    letters = _letters()
    spelt = {token: "".join(letters[byte] for byte in token) for token in ranks}
    merges = [
        (spelt[left], spelt[right])
        for token, rank in sorted(ranks.items(), key=lambda item: item[1])
        if len(token) > 1
        for left, right in _halves(token, rank, ranks)
    ]
    vocabulary = {spelt[token]: rank for token, rank in ranks.items()}
    found = Library(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    found.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_CUTS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return found


def _halves(token: bytes, rank: int, ranks: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    """The merge that makes a token: its two parts when all merges of lower rank are done."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        pairs = [(ranks.get(a + b, rank), i) for i, (a, b) in enumerate(itertools.pairwise(parts))]
        lowest, at = min(pairs)
        if lowest >= rank:
            return []
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    known = all(part in ranks for part in parts)
    return [(parts[0], parts[1])] if known and len(parts) == 2 else []


def _letters() -> list[str]:
    """A printable letter for each byte, as byte-level vocabularies spell them."""
    plain = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def _beside(path: Path) -> Path | None:
    """A chat template that lies beside the tokenizer."""
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        there = path.parent / name
        if there.is_file() and (name.endswith(".jinja") or b"chat_template" in there.read_bytes()):
            return there
    return None


def _template(path: Path) -> Any:
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise SpecError(f"--chat-template {_INSTALL}") from None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path}: cannot be read as text") from None
    constants: dict[str, Any] = {}
    if path.suffix == ".json":
        text, constants = _configured(text, path)
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(
        value, ensure_ascii=False, indent=indent
    )

    def refuse(_message: str) -> None:
        raise TemplateError

    # a template that asks for today gets a day that does not change
    day = datetime(2026, 1, 1, tzinfo=UTC)
    known = {"raise_exception": refuse, "strftime_now": day.strftime, **constants}
    try:
        return environment.from_string(text, globals=known)
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        where = f"{path}:{line}" if line else str(path)
        raise InputError(f"{where}: no chat template that Jinja can read") from None


def _configured(text: str, path: Path) -> tuple[str, dict[str, Any]]:
    """The template and the special tokens of a ``tokenizer_config.json``."""
    try:
        values = json.loads(text)
    except ValueError:
        raise InputError(f"{path}: is no JSON") from None
    template = values.get("chat_template") if isinstance(values, dict) else None
    if isinstance(template, list):  # several, by name
        named = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
        template = named.get("default")
    if not isinstance(template, str):
        raise InputError(f"{path}: has no chat_template")
    constants = {}
    for key, value in values.items():
        if key.endswith("_token"):
            constants[key] = value.get("content") if isinstance(value, dict) else value
    return template, constants


__all__ = ["Tokenizer"]
