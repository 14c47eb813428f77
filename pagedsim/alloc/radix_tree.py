"""A radix tree of stored content over a pool of pages: what SGLang 0.5.23 keeps its cache in.

Words: a *page* is `page` slots; page p holds slots ``p·page : (p + 1)·page``. A *node* holds a run
of content, whole pages of it, and the pages it is stored in; a *path* from a root spells a prefix.
A root stands for a salt, is empty and is never evicted. A node is *locked* while a sequence uses
it, and so is all above it; *protected* tokens lie in locked nodes, *evictable* ones in the others.
A *leaf* is a node without children; a *candidate* a leaf that nobody locks::

    root ──► | system prompt ........ | ──► | question .. | answer |      leaves are evicted
                   locks 2             └──► | other question .. |         whole, never in part
                                                  locks 2

Content is compared in whole pages, as runs of token ids (`radix_runs`). Children of a node differ
in their first page. The law: available + evictable + protected + what sequences hold outside the
tree = all slots (`radix_check.check`).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

from pagedsim.alloc.evict import Evict
from pagedsim.alloc.radix_free import FreePages, Pages, no_pages
from pagedsim.alloc.radix_runs import Run, Runs, agree, cut, head


class Node:
    """A run of content and its pages. An `Entry` of eviction policies."""

    __slots__ = (
        "children",
        "locks",
        "made",
        "pages",
        "parent",
        "queued",
        "runs",
        "serial",
        "touched",
        "uses",
    )

    def __init__(
        self, parent: Node | None, runs: tuple[Run, ...], pages: Pages, clock: int, serial: int
    ) -> None:
        self.parent, self.runs, self.pages, self.serial = parent, runs, pages, serial
        self.children: dict[int | tuple[int, ...], Node] = {}
        self.touched = self.made = clock
        self.locks = self.uses = 0
        self.queued: Any = None  # rank of its valid entry in the heap


class RadixTree:
    """The tree and the pool's free list. `available`, `evictable` and `protected` are in slots.

    A look-up or insertion is O(runs compared + nodes on the path), an eviction O(log candidates)
    and a copy of the node's page ids.
    """

    def __init__(self, pages: int, *, page: int, evict: Evict) -> None:
        self.page, self.pages = page, pages
        self.free = FreePages(pages, back=page == 1)
        self.evictable = self.protected = 0
        self.evicted = 0  # slots, ever
        self.rank = evict.rank
        self.roots: dict[int, Node] = {}
        self.queue: list[tuple[Any, int, Node]] = []  # candidates by rank; see `_offer`
        self._clock = self._serial = self._nodes = 0

    @property
    def available(self) -> int:
        """Free slots."""
        return len(self.free) * self.page

    def peek(self, salt: int, runs: Runs, tokens: int) -> tuple[int, int]:
        """How many of the first `tokens` tokens are stored, and how many of those are evictable.

        Whole pages; changes nothing.
        """
        page = self.page
        tokens -= tokens % page
        node = self.roots.get(salt)
        found = loose = index = offset = 0
        while node is not None and found < tokens:
            node = node.children.get(head(runs, index, offset, page))
            if node is None:
                break
            size = len(node.pages) * page
            most = min(size, tokens - found)
            same, index, offset = agree(node.runs, runs, index, offset, most)
            same -= same % page
            found += same
            if not node.locks:
                loose += same
            if same < size:
                break
        return found, loose

    def match(self, salt: int, runs: Runs, tokens: int) -> tuple[Node, int]:
        """The longest stored prefix of the first `tokens` tokens: the node it ends at, its length.

        Whole pages. Touches all nodes on the path; a node that the prefix ends in is split there,
        and its lower part is touched too. The node is a root where nothing is found.
        """
        page = self.page
        tokens -= tokens % page
        self._clock = clock = self._clock + 1
        node = self.roots.get(salt)
        if node is None:
            node = self.roots[salt] = Node(None, (), no_pages(), 0, 0)
        found = index = offset = 0
        while found < tokens:
            child = node.children.get(head(runs, index, offset, page))
            if child is None:
                break
            child.touched = clock
            size = len(child.pages) * page
            most = min(size, tokens - found)
            same, index, offset = agree(child.runs, runs, index, offset, most)
            same -= same % page
            found += same
            if same < size:
                node = self._split(child, same)
                self._offer(child)
                break
            node = child
        self._offer(node)
        return node, found

    def insert(
        self, salt: int, runs: Runs, tokens: int, own: Pages, base: int, *, used: bool = False
    ) -> tuple[Node, int]:
        """Store the first `tokens` tokens: the node they end at, and how many were there before.

        Whole pages. `own`: pages of the positions from `base` on, up to which the caller has the
        prefix locked. What was not there becomes one leaf over a copy of its part of them; the rest
        stays the caller's. `used` counts a use of every node on the path.
        """
        page = self.page
        tokens -= tokens % page
        node, had = self.match(salt, runs, tokens)
        assert had >= base, f"{had} tokens are stored, {base} should be locked"
        if had < tokens:
            pages = own[(had - base) // page : (tokens - base) // page]
            assert len(pages) == (tokens - had) // page
            self._serial += 1
            leaf = Node(node, cut(runs, had, tokens), pages, self._clock, self._serial)
            node.children[head(leaf.runs, 0, 0, page)] = leaf
            self._nodes += 1
            self.evictable += tokens - had
            node = leaf
        if used:
            at = node
            while at.parent is not None:
                at.uses += 1
                at = at.parent
        self._offer(node)
        return node, had

    def lock(self, node: Node) -> None:
        """Keep `node` and all above it from eviction, once more; O(depth)."""
        page = self.page
        while (parent := node.parent) is not None:
            if not node.locks:
                size = len(node.pages) * page
                self.evictable -= size
                self.protected += size
            node.locks += 1
            node = parent

    def unlock(self, node: Node) -> None:
        """Undo one `lock`; O(depth)."""
        page = self.page
        while (parent := node.parent) is not None:
            assert node.locks > 0, "unlocked more often than locked"
            node.locks -= 1
            if not node.locks:
                size = len(node.pages) * page
                self.evictable += size
                self.protected -= size
                self._offer(node)
            node = parent

    def reserve(self, tokens: int) -> int | None:
        """Evict before `tokens` more slots are taken; what was evicted, None if nothing had to be.

        SGLang asks for a page beyond `tokens` where a page is more than a token.
        """
        page = self.page
        need = tokens if page == 1 else tokens + page
        short = need - len(self.free) * page
        return self.evict(short) if short > 0 else None

    def evict(self, tokens: int) -> int:
        """Free whole candidates, smallest rank first, until `tokens` slots are freed.

        A parent that becomes a candidate by it counts at once. Returns the slots freed: more than
        asked where the last node was larger, less where no candidate was left.
        """
        freed = 0
        while freed < tokens and self.queue:
            rank, _, node = heappop(self.queue)
            if node.queued != rank:
                continue  # it was evicted, or has an entry with its rank of now
            node.queued = None
            if self._candidate(node):
                freed += self._drop(node)
        return freed

    def path(self, node: Node) -> Pages:
        """The pages from the root to the end of `node`; O(pages)."""
        parts = []
        while node.parent is not None:
            parts.append(node.pages)
            node = node.parent
        pages = no_pages()
        for part in reversed(parts):
            pages += part
        return pages

    def _candidate(self, node: Node) -> bool:
        return not node.locks and not node.children and node.parent is not None

    def _drop(self, node: Node) -> int:
        parent = node.parent
        assert parent is not None
        del parent.children[head(node.runs, 0, 0, self.page)]
        self.free.give(node.pages)
        self._nodes -= 1
        size = len(node.pages) * self.page
        self.evictable -= size
        self.evicted += size
        self._offer(parent)
        return size

    def _split(self, lower: Node, at: int) -> Node:
        """Cut `lower` `at` tokens from its start. The upper part is the new node, and returned."""
        parent, pages = lower.parent, at // self.page
        assert parent is not None
        self._serial += 1
        upper = Node(
            parent, cut(lower.runs, 0, at), lower.pages[:pages], lower.touched, self._serial
        )
        upper.made, upper.uses, upper.locks = lower.made, lower.uses, lower.locks
        parent.children[head(upper.runs, 0, 0, self.page)] = upper
        lower.parent = upper
        lower.runs = cut(lower.runs, at, len(lower.pages) * self.page)
        lower.pages = lower.pages[pages:]
        upper.children[head(lower.runs, 0, 0, self.page)] = lower
        self._nodes += 1
        return upper

    def _offer(self, node: Node) -> None:
        """Give a candidate an entry in the heap with its rank of now, if it has none.

        Entries are not removed when they go out of date: `evict` passes over them, and the heap is
        made anew when most are.
        """
        if not self._candidate(node):
            return
        rank = self.rank(node)
        if node.queued == rank:
            return
        node.queued = rank
        heappush(self.queue, (rank, node.serial, node))
        if len(self.queue) > 2 * self._nodes + 64:
            live = {id(entry[2]): entry for entry in self.queue if entry[2].queued == entry[0]}
            self.queue = list(live.values())
            heapify(self.queue)


__all__ = ["Node", "RadixTree"]
