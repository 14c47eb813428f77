"""pagedsim's own files keep everything, and a Trace stays whole under take and sort."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_cases import same, tokens, traces

from pagedsim.errors import InputError
from pagedsim.trace import Trace, load, store
from pagedsim.trace.reading import read
from pagedsim.trace.source import Source, decompress


@pytest.mark.parametrize("suffix", store.SUFFIXES)
@given(trace=traces())
def test_round_trip(suffix: str, trace: Trace) -> None:
    data = store.dump(trace, suffix)
    again = read(Source("f", "f", decompress(data, "f"), "abc"))
    assert same(trace, again)
    assert again.sha256 == "abc"
    assert store.dump(again, suffix) == data


def parquet_of(data: bytes) -> Trace:
    return read(Source("f", "f", data, ""))


@given(traces(), st.data())
def test_a_changed_byte_of_parquet_is_found(trace: Trace, chance: st.DataObject) -> None:
    data = store.dump(trace, ".parquet")
    mark = data.index(b"pagedsim-sha256")
    places = [*range(4, mark), *range(mark + len("pagedsim-sha256") + 2, len(data) - 4)]
    at = chance.draw(st.sampled_from(places))
    byte = chance.draw(st.integers(0, 255).filter(lambda byte: byte != data[at]))
    with pytest.raises(InputError, match=r"^f: broken Parquet data: "):
        parquet_of(data[:at] + bytes([byte]) + data[at + 1 :])


def test_parquet_that_another_library_wrote(tmp_path: Path) -> None:
    import polars as pl

    trace = load("chat-shared", limit=20)
    plain = tmp_path / "f.parquet"
    pl.read_parquet(store.dump(trace, ".parquet")).write_parquet(plain)
    assert same(load(plain), trace)
    data = plain.read_bytes()
    for broken in (data[:-20], data[:-20] + b"x" * 16 + b"PAR1", b"PAR1" + data[500:], b"PAR1"):
        with pytest.raises(InputError, match=r"^f: broken Parquet data: "):
            parquet_of(broken)


@given(traces())
def test_exact_and_fast_reading_agree(trace: Trace) -> None:
    from pagedsim.trace import own

    data = store.dump(trace, ".jsonl")
    spaced = data.replace(b",", b" , ").replace(b"\n", b" \r\n")  # the fast path may give up
    if b'", "' in data or any(char in trace.name + trace.load for char in ",\n\r"):
        return
    body = data.rstrip().partition(b"\n")[2]
    names = own.columns(trace)
    fast, slow = own._fast(body, names), own._slow(Source("f", "f", data, ""), body, names)
    assert fast is not None
    for key in names:
        pairs = (
            zip(fast[key], slow[key], strict=True) if key in own.LISTS else [(fast[key], slow[key])]
        )
        assert all(np.array_equal(*pair) for pair in pairs)
    assert same(read(Source("f", "f", spaced, "")), trace)


def test_write(tmp_path: Path) -> None:
    trace = Trace.build("x", [0, 3], [2, 2], [1, 1])
    for suffix in store.SUFFIXES:
        store.write(trace, tmp_path / f"x{suffix}")
        assert same(load(tmp_path / f"x{suffix}"), trace)
    with pytest.raises(InputError, match=r"must end in one of \.jsonl"):
        store.write(trace, tmp_path / "x.csv")
    with pytest.raises(InputError, match="the trace has no requests"):
        store.write(trace.take([]), tmp_path / "y.jsonl")
    with pytest.raises(InputError, match="cannot be written"):
        store.write(trace, tmp_path / "nowhere" / "y.jsonl")
    assert len(list(tmp_path.iterdir())) == len(store.SUFFIXES)


@given(traces(), st.data())
def test_take_carries_content_and_parents(trace: Trace, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(trace) - 1), unique=True))
    taken = trace.take(rows)
    assert len(taken) == len(rows)
    for new, old in enumerate(rows):
        assert tokens(taken, new) == tokens(trace, old)
        assert len(tokens(taken, new)) == taken.prompt[new]
        assert taken.output_token[new] == trace.output_token[old]
        parent = int(trace.parent[old])
        assert taken.parent[new] == (rows.index(parent) if parent in rows else -1)


@given(traces())
def test_build_sorts_stably_and_freezes(trace: Trace) -> None:
    assert (np.diff(trace.arrival_ns) >= 0).all()
    back = Trace.build("", trace.arrival_ns[::-1], trace.prompt[::-1], trace.output[::-1])
    assert (np.diff(back.arrival_ns) >= 0).all()
    same_time = trace.arrival_ns[:-1] == trace.arrival_ns[1:]
    assert same_time.all() or any("sorted" in note for note in back.notes)
    with pytest.raises(ValueError, match="read-only"):
        trace.prompt[0] = 5


def test_head_is_by_arrival() -> None:
    trace = Trace.build("", [9, 1, 5], [1, 2, 3], [1, 1, 1])
    assert trace.head(2).prompt.tolist() == [2, 3]
    assert trace.head(7) is trace
