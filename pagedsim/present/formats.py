"""What pictures and pages may be written as, told by their names before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

from pagedsim.errors import SpecError

FIGURES = (".pdf", ".png", ".svg")
PAGES = (".htm", ".html")
TIMELINES = (".json", ".json.gz")


def suffix(path: str | os.PathLike[str], known: tuple[str, ...]) -> str:
    """Which of `known` the name ends in, whatever its case; SpecError if in none of them."""
    name = Path(path).name.lower()
    found = [each for each in known if name.endswith(each) and name != each]
    if not found:
        *most, last = known
        raise SpecError(f"{path}: the name must end in {', '.join(most)} or {last}")
    return found[0]


__all__ = ["FIGURES", "PAGES", "TIMELINES", "suffix"]
