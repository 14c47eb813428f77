"""Readers take any bytes: a trace comes out, or an error that a person can act on.

Valid files of every format are changed at random: bytes replaced, cut out, doubled, moved, or a
number in the text made another. ``HYPOTHESIS_PROFILE=deep`` tries 100,000 inputs, `ci` 3,000.
"""

from __future__ import annotations

import gzip
import random
import re

import pytest
import zstandard
from hypothesis import settings

from pagedsim.errors import InputError
from pagedsim.trace import store
from pagedsim.trace.reading import read
from pagedsim.trace.source import Source, decompress
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


def taken(data: bytes) -> bool:
    """Whether `data` is read; InputError is an answer, anything else is not."""
    try:
        trace = read(Source("f", "f", decompress(data, "f"), ""))
    except InputError:
        return False
    assert len(trace) >= 1
    assert (trace.prompt >= 1).all()
    assert (trace.output >= 1).all()
    return True


def inputs() -> int:
    """By profile."""
    return {60: 1000, 200: 3000}.get(settings.default.max_examples, 100_000)


@pytest.mark.parametrize("name", BYTES)
def test_any_bytes_are_a_trace_or_an_error(name: str) -> None:
    chance = random.Random(name)
    assert taken(BYTES[name]), "the seed itself"
    for _ in range(inputs() // len(BYTES)):
        taken(changed(BYTES[name], chance))
