"""Stretches: blocks of a prefix cache that have one fate, so that nobody need look at each.

The keys of a stretch count up by one, the same tables list it, and on the free list it stands as
one. Where tables part, or a hit ends inside it, a stretch is cut in two; where the table that is
given back was the last to list two that go on in each other, they are joined::

    table      | a a a a a | b b b |  not full      its free list, once it is given back:
    keys         7 8 9 10 11  40 41 42                front   ... b b b a a a a a   back
    family       from 7      from 40                              42 ...       7

Blocks leave a stretch from its end, for the free list has a table's last block first. A *family* is
all stretches whose keys count up from one first key: what follows a key in a prompt is either the
key after it, whoever holds it, or starts a family.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from operator import attrgetter

import numpy as np

from pagedsim.protocols import Sequence

_KEY = attrgetter("key")


class Stretch:
    """Blocks `ids` in order of position, with the keys from `key` on; no `family`, no keys.

    `holders`: tables that list it; 0 if it is free. `first`: whether look-ups find it, for of equal
    content they find what got its keys first. `rest`: what was cut off its end, and stands behind
    it in all tables that list it. `seen`: the number of the last look-up that found it.
    """

    __slots__ = (
        "after",
        "before",
        "family",
        "first",
        "holders",
        "ids",
        "key",
        "rest",
        "seen",
    )

    def __init__(self, ids: list[int], key: int, family: Family | None) -> None:
        self.ids, self.key, self.family = ids, key, family
        self.holders = self.seen = 0
        self.first = True
        self.rest: Stretch | None = None
        self.before: Stretch | None = None  # its neighbours on the free list, towards the front
        self.after: Stretch | None = None  # and towards the back

    @property
    def end(self) -> int:
        """The key after its last."""
        return self.key + len(self.ids)


class Family:
    """The stretches whose keys count up from `key`.

    `found`: those that look-ups find, in order of keys; no two have one in common. `others`: those
    whose keys all had blocks already when they got them, in the order in which they did.
    """

    __slots__ = ("found", "key", "others")

    def __init__(self, key: int) -> None:
        self.key = key
        self.found: list[Stretch] = []
        self.others: list[Stretch] = []

    def alike(self, key: int, most: int) -> tuple[bool, int]:
        """Whether `key` is found, and for how many keys from it on, up to `most`, that is so.

        O(log found).
        """
        found = self.found
        if not found or found[-1].end <= key:
            return False, most
        at = bisect_right(found, key, key=_KEY)  # the first behind it
        if at and found[at - 1].end > key:
            return True, min(found[at - 1].end - key, most)
        return False, min(found[at].key - key, most)

    def goes_on(self, other: Stretch, count: int) -> bool:
        """Whether nobody who stands after it among `others` has one of the next `count` keys.

        Only then can it have them too, for who stands first got them first. O(others after it).
        """
        end = other.end
        for younger in reversed(self.others):
            if younger is other:
                return True
            if younger.key < end + count and end < younger.end:
                return False
        raise AssertionError

    def add(self, stretch: Stretch) -> None:
        """`stretch` is found from now on."""
        found = self.found
        if not found or found[-1].key < stretch.key:
            found.append(stretch)
        else:
            insort(found, stretch, key=_KEY)

    def drop(self, stretch: Stretch) -> None:
        """`stretch` has no keys any more. O(others) if it is one of them."""
        if stretch.first:
            del self.found[self._at(stretch)]
        else:
            self.others.remove(stretch)

    def part(self, stretch: Stretch, rest: Stretch) -> None:
        """`rest` was cut off `stretch`. O(others) if it is one of them."""
        if stretch.first:
            self.found.insert(self._at(stretch) + 1, rest)
        else:
            self.others.insert(self.others.index(stretch) + 1, rest)

    def _at(self, stretch: Stretch) -> int:
        """Where it is in `found`."""
        found = self.found
        return 0 if found[0] is stretch else bisect_left(found, stretch.key, key=_KEY)


class FreeStretches:
    """The free list, as stretches from the front to the back: a ring through `_ends`.

    Why not a deque: a stretch that is hit leaves from wherever it stands. All is O(1).
    """

    def __init__(self, ids: list[int]) -> None:
        self.blocks = 0
        self._ends = ends = Stretch([], 0, None)
        ends.before = ends.after = ends
        self.put_front(Stretch(ids, 0, None))

    def front(self) -> Stretch:
        """The stretch whose last block is the next to be taken; there must be one."""
        front = self._ends.after
        assert front is not None
        assert front is not self._ends
        return front

    def put_front(self, stretch: Stretch) -> None:
        """`stretch` comes to the front: its last block is the next to be taken."""
        after = self._ends.after
        assert after is not None
        self.put_before(after, stretch)
        self.blocks += len(stretch.ids)

    def put_back(self, stretch: Stretch) -> None:
        """`stretch` comes to the back: its last block follows all that is there."""
        self.put_before(self._ends, stretch)
        self.blocks += len(stretch.ids)

    def put_before(self, place: Stretch, stretch: Stretch) -> None:
        """`stretch` stands right before `place`, towards the front; its blocks count already."""
        before = place.before
        assert before is not None
        before.after, stretch.before = stretch, before
        place.before, stretch.after = stretch, place

    def remove(self, stretch: Stretch) -> None:
        """`stretch` leaves with its blocks, from wherever it stands."""
        before, after = stretch.before, stretch.after
        assert before is not None
        assert after is not None
        before.after, after.before = after, before
        stretch.before = stretch.after = None
        self.blocks -= len(stretch.ids)

    def __iter__(self) -> Iterator[Stretch]:
        """Front first."""
        stretch = self._ends.after
        while stretch is not None and stretch is not self._ends:
            yield stretch
            stretch = stretch.after


def keys_of(seq: Sequence, block: int) -> list[tuple[int, int]]:
    """The keys of `seq` as stretches: (first key, how many), each as long as can be.

    O(stretches) of a `Stretched` sequence, O(blocks) of any other.
    """
    stretches = getattr(seq, "stretches", None)
    if stretches is not None:
        told: list[tuple[int, int]] = stretches(block)
        return told
    keys = seq.keys(block)
    starts = np.flatnonzero(np.diff(keys, prepend=-2) != 1)
    ends = np.append(starts[1:], len(keys))
    return list(zip(keys[starts].tolist(), (ends - starts).tolist(), strict=True))


__all__ = ["Family", "FreeStretches", "Stretch", "keys_of"]
