"""Small sizes for a part that takes some: edges are met often in a pool of five blocks.

What a constructor needs of `capacity`, `blocks` and `max_len` is drawn, and `block`, `chunk`
or `page` where it has one. What is given already (`functools.partial`, a default of `capacity`)
stays.

A part may hand out slots by a size that its constructor does not take. That is its *grain*: what a
sequence of one token holds. Pools are then a few grains large, and sequences too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from pagedsim.errors import SpecError
from pagedsim.testing.sequences import sequence

GRAIN = 256  # slots; what takes more for one token reserves for a whole sequence, as far as known
_FINE = 4  # slots; pools of a few tens of slots hold many of these
_PROBE = {"capacity": 16 * GRAIN, "blocks": 16, "max_len": 4 * GRAIN}
_Sizes = st.SearchStrategy[int]
_CHOSEN = {name: st.integers(1, 4) for name in ("block", "chunk", "page")}


def name_of(make: Callable[..., Any]) -> str:
    """What a part is called."""
    inner = make.func if isinstance(make, functools.partial) else make
    said = getattr(inner, "__name__", type(inner).__name__)
    return "part" if said == "<lambda>" else said


def taken(make: Callable[..., Any]) -> list[str]:
    """The parameters of `make` that are sizes and not given yet, so that they are drawn."""
    parameters = inspect.signature(make).parameters
    given = make.keywords if isinstance(make, functools.partial) else {}
    empty = inspect.Parameter.empty
    needed = [key for key in _PROBE if key in parameters and parameters[key].default is empty]
    return needed + [key for key in _CHOSEN if key in parameters and key not in given]


def drawn(make: Callable[..., Any]) -> dict[str, _Sizes]:
    """A strategy for each size that `make` takes. A pool is built once, to learn its grain."""
    names = taken(make)
    found = {key: _CHOSEN[key] for key in names if key in _CHOSEN}
    if len(found) < len(names):
        sizes = _required(grain(Maker(make, {key: _PROBE.get(key, 1) for key in names})))
        found |= {key: sizes[key] for key in names if key in sizes}
    return found


def _required(grain: int) -> dict[str, _Sizes]:
    """Sizes of pools and bounds of lengths: a few grains, with most of them few."""
    if grain > _FINE:
        few = _grains(grain, 1, 3)
        capacity, max_len = _mostly(_grains(grain, 4, 9), few), _mostly(_grains(grain, 4, 7), few)
    else:
        capacity = _mostly(st.integers(4, 24), st.integers(25, 120))
        max_len = _mostly(st.integers(3, 12), st.integers(13, 40))
    return {"capacity": capacity, "blocks": st.integers(3, 9), "max_len": max_len}


def _mostly(usual: _Sizes, other: _Sizes) -> _Sizes:
    """One in four is of the `other` kind. (`one_of` takes a branch given twice as one.)"""
    return st.tuples(st.integers(0, 3), usual, other).map(lambda drawn: drawn[1 + drawn[0] // 3])


def _grains(grain: int, least: int, most: int) -> _Sizes:
    """From `least` whole grains to `most`, and a part of one more."""
    return st.builds(
        lambda whole, rest: whole * grain + rest,
        st.integers(least, most),
        st.integers(0, grain - 1),
    )


def grain(make: Callable[[], Any]) -> int:
    """Slots by which what `make` builds hands them out; 1 where that is not to be seen.

    What it states (`block`, `chunk`, `page`), else what a sequence of one token holds or, where
    that is less, has room for. One part is built, and called as an engine would.
    """
    try:
        part = make()
        for name in _CHOSEN:
            stated = getattr(part, name, None)
            if type(stated) is int and 1 <= stated <= GRAIN:
                return stated
        seq = sequence(0, 1, 1)
        if not part.admit(seq, 1):
            return 1
        found = min(int(part.usage().held), int(part.room(seq)))
    except Exception:  # the suite, which makes the same calls, says what is wrong
        return 1
    return found if 1 <= found <= GRAIN else 1


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


__all__ = ["GRAIN", "Maker", "drawn", "grain", "makers", "name_of", "taken"]
