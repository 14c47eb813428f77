"""What the fast path accepts, the exact path reads alike."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedsim.trace import azure, lengths, mooncake
from pagedsim.trace.fields import Field, tokens
from pagedsim.trace.lines import Lines, _fast
from pagedsim.trace.source import Source
from pagedsim.trace.table import Table

VIDUR = (Field(lengths.TIME, "seconds"), tokens("prompt"), tokens("output"))
NUMBERS = st.integers(-1, 2000).map(str) | st.sampled_from(
    ["", " 7", "7 ", "+7", "007", "1e2", "3.0", "0.5", "1_0", "NaN", "inf", "-0", "1" * 19, "٣"]
)
DATES = st.sampled_from(
    [
        "2023-11-16 18:15:46.6805900",
        "2023-11-16 18:15:46",
        "2023-11-16T18:15:46",
        "2024-05-10 00:00:00.009930+00:00",
        "2024-05-10 00:00:00+02:00",
        "2024-02-30 00:00:00",
        "2024-05-10 24:00:00",
        "2024-05-10 23:59:60",
        "2261-12-31 23:59:59.999999999",
        "2024-5-1 1:2:3",
        "2024-05-10 00:00:00.",
    ]
)


@settings(max_examples=300)
@given(st.lists(st.tuples(DATES, NUMBERS, NUMBERS), min_size=1, max_size=3), st.booleans())
def test_dates(rows: list[tuple[str, ...]], crlf: bool) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(map(",".join, rows))
    agree(text.replace("\n", "\r\n") if crlf else text, azure.COLUMNS)


@settings(max_examples=300)
@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=3))
def test_seconds(rows: list[tuple[str, ...]]) -> None:
    agree("arrived_at,prompt,output\n" + "\n".join(map(",".join, rows)) + "\n", VIDUR)


def agree(text: str, fields: tuple[Field, ...]) -> None:
    table = Table(Source("f", "f", text.encode(), ""))
    fast = table._fast(fields)
    if fast is not None:
        exact = table._slow(fields)
        assert all(np.array_equal(a, b) for a, b in zip(fast, exact, strict=True))


VALUES = st.one_of(
    st.integers(-1, 2000),
    st.floats(),
    st.none(),
    st.booleans(),
    st.sampled_from([2**53 + 1, 2**63, "7", 10**9 + 1]),
    st.lists(st.integers(-1, 9) | st.sampled_from([2**63, 1.0, True]), max_size=3),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(VALUES, VALUES, VALUES, VALUES), min_size=1, max_size=2))
def test_json_lines(rows: list[tuple[object, ...]]) -> None:
    names = [field.name for field in mooncake.FIELDS]
    texts = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    body = "\n".join(texts).encode()
    fast = _fast(body, mooncake.FIELDS)
    if fast is None:
        return
    read = Lines(Source("f", "f", body, ""), body, mooncake.FIELDS)
    exact = read._slow(body, mooncake.FIELDS)
    assert all(np.array_equal(fast[name], exact[name]) for name in names[:3])
    assert fast["hash_ids"] == exact["hash_ids"]
