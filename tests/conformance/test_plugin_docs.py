"""docs/plugins.md lists the laws that each suite checks, by name and in words."""

from __future__ import annotations

import re
from pathlib import Path

from pagedsim.testing import SUITES, allocator_suite

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
TITLES = {
    "allocator": "An allocator",
    "eviction": "An eviction policy",
    "scheduler": "A scheduler",
    "steptime": "A step-time model",
}


def test_the_page_lists_the_laws() -> None:
    shared = allocator_suite(object).laws
    for kind, suite in SUITES.items():
        laws = suite(object).laws
        if kind == "eviction":
            laws = {name: said for name, said in laws.items() if shared.get(name) != said}
        found = re.search(rf"^### {TITLES[kind]}: laws\n(.*?)(?=^#|\Z)", TEXT, re.M | re.S)
        assert found is not None, kind
        rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", found[1], re.M))
        assert rows == dict(laws), kind
