"""Readers against files made to be slow or large: bounded time and memory, and an answer.

They are read one after another in a process of their own, which tells how long each took and how
large it made the process.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard
from odd_inputs import inputs

MIB = 1 << 20
LONG = inputs(16, 16, 100) * MIB
ROW = b'{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]'
AZURE = b"TIMESTAMP,ContextTokens,GeneratedTokens"
PLAIN = AZURE + b"\n2023-11-16 18:15:46.6805900,374,"
BOMB = "hold more than 268435456 bytes in [0-9]+, as no trace does; decompress the file first"
READ = """
import json, re, resource, sys, time
from pathlib import Path
from pagedsim.errors import InputError
from pagedsim.trace.logs.read import Choices, from_logs
from pagedsim.trace.reading import load

def memory(name):
    text = Path("/proc/self/status").read_text()
    return int(re.search(name + r":\\s+(\\d+)", text)[1]) << 10

resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
for path in sys.argv[1:]:
    Path("/proc/self/clear_refs").write_text("5")
    before, began, children = memory("VmRSS"), time.process_time(), resource.RUSAGE_CHILDREN
    try:
        trace = from_logs([path], Choices()).trace if path.endswith("log") else load(path)
        said = f"{len(trace)} requests"
    except InputError as error:
        said = str(error)
    seconds = time.process_time() - began
    print(json.dumps([said, seconds, memory("VmHWM") - before]), flush=True)
"""


def _parquet() -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame({"a": pl.repeat(1, 2 * 10**7, dtype=pl.Int8, eager=True)}).write_parquet(buffer)
    return buffer.getvalue()


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "gzip-bomb": (lambda: gzip.compress(bytes(300 * MIB), 1), f"gzip data {BOMB}"),
    "zstd-bomb": (lambda: zstandard.compress(b"1" * (300 * MIB), 1), f"Zstandard data {BOMB}"),
    "rows": (_parquet, "20000000 rows in [0-9]+ bytes are no requests"),
    "long-line": (lambda: ROW + b', "x": "' + b"a" * LONG + b'"}', "^1 requests"),
    "long-word": (lambda: b"a" * LONG, ":1: the header cannot be read"),
    "nested": (lambda: b"[" * LONG, ":1: not a trace: JSON nested too deeply"),
    "nested-inside": (lambda: ROW + b', "x":' + b'{"a":' * MIB, "nested too deeply"),
    "digits": (lambda: b'{"timestamp": ' + b"1" * LONG + b"}", ":1: not JSON: Exceeds the limit"),
    "ids": (lambda: ROW[:-1] + b",1" * (2 * MIB) + b"]}", "hash_ids has 2097154 ids"),
    "keys": (
        lambda: b"{" + b"".join(b'"k%d":1,' % i for i in range(200_000)) + b'"k199999":1}',
        ":1: key k199999 is there twice",
    ),
    "columns": (lambda: AZURE + b",a" * LONG + b"\n", ":1: the header has [0-9]+ columns, must"),
    "cell": (lambda: PLAIN + b"4" * LONG, ":2: not CSV: field larger than"),
    "quote": (lambda: PLAIN + b'"' + b"4\n" * (LONG // 2), ":2: not CSV: field larger than"),
    "blanks": (lambda: ROW + b"}" + b"\n" * LONG, "^1 requests"),
    "frames": (lambda: zstandard.compress(b"") * 20_000, ":1: the file is empty"),
    "members": (lambda: gzip.compress(b"") * 20_000, ":1: the file is empty"),
    "gzip-bomb-log": (lambda: gzip.compress(b"a" * (300 * MIB), 1), "line 1 is no header"),
    "zstd-bomb-log": (lambda: zstandard.compress(b"a" * (300 * MIB), 1), "line 1 is no header"),
    "long-line-log": (lambda: b'{"prompt":"' + b"a" * LONG + b'","completion":"b"}', "^1 requests"),
    "nested-log": (lambda: b"[" * LONG, "broken JSON, or JSON that ends early"),
    "unclosed-log": (lambda: b'[{"prompt":"' + b"a" * LONG, "JSON that ends early"),
    "columns-log": (lambda: b"prompt_tokens,output_tokens" + b",a" * LONG, "has [0-9]+ columns"),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, Any]]:
    """By name: the file's size, and (what was said, seconds of processor time, bytes)."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("how large a process has been is told by /proc")
    folder = tmp_path_factory.mktemp("hostile")
    files = [folder / name for name in HOSTILE]
    for file in files:
        file.write_bytes(HOSTILE[file.name][0]())
    command = [sys.executable, "-c", READ, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-500:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    sizes = [file.stat().st_size for file in files]
    for file in files:
        file.unlink()
    return dict(zip(HOSTILE, zip(sizes, rows, strict=True), strict=True))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_gets_an_answer(answers: dict[str, tuple[int, Any]], name: str) -> None:
    size, (said, seconds, memory) = answers[name]
    assert re.search(HOSTILE[name][1], said)
    assert len(said) < 700
    assert seconds < 20
    assert memory < 400 * MIB + 8 * size
