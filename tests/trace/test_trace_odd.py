"""Readers take any values, well-formed or nearly so: a trace comes out, or one line of error.

Byte mutations are in `test_trace_fuzz.py`; here files are made of odd parts: JSON lines of every
format, CSV with odd headers and cells, Parquet with odd columns, each compressed or not.
"""

from __future__ import annotations

import io
import json
from contextlib import suppress
from functools import partial
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from log_cases import logs
from odd_inputs import WAYS, answer, bounded, from_log, inputs, json_lines, packed, tables, trace_of
from test_trace_fuzz import MADE, SEEDS
from trace_cases import traces

from pagedsim.trace import parquet, store

EXAMPLES = inputs(100, 300, 8000)
BAILIAN = (
    '{"chat_id": 1, "parent_chat_id": -1, "timestamp": 1.5, "input_length": 17, "output_length": 2,'
    ' "type": "text", "turn": 1, "hash_ids": [1, 2]}\n'
    '{"chat_id": 2, "parent_chat_id": 1, "timestamp": 2, "input_length": 20, "output_length": 1,'
    ' "type": "text", "turn": 2, "hash_ids": [1, 3]}'
)
KVCACHE = (
    '{"block_size": 16, "timestamp": 0, "input_length": 20, "output_length": 5, "hash_ids": [0, 1]}'
)
TEXTS = [SEEDS[name] for name in ("mooncake", "own", "recorded", "agent")] + [BAILIAN, KVCACHE]
LINES = [[json.loads(line) for line in text.splitlines()] for text in TEXTS]
COLUMNS = (
    ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    ("Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"),
    ("arrived_at", "prompt_tokens", "output_tokens"),
    ("num_prefill_tokens", "num_decode_tokens"),
)


def _all(data: bytes) -> str:
    with bounded():
        return answer(data)


@settings(max_examples=EXAMPLES)
@given(json_lines(LINES), st.sampled_from(WAYS))
@example(SEEDS["own"].replace('"x"', '"\\ud800"').encode(), "plain")
def test_json_lines(data: bytes, way: str) -> None:
    _all(packed(data, way))


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(COLUMNS).flatmap(tables), st.sampled_from(WAYS))
@example(b"ContextTokens,TIMESTAMP,GeneratedTokens\n1,,1", "plain")
def test_tables(data: bytes, way: str) -> None:
    _all(packed(data, way))


_CELLS: list[st.SearchStrategy[Any]] = [
    st.integers(-1, 9),
    st.none() | st.integers(0, 3),
    st.floats(allow_nan=True),
    st.text(max_size=2),
    st.booleans(),
    st.lists(st.integers(-1, 9), max_size=3),
    st.none() | st.lists(st.none() | st.integers(0, 9), max_size=2),
    st.sampled_from((2**62, 2**62 + 1, 2**63 - 1, -(2**63))),
]


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Parquet as pagedsim writes it, but for a column or two, or the header."""
    frame = pl.read_parquet(io.BytesIO(store.dump(draw(st.just(MADE) | traces()), ".parquet")))
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(frame.columns))
        change = draw(st.sampled_from(("drop", "cells", "cells", "type", "rows", "header")))
        if change == "drop":
            frame = frame.drop(name)
        elif change == "cells":
            cells = draw(st.sampled_from(_CELLS))
            column = draw(st.lists(cells, min_size=frame.height, max_size=frame.height))
            frame = frame.with_columns(pl.Series(name, column, strict=False))
        elif change == "type" and frame[name].dtype == pl.Int64:
            kind = draw(st.sampled_from((pl.Int32, pl.UInt64, pl.Float64, pl.String, pl.Datetime)))
            frame = frame.with_columns(pl.col(name).cast(kind, strict=False))
        elif change == "rows":
            frame = frame.head(draw(st.integers(0, frame.height)))
        elif "pagedsim" in frame.columns and frame.height and frame["pagedsim"].dtype == pl.String:
            text = (frame["pagedsim"][0] or "").encode()
            lines: list[list[Any]] = [[{"pagedsim": "trace/1"}]]
            with suppress(ValueError):
                lines = [[json.loads(text)]]
            new = draw(json_lines(lines)).decode(errors="replace")
            rest = frame["pagedsim"].to_list()[1:]
            frame = frame.with_columns(pl.Series("pagedsim", [new, *rest], pl.String))
        if not frame.width:
            break
    return parquet.sealed(frame)


@settings(max_examples=EXAMPLES)
@given(frames())
def test_parquet(data: bytes) -> None:
    _all(data)


LOGS = [values for _, values in logs()]


@settings(max_examples=EXAMPLES)
@given(json_lines(LOGS), st.sampled_from(WAYS), st.booleans())
def test_logs(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, way: str, skip_bad: bool
) -> None:
    file = tmp_path_factory.getbasetemp() / "f"
    with bounded():
        answer(packed(data, way), partial(from_log, file, skip_bad=skip_bad))


def test_an_own_file_that_is_at_odds_with_itself_is_named() -> None:
    row = (
        b'{"pagedsim":"trace/1","requests":1,"name":"n","columns":["arrival_ns","prompt","output",'
    )
    data = row + b'"samples","sample_output"]}\n[0,3,1,2,[1,2]]\n'
    assert answer(data) == (
        "f: row 0: samples of 1 to 2 tokens, must be at most the output 1, the longest of them"
    )


def test_the_parts_are_read_when_nothing_is_odd() -> None:
    for text in TEXTS:
        assert len(trace_of(text.encode()))
