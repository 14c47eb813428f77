"""Paged blocks with a prefix cache, as vLLM keeps one: content is found again by chained keys.

Words beside those of `alloc.paged`: a block that is full has a *key*, which stands for its tokens
and all before them in its sequence (`Sequence.keys`). A *hit* is the longest run of blocks from
the start of a sequence whose keys are known. A block is *free* when no table holds it; a free
block with a key is *cached*: it can be hit until it is taken for something else, which drops the
key, and that is eviction::

    table    | hit | hit | own, full | own, full | own, filling |
    key         k0    k1       k2          k3           –
    held by     3     1        1           1            1

Keys are given when a step is planned: after `admit` or `grow` to n tokens every block that is full
at n has its key, decode blocks included. Equal content computed twice is held twice under one key;
a look-up finds the first that got it, of those still there. Of n known tokens at most
``(n - 1) // block`` blocks are hit, so that at least one token is computed.

Why not block by block, as `alloc.keyed` does: a prompt of a thousand blocks is found, held and
given back as a few stretches (`alloc.stretches`), whose blocks only move from list to list. Who
holds them is in `alloc.prefix_tables`, which of them look-ups find in `alloc.prefix_keys`, and what
a call does to both is here.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from itertools import takewhile
from typing import Final

from mypy_extensions import mypyc_attr

from pagedsim.alloc.paged import check_content, check_pool
from pagedsim.alloc.prefix_keys import NOBODYS, Keys
from pagedsim.alloc.prefix_tables import Held
from pagedsim.alloc.stretches import Family, Stretch
from pagedsim.errors import ContractError
from pagedsim.protocols import Sequence

_FEW: Final = 8  # up to so many are moved one by one


@mypyc_attr(allow_interpreted_subclasses=True)
class PrefixPaged(Keys):
    """Blocks over a pool, full ones shared by content; the free list makes eviction LRU.

    `free_order` says where blocks without a key go when they are released: "0.33" to the front,
    as one group with the table's last block first; "0.11" to the back with all others. Blocks
    with a key go to the back, the table's last block first.

    Work is on the stretches of a call, but that blocks change lists by slices.
    """

    fills = True

    def __init__(
        self, blocks: int, *, block: int = 16, null: int = 1, free_order: str = "0.33"
    ) -> None:
        check_pool(blocks, block, null, free_order)
        super().__init__(blocks, block, null)
        self._to_front = free_order == "0.33"

    def admit(self, seq: Sequence, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        """Take the hits, and new blocks for the rest of `tokens`.

        Hit blocks that nobody holds come off the free list first, and count.
        """
        if seq in self._tables:
            raise ContractError(f"paged: request {seq.id} is admitted twice")
        hit, block = self._hit(seq), self.block
        need = -(-max(tokens, whole) // block) - hit.blocks
        for at, stretch in enumerate(hit.stretches):
            if not stretch.holders:
                need += hit.counts[at]
        if need + -(-spare // block) > self._free.blocks:
            return False
        held = Held(hit.content)
        check_content(seq, tokens, block, held.full)
        self._looked = NOBODYS
        self._share(hit)
        held.stretches, held.counts = hit.stretches, hit.counts
        held.advance(hit.blocks)
        more = -(-tokens // block) - hit.blocks
        if more > 0:
            self._take(more, held.loose)
        self._tables[seq] = held
        self._name(held, tokens // block)
        return True

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        """Hold the blocks of `tokens`, and give keys to those that are full at it."""
        held = self._held(seq)
        copies = bool(self._tails) and self._copies(held, tokens)
        need = -(-tokens // self.block) - len(held) + copies
        if need > self._free.blocks:
            return False
        check_content(seq, tokens, self.block, held.full)
        if copies:
            self._leave_tail(held.loose.pop())
        if need > 0:
            self._take(need, held.loose)
        self._name(held, tokens // self.block)
        return True

    def extend(self, seqs: SequenceOf[Sequence], /) -> int:
        """One block to each of `seqs`, in order; how many got one."""
        if self._tails:
            needs = [self.room(seq) + 1 for seq in seqs]  # before any of them leaves a tail
            return sum(takewhile(bool, map(self.grow, seqs, needs)))
        if len(seqs) > self._free.blocks:
            seqs = seqs[: self._free.blocks]
        tables = self._tables
        blocks: list[int] = []
        self._take(len(seqs), blocks)
        for at, seq in enumerate(seqs):
            tables[seq].loose.append(blocks[at])
        return len(seqs)

    def fill(self, seqs: SequenceOf[Sequence], /) -> None:
        """The last block of each of `seqs` is full, in order: it gets its key."""
        tables = self._tables
        for seq in seqs:
            held = tables[seq]
            last, family = held.open, held.family
            # as most often: it goes on in a stretch of its own, and nobody had the key before
            if (
                last is not None
                and family is not None
                and held.left
                and len(held.loose) == 1
                and last.holders == 1
                and family.found[-1] is last
            ):
                last.ids.append(held.loose.pop())
                held.counts[-1] += 1
                held.named += 1
                held.left -= 1
                self._keys += 1
                if held.key == self._wanted:
                    self._looked = NOBODYS
                held.key += 1
            else:
                self._name(held, len(held))

    def release(self, seq: Sequence, /) -> None:
        """Give the table back; what nobody else holds is free, and cached if it has a key.

        A sample's that are not full at ``seq.computed`` lose theirs (docs/forks.md).
        """
        held, free = self._held(seq), self._free
        if held.forked and held.named * self.block > seq.computed:
            self._unname(held, seq.computed // self.block)
        if self._tails and held.loose and held.loose[-1] in self._tails:
            self._leave_tail(held.loose.pop())
        del self._tables[seq]
        if held.loose:
            keyless = Stretch(held.loose, 0, None)
            if self._to_front:
                free.put_front(keyless)
            else:
                free.put_back(keyless)
        nobodys: list[Stretch] = []
        for stretch in held.listed():
            stretch.holders -= 1
            if stretch.holders:
                self._shared -= len(stretch.ids)
                continue
            stretch.rest = None
            self._cached += len(stretch.ids)
            if not (nobodys and self._join(nobodys[-1], stretch)):
                nobodys.append(stretch)
        for stretch in reversed(nobodys):
            free.put_back(stretch)

    def _take(self, blocks: int, table: list[int]) -> None:
        """Move the first `blocks` of the free list, which must hold as many, to the end of `table`.

        Their keys are dropped.
        """
        free = self._free
        while blocks:
            front = free.front()
            ids = front.ids
            count = min(blocks, len(ids))
            if front.family is not None:
                self._cached -= count
                self._evicted += count
                self._lose(front, count)
            blocks -= count
            if count == len(ids):
                free.remove(front)
                ids.reverse()
                table += ids
                continue
            free.blocks -= count
            if count > _FEW:
                table += ids[: -count - 1 : -1]
                del ids[-count:]
            else:
                while count:
                    table.append(ids.pop())
                    count -= 1

    def _name(self, held: Held, full: int) -> None:
        """Give keys to those of the first `full` blocks, all full, that have none yet."""
        while held.named < full:
            if not held.left:
                held.begin()
            key, start = held.key, held.start
            family = self._families.get(start)
            if family is None:
                family = self._families[start] = Family(start)
            found, count = family.alike(key, min(full - held.named, held.left))
            if key <= self._wanted < key + count:
                self._looked = NOBODYS
            ids, held.loose = held.loose, held.loose[count:]
            del ids[count:]
            held.advance(count)
            last = held.open
            if not found:
                self._keys += count
            if (
                last is not None
                and last.end == key
                and last.holders == 1
                and last.first is not found
                and held.family is family
                and (not found or family.goes_on(last, count))
            ):
                last.ids += ids
                held.counts[-1] += count
                continue
            stretch = Stretch(ids, key, family)
            if found:  # look-ups find others as long as they are there
                stretch.first = False
                family.others.append(stretch)
            else:
                family.add(stretch)
            held.append(stretch, count)
            held.open, held.family = stretch, family

    def _unname(self, held: Held, full: int) -> None:
        """What lies behind its first `full` blocks has no key any more, but for what others hit."""
        kept: list[Stretch] = []
        loose: list[int] = []
        at = hit = 0
        for stretch in held.listed():
            at += len(stretch.ids)
            if stretch.holders > 1:
                hit = at  # and what lies before it has a key too, whoever others found it with
        at = 0
        for stretch in held.listed():
            end = at + len(stretch.ids)
            if end <= full or end <= hit:
                kept.append(stretch)
            else:
                if at < full:
                    kept.append(stretch)
                    stretch = self._cut(stretch, full - at)
                self._lose(stretch, len(stretch.ids))
                loose += stretch.ids
            at = end
        held.stretches, held.counts = kept, [len(stretch.ids) for stretch in kept]
        held.loose = loose + held.loose
        held.named -= len(loose)


__all__ = ["PrefixPaged"]
