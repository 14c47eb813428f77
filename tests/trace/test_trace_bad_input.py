"""What cannot be read is refused with file, line, field, value and bound, never a traceback."""

from __future__ import annotations

import errno
import gzip
import json
import os
from pathlib import Path

import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pagedsim.errors import InputError
from pagedsim.trace import load, store
from pagedsim.trace.reading import read
from pagedsim.trace.source import Source, decompress
from pagedsim.trace.trace import Trace

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
ROW = "2023-11-16 18:15:46.6805900,374,44\n"
CAKE = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n'
OWN = store.dump(Trace.build("x", [0, 5], [3, 4], [1, 2]), ".jsonl").decode()
OWN_RUNS = store.dump(
    Trace.build("x", [0], [3], [1], runs=([0, 2], [9, 4], [1, 2])), ".jsonl"
).decode()
GOLD = '{"requests": [{"id": 0, "arrival_step": 0, "prompt": [[5, 2]], "output_len": 1, '
GOLD += '"output_start": 9}]}'
AGENT = '{"block_size": 64, "requests": [{"t": 0, "in": 70, "out": 3, "hash_ids": [1]}]}'
DEEP = "[" * 100_000


def row(**changes: object) -> str:
    return CAKE + json.dumps({**json.loads(CAKE), **changes}) + "\n"


