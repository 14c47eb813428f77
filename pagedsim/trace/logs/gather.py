"""Records to columns, one by one; text is hashed or counted as it comes, and let go.

What is kept of a request is a few numbers and 8 bytes a block. A conversation is told by its
messages: a request whose first messages are those of an earlier one, followed by an answer, is
the turn after that one. Without a tokenizer such a turn holds the earlier prompt and answer by
their lengths, and only where a conversation starts is a prompt compared by its text.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

from pagedsim.trace.logs.blocks import RATIO, Hasher, heard, letters
from pagedsim.trace.logs.record import BadRecord, Record, message_text
from pagedsim.trace.logs.tokens import Tokenizer

NONE, EXACT, LETTERS, NEXT_TURN, SAME, NAMED = range(6)  # how a row's content is known
_ENOUGH = 200  # records with a text and its tokens, to learn bytes a token from
_MOST_RECORDS, _MOST_BYTES = 2000, 1 << 24  # that wait for that
_COLUMNS = ("time", "end", "prompt", "output", "samples", "session", "parent", "base")
_CONTENT = ("kind", "keeps", "at", "blocks", "own")


class Answer(NamedTuple):
    """An answer as numbers, for the time until its request comes."""

    output: int
    samples: int
    reply: int
    failed: bool
    prompt_tokens: int | None
    time_ns: int | None


class Gatherer:
    """Rows of a trace to be. `add` raises BadRecord, with nothing changed, where one lacks a part.

    Columns are int64 with -1 for unknown: `time`, `end` in ns; `base`, the row whose prompt and
    answer this prompt goes on from, and whether it `keeps` that answer; `own` tokens of the
    content, which starts at `at` of `hashes` and has so many `blocks`.
    """

    def __init__(self, *, block: int = 16, tokenizer: Tokenizer | None = None) -> None:
        self.block, self.tokenizer, self.hasher = block, tokenizer, Hasher(block)
        for name in (*_COLUMNS, *_CONTENT):
            setattr(self, name, array("q"))
        self.dropped = bytearray()
        self.hashes: array[int] = array("Q")
        self.replies: array[int] = array("Q")
        self.ratio: float | None = None  # bytes a token, once it is known
        self.off = array("d")  # estimated or own count of tokens over the log's
        self.duplicates = self.failed = self.estimated_outputs = 0
        self.waiting: list[Record] = []
        self._bytes = self._counted = 0
        self._seen: dict[int, int] = {}
        self._asked: dict[int, int] = {}  # rows without an answer yet, by key
        self.unasked: dict[int, Answer] = {}  # answers without a request yet
        self._sessions: dict[int, int] = {}
        self._once: set[int] = set()

    time: array[int]
    end: array[int]
    prompt: array[int]
    output: array[int]
    samples: array[int]
    session: array[int]
    parent: array[int]
    base: array[int]
    kind: array[int]
    keeps: array[int]
    at: array[int]
    blocks: array[int]
    own: array[int]

    def __len__(self) -> int:
        return len(self.time)

    def add(self, record: Record) -> None:
        """Take one record. BadRecord where its lengths cannot be told."""
        _check(record)
        texts = record.messages is not None or record.text is not None or record.reply is not None
        if self.tokenizer is None and self.ratio is None and texts:
            self.waiting.append(record)
            size = len(letters(record)) if record.messages or record.text else 0
            self._bytes += size
            self._counted += bool(size and record.prompt_tokens)
            full = len(self.waiting) >= _MOST_RECORDS or self._bytes >= _MOST_BYTES
            if full or self._counted >= _ENOUGH:
                self.flush()
            return
        self._store(record)

    def flush(self) -> None:
        """Learn bytes a token from what has waited for that, and store it."""
        if self.ratio is None:
            known = sorted(
                len(letters(r)) / r.prompt_tokens
                for r in self.waiting
                if r.prompt_tokens and (r.messages or r.text)
            )
            self.ratio = known[len(known) // 2] or RATIO if known else RATIO
        waiting, self.waiting = self.waiting, []
        for record in waiting:
            self._store(record)

    def _store(self, record: Record) -> None:
        if record.half:
            assert record.key is not None
            number = self.hasher.number(b"key" + record.key.encode("utf-8", "replace"))
            if record.half == "answer":
                self._answered(number, record)
                return
            self._row(record, dropped=0)
            self._asked[number] = len(self) - 1
            if number in self.unasked:
                self._complete(self._asked.pop(number), self.unasked.pop(number))
            return
        elif self._again(record):
            self.duplicates += 1
            self._row(record, dropped=2)
            return
        self._row(record, dropped=int(record.failed))
        self.failed += record.failed

    def _row(self, record: Record, dropped: int) -> None:
        """A new row; content first, for a template may refuse it."""
        row = len(self)
        content = self._content(record, row, dropped == 2)
        end = record.end_ns
        if end is None and record.time_ns is not None and record.duration_ns is not None:
            end = record.time_ns + record.duration_ns
        output, samples = self._output(record)
        self.time.append(-1 if record.time_ns is None else record.time_ns)
        self.end.append(-1 if end is None else end)
        self.output.append(output)
        self.samples.append(samples)
        self.session.append(self._session(record))
        self.parent.append(-1)
        self.replies.append(self._reply(record))
        self.dropped.append(dropped)
        self.prompt.append(-1)
        for name in _CONTENT:
            getattr(self, name).append(0)
        self.base.append(-1)
        for name, value in content.items():
            getattr(self, name)[row] = value

    def _answered(self, number: int, record: Record) -> None:
        """An answer whose request stands elsewhere: to its row, or kept until that comes."""
        output, samples = self._output(record)
        answer = Answer(
            output,
            samples,
            self._reply(record),
            record.failed,
            record.prompt_tokens,
            record.time_ns,
        )
        if number in self._asked:
            self._complete(self._asked.pop(number), answer)
        else:
            self.unasked[number] = answer

    def _complete(self, row: int, answer: Answer) -> None:
        self.output[row], self.samples[row] = answer.output, answer.samples
        self.replies[row] = answer.reply
        self.dropped[row] = int(answer.failed)
        self.failed += answer.failed
        if answer.prompt_tokens:
            self.prompt[row] = answer.prompt_tokens
        if self.time[row] < 0 and answer.time_ns is not None:
            self.time[row] = answer.time_ns

    def _content(self, record: Record, row: int, copy: bool) -> dict[str, int]:
        """A row's prompt and content: `kind`, `own`, `at`, `blocks`, `base`, `keeps`."""
        tokens = record.prompt_tokens or 0
        found = {"prompt": tokens, "at": len(self.hashes), "base": -1, "keeps": 0, "blocks": 0}
        if record.hash_ids is not None:
            blocks = self.hasher.names(record.hash_ids, self.hashes)
            return {**found, "kind": NAMED if blocks else NONE, "own": tokens, "blocks": blocks}
        ids = record.ids
        asked = record.messages is not None or record.text is not None
        if ids is None and asked and self.tokenizer is not None:
            ids = self.tokenizer.prompt(record)
        numbers = heard(record, self.hasher) if record.messages is not None else None
        if ids is not None:
            if not ids and not tokens:
                raise BadRecord("the prompt has no tokens")
            if tokens:
                self.off.append(len(ids) / tokens)
            blocks = self.hasher.words(ids, self.hashes)
            found |= {"kind": EXACT, "own": len(ids), "blocks": blocks}
            found["prompt"] = tokens or len(ids)
            if numbers is not None:
                found |= self._goes_on(record, numbers, row)
                if found["base"] >= 0 and not self._holds(found, ids):
                    found["keeps"] = 0
        elif asked:
            found |= self._by_letters(record, numbers, tokens, row)
        else:
            found |= {"kind": NONE, "own": 0}
        if numbers is not None and not copy:
            self._seen[numbers[-1]] = row
        return found

    def _by_letters(
        self, record: Record, numbers: list[int] | None, tokens: int, row: int
    ) -> dict[str, int]:
        assert self.ratio is not None
        text = letters(record)
        own = -(-len(text) // self.ratio)
        if tokens and text:
            self.off.append(own / tokens)
        found = {"prompt": tokens or max(1, int(own)), "own": int(own)}
        if numbers is not None:
            same = self._seen.get(numbers[-1])
            if same is not None and same < row:
                return {**found, "kind": SAME, "base": same}
            before = self._goes_on(record, numbers, row)
            if before["base"] >= 0:
                return {**found, **before, "kind": NEXT_TURN}
        blocks = self.hasher.letters(text, self.ratio, self.hashes)
        return {**found, "kind": LETTERS, "blocks": blocks}

    def _goes_on(self, record: Record, numbers: list[int], row: int) -> dict[str, int]:
        """The latest row whose messages these go on from, and whether its answer stands in them."""
        assert record.messages is not None
        for j in range(len(record.messages) - 1, 0, -1):
            message = record.messages[j]
            base = self._seen.get(numbers[j], row)
            if message.get("role") != "assistant" or base >= row:
                continue
            said = self._said(message_text(message))
            return {"base": base, "keeps": int(self.replies[base] in (0, said))}
        return {"base": -1, "keeps": 0}

    def _holds(self, found: dict[str, int], ids: list[int]) -> bool:
        """Whether the base's prompt, as tokens, is the start of these, and its answer within."""
        base, size = found["base"], self.block
        length = self.prompt[base]
        whole, rest = divmod(length, size)
        if self.kind[base] != EXACT or self.blocks[base] != -(-length // size):
            return False
        if self.output[base] < 1 or length + self.output[base] > len(ids):
            return False
        last = self.hashes[self.at[base] + self.blocks[base] - 1]
        before = self.hashes[found["at"] + whole - 1] if whole else None
        if not rest:
            return before == last
        return self.hasher.word_tail(before, ids[whole * size : length]) == last

    def _output(self, record: Record) -> tuple[int, int]:
        """Tokens of one answer, and how many answers."""
        samples = max(1, record.samples)
        if record.output_tokens is not None:
            return max(int(record.output_tokens > 0), record.output_tokens // samples), samples
        if not record.reply:
            return (0 if record.failed or record.reply == "" else -1), samples
        if self.tokenizer is not None:
            return max(1, len(self.tokenizer.text(record.reply))), samples
        self.estimated_outputs += 1
        size = len(record.reply.encode("utf-8", "replace"))
        return max(1, int(-(-size // (self.ratio or RATIO)))), samples

    def _session(self, record: Record) -> int:
        name = record.session
        if name is None and record.messages is None and record.text is None:
            name = record.user
        if name is None:
            return -1
        number = self.hasher.number(b"session" + name.encode("utf-8", "replace"))
        return self._sessions.setdefault(number, len(self._sessions))

    def _reply(self, record: Record) -> int:
        return self._said(record.reply) if record.reply else 0

    def _said(self, text: str) -> int:
        return self.hasher.number(b"said" + text.strip().encode("utf-8", "replace"))

    def _again(self, record: Record) -> bool:
        """Whether the same request was there before: its id, or its time, lengths and text."""
        if record.key is None and record.time_ns is None:
            return False
        what: tuple[Any, ...] = (record.key, record.time_ns, record.prompt_tokens)
        what = (*what, record.output_tokens, record.hash_ids, record.session, record.ids)
        number = self.hasher.number(repr(what).encode("utf-8", "replace") + letters(record))
        if number in self._once:
            return True
        self._once.add(number)
        return False


def _check(record: Record) -> None:
    """BadRecord where a length is unknown."""
    asked = record.messages is not None or record.text is not None or record.ids is not None
    if record.half != "answer" and not asked and record.prompt_tokens is None:
        raise BadRecord("says neither how long the prompt is nor what it says (prompt_tokens)")
    answered = record.output_tokens is not None or record.reply is not None
    if record.half != "request" and not answered and not record.failed:
        raise BadRecord("says neither how long the answer is nor what it says (output_tokens)")
    if record.half == "answer" or record.failed or record.output_tokens == 0:
        return
    if record.prompt_tokens == 0:
        raise BadRecord("the prompt has 0 tokens, must be >= 1")
    if record.prompt_tokens is None and not (record.messages or record.text or record.ids):
        raise BadRecord("the prompt is empty")


__all__ = ["EXACT", "LETTERS", "NAMED", "NEXT_TURN", "NONE", "SAME", "Gatherer"]
