"""What the tests of pages share: one browser for all of a module, and the lesson's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import opened, started

from pagedsim.analysis.lesson.numbers import Lesson, lesson
from pagedsim.present import lesson as present


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with started(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="session")
def numbers() -> Lesson:
    return lesson()


@pytest.fixture(scope="session")
def pages(numbers: Lesson, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The lesson by language."""
    folder = tmp_path_factory.mktemp("lesson")
    made = {lang: folder / f"{lang}.html" for lang in present.LANGUAGES}
    for lang, path in made.items():
        present.save(numbers, path, lang)
    return made


@pytest.fixture(scope="module")
def page(browser: Any, pages: dict[str, Path]) -> Any:
    """The English page, opened once: sections do not see each other."""
    opened(browser, pages["en"])
    return browser
