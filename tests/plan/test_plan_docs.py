"""docs/plan.md names every field of the files, every metric, every word, every kind of change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from pagedsim.analysis.plan import FIND
from pagedsim.analysis.plan_binds import WORDS
from pagedsim.analysis.plan_result import Plan
from pagedsim.analysis.plan_slo import COUNTS, STATISTICS, TIMES, UNITS
from pagedsim.analysis.results import Binds, Compute, TraceInfo
from pagedsim.analysis.whatif_changes import KINDS
from pagedsim.analysis.whatif_result import WhatIf

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "plan.md").read_text(encoding="utf-8")
DEFINED_ELSEWHERE = (Binds, Compute, TraceInfo)  # in docs/model.md


def fields(kind: Any) -> Iterator[str]:
    for name, hint in get_type_hints(kind).items():
        yield name
        inner = [hint]
        while inner:
            one = inner.pop()
            inner += get_args(one)
            if isinstance(one, type) and issubclass(one, msgspec.Struct):
                yield from () if one in DEFINED_ELSEWHERE else fields(one)


def test_every_field_is_defined() -> None:
    words = set(re.findall(r"\w+", PAGE))
    names = {*fields(Plan), *fields(WhatIf)}
    assert len(names) > 60
    assert names - words == set()


def test_every_word_is_explained() -> None:
    for word in WORDS:
        assert f"| {word} |" in PAGE or f"*{word}*" in PAGE, word
    for find in FIND:
        assert f"| `{find}`" in PAGE, find
    for metric in (*TIMES, *COUNTS):
        assert f"`{metric}" in PAGE, metric
    for name in (*STATISTICS, *UNITS):
        assert f"`{name}`" in PAGE, name
    for kind in KINDS:
        assert re.search(rf"^\| .*{kind}", PAGE, re.MULTILINE), kind
