"""The traces that come with pagedsim, by name.

In a wheel they lie in ``pagedsim/traces``, in a checkout in ``traces`` beside the package; a
trace is ``NAME.jsonl.gz``, its recipe ``NAME.toml``.
"""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".jsonl.gz"


def folder() -> Path | None:
    """Where they are; None if this copy came without them."""
    package = Path(__file__).resolve().parents[1]
    for place in (package / "traces", package.parent / "traces"):
        if any(place.glob(f"*{SUFFIX}")):
            return place
    return None


def names() -> list[str]:
    """Sorted names."""
    place = folder()
    return sorted(p.name.removesuffix(SUFFIX) for p in place.glob(f"*{SUFFIX}")) if place else []


def find(name: str) -> Path | None:
    """The trace's file."""
    place = folder()
    return place / f"{name}{SUFFIX}" if place and name in names() else None


def recipe(name: str) -> Path | None:
    """The recipe it was made from."""
    place = folder()
    path = place / f"{name}.toml" if place and name in names() else None
    return path if path and path.is_file() else None


__all__ = ["SUFFIX", "find", "folder", "names", "recipe"]
