"""Who had the content of each row first: rows laid beside those before them, token by token.

Rows that begin alike follow the same *path*, each stretch of which belongs to the row that had it
first. A row walks along until it parts from it, or another did and it parts with that one::

    row 0   aaaaaaaaaaaabbbbb          whose      0 0 0 0
    row 1   aaaaaaaccccccccccccc       7 of 0, the rest its own
    row 2   aaaaaaaccccdddd            7 of 0, 4 of 1, the rest its own

A branch is found by whose path it leaves, where, and with which token. So a row costs the parts
that it has, and the runs that it shares.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagedsim.protocols import Int64


class Runs(NamedTuple):
    """Rows laid end to end: where each starts, where runs start, and their first ids.

    A run that merely goes on where the one before it ended is joined to it, so that equal tokens
    are equal runs. `rows` and `runs` end with where the last of them ends.
    """

    rows: Int64
    runs: Int64
    token: Int64


class Parts(NamedTuple):
    """Rows cut into parts, in order.

    From the end of the part before it up to token `end` of `row`, `owner` had the tokens first.
    `twin`: of a row that owns not even its end, and is not the first of its kind, the first row
    that equals it as a whole.
    """

    row: Int64
    end: Int64
    owner: Int64
    twin: dict[int, int]


def parts(salt: Int64, runs: Runs) -> Parts:
    """The parts of all rows. O(rows log rows), and what those that begin alike have in common."""
    rows = np.arange(len(salt))
    begins = np.stack((salt, runs.token[np.searchsorted(runs.runs, runs.rows[:-1])]), axis=1)
    order = np.lexsort(begins.T)
    same = (begins[order][1:] == begins[order][:-1]).all(axis=1)
    shared = np.zeros(len(rows), bool)
    shared[order[1:]] = same
    shared[order[:-1]] |= same
    walks = Walks(salt, runs)
    for each in np.flatnonzero(shared).tolist():
        walks.walk(each)
    alone = rows[~shared]
    row = np.concatenate((np.array(walks.row, np.int64), alone))
    end = np.concatenate((np.array(walks.end, np.int64), np.diff(runs.rows)[alone]))
    owner = np.concatenate((np.array(walks.owner, np.int64), alone))
    order = np.argsort(row, kind="stable")
    return Parts(row[order], end[order], owner[order], walks.twin)


class Walks:
    """Rows that walked so far, and the parts that they were found to have."""

    def __init__(self, salt: Int64, runs: Runs) -> None:
        self._salt: list[int] = salt.tolist()
        self._rows: list[int] = runs.rows.tolist()
        self._runs: list[int] = runs.runs.tolist()
        self._token: list[int] = runs.token.tolist()
        self._first: list[int] = np.searchsorted(runs.runs, runs.rows).tolist()  # run of each row
        self._branches: dict[tuple[int, int, int], int] = {}  # (whose path, at, token) -> row
        self._ended: dict[tuple[int, int], int] = {}  # (whose path, at) -> first row to end there
        self.row: list[int] = []
        self.end: list[int] = []
        self.owner: list[int] = []
        self.twin: dict[int, int] = {}

    def walk(self, row: int) -> None:
        """Follow the paths of those before `row`, which must come in order."""
        start, run = self._rows[row], self._first[row]
        length = self._rows[row + 1] - start
        whose, at = -1 - self._salt[row], 0  # a path of its own for each salt
        while at < length:
            branch = whose, at, self._token[run] + start + at - self._runs[run]
            whose = self._branches.setdefault(branch, row)
            if whose == row:
                at = length
            else:
                shared = self._shared(row, whose, run - self._first[row])
                run = self._first[row] + shared
                at = self._part(row, whose, run, self._first[whose] + shared)
                if start + at == self._runs[run + 1]:
                    run += 1
            self.row.append(row)
            self.end.append(at)
            self.owner.append(whose)
        if whose != row:
            twin = self._ended.setdefault((whose, length), row)
            if self._rows[whose + 1] - self._rows[whose] == length:
                twin = whose
            if twin != row:
                self.twin[row] = twin

    def _shared(self, row: int, other: int, run: int) -> int:
        """The last run that begins alike in both, from `run` on, in which they do. O(runs)."""
        mine, theirs = self._first[row], self._first[other]
        apart = self._rows[row] - self._rows[other]
        last = min(self._first[row + 1] - mine, self._first[other + 1] - theirs) - 1
        while (
            run < last
            and self._token[mine + run + 1] == self._token[theirs + run + 1]
            and self._runs[mine + run + 1] - self._runs[theirs + run + 1] == apart
        ):
            run += 1
        return run

    def _part(self, row: int, other: int, mine: int, theirs: int) -> int:
        """Tokens that both have alike, if these are the last runs that begin alike."""
        return min(
            self._runs[mine + 1] - self._rows[row], self._runs[theirs + 1] - self._rows[other]
        )


__all__ = ["Parts", "Runs", "parts"]
