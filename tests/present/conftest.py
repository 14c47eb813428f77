"""What the tests of pages share: one browser for all of a module, and the lesson's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browsers import started

from pagedsim.analysis.lesson.numbers import Lesson, lesson


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with started(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="session")
def numbers() -> Lesson:
    return lesson()
