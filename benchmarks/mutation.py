"""Mutation testing of `alloc/` and `engine/`: is every line held by some test?

    PYTHONPATH=. python benchmarks/mutation.py --mutants 500 --seed 1 --json mutants.json

A seeded sample of all mutants (`benchmarks/mutants.py`) is tried. The tests run once as the code
is, to see which lines each of them runs and how long it takes; a mutant then gets those tests that
run the statement it is in, quickest and deadliest first, until one fails. Each mutant is tried in a
fork of a process that has collected the tests: the code of live functions is replaced. What is run
at import (a default, a constant of a module) is tried in a process of its own.

A mutant that fails a test is *killed*, and so is one that makes a test take 5 s and ten times its
clean time (taken under the coverage tool, so more); the others *survive*. `--budget` bounds the
tests of a mutant; survivors of a small one can be tried `--again` with all that run the statement.
Hypothesis draws the same examples each time, and does not shorten failures. `--json` is read again:
what it has is not tried again, with `--again` only survivors are. Needs `fork`, and `coverage`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from mutants import ROOT, Mutant, mutants
from mutation_trial import Trials, alone

TESTS = [
    "tests/alloc", "tests/radix", "tests/conformance", "tests/engine", "tests/test_simulate.py",
]  # fmt: skip
LEFT_OUT = (
    "not planted and not rejects and not what_could_go_wrong and not check_command and not real_"
)
GIVEN = ["-x", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", LEFT_OUT,
         "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # fmt: skip


class Journal:
    """What became of each mutant, written after each."""

    def __init__(self, path: Path | None, sample: list[Mutant], again: bool) -> None:
        self._path, self._sample = path, sample
        self.rows: dict[Mutant, dict[str, Any]] = {}
        if path is not None and path.exists():
            for row in json.loads(path.read_text(encoding="utf-8")):
                mutant = Mutant(*(row[name] for name in Mutant._fields))
                if mutant in sample and (row["killed"] or not again):
                    self.rows[mutant] = row

    @property
    def todo(self) -> list[Mutant]:
        """Those not tried yet."""
        return [mutant for mutant in self._sample if mutant not in self.rows]

    def note(self, mutant: Mutant, by: str, seconds: float, tests: int) -> None:
        """`by`: the test that failed, or "" for none."""
        self.rows[mutant] = {
            **mutant._asdict(), "killed": bool(by), "by": by,
            "seconds": round(seconds, 2), "tests": tests,
        }  # fmt: skip
        if self._path is not None:
            beside = self._path.with_suffix(".part")
            beside.write_text(json.dumps(list(self.rows.values()), indent=1), encoding="utf-8")
            beside.replace(self._path)
        word = f"killed by {by}" if by else f"SURVIVES {tests} tests"
        print(
            f"{len(self.rows)}/{len(self._sample)} {mutant.file}:{mutant.line} {mutant.said}: "
            f"{word} ({seconds:.1f} s)", flush=True,
        )  # fmt: skip


def main() -> None:
    """Try a sample."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="try survivors again")
    parser.add_argument("--budget", type=float, default=6, help="seconds of tests a mutant")
    parser.add_argument("--examples", type=int, default=20, help="of each property")
    parser.add_argument("--lines", type=Path, help="where to keep what each test runs")
    parser.add_argument("--only", default="", help="those of files that begin so")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tests", nargs="+", default=TESTS, help="tests to choose from")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    options = parser.parse_args()
    json_path, lines = (path and path.resolve() for path in (options.json, options.lines))
    os.chdir(ROOT)
    os.environ["HYPOTHESIS_PROFILE"] = "dev"
    if options.alone:
        sys.exit(alone(GIVEN, json.loads(options.alone)))
    every = mutants()
    sample = random.Random(options.seed).sample(every, min(options.mutants, len(every)))
    sample = [mutant for mutant in sample if mutant.file.startswith(options.only)]
    journal = Journal(json_path, sample, options.again)
    trials = Trials(journal.todo, journal.note, options.budget, options.examples, lines)
    status = pytest.main([*GIVEN, *options.tests], plugins=[trials])
    if trials.wrong:
        sys.exit(f"error: as the code is, {trials.wrong} fails")
    rows = journal.rows.values()
    dead = sum(row["killed"] for row in rows)
    print(f"{dead} of {len(rows)} killed (of {len(every)} places, seed {options.seed})")
    sys.exit(int(status))


if __name__ == "__main__":
    main()
