"""The command line as a test runs it: in this process, or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from typer.testing import CliRunner

from pagedsim.cli import app

ROOT = Path(__file__).resolve().parents[2]
TRACE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.0000000,374,44
2023-11-16 18:15:46.5000000,396,109
2023-11-16 18:15:47.0000000,879,55
2023-11-16 18:15:47.2500000,91,16
2023-11-16 18:15:48.0000000,91,16
2023-11-16 18:15:48.0000000,381,84
2023-11-16 18:15:48.5000000,1313,142
2023-11-16 18:15:49.0000000,388,84
"""


class Said(NamedTuple):
    code: int
    out: str
    err: str


def pagedsim(*args: object, width: int = 80, given: str | bytes | None = None) -> Said:
    """Run a command in this process; an exception that is none of the program's is the test's."""
    ran = CliRunner().invoke(app, [*map(str, args)], env={"COLUMNS": str(width)}, input=given)
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return Said(ran.exit_code, ran.stdout, ran.stderr)


def refused(*args: object) -> str:
    """What a command says that must end with 2, have shown nothing and written nothing."""
    before = sorted(os.listdir())
    said = pagedsim(*args)
    assert (said.code, said.out) == (2, ""), said
    assert said.err.startswith("error: ")
    assert sorted(os.listdir()) == before
    return said.err.strip()


def process(*args: str, **more: Any) -> subprocess.Popen[bytes]:
    """``python -m pagedsim`` with pipes, in the current folder."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "80"}
    env |= more.pop("env", {})
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, "-m", "pagedsim", *args], env=env, **{**streams, **more}
    )


def on_terminal(*args: str, **env: str) -> bytes:
    """What a command that ends well shows on a terminal with colours, escape codes included."""
    import pty

    master, slave = pty.openpty()
    with process(*args, stdout=slave, env={"TERM": "xterm-256color", **env}) as ran:
        os.close(slave)
        shown = b""
        try:
            while part := os.read(master, 65536):
                shown += part
        except OSError:  # the terminal's other side is closed
            pass
        ran.communicate(timeout=50)
    os.close(master)
    assert ran.returncode == 0
    return shown


def results(*args: object) -> dict[str, Any]:
    """The JSON of a run that succeeds, without what differs between two runs of one command."""
    said = pagedsim(*args, "--json", "-")
    assert said.code == 0, said.err
    found: dict[str, Any] = msgspec.json.decode(said.out.encode())
    for run in found["runs"]:
        for key in ("created", "wall_s", "command"):
            del run["provenance"][key]
    return found
