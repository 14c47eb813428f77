"""What prompts hold, as hashes of blocks: salted, chained, 64 bits, and no way back to the text.

The hash of a block is that of all before it and its own tokens, with a salt that is drawn for one
run and never kept. Two blocks are taken for equal where their hashes are: among n blocks that is
wrong with a probability of about n² / 2^65 (10^-5 for 16 million blocks). In a trace stand only
dense numbers in order of first appearance, so equal logs give equal bytes whatever the salt.

Without a tokenizer a block is a fixed number of UTF-8 bytes, `ratio` bytes a token.
"""

from __future__ import annotations

import hashlib
import secrets
from array import array
from collections.abc import Sequence

from pagedsim.trace.logs.record import Record, message_text, plain_json

RATIO = 4.0  # bytes a token where a log says nothing: a rule of thumb for English text


class Hasher:
    """Chained block hashes with one salt."""

    def __init__(self, block: int) -> None:
        self.block = block
        self._salt = secrets.token_bytes(16)

    def words(self, ids: Sequence[int], out: array[int]) -> int:
        """Append the hashes of blocks of token ids, the last one partial; returns how many."""
        return self._pieces(array("q", ids).tobytes(), 8 * self.block, out)

    def letters(self, text: bytes, ratio: float, out: array[int]) -> int:
        """The same for blocks of about `block` tokens of text."""
        return self._pieces(text, max(1, round(self.block * ratio)), out)

    def names(self, ids: Sequence[object], out: array[int]) -> int:
        """The same for blocks that have names of their own, each with all before it."""
        for name in ids:
            out.append(self.number(b"name" + repr(name).encode()))
        return len(ids)

    def word_tail(self, before: int | None, ids: Sequence[int]) -> int:
        """The hash of one block of token ids, given that of the block before it."""
        chain = b"" if before is None else before.to_bytes(8, "little")
        return self.number(chain + array("q", ids).tobytes())

    def number(self, data: bytes) -> int:
        """64 bits that stand for `data`."""
        return int.from_bytes(
            hashlib.blake2b(data, digest_size=8, key=self._salt).digest(), "little"
        )

    def _pieces(self, data: bytes, size: int, out: array[int]) -> int:
        salt, chain, new = self._salt, b"", hashlib.blake2b
        for at in range(0, len(data), size):
            chain = new(chain + data[at : at + size], digest_size=8, key=salt).digest()
            out.append(int.from_bytes(chain, "little"))
        return -(-len(data) // size)


def letters(record: Record) -> bytes:
    """A prompt's text as bytes, with marks where a message starts."""
    if record.messages is None:
        return (record.text or "").encode("utf-8", "replace")
    parts = [plain_json(record.tools)] if record.tools else []
    parts += [f"\x02{m.get('role')}\x03{message_text(m)}" for m in record.messages]
    return "".join(parts).encode("utf-8", "replace")


def heard(record: Record, hasher: Hasher) -> list[int]:
    """A number for each run of first messages of a chat: entry j stands for the first j."""
    assert record.messages is not None
    tools = plain_json(record.tools).encode() if record.tools else b""
    found = [hasher.number(b"start" + tools)]
    for message in record.messages:
        said = f"{message.get('role')}\x00{message_text(message)}".encode("utf-8", "replace")
        found.append(hasher.number(found[-1].to_bytes(8, "little") + said))
    return found


__all__ = ["RATIO", "Hasher", "heard", "letters"]
