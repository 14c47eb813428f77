"""What one sequence holds of a radix tree's pool, and how it comes and goes: SGLang's order.

A locked path of the tree, whole pages, and behind it pages of the sequence's own::

    0            path                                    slots
    | .. path .. | own ................................. |        looked up, pages taken
    | .. path ................................... | own  |        prompt kept: goal, in whole pages
                                                 path

Each call that gives pages back gives the groups in SGLang's order, which page ids depend on.
"""

from __future__ import annotations

import numpy as np

from pagedsim.alloc.radix_free import Pages, no_pages
from pagedsim.alloc.radix_runs import Runs
from pagedsim.alloc.radix_tree import RadixTree
from pagedsim.protocols import Int64


class Held:
    """`path` tokens of the tree up to `node`, then `own` pages.

    `goal`: tokens known at the start, all to be computed before the first new one. `kept`: they are
    in the tree. `slots`: of all its pages; `room`: of these, until they are kept, at most `goal`.
    Making one looks up the first `most` tokens and locks what is found.
    """

    __slots__ = ("goal", "kept", "node", "own", "path", "room", "runs", "salt", "slots", "tree")

    def __init__(self, tree: RadixTree, salt: int, runs: Runs, goal: int, most: int) -> None:
        self.tree, self.salt, self.runs, self.goal = tree, salt, runs, goal
        self.node, self.path = tree.match(salt, runs, most)
        tree.lock(self.node)
        self.own = no_pages()
        self.slots = self.room = self.path
        self.kept = False

    def pages(self) -> Pages:
        """Its page ids in token order."""
        return self.tree.path(self.node) + self.own

    def take(self, pages: int) -> None:
        """So many own pages more, which must be free."""
        tree = self.tree
        self.own += tree.free.take(pages)
        self.slots = slots = self.slots + pages * tree.page
        self.room = slots if self.kept or slots < self.goal else self.goal

    def keep(self) -> None:
        """`goal` tokens, in whole pages, enter the tree and are locked there.

        Own pages whose content the tree had already go back, in one group.
        """
        tree, base = self.tree, self.path
        node, had = tree.insert(self.salt, self.runs, self.goal, self.own, base)
        tree.free.give(self.own[: (had - base) // tree.page])
        tree.lock(node)
        tree.unlock(self.node)
        self.node, self.path, self.kept = node, self.goal - self.goal % tree.page, True
        self.room = self.slots
        del self.own[: (self.path - base) // tree.page]

    def finish(self, done: int) -> None:
        """`done` tokens, in whole pages, stay in the tree; nothing is held any more.

        Two groups go back: own pages whose content the tree had, then what lies behind `done`.
        """
        tree, base = self.tree, self.path
        _, had = tree.insert(self.salt, self.runs, done, self.own, base, used=True)
        tree.free.give(self.own[: (had - base) // tree.page])
        tree.free.give(self.own[(done - done % tree.page - base) // tree.page :])
        tree.unlock(self.node)

    def drop(self) -> None:
        """All own pages go back, in one group; nothing is held any more."""
        self.tree.free.give(self.own)
        self.tree.unlock(self.node)


def slots(pages: Pages, page: int) -> Int64:
    """int64: the slots of `pages`, in order."""
    ids = np.array(pages, np.int64)
    return (ids[:, None] * page + np.arange(page)).ravel()


__all__ = ["Held", "slots"]
