"""Small sizes for a part that takes some: edges are met often in a pool of five blocks.

What a constructor needs of `capacity`, `blocks` and `max_len` is drawn, and `block`, `chunk`
or `page` where it has one. What is given already (`functools.partial`, a default of `capacity`)
stays.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from pagedsim.errors import SpecError

_REQUIRED = {
    "capacity": st.integers(4, 24),
    "blocks": st.integers(3, 9),
    "max_len": st.integers(3, 12),
}
_CHOSEN = {name: st.integers(1, 4) for name in ("block", "chunk", "page")}


def name_of(make: Callable[..., Any]) -> str:
    """What a part is called."""
    inner = make.func if isinstance(make, functools.partial) else make
    said = getattr(inner, "__name__", type(inner).__name__)
    return "part" if said == "<lambda>" else said


def drawn(make: Callable[..., Any]) -> dict[str, st.SearchStrategy[int]]:
    """A strategy for each parameter of `make` that is a size and not given yet."""
    parameters = inspect.signature(make).parameters
    given = make.keywords if isinstance(make, functools.partial) else {}
    found = {}
    for key, parameter in parameters.items():
        if key in _REQUIRED and parameter.default is parameter.empty:
            found[key] = _REQUIRED[key]
        elif key in _CHOSEN and key not in given:
            found[key] = _CHOSEN[key]
    return found


def makers(make: Callable[..., Any]) -> st.SearchStrategy[Maker]:
    """Makers of equal parts, of sizes that `make` takes (it may refuse some with SpecError)."""
    sizes = drawn(make)
    if not sizes:
        return st.just(Maker(make, {}))
    return st.fixed_dictionaries(sizes).map(lambda given: Maker(make, given)).filter(_possible)


class Maker:
    """`make` with sizes; each call gives another, equal part."""

    def __init__(self, make: Callable[..., Any], given: dict[str, int]) -> None:
        self.make, self.given = make, given

    def __call__(self) -> Any:
        return self.make(**self.given)

    def __repr__(self) -> str:
        given = dict(self.make.keywords) if isinstance(self.make, functools.partial) else {}
        given.update(self.given)
        return f"{name_of(self.make)}({', '.join(f'{key}={given[key]}' for key in given)})"


def _possible(maker: Maker) -> bool:
    """Whether it can be made, and holds a token at all if it holds any."""
    try:
        return bool(getattr(maker(), "longest", 1) > 0)
    except SpecError:
        return False


__all__ = ["Maker", "drawn", "makers", "name_of"]
