"""A request of several samples as the fast engine follows it: a group, and its members."""

from __future__ import annotations

from typing import Any

from pagedsim.engine.request import Request
from pagedsim.protocols import Int64


class Group:
    """A request: its members, and what it leaves behind as one row."""

    def __init__(self, row: int, prompt: int, arrival_ns: int, beam: bool, forks: Any) -> None:
        self.id, self.prompt, self.beam, self.forks = row, prompt, beam, forks
        self.arrival_ns = arrival_ns
        self.admitted_ns = self.forked_ns = self.finish_ns = -1
        self.hit = self.resumed_hit = self.preemptions = 0
        self.recomputed_by_dead = 0
        self.members: list[Member] = []  # one for each sample; a beam that dies is replaced
        self.left: list[Member] = []  # those that are not done, in order
        self.born = 0
        self.common = prompt  # tokens that the first of them computes for all
        self.split = False  # whether that is done
        self.held = 0  # members that are done and not released

    @property
    def first_token_ns(self) -> int:
        return self.forked_ns if self.forked_ns >= 0 else self.members[0].first_token_ns

    @property
    def recomputed(self) -> int:
        return self.recomputed_by_dead + sum(member.recomputed for member in self.members)

    @property
    def generated(self) -> int:
        return sum(member.tokens - self.prompt for member in self.members)

    @property
    def longest(self) -> int:
        return max(member.tokens - self.prompt for member in self.members)

    def rejoin(self) -> None:
        """All were preempted: the first that is left stands for them."""
        self.split = len(self.left) == 1
        self.common = min(map(_alike, self.left[:-1], self.left[1:]), default=self.left[0].known)
        for member in self.left:
            member.own = member.known
        self.left[0].known = self.common


class Member(Request):
    """A sequence of a group. What a row leaves behind is told by the group."""

    __slots__ = ("group", "line", "own", "tail", "trigger")

    def __init__(self, group: Group, line: int, output: int, given: Request, max_len: int) -> None:
        end = min(given.prompt + output, max_len)
        super().__init__(
            given.id, given.prompt, output, given.priority, given.salt, end,
            group.arrival_ns, given.content,
        )  # fmt: skip
        self.group = group
        self.line = line  # its row in the members' content
        self.own = self.known  # what it knows, while `known` is what is common
        self.tail = False  # whether its last block may be shared
        self.trigger: Member | None = None  # who came last, where it is done with others

    def runs(self) -> list[tuple[int, int]]:
        return self.content.runs(self.line)

    def keys(self, block: int) -> Int64:
        return self.content.keys(self.line, block)

    def stretches(self, block: int) -> list[tuple[int, int]]:
        return self.content.stretches(self.line, block)


def _alike(one: Member, other: Member) -> int:
    """Tokens that two of a group know alike."""
    alike = 0
    ours, theirs = one.runs(), other.runs()
    for (first, length), (their_first, their_length) in zip(ours, theirs, strict=False):
        if first != their_first:
            break
        alike += min(length, their_length)
        if length != their_length:
            break
    return min(alike, one.known, other.known)


def slots_of(alike: int, known: list[int], block: int) -> int:
    """Slots of whole blocks for so many tokens each, the first `alike` of them shared."""
    full = alike // block
    return block * (full + sum(-(-tokens // block) - full for tokens in known))


__all__ = ["Group", "Member", "slots_of"]
