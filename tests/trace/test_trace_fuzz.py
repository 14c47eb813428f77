"""Readers take any bytes: a trace comes out, or an error that a person can act on.

Valid files of every format are changed at random: bytes replaced, cut out, doubled, moved, or a
number in the text made another. ``HYPOTHESIS_PROFILE=deep`` tries 100,000 inputs, `ci` 3,000.
Values that are odd rather than broken are in `test_trace_odd.py`.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from functools import partial
from pathlib import Path

import pytest
import zstandard
from log_cases import logs
from odd_inputs import answer, bounded, from_log, inputs

from pagedsim.trace import store
from pagedsim.trace.trace import Trace

MADE = Trace.build(
    "x", [0, 5, 9], [3, 4, 2], [1, 2, 7], runs=([0, 1, 3, 4], [9, 4, 50, 4], [3, 1, 3, 2])
)
HEADS = {
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n",
    "burst": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n",
    "plain": "arrived_at,prompt_tokens,output_tokens\n",
}
SEEDS = {
    "azure": HEADS["azure"] + "2023-11-16 18:15:46.6805900,374,44\n" * 3,
    "burst": HEADS["burst"] + "5,ChatGPT,472,18,490,Conversation log\n" * 3,
    "plain": HEADS["plain"] + "0.5,37,4\n1.5,9,1\n",
    "mooncake": '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n'
    * 2,
    "own": store.dump(MADE, ".jsonl").decode(),
    "recorded": '{"requests": [{"id": 0, "arrival_step": 0, "prompt": [[5, 2]], "output_len": 1,'
    ' "output_start": 9}]}',
    "agent": '{"block_size": 64, "requests": [{"t": 0, "in": 70, "out": 3, "hash_ids": [1, 2]}]}',
}
BYTES = {name: text.encode() for name, text in SEEDS.items()}
BYTES["gzip"] = gzip.compress(BYTES["azure"], mtime=0)
BYTES["zstd"] = zstandard.compress(BYTES["mooncake"])
BYTES["parquet"] = store.dump(MADE, ".parquet")
LOGS = {name: b"\n".join(json.dumps(value).encode() for value in values) for name, values in logs()}
RUNS = (1000, 3000, 100_000)
NUMBERS = [
    b"-1",
    b"0",
    b"1e999",
    b"NaN",
    b"9" * 30,
    b"1.5",
    b'""',
    b"null",
    b"[]",
    b"true",
    b"\xff",
]


def changed(data: bytes, chance: random.Random) -> bytes:
    """`data` with one change, or a few."""
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        at, end = sorted(chance.randint(0, len(data)) for _ in range(2))
        end = min(end, at + 12)
        kind = chance.randrange(8)
        if kind == 0:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + data[end:]
        elif kind == 2:
            data = data[:end] + data[at:end] * chance.choice([1, 2, 50]) + data[end:]
        elif kind == 3:
            data = data[end:] + data[:end]
        elif kind == 4:
            data = data[:at]
        else:
            found = list(re.finditer(rb"[0-9.]+", data))
            if found:
                number = chance.choice(found)
                data = data[: number.start()] + chance.choice(NUMBERS) + data[number.end() :]
    return data


@pytest.mark.parametrize("name", BYTES)
def test_any_bytes_are_a_trace_or_an_error(name: str) -> None:
    chance = random.Random(name)
    assert not answer(BYTES[name]), "the seed itself"
    with bounded(seconds=20 + inputs(*RUNS) // 50):
        for _ in range(inputs(*RUNS) // len(BYTES)):
            answer(changed(BYTES[name], chance))


@pytest.mark.parametrize("name", LOGS)
def test_any_log_is_a_trace_or_an_error(tmp_path: Path, name: str) -> None:
    chance = random.Random(name)
    with bounded(seconds=20 + inputs(*RUNS) // 50):
        for _ in range(inputs(*RUNS) // 10 // len(LOGS)):
            data, skip_bad = changed(LOGS[name], chance), chance.random() < 0.5
            answer(data, partial(from_log, tmp_path / "f", skip_bad=skip_bad))