CASES = {
    "negative": (
        HEAD + ROW * 16 + ROW.replace("374", "-4"),
        "f:18: ContextTokens is -4, must be >= 1",
    ),
    "zero prompt": (HEAD + ROW.replace("374", "0"), "f:2: ContextTokens is 0, must be >= 1"),
    "nan": (HEAD + ROW.replace("374", "NaN"), "f:2: ContextTokens is NaN, must be a whole number"),
    "fraction": (HEAD + ROW.replace("374", "3.5"), "f:2: ContextTokens is 3.5, must be a whole"),
    "huge": (HEAD + ROW.replace("374", "9" * 30), "f:2: ContextTokens is 999"),
    "over the bound": (HEAD + ROW.replace("374", "2000000000"), "must be <= 1000000000"),
    "empty cell": (HEAD + ROW.replace("374", ""), "f:2: ContextTokens is empty, must be"),
    "bad date": (HEAD + ROW.replace("11-16", "13-16"), "f:2: TIMESTAMP is 2023-13-16"),
    "no date": (HEAD + "yesterday,1,1\n", "f:2: TIMESTAMP is yesterday, must be a date"),
    "early date": (HEAD + ROW.replace("2023", "1023"), "f:2: TIMESTAMP is 1023-11-16"),
    "short row": (HEAD + ROW + "1,2\n", "f:3: has 2 columns, the header has 3"),
    "long row": (HEAD + ROW + ROW[:-1] + ",9\n", "f:3: has 4 columns, the header has 3"),
    "blank line": (HEAD + ROW + "\n" + ROW, "f:3: the line is blank"),
    "open quote": (HEAD + '"' + ROW, "f:2: not CSV"),
    "empty": ("", "f:1: the file is empty"),
    "only blanks": (" \n\n", "f:1: the file is empty"),
    "header only": (HEAD, "f:2: there are no rows below the header"),
    "all failed": (HEAD + ROW.replace(",44", ",0"), "f: all 1 requests have zero output"),
    "missing column": (
        "TIMESTAMP,ContextTokens\n",
        "f:1: column GeneratedTokens is missing; found: TIMESTAMP, ContextTokens",
    ),
    "missing length": ("num_prefill_tokens\n1\n", "f:1: column num_decode_tokens is missing"),
    "double column": (
        HEAD.replace("\n", ",ContextTokens\n"),
        "f:1: column ContextTokens is there twice",
    ),
    "unknown columns": ("a,b\n1,2\n", "f:1: not a trace: no known columns, such as"),
    "prose": ("Hello there.\nGeneral.\n", "f:1: not a trace"),
    "negative time": ("arrived_at,prompt,output\n-1,1,1\n", "f:2: arrived_at is -1, must be >= 0"),
    "late time": (
        "arrived_at,prompt,output\n1e30,1,1\n",
        "f:2: arrived_at is 1e30, must be <= 4000000000",
    ),
    "infinite time": (
        "arrived_at,prompt,output\ninf,1,1\n",
        "f:2: arrived_at is inf, must be a number",
    ),
    "json type": (row(input_length="600"), "f:2: input_length is 600, must be"),
    "json text": (row(input_length="many"), "f:2: input_length is many, must be a whole number"),
    "json bool": (row(input_length=True), "f:2: input_length is true, must be a whole number"),
    "json null": (row(input_length=None), "f:2: input_length is null, must be a whole number"),
    "json fraction": (
        row(input_length=600.5),
        "f:2: input_length is 600.5, must be a whole number",
    ),
    "json nan": (row(timestamp=float("nan")), "f:2: timestamp is NaN, must be a number"),
    "json negative": (row(output_length=-2), "f:2: output_length is -2, must be >= 1"),
    "json ids": (row(hash_ids="0"), "f:2: hash_ids is 0, must be a list of whole numbers"),
    "json id": (row(hash_ids=[0, -7]), r"f:2: hash_ids[1] is -7, must be >= 0"),
    "json huge id": (
        row(hash_ids=[0, 2**70]),
        r"f:2: hash_ids[1] is 1180591620717411303424, must be <=",
    ),
    "ids do not fit": (
        row(hash_ids=[0, 1, 2]),
        "f:2: hash_ids has 3 ids, input_length 600 needs 2",
    ),
    "missing key": (
        CAKE + '{"timestamp": 1}\n',
        "f:2: key input_length is missing; found: timestamp",
    ),
    "no known key": ('{"a": 1}\n', "f:1: not a trace: no known keys"),
    "not an object": (CAKE + "[1]\n", "f:2: not an object"),
    "list first": ("[1, 2]\n", "f:1: not a trace: the first JSON value is not an object"),
    "broken json": (CAKE + "{\n", "f:2: not JSON"),
    "cut json": (CAKE + CAKE[:30], "f:2: not JSON"),
    "key twice": (
        CAKE + CAKE.replace('"input', '"timestamp": 1, "input'),
        "f:2: key timestamp is there twice",
    ),
    "json blank line": (CAKE + "\n" + CAKE, "f:2: the line is blank"),
    "json blank first": ("\n" + CAKE, "f:1: the line is blank"),
    "deep": (DEEP, "f:1: not a trace: JSON nested too deeply"),
    "deep line": (CAKE + DEEP + "\n", "f:2: not a trace: JSON nested too deeply"),
    "own version": (OWN.replace("trace/1", "trace/9"), "f:1: pagedsim is trace/9, must be trace/1"),
    "own count": (
        OWN.replace('"requests":2', '"requests":3'),
        "f:1: requests is 3, but 2 rows follow",
    ),
    "own header": (OWN.replace('"timed":true', '"timed":7'), "f:1: the header is wrong"),
    "own columns": (OWN.replace('"output"]', '"salts"]'), "f:1: columns are"),
    "own value": (OWN.replace("[5,4,2]", "[5,0,2]"), "f:3: prompt is 0, must be >= 1"),
    "own long": (
        OWN.replace("[5,4,2]", "[5,4,4000000000]"),
        "f:3: output is 4000000000, must be <= 10",
    ),
    "own type": (OWN.replace("[5,4,2]", '[5,"4",2]'), "f:3: prompt is 4, must be a whole number"),
    "own width": (OWN.replace("[5,4,2]", "[5,4]"), "f:3: must be a list of 3 values"),
    "own empty": (OWN.split("\n")[0], "f:2: no requests below the header"),
    "own runs": (
        OWN_RUNS.replace("[9,1,4,2]", "[9,1,4,3]"),
        "f:2: runs hold 4 tokens, prompt is 3",
    ),
    "own odd runs": (
        OWN_RUNS.replace("[9,1,4,2]", "[9,1,4]"),
        "f:2: runs is a list, must be pairs",
    ),
    "own bad run": (OWN_RUNS.replace("[9,1,4,2]", "[9,-1,4,4]"), "f:2: runs hold (9, -1)"),
    "recorded id": (GOLD.replace('"id": 0', '"id": 4'), "f: request 0: id is 4, must be 0"),
    "recorded run": (GOLD.replace("[5, 2]", "[5]"), "f: request 0: prompt must be a list of runs"),
    "recorded length": (
        GOLD.replace("[5, 2]", "[5, 0]"),
        "f: request 0: length of a run is 0, must be >= 1",
    ),
    "recorded output": (
        GOLD.replace('"output_len": 1', '"output_len": 0'),
        "output_len is 0, must be >= 1",
    ),
    "recorded key": (
        GOLD.replace('"output_len": 1, ', ""),
        "f: request 0: key output_len is missing",
    ),
    "recorded none": ('{"requests": []}', "f: no requests in it"),
    "agent value": (
        AGENT.replace('"in": 70', '"in": -1'),
        "f:1: requests[0]: in is -1, must be >= 1",
    ),
    "agent ids": (AGENT.replace("[1]", "[1, 2, 3]"), "f:1: hash_ids has 3 ids, in 70 needs 1"),
    "agent block": (AGENT.replace("64", "0"), "f:1: block_size is 0, must be >= 1"),
    "agent list": (AGENT.replace('{"t"', '7, {"t"'), "f:1: requests[0]: not an object"),
    "kvcacheai block": (
        '{"hash_ids": [1], "input_length": 4, "block_size": 4}\n'
        '{"hash_ids": [1], "input_length": 4, "block_size": 8}\n',
        "f:2: block_size is 8, must be 4 as in the first row",
    ),
    "kvcacheai tokens": (
        '{"hash_ids": [1], "input_length": 4, "block_size": 4, "block_tokens": [5]}\n',
        "f:1: block_tokens is a list, must list 1 to 4 tokens for each of 1 hash_ids",
    ),
    "kvcacheai sum": (
        '{"hash_ids": [1], "input_length": 3, "block_size": 4, "block_tokens": [4]}\n',
        "f:1: block_tokens add up to 4, input_length is 3",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_text(case: str, tmp_path: Path) -> None:
    text, message = CASES[case]
    path = tmp_path / "f"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load(path, zero_output="drop")
    assert str(caught.value).removeprefix(f"{tmp_path}{os.sep}").startswith(message) or (
        message in str(caught.value)
    )
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < len(str(path)) + 300


BYTES = {
    "utf-16": ((HEAD + ROW).encode("utf-16"), ":1: the text is UTF-16, must be UTF-8"),
    "latin-1": ((HEAD + ROW + "né\n").encode("latin-1"), ":3: byte 0xe9 is not UTF-8 text"),
    "binary": (b"\x7fELF\x02\x00\x01\n\x00", ":1: byte 5 is NUL: binary data, not a trace"),
    "cut gzip": (gzip.compress((HEAD + ROW).encode())[:-9], ": the gzip data end early"),
    "bad gzip": (gzip.compress((HEAD + ROW).encode())[:-8] + b"12345678", ": broken gzip data"),
    "gzip rubbish": (b"\x1f\x8b" + b"rubbish" * 9, ": broken gzip data"),
    "cut zstd": (zstandard.compress((HEAD + ROW).encode())[:-3], ": the Zstandard data end early"),
    "bad zstd": (b"\x28\xb5\x2f\xfd" + b"rubbish" * 9, ": broken Zstandard data"),
    "bad parquet": (b"PAR1" + b"rubbish" * 9, ": broken Parquet data"),
}


@pytest.mark.parametrize("case", BYTES)
def test_bad_bytes(case: str, tmp_path: Path) -> None:
    data, message = BYTES[case]
    path = tmp_path / "f"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_paths(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder, a trace file is needed"):
        load(tmp_path)
    with pytest.raises(InputError, match=r"nothing.csv: no such file"):
        load(tmp_path / "nothing.csv")
    with pytest.raises(
        InputError, match=r"no such file, and no trace of that name; there are: .*chat"
    ):
        load("nothing")
    with pytest.raises(InputError, match="zero_output is 'keep'"):
        load("chat", zero_output="keep")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cannot be read"):
        load("a\0b.csv")


def test_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the system answers, because root may read everything."""
    path = tmp_path / "secret.csv"
    path.write_text(HEAD + ROW)

    def denied(self: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        load(path)


def test_a_folder_named_as_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chat").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "code").write_text(HEAD + ROW)
    assert load("chat").format == "made"
    assert load("code").format == "azure"
    with pytest.raises(InputError, match="other: is a folder"):
        load("other")


def test_foreign_parquet(tmp_path: Path) -> None:
    import polars as pl

    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "f")
    with pytest.raises(
        InputError, match="not pagedsim's own Parquet: no column pagedsim; found: a"
    ):
        load(tmp_path / "f")


SEEDS = [
    (HEAD + ROW * 3).encode(),
    (CAKE * 3).encode(),
    OWN.encode(),
    OWN_RUNS.encode(),
    GOLD.encode(),
    AGENT.encode(),
    b"arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,3,4\n1,2,3\n",
    b'{"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 20, '
    b'"output_length": 2, "type": "text", "turn": 1, "hash_ids": [1, 2]}\n',
    b'{"hash_ids": [1], "input_length": 4, "block_size": 4, "block_tokens": [3]}\n',
    gzip.compress((HEAD + ROW).encode(), mtime=0),
    zstandard.compress((HEAD + ROW).encode()),
    store.dump(Trace.build("x", [0], [3], [1], runs=([0, 2], [9, 4], [1, 2])), ".parquet"),
]
PIECES = [b"-", b"0", b"9" * 25, b"1e5", b"NaN", b"null", b'"', b"[", b"]", b"{", b"}", b",", b"\n"]
PIECES += [b"\r", b"\xff", b"\0", b".5", b"true", b":", b" ", b"[[", b"{}"]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        cut = draw(st.integers(0, 6))
        data[at : at + cut] = draw(st.sampled_from(PIECES) | st.binary(max_size=3))
    return bytes(data)


@settings(max_examples=400)
@given(mutated())
@example(b"PAR1PAR1")
@example(b"{" * 3000)
def test_readers_raise_nothing_but_input_errors(data: bytes) -> None:
    trace = None
    message = "f:"
    try:
        trace = read(Source("f", "f", decompress(data, "f"), ""))
    except InputError as error:
        message = str(error)
    assert message.startswith("f:")
    if trace is None:
        return
    assert len(trace) >= 1
    lengths = trace.run_length.cumsum()
    assert lengths[-1] == trace.prompt.sum()
    assert (trace.run_length > 0).all()
