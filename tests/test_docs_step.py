"""README.zh-CN.md says what README.md says, and the site has every page.

What needs no knowledge of Chinese is compared, section by section: levels of headings, blocks, rows
of tables, links, code in running text and numbers. Who changes one README changes the other.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
GLOSSARY = "## 术语对照"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Section(NamedTuple):
    """What a section shows that is the same in every language."""

    level: int
    blocks: list[str]
    links: Counter[str]
    code: Counter[str]
    numbers: Counter[str]
    rows: int
    items: int


def sections(readme: str) -> list[Section]:
    """Sections in order; a ``#`` in a block is no heading, links between READMEs are left out."""
    shown = [fence[0] for fence in FENCE.finditer(readme)]
    text = FENCE.sub("\0", readme)
    found, at = [], 0
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE)[1:]:
        here = part.count("\0")
        links = Counter(re.findall(r"\]\(([^)\s]+)\)", part))
        words = re.sub(r"`[^`\n]+`|\]\([^)\s]+\)", " ", part)
        found.append(
            Section(
                level=len(part) - len(part.lstrip("#")),
                blocks=shown[at : at + here],
                links=Counter({k: n for k, n in links.items() if not k.startswith("README")}),
                code=Counter(re.findall(r"`([^`\n]+)`", part)),
                numbers=Counter(re.findall(r"\d+(?:[.,]\d+)*", words)),
                rows=len(re.findall(r"^\|", part, re.MULTILINE)),
                items=len(re.findall(r"^- ", part, re.MULTILINE)),
            )
        )
        at += here
    return found


def difference(english: str, chinese: str) -> str:
    """The first difference in words, empty if there is none."""
    ours, theirs = sections(english), sections(chinese)
    if len(ours) != len(theirs):
        return f"README.md has {len(ours)} headings, README.zh-CN.md {len(theirs)}"
    for at, (one, other) in enumerate(zip(ours, theirs, strict=True), 1):
        for field, left, right in zip(Section._fields, one, other, strict=True):
            if left != right:
                if isinstance(left, Counter):  # the many that agree would hide the one
                    left, right = dict(left - right), dict(right - left)
                return f"section {at}: {field} are {left} in README.md, {right} in README.zh-CN.md"
    return ""


def translated() -> str:
    """The Chinese README without its glossary, which the English one has no need of."""
    text, heading, _ = CHINESE.partition(GLOSSARY)
    assert heading
    return text


def test_the_chinese_readme_is_in_step() -> None:
    assert difference(ENGLISH, translated()) == ""
    assert [len(section.blocks) for section in sections(ENGLISH)] != []
    assert sum(len(section.blocks) for section in sections(ENGLISH)) == len(FENCE.findall(ENGLISH))


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("\n## ", "\n### "),
        ("pagedsim curve chat-shared\n", "pagedsim curve chat\n"),
        ("](docs/forks.md)", "](docs/radix.md)"),
        ("`--rate`", "`--rates`"),
        ("19,366", "19,336"),
        ("| Orca (Pow2) | 26.6", "| Orca (Pow2) | 26.7"),
        ("\n- **", "\n**"),
    ],
)
def test_what_is_changed_in_one_readme_alone_is_seen(was: str, now: str) -> None:
    assert was in ENGLISH
    assert difference(ENGLISH.replace(was, now, 1), translated())


def test_each_readme_links_to_the_other() -> None:
    assert "](README.zh-CN.md)" in ENGLISH
    assert "](README.md)" in CHINESE


def test_the_glossary_has_each_word_once_in_both_languages() -> None:
    rows = re.findall(r"^\|(.+)\|(.+)\|(.+)\|$", CHINESE.partition(GLOSSARY)[2], re.MULTILINE)[2:]
    words = [[cell.strip() for cell in row] for row in rows]
    assert len(words) > 30
    assert len({english for english, _, _ in words}) == len(words)
    for english, chinese, meaning in words:
        assert english.isascii(), english
        assert re.search(r"[\u4e00-\u9fff]", chinese), english
        assert meaning, english
    known = {english for english, _, _ in words}
    states = {
        "live",
        "reserved",
        "internal fragmentation",
        "external fragmentation",
        "cached",
        "idle",
    }
    assert known >= states


NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]


def test_every_page_is_on_the_site_once() -> None:
    pages = re.findall(r"^ *- [^:\n]+: (\S+\.md)$", NAV, re.MULTILINE)
    notebooks = {f"notebooks/{path.stem}.md" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert sorted(pages) == sorted({path.name for path in (ROOT / "docs").glob("*.md")} | notebooks)


def test_pages_of_the_site_link_only_to_pages_of_the_site() -> None:
    """Another file of the repository is not on the site: its link would lead nowhere there."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path = target.partition("#")[0]
            if path and not target.startswith("http"):
                place = (page.parent / path).resolve()
                notebook = place.parent == ROOT / "notebooks" and place.suffix == ".ipynb"
                assert notebook or place.parent == ROOT / "docs", f"{page.name}: {target}"
