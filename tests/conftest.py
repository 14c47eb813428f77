"""What all tests share: how many examples, and where reference data lies.

`HYPOTHESIS_PROFILE` chooses `dev` (the default), `ci` (the default where CI is set: the same
examples every time) or `deep`. `PAGEDSIM_SHARED` is the folder of reference data that is not part
of the repository; tests that need it are skipped without it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from pagedsim.testing.profiles import EXAMPLES, profile

ROOT = Path(__file__).resolve().parents[1]

for _name in EXAMPLES:
    settings.register_profile(_name, profile(_name))
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data, from `PAGEDSIM_SHARED`; by default beside the repository."""
    folder = Path(os.environ.get("PAGEDSIM_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"reference data: {folder} is no folder (set PAGEDSIM_SHARED)")
    return folder


@pytest.fixture(scope="session")
def golden() -> Path:
    """Recorded runs of real engines; its README says what they hold."""
    return ROOT / "tests" / "golden"
