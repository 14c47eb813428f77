from __future__ import annotations

from pathlib import Path

import pytest
from command import TRACE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with a trace of eight requests in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TRACE)
    return tmp_path
