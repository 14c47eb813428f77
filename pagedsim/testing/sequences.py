"""Sequences whose content is written out token by token, as an engine would show them.

A `Library` gives every prefix a number, so that two are equal if, and only if, the tokens are,
under the same salt. That is what the KV of a prefix's last token depends on. The numbers come from
one dictionary of (number of the prefix before, token), and share nothing with `trace.content`.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import numpy as np
from hypothesis import strategies as st

from pagedsim.protocols import Int64

MOST = 64  # tokens of a drawn sequence, whatever an allocator of small blocks could hold


class Library:
    """Numbers of prefixes, from 0 up; one library a history, so that a history repeats exactly."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}

    def prefixes(self, salt: int, content: SequenceOf[int]) -> list[int]:
        """The number of each prefix of `content`, the one of one token first."""
        at, found = -1 - salt, []
        for token in content:
            at = self._numbers.setdefault((at, token), len(self._numbers))
            found.append(at)
        return found


class Seq:
    """A `Foreseen` sequence. Who drives it moves `tokens` and `computed`, as an engine does."""

    def __init__(
        self, id: int, prompt: int, content: SequenceOf[int], library: Library, *, salt: int = 0
    ) -> None:
        self.id, self.prompt, self.salt = id, prompt, salt
        self.content = tuple(content)
        self.output = len(content) - prompt
        self.tokens = prompt
        self.computed = self.arrival_ns = self.priority = 0
        self.prefixes = library.prefixes(salt, content)
        self._runs = _runs(self.content)

    def __repr__(self) -> str:
        return name(self.id)

    @property
    def final(self) -> int:
        """Tokens stored at its largest: the last one's KV never is."""
        return len(self.content) - 1

    @property
    def done(self) -> bool:
        """Whether all its tokens are known."""
        return self.tokens == len(self.content)

    def runs(self) -> list[tuple[int, int]]:
        """Longest runs of rising ids."""
        return self._runs

    def keys(self, block: int, /) -> Int64:
        """A block's key is the number of the prefix that it ends."""
        return np.array(self.prefixes[block - 1 :: block], np.int64)

    def store(self, tokens: int) -> None:
        """A step is over in which all up to `tokens` was computed; a complete cache yields one."""
        self.computed = tokens
        if tokens == self.tokens and not self.done:
            self.tokens += 1


def sequence(id: int, prompt: int, output: int) -> Seq:
    """A sequence of content that no other has."""
    first = 1000 * (id + 1)
    return Seq(id, prompt, range(first, first + prompt + output), Library())


def name(id: int) -> str:
    """a, b, …, z, a1, …"""
    letter = "abcdefghijklmnopqrstuvwxyz"[id % 26]
    return f"{letter}{id // 26}" if id >= 26 else letter


def _runs(content: tuple[int, ...]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for token in content:
        if runs and token == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((token, 1))
    return runs


# How a sequence is: which bound, how long in all, its prompt, whom it begins like, how far, salted.
Shape = tuple[int, int, int, int, int, int]
_ANY = st.integers(0, MOST - 1)
SHAPES: st.SearchStrategy[Shape] = st.tuples(
    st.integers(0, 2), _ANY, _ANY, st.integers(0, 5), _ANY, st.integers(0, 3)
)


def shaped(
    shape: Shape,
    longest: int,
    library: Library,
    id: int = 0,
    earlier: SequenceOf[Seq] = (),
    *,
    most: int = MOST,
) -> Seq:
    """A sequence of at most `longest` and `most` stored tokens; it may begin as an `earlier` one.

    Mostly short ones, so that many are held at once; but where blocks are so large that `most` is
    more than usual, mostly long ones, so that they have several. Any shape will do: its numbers are
    taken modulo what there is to choose from.
    """
    kind, long, begins, whose, far, salted = shape
    longest = min(longest, most)
    long, begins, far = (stretched(number, most) for number in (long, begins, far))
    parts = (5, 2, 1) if most == MOST else (2, 1, 1)
    final = 1 + long % max(1, longest // parts[kind])
    prompt = 1 + begins % final
    fresh = range(1000 * (id + 1), 1000 * (id + 1) + final + 1)
    if not 0 < whose <= len(earlier):
        return Seq(id, prompt, fresh, library)
    origin = earlier[-whose]
    both = min(final + 1, len(origin.content))
    kept = both if far >= most // 2 else far % (both + 1)
    salt = 1 if salted == 3 else origin.salt
    return Seq(id, prompt, (*origin.content[:kept], *fresh[kept:]), library, salt=salt)


def stretched(number: int, most: int) -> int:
    """A number below `MOST` as one of up to `most`, so that it and its neighbours are met."""
    return number if most == MOST else max(0, number * most // MOST + number % 3 - 1)


def sequences(
    longest: int, library: Library, id: int = 0, earlier: SequenceOf[Seq] = ()
) -> st.SearchStrategy[Seq]:
    """Sequences of at most `longest` stored tokens; `shaped` says how they are."""
    return SHAPES.map(lambda shape: shaped(shape, longest, library, id, earlier))


def described(seq: Seq, earlier: SequenceOf[Seq] = ()) -> str:
    """Its lengths, and what it has in common with those before it."""
    said = f"{seq}: a prompt of {seq.prompt}, an output of {seq.output}"
    alike = [(_common(seq, other), -at) for at, other in enumerate(earlier)]
    if alike and max(alike)[0]:
        same, at = max(alike)
        said += f"; its first {same} tokens are those of {earlier[-at]}"
    return said + (f"; salt {seq.salt}" if seq.salt else "")


def _common(one: Seq, other: Seq) -> int:
    pairs = zip(one.prefixes, other.prefixes, strict=False)
    return sum(mine == theirs for mine, theirs in pairs)


__all__ = [
    "MOST",
    "SHAPES",
    "Library",
    "Seq",
    "Shape",
    "described",
    "name",
    "sequence",
    "sequences",
    "shaped",
    "stretched",
]
