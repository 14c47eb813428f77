"""The whole-structure check of a radix tree: what must hold between any two calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from pagedsim.alloc.radix_runs import head
from pagedsim.alloc.radix_tree import Node, RadixTree


def check(tree: RadixTree, held: Iterable[Node], own: int) -> None:
    """Raise AssertionError where the tree breaks a law; O(everything).

    `held`: the node at which each sequence's locked path ends. `own`: pages that sequences hold
    outside the tree.
    """
    locks: Counter[int] = Counter()
    for end in held:
        at = end
        while at.parent is not None:
            locks[id(at)] += 1
            at = at.parent
    seen = list(tree.free.ids())
    sizes = {True: 0, False: 0}
    for node in nodes(tree):
        size = len(node.pages) * tree.page
        assert size > 0, "an empty node"
        assert size == sum(length for _, length in node.runs), "pages and content differ in length"
        assert node.locks == locks[id(node)], f"{node.locks} locks, {locks[id(node)]} are held"
        sizes[node.locks > 0] += size
        seen += node.pages
        if not node.locks and not node.children:
            assert (tree.rank(node), node.serial, node) in tree.queue, "a candidate is not queued"
    assert len(seen) == len(set(seen)), "a page is in two places"
    assert all(1 <= page <= tree.pages for page in seen), "a page that does not exist"
    assert len(seen) + own == tree.pages, f"{len(seen)} + {own} pages of {tree.pages}"
    assert tree.protected == sizes[True], f"protected {tree.protected}, counted {sizes[True]}"
    assert tree.evictable == sizes[False], f"evictable {tree.evictable}, counted {sizes[False]}"


def nodes(tree: RadixTree) -> Iterator[Node]:
    """All nodes but the roots, parents first; the links between them are checked on the way."""
    todo = list(tree.roots.values())
    while todo:
        parent = todo.pop()
        for name, node in parent.children.items():
            assert node.parent is parent, "a child of another node"
            assert name == head(node.runs, 0, 0, tree.page), "a child under another name"
            assert node.locks <= parent.locks or parent.parent is None, "locked below, not above"
            yield node
            todo.append(node)


__all__ = ["check", "nodes"]
