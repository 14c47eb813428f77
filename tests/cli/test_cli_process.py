"""A process of its own: pipes, signals, terminals."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from command import on_terminal, process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes of POSIX")

PRESS = """
import os, signal

class Press:
    '''A step-time model that presses Ctrl-C.'''

    def __init__(self, after):
        self.left = after

    def ns(self, load):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return 10**6
"""


def _ends(*args: str, **more: object) -> tuple[int, str, str]:
    with process(*args, **more) as ran:
        out, err = ran.communicate(timeout=50)
    return ran.returncode, (out or b"").decode(), err.decode()


def test_python_m() -> None:
    code, out, err = _ends("--version")
    assert (code, err) == (0, "")
    assert out.startswith("pagedsim ")
    code, out, err = _ends("compare", "--nosuch")
    assert (code, out) == (2, "")
    assert "See: pagedsim compare --help" in err


@pytest.mark.parametrize("after", [1, 60])
def test_an_interrupt_leaves_nothing(folder: Path, after: int) -> None:
    (folder / "press.py").write_text(PRESS)
    (folder / "o.json").write_text("old")
    code, out, err = _ends(
        *("compare", "t.csv", "--steptime", f"press:Press?after={after}", "--json", "o.json"),
        *("--series", "s.parquet", "--series-steps", "t.parquet", "--requests", "r.parquet"),
        env={"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert (code, out, err) == (130, "", "interrupted\n")
    assert (folder / "o.json").read_text() == "old"
    assert sorted(os.listdir()) == ["o.json", "press.py", "t.csv"]


def test_a_reader_that_goes_away(folder: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        code, _, err = _ends("compare", "t.csv", "--json", "o.json", stdout=write)
    finally:
        os.close(write)
    assert (code, err) == (141, "")
    assert (folder / "o.json").exists()


def test_standard_input(folder: Path) -> None:
    with open("t.csv", "rb") as trace:
        code, out, _ = _ends("replay", "-", stdin=trace)
    assert code == 0
    assert out.startswith("stdin · 8 requests")
    for words in (("replay",), ("trace", "info"), ("curve",)):
        code, out, err = _ends(*words, "-", preexec_fn=lambda: os.close(0), stdin=None)
        assert (code, out, err) == (2, "", "error: <stdin>: is closed, a trace is needed\n")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
def test_output_that_cannot_be_written(folder: Path) -> None:
    with open("/dev/full", "wb") as full:
        code, _, err = _ends("compare", "t.csv", stdout=full)
    assert (code, err) == (2, "error: No space left on device\n")


def test_colours_are_for_terminals(folder: Path) -> None:
    for value, coloured in (("1", False), ("", True)):
        assert (b"\x1b[38;5;29m" in on_terminal("replay", "t.csv", NO_COLOR=value)) is coloured
    assert "\x1b" not in _ends("replay", "t.csv")[1]


def test_an_interrupt_while_it_waits_for_input(folder: Path) -> None:
    with process("replay", "-", stdin=-1, env={"PYTHONUNBUFFERED": "1"}) as ran:
        assert ran.stdin is not None
        ran.stdin.write(b"x" * (1 << 20))  # more than a pipe holds: it is being read
        ran.stdin.flush()
        time.sleep(0.3)  # and now it waits for more
        ran.send_signal(signal.SIGINT)
        assert ran.wait(timeout=50) == 130
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ran, "stdin", None)
            assert ran.stderr is not None
            assert ran.stderr.read() == b"interrupted\n"
