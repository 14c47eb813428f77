"""Mutation testing of `alloc/` and `engine/`: is every line held by some test?

    PYTHONPATH=. python benchmarks/mutation.py --mutants 500 --seed 1 --json mutants.json

A mutant is one small change of one place: a comparison, a sum, a constant, a condition, an answer.
A seeded sample of all places is tried, each with the fast tests of its area, in a fork of a process
that has the libraries loaded. A mutant that fails a test, or runs out of time, is *killed*; the
others *survive*. It needs a system with `fork`.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TESTS = {
    "alloc/radix": ["tests/radix/test_radix_rules.py", "tests/radix/test_radix_contract.py",
                    "tests/radix/test_radix_machine.py"],
    "alloc/evict": ["tests/alloc/test_evict.py", "tests/radix/test_radix_contract.py",
                    "tests/radix/test_radix_machine.py"],
    "alloc/": ["tests/alloc", "tests/conformance/test_allocator_suite.py",
               "tests/engine/test_shadow.py", "tests/engine/test_prefix_agrees.py"],
    "engine/": ["tests/engine/test_rules_vllm.py", "tests/engine/test_rules_older.py",
                "tests/engine/test_account.py", "tests/engine/test_engines_agree.py",
                "tests/engine/test_prefix_agrees.py", "tests/engine/test_closed_loop.py",
                "tests/engine/test_closed_loop_agrees.py", "tests/engine/test_forks.py"],
}  # fmt: skip
COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


class Mutant(NamedTuple):
    """The `at`-th place of a file, and what becomes of it."""

    file: str
    at: int
    line: int
    said: str


def changes(node: ast.AST) -> str:
    """What can be changed here, in words; "" for nothing."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        return f"{type(node.ops[0]).__name__} -> {COMPARED[type(node.ops[0])].__name__}"
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in COMPUTED:
        return f"{type(node.op).__name__} -> {COMPUTED[type(node.op)].__name__}"
    if isinstance(node, ast.BoolOp):
        return "and -> or" if isinstance(node.op, ast.And) else "or -> and"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return "not dropped"
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return f"{node.value} -> {node.value + 1}"
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        return f"{node.value} -> {not node.value}"
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        return "condition negated"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return "call dropped"
    return ""


def change(node: Any) -> None:
    """Do what `changes` says."""
    if isinstance(node, ast.Compare):
        node.ops[0] = COMPARED[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        node.op = COMPUTED[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp):
        node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
    elif isinstance(node, ast.Constant):
        node.value = node.value + 1 if type(node.value) is int else not node.value
    elif isinstance(node, ast.Expr):
        node.value = ast.Constant(None)
    else:
        node.test = ast.UnaryOp(ast.Not(), node.test)


def places(tree: ast.AST) -> Iterator[Any]:
    """What can be changed, in order; texts of errors, types and asserts stay."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Raise | ast.Assert | ast.AnnAssign | ast.JoinedStr):
            continue
        if changes(node):
            yield node
        skipped = ("annotation", "returns", "decorator_list", "slice_")
        children = [
            child
            for name, value in ast.iter_fields(node)
            if name not in skipped
            for child in (value if isinstance(value, list) else [value])
            if isinstance(child, ast.AST)
        ]
        todo += reversed(children)


def mutants() -> list[Mutant]:
    """All there are."""
    found = []
    for folder in ("alloc", "engine"):
        for path in sorted((ROOT / "pagedsim" / folder).rglob("*.py")):
            for at, node in enumerate(places(ast.parse(path.read_text(encoding="utf-8")))):
                name = path.relative_to(ROOT / "pagedsim").as_posix()
                found.append(Mutant(name, at, node.lineno, changes(node)))
    return found


def compiled(mutant: Mutant) -> Any:
    """The code of a mutated file."""
    path = ROOT / "pagedsim" / mutant.file
    tree = ast.parse(path.read_text(encoding="utf-8"))
    change(next(node for at, node in enumerate(places(copy.copy(tree))) if at == mutant.at))
    return compile(ast.fix_missing_locations(tree), str(path), "exec")


def killed(mutant: Mutant | None, tests: Sequence[str], seconds: int) -> bool:
    """Whether the tests notice; None is the code as it is."""
    child = os.fork()
    if child:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return status != 0
            time.sleep(0.05)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return True
    os.setsid()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    try:
        os._exit(_run(mutant, tests))
    finally:
        os._exit(1)


def _run(mutant: Mutant | None, tests: Sequence[str]) -> int:
    import pytest

    if mutant is not None:
        target, code = str(ROOT / "pagedsim" / mutant.file), compiled(mutant)
        plain = SourceFileLoader.get_code

        def get_code(self: Any, fullname: str) -> Any:
            return code if self.path == target else plain(self, fullname)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
    os.environ["HYPOTHESIS_PROFILE"] = "dev"
    given = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0",
             "-W", "ignore::pytest.PytestAssertRewriteWarning",
             "-k", "not planted and not rejects"]  # fmt: skip
    return int(pytest.main([*given, *tests]))


def tests_of(file: str) -> list[str]:
    """The fast tests of its area."""
    return next(tests for start, tests in TESTS.items() if file.startswith(start))


def main() -> None:
    """Try a sample."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=120, help="a mutant's time")
    parser.add_argument("--until", type=float, default=1e9, help="minutes; then it stops")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.chdir(ROOT)
    import hypothesis
    import msgspec
    import numpy
    import polars
    import pytest
    import simpy

    del hypothesis, msgspec, numpy, polars, pytest, simpy
    every = mutants()
    sample = random.Random(options.seed).sample(every, min(options.mutants, len(every)))
    for tests in {tuple(tests_of(mutant.file)) for mutant in sample}:
        if killed(None, tests, 20 * options.seconds):
            sys.exit(f"error: {' '.join(tests)} fail as the code is")
    began, rows = time.monotonic(), []
    for mutant in sample:
        if time.monotonic() - began > 60 * options.until:
            break
        dead = killed(mutant, tests_of(mutant.file), options.seconds)
        rows.append({**mutant._asdict(), "killed": dead})
        if options.json is not None:
            options.json.write_text(json.dumps(rows, indent=1))
        word = "killed" if dead else "SURVIVES"
        print(f"{len(rows)}/{len(sample)} {mutant.file}:{mutant.line} {mutant.said}: {word}",
              flush=True)  # fmt: skip
    dead = sum(row["killed"] for row in rows)
    print(f"{dead} of {len(rows)} killed (of {len(every)} places, seed {options.seed})")


if __name__ == "__main__":
    main()
