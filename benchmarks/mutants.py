"""Mutants: one small change of one place of `alloc/` or `engine/`, and the code it becomes.

A *place* is a comparison, a sum, a constant, a condition or a call whose answer nobody wants.
Types, texts of errors and asserts stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "pagedsim"
COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_OPTIMISED = 1  # a code object's flag: of a function, and not of a class or a module


class Mutant(NamedTuple):
    """The `at`-th place of a file, and what becomes of it.

    `first` and `last` are the lines of the statement it is in, without the statements inside.
    """

    file: str
    at: int
    line: int
    first: int
    last: int
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


def places(tree: ast.AST) -> Iterator[tuple[Any, int, int]]:
    """(what can be changed, first and last line of its statement), in order."""
    todo: list[tuple[ast.AST, int, int]] = [(tree, 0, 0)]
    while todo:
        node, first, last = todo.pop()
        if isinstance(node, ast.Raise | ast.Assert | ast.AnnAssign | ast.JoinedStr):
            continue
        if isinstance(node, ast.stmt):
            inside = getattr(node, "body", None)
            first, last = node.lineno, node.end_lineno or node.lineno
            if inside:
                last = max(first, inside[0].lineno - 1)
        if changes(node):
            yield node, first, last
        skipped = ("annotation", "returns", "decorator_list")
        children = [
            (child, first, last)
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
        for path in sorted((SOURCE / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for at, (node, first, last) in enumerate(places(tree)):
                name = path.relative_to(SOURCE).as_posix()
                found.append(Mutant(name, at, node.lineno, first, last, changes(node)))
    return found


def compiled(mutant: Mutant | None, path: Path) -> CodeType:
    """The code of a file, mutated."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if mutant is not None:
        change(next(node for at, (node, *_) in enumerate(places(tree)) if at == mutant.at))
    return compile(ast.fix_missing_locations(tree), str(path), "exec")


def functions(code: CodeType) -> Iterator[CodeType]:
    """The code of every function in it, those inside functions included."""
    if code.co_flags & _OPTIMISED:
        yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from functions(inner)


def differing(mutant: Mutant) -> list[CodeType]:
    """The functions whose code the mutant changes.

    None where that is of no use: what runs at import, or a function that closes over less.
    """
    path = SOURCE / mutant.file
    plain = {_place(code): code for code in functions(compiled(None, path))}
    codes = [code for code in functions(compiled(mutant, path)) if code != plain[_place(code)]]
    alike = all(code.co_freevars == plain[_place(code)].co_freevars for code in codes)
    return codes if alike else []


def _place(code: CodeType) -> tuple[str, int]:
    """What tells a function of a file apart, if it is not a part of a line."""
    return code.co_qualname, code.co_firstlineno
