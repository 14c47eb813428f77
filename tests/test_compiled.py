"""What holds of the modules that can be compiled, whether they are or not."""

from __future__ import annotations

import ast
import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pagedsim.errors import SpecError
from pagedsim.specs import (
    _REQUIRED,
    ALLOCATORS,
    SCHEDULERS,
    STEPTIMES,
    make_steptime,
    part_of,
)

ROOT = Path(__file__).parent.parent
HOOK = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LISTED = HOOK["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]["include"]
COMPILED = {path.removeprefix("/") for path in LISTED}


def classes(path: Path) -> Iterator[ast.ClassDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def open_to_all(node: ast.ClassDef) -> bool:
    """Whether others may inherit from it though it is compiled."""
    return any("allow_interpreted_subclasses" in ast.unparse(each) for each in node.decorator_list)


def closed() -> set[str]:
    """Classes that only compiled ones can inherit from."""
    plain = ("NamedTuple", "Protocol", "IntEnum", "Enum")
    found = set()
    for path in COMPILED:
        for node in classes(ROOT / path):
            bases = {ast.unparse(base) for base in node.bases}
            if not open_to_all(node) and not bases & set(plain):
                found.add(node.name)
    return found


HERE = pytest.mark.skipif(
    not (ROOT / "pagedsim").is_dir(), reason="the sources are not beside the tests"
)


@HERE
def test_nothing_interpreted_inherits_from_what_is_compiled() -> None:
    """That is an error only once it is compiled."""
    names, wrong = closed(), []
    assert {"Source", "Request", "Batch"} <= names
    for path in sorted((ROOT / "pagedsim").rglob("*.py")):
        if str(path.relative_to(ROOT)) in COMPILED:
            continue
        for node in classes(path):
            wrong += [(path.name, node.name) for base in node.bases if ast.unparse(base) in names]
    assert not wrong


PARTS = {**ALLOCATORS, **SCHEDULERS, **STEPTIMES}


@pytest.mark.parametrize("make", PARTS.values(), ids=PARTS)
def test_what_a_compiled_constructor_requires_has_a_type(make: Any) -> None:
    """Of an option without a default nothing else says what it is."""
    if not isinstance(make, type) or f"{make.__module__.replace('.', '/')}.py" not in COMPILED:
        return  # it says its types
    hidden = {"capacity", "blocks", "max_len", "device"}
    for option, parameter in inspect.signature(make).parameters.items():
        assert parameter.default is not parameter.empty or option in {*hidden, *_REQUIRED}


def test_a_required_option_of_another_type() -> None:
    with pytest.raises(SpecError, match="ms is 'x', must be a number"):
        make_steptime("constant:ms=x")
    assert part_of("vllm:chunked=0,full_input=1")[1] == {"chunked": False, "full_input": True}
    assert part_of("paged:free_order=0.11")[1] == {"free_order": "0.11"}
