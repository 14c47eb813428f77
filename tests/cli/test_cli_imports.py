"""Starting is cheap: nothing heavy is loaded before a command needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from command import ROOT

HEAVY = (
    "numpy",
    "plotly",
    "rich",
    "polars",
    "simpy",
    "matplotlib",
    "msgspec",
    "pooch",
    "requests",
    "jinja2",
    "joblib",
)
COMMANDS = [
    "compare",
    "curve",
    "fit",
    "plan",
    "replay",
    "size",
    "sweep",
    "sweep run",
    "verify",
    "trace",
    "trace info",
    "trace fetch",
    "whatif",
]


@pytest.mark.parametrize("words", ["", "--version", "--help", *(f"{c} --help" for c in COMMANDS)])
def test_nothing_heavy_is_loaded(words: str) -> None:
    code = f"""
import contextlib, io, sys
sys.path.insert(0, {str(ROOT)!r})
from pagedsim.cli import main
sys.argv = ["pagedsim", *{words.split()!r}]
with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
    if sys.argv[1:]:
        main()
        assert said.getvalue()
print(*[name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
