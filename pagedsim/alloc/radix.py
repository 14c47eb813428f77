"""Content kept in a radix tree and shared by prefix: SGLang's allocator.

A sequence holds a locked path of the tree, whole pages, and behind it pages of its own. What of
the path others lock too is shared. Its prompt enters the tree when it is complete::

                 0          hit                        goal          held
    admitted     | path      | own ...................... | .......... |     prompt, whole or chunks
    prompt kept  | path ...............................| own ......... |     output
                                                 whole pages

`goal` is what was known when it was admitted: its prompt, after a preemption its output too. The
contract has no call for 'all of it is computed', so the first `grow` beyond `goal` says so: it
stores a token that follows it. `room` therefore ends at `goal` until then. That is the next step's
planning, as in SGLang, so requests admitted from that step on find it.

Where another sequence stored the same content in between, this one lets go of its own copy and
uses the tree's: positions change pages, content does not (docs/radix.md).
"""

from __future__ import annotations

from pagedsim.alloc.evict import Evict, make_evict
from pagedsim.alloc.radix_held import Held, slots
from pagedsim.alloc.radix_tree import RadixTree
from pagedsim.errors import ContractError, SpecError
from pagedsim.protocols import Int64, Sequence, Usage


class Radix:
    """Prefixes shared through a radix tree over pages of `page` tokens.

    `capacity`: slots of the pool; a remainder smaller than a page is no part of it. `evict`: one of
    lru, lfu, fifo, mru, slru, or an `Evict`. Calls cost O(runs compared + nodes on the path + pages
    moved), a `grow` of a token O(1) but for eviction.
    """

    def __init__(self, capacity: int, *, page: int = 1, evict: str | Evict = "lru") -> None:
        if page < 1:
            raise SpecError(f"radix: page is {page}, must be >= 1")
        pages = capacity // page
        if pages < 1:
            raise SpecError(f"radix: {capacity} slots have no page of {page}")
        try:
            policy = make_evict(evict) if isinstance(evict, str) else evict
        except SpecError as error:
            raise SpecError(f"radix: {error}") from None
        if getattr(policy, "foresees", False):
            raise SpecError("radix: evict needs the future, which only paged:prefix=on is told")
        self.capacity = self.longest = pages * page
        self.block, self.blocks = page, pages + 1  # page 0 is never handed out
        self.tree = RadixTree(pages, page=page, evict=policy)
        self.held: dict[Sequence, Held] = {}
        self._paths = 0  # Σ path of all that is held

    def cached(self, seq: Sequence, /) -> int:
        """Whole pages stored of what is known, its last token left out."""
        return self.tree.peek(seq.salt, seq.runs(), seq.tokens - 1)[0]

    def admit(self, seq: Sequence, tokens: int, /, *, whole: int = 0, spare: int = 0) -> bool:
        """Lock what is stored, evict for the rest; refused before anything is evicted."""
        if seq in self.held:
            raise ContractError(f"radix: request {seq.id} is admitted twice")
        tree, salt, runs = self.tree, seq.salt, seq.runs()
        most = min(tokens, seq.tokens - 1)
        hit, loose = tree.peek(salt, runs, most)
        need = -(-max(tokens, whole) // self.block) * self.block - hit
        if need + spare > tree.available + tree.evictable - loose:
            return False
        held = self.held[seq] = Held(tree, salt, runs, seq.tokens, most)
        self._paths += held.path
        tree.reserve(tokens - held.path)
        held.take(-(-(tokens - held.path) // self.block))
        return True

    def grow(self, seq: Sequence, tokens: int, /) -> bool:
        """Pages for `tokens` in all. The first one beyond the prompt keeps the prompt."""
        held = self._of(seq)
        if tokens <= held.room:
            return True
        tree, page = self.tree, self.block
        beyond = tokens - held.slots
        keep = not held.kept and tokens > held.goal
        pages = -(-beyond // page)
        if pages > len(tree.free):
            most = tree.available + tree.evictable
            if keep:  # copies that it lets go of are free then, what it uses instead is locked
                found, loose = tree.peek(held.salt, held.runs, held.goal)
                most += found - held.path - loose
            if pages * page > most:
                return False
        if keep:
            self._keep(held)
        if pages > 0:
            tree.reserve(beyond)
            held.take(pages)
        return True

    def release(self, seq: Sequence, /) -> None:
        """Keep what was computed, if that is at least what was known at admission.

        ``seq.computed`` tokens have content. The rest goes back to the free list.
        """
        held = self._of(seq)
        del self.held[seq]
        done = seq.computed
        if done >= held.goal:
            if not held.kept:
                self._keep(held)
            held.finish(done)
        else:
            held.drop()
        self._paths -= held.path

    def room(self, seq: Sequence, /) -> int:
        """Slots of its pages; until its prompt is kept, at most the prompt."""
        return self._of(seq).room

    def usage(self) -> Usage:
        """Locked paths and own pages are held, a page that several paths share once."""
        tree = self.tree
        held = self.capacity - tree.available - tree.evictable
        return Usage(held, tree.evictable, self._paths - tree.protected)

    @property
    def evicted(self) -> int:
        """Slots of nodes that were evicted."""
        return self.tree.evicted

    def table(self, seq: Sequence, /) -> tuple[int, ...]:
        """Page ids in token order."""
        return tuple(self._of(seq).pages())

    def free_blocks(self) -> tuple[int, ...]:
        """The free list, front first."""
        return self.tree.free.ids()

    def slots(self, seq: Sequence, /) -> Int64:
        """The slot of every position that its pages have room for."""
        return slots(self._of(seq).pages(), self.block)

    def _keep(self, held: Held) -> None:
        self._paths -= held.path
        held.keep()
        self._paths += held.path

    def _of(self, seq: Sequence) -> Held:
        try:
            return self.held[seq]
        except KeyError:
            raise ContractError(f"radix: request {seq.id} holds nothing") from None


__all__ = ["Radix"]
