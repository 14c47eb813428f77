"""The radix allocator written as plainly as can be: single tokens, no tree, no counters, no heap.

A node is the whole prefix it ends, as a tuple of tokens; parents, leaves and locks are found by
comparing prefixes with each other and with what the live sequences use. Nothing is shared with the
code that this judges.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(eq=False)
class Node:
    salt: int
    start: int
    prefix: tuple[int, ...]
    pages: list[int]
    touched: int
    made: int
    uses: int
    serial: int

    @property
    def size(self) -> int:
        return len(self.prefix) - self.start

    def over(self, other: Node) -> bool:
        """Whether this one is the parent of `other`."""
        end = len(self.prefix)
        return self.salt == other.salt and other.start == end and other.prefix[:end] == self.prefix


@dataclass(eq=False)
class User:
    salt: int
    content: tuple[int, ...]
    goal: int
    path: int = 0
    own: list[int] = field(default_factory=list)
    kept: bool = False


RANKS: dict[str, Callable[[Node], Any]] = {
    "lru": lambda node: node.touched,
    "mru": lambda node: -node.touched,
    "fifo": lambda node: node.made,
    "lfu": lambda node: (node.uses, node.touched),
    "slru": lambda node: (min(node.uses, 2) // 2, node.touched),
}


class Model:
    def __init__(self, capacity: int, page: int, evict: str) -> None:
        self.page, self.pages = page, capacity // page
        self.free = list(range(1, self.pages + 1))
        self.rank = RANKS[evict]
        self.nodes: list[Node] = []
        self.users: dict[Any, User] = {}
        self.clock = self.serials = 0

    # What is asked of an allocator.

    def cached(self, seq: Any) -> int:
        return self._longest(seq.salt, seq.content[: seq.tokens - 1])

    def admit(self, seq: Any, tokens: int, whole: int, spare: int) -> bool:
        user = User(seq.salt, seq.content, seq.tokens)
        before = self._state()
        user.path = self._walk(user.salt, user.content[: min(tokens, seq.tokens - 1)])
        self.users[seq] = user
        need = self._count(max(tokens, whole)) * self.page - user.path
        if need + spare > len(self.free) * self.page + self.evictable():
            del self.users[seq]
            self.nodes, self.free, self.clock, self.serials = before
            return False
        self._take(user, tokens)
        return True

    def grow(self, seq: Any, tokens: int) -> bool:
        user = self.users[seq]
        if tokens <= self.room(seq):
            return True
        before, own = self._state(), replace(user, own=list(user.own))
        if tokens > user.goal and not user.kept:
            self._keep(user)
        need = self._count(tokens) * self.page - user.path - len(user.own) * self.page
        if need > len(self.free) * self.page + self.evictable():
            self.nodes, self.free, self.clock, self.serials = before
            self.users[seq] = own
            return False
        self._take(user, tokens)
        return True

    def release(self, seq: Any) -> None:
        user = self.users[seq]
        if seq.computed < user.goal:
            self._give(user.own)
        else:
            if not user.kept:
                self._keep(user)
            end = self._floor(seq.computed)
            had = self._insert(user, end)
            at = 0
            while at < end:
                (node,) = [n for n in self._along(user, end) if n.start == at]
                node.uses += 1
                at = len(node.prefix)
            self._give(user.own[: (had - user.path) // self.page])
            self._give(user.own[(end - user.path) // self.page :])
        del self.users[seq]

    def room(self, seq: Any) -> int:
        user = self.users[seq]
        slots = user.path + len(user.own) * self.page
        return slots if user.kept else min(slots, user.goal)

    def table(self, seq: Any) -> list[int]:
        user = self.users[seq]
        nodes = sorted(self._along(user, user.path), key=lambda node: node.start)
        return [page for node in nodes for page in node.pages] + user.own

    def evictable(self) -> int:
        return sum(node.size for node in self.nodes if not self.locked(node))

    def locked(self, node: Node) -> bool:
        return any(node in self._along(user, user.path) for user in self.users.values())

    # The rules.

    def _state(self) -> tuple[list[Node], list[int], int, int]:
        nodes = [copy.copy(node) for node in self.nodes]
        return nodes, list(self.free), self.clock, self.serials

    def _along(self, user: User, end: int) -> list[Node]:
        return [
            node
            for node in self.nodes
            if node.salt == user.salt
            and len(node.prefix) <= end
            and node.prefix == user.content[: len(node.prefix)]
        ]

    def _longest(self, salt: int, key: tuple[int, ...]) -> int:
        best = 0
        for node in self.nodes:
            same = 0
            while same < min(len(key), len(node.prefix)) and key[same] == node.prefix[same]:
                same += 1
            if node.salt == salt:
                best = max(best, self._floor(same))
        return best

    def _walk(self, salt: int, key: tuple[int, ...]) -> int:
        self.clock += 1
        found = self._longest(salt, key)
        for node in list(self.nodes):
            if node.salt != salt or node.prefix[: node.start] != key[: node.start]:
                continue
            if (
                node.start < found
                and node.prefix[: node.start + self.page] == key[: node.start + self.page]
            ):
                node.touched = self.clock
                if len(node.prefix) > found:
                    self.serials += 1
                    cut = (found - node.start) // self.page
                    upper = copy.copy(node)
                    upper.serial, upper.prefix, upper.pages = (
                        self.serials, node.prefix[:found], node.pages[:cut],
                    )  # fmt: skip
                    node.start, node.pages = found, node.pages[cut:]
                    self.nodes.append(upper)
        return found

    def _insert(self, user: User, end: int) -> int:
        had = self._walk(user.salt, user.content[:end])
        if had < end:
            self.serials += 1
            pages = user.own[(had - user.path) // self.page : (end - user.path) // self.page]
            prefix, clock = user.content[:end], self.clock
            self.nodes.append(Node(user.salt, had, prefix, pages, clock, clock, 0, self.serials))
        return had

    def _keep(self, user: User) -> None:
        end = self._floor(user.goal)
        had = self._insert(user, end)
        self._give(user.own[: (had - user.path) // self.page])
        user.own = user.own[(end - user.path) // self.page :]
        user.path, user.kept = end, True

    def _take(self, user: User, tokens: int) -> None:
        beyond = tokens - user.path - len(user.own) * self.page
        if beyond <= 0:
            return
        want = beyond if self.page == 1 else beyond + self.page
        while len(self.free) * self.page < want:
            leaves = [
                node
                for node in self.nodes
                if not self.locked(node) and not any(node.over(other) for other in self.nodes)
            ]
            if not leaves:
                break
            first = min(leaves, key=lambda node: (self.rank(node), node.serial))
            self.nodes.remove(first)
            self._give(first.pages)
        for _ in range(self._count(beyond)):
            user.own.append(self.free.pop(0))

    def _give(self, group: list[int]) -> None:
        self.free = self.free + group if self.page == 1 else group + self.free

    def _floor(self, tokens: int) -> int:
        return tokens - tokens % self.page

    def _count(self, tokens: int) -> int:
        return (tokens + self.page - 1) // self.page
