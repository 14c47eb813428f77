"""The public surface: what every module offers is listed in order, and exists."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import pagedsim

_MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(pagedsim.__path__, "pagedsim.")
    if not name.endswith("__main__")
]


@pytest.mark.parametrize("name", ["pagedsim", *_MODULES])
def test_what_is_listed_is_there(name: str) -> None:
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)
    if listed is None:  # a package without names of its own, or commands
        assert hasattr(module, "__path__") or name.startswith("pagedsim.cli.")
        return
    assert listed == sorted(listed, key=_rank)
    assert len(set(listed)) == len(listed)
    for each in listed:
        assert getattr(module, each) is not None


def _rank(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as ruff has them."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2, name


def test_the_package_lists_what_it_has() -> None:
    assert dir(pagedsim) == sorted(pagedsim.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'"):
        _ = pagedsim.nosuch


def test_importing_the_package_costs_little() -> None:
    heavy = "numpy polars simpy matplotlib rich typer"
    code = f"import sys, pagedsim; print(*[n for n in {heavy.split()} if n in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""
