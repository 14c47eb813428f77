"""Which stretch each key leads to: what a sequence would hit, and keys that come and go.

A look-up walks families (`alloc.stretches`): from the first key of each stretch of a sequence's
keys through the blocks that are found under it and the next, until one is missing.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from pagedsim.alloc.prefix_tables import Tables
from pagedsim.alloc.stretches import Family, Stretch, keys_of
from pagedsim.protocols import Sequence

_NO_KEY: Final = -1


class Hit:
    """What `seq` would hit when it knew `tokens`, and `content`: all keys, as `keys_of` has them.

    `blocks` in all: of each of `stretches` the first so many of `counts`.
    """

    __slots__ = ("blocks", "content", "counts", "seq", "stretches", "tokens")

    def __init__(self, seq: Sequence | None, tokens: int, content: list[tuple[int, int]]) -> None:
        self.seq, self.tokens, self.content = seq, tokens, content
        self.blocks = 0
        self.stretches: list[Stretch] = []
        self.counts: list[int] = []


NOBODYS: Final = Hit(None, 0, [])


@mypyc_attr(allow_interpreted_subclasses=True)
class Keys(Tables):
    """Tables, and by key the stretches that look-ups find."""

    def __init__(self, blocks: int, block: int, null: int) -> None:
        super().__init__(blocks, block, null)
        self._families: dict[int, Family] = {}  # by first key; none is empty
        self._keys = 0  # distinct keys that can be hit
        self._looked = NOBODYS  # the last look-up, as long as it would find the same
        self._looks = 0  # how many there were: the number of the last
        self._wanted = _NO_KEY  # the key that would make what it found longer

    def cached(self, seq: Sequence, /) -> int:
        """Tokens of the blocks that would be hit. O(its stretches); O(1) if asked again."""
        return self._hit(seq).blocks * self.block

    def keys_cached(self) -> int:
        """Distinct keys that can be hit."""
        return self._keys

    def _hit(self, seq: Sequence) -> Hit:
        """The look-up of `seq`, waiting with its known tokens."""
        hit, tokens = self._looked, seq.tokens
        if hit.seq is not seq or hit.tokens != tokens:
            hit = self._looked = self._look_up(seq, tokens)
        return hit

    def _look_up(self, seq: Sequence, tokens: int) -> Hit:
        """O(stretches). What would change what it found is noted.

        That is the one key that would go on where it ends (`_wanted`), and a stretch `seen` in it
        that is cut, joined, or loses blocks.
        """
        hit = Hit(seq, tokens, keys_of(seq, self.block))
        stretches, counts = hit.stretches, hit.counts
        self._looks = look = self._looks + 1
        self._wanted = _NO_KEY
        most = (tokens - 1) // self.block
        for key, count in hit.content:
            if hit.blocks == most:
                break
            start, end = key, key + min(count, most - hit.blocks)
            family = self._families.get(key)
            if family is not None:
                for stretch in family.found:
                    if stretch.key != key or key == end:
                        break
                    count = len(stretch.ids)
                    if count > end - key:
                        count = end - key
                    stretches.append(stretch)
                    counts.append(count)
                    key += count
                    stretch.seen = look
                hit.blocks += key - start
            if key < end:
                self._wanted = key
                break
        return hit

    def _share(self, hit: Hit) -> None:
        """One more holds what is hit, cut where it ends; what was free leaves the free list.

        O(stretches).
        """
        counts = hit.counts
        for at, stretch in enumerate(hit.stretches):
            count = counts[at]
            if count < len(stretch.ids):
                self._cut(stretch, count)
            if stretch.holders:
                self._shared += count
            else:
                self._free.remove(stretch)
                self._cached -= count
            stretch.holders += 1

    def _cut(self, stretch: Stretch, count: int) -> Stretch:
        """`stretch` keeps its first `count` blocks; returned is one of the others.

        It stands where they stood: in the tables, on the free list, in the family.
        """
        family = stretch.family
        assert family is not None
        rest = Stretch(stretch.ids[count:], stretch.key + count, family)
        del stretch.ids[count:]
        rest.holders, rest.first = stretch.holders, stretch.first
        rest.rest, stretch.rest = stretch.rest, rest
        if not stretch.holders:
            self._free.put_before(stretch, rest)
        family.part(stretch, rest)
        if stretch.seen == self._looks:
            self._looked = NOBODYS
        return rest

    def _join(self, stretch: Stretch, rest: Stretch) -> bool:
        """If `rest` goes on in `stretch`, make one of them, and whether it did.

        Nobody holds either any more, and neither is on the free list yet.
        """
        family = stretch.family
        if stretch.end != rest.key or not (stretch.first and rest.first):
            return False
        assert family is not None
        assert family is rest.family
        if self._looks in (stretch.seen, rest.seen):
            self._looked = NOBODYS
        family.drop(rest)
        stretch.ids += rest.ids
        return True

    def _lose(self, stretch: Stretch, count: int) -> None:
        """The last `count` blocks of `stretch` are about to leave it: their keys are dropped.

        Look-ups find the next ones under them.
        """
        family = stretch.family
        assert family is not None
        if stretch.seen == self._looks:
            self._looked = NOBODYS
        if count == len(stretch.ids):
            family.drop(stretch)
        if stretch.first:
            self._keys -= count
            if family.others:
                self._find_next(family, stretch.end - count, stretch.end)
        if not family.found and not family.others:
            del self._families[family.key]

    def _find_next(self, family: Family, start: int, end: int) -> None:
        """Under the keys ``start : end`` look-ups find who of `others` got them first."""
        missing = [(start, end)]
        for other in family.others[:]:
            if missing:
                missing = self._find_in(other, missing)

    def _find_in(self, other: Stretch, missing: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Look-ups find what `other` has of `missing`, ranges of keys in order; what is left."""
        family, part = other.family, other
        assert family is not None
        still: list[tuple[int, int]] = []
        for start, end in missing:
            low, high = max(start, part.key), min(end, part.end)
            if low >= high or part.first:
                still.append((start, end))
                continue
            if part.key < low:
                part = self._cut(part, low - part.key)
            rest = self._cut(part, high - low) if high < part.end else part
            family.drop(part)
            part.first = True
            family.add(part)
            self._keys += high - low
            if start < low:
                still.append((start, low))
            if high < end:
                still.append((high, end))
            part = rest
        return still


__all__ = ["NOBODYS", "Hit", "Keys"]
