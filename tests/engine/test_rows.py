"""Windows as they are kept: what is read is what was added, whatever the counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedsim.engine import rows as rows_module
from pagedsim.engine.rows import KEPT, Rows, Window, Windows

SMALL = st.integers(0, 40)
COUNT = st.one_of(SMALL, st.integers(2**31 - 2, 2**31 + 2), st.just(2**62))
TIME = st.one_of(SMALL, st.just(2**63 - 1))


@st.composite
def kept(draw: Any) -> list[tuple[int, ...]]:
    """Rows without their step; few have a count that needs more than 4 bytes."""
    large = draw(st.booleans())
    row = st.tuples(
        *(st.integers(1, 5) if name == "steps" else (COUNT if large else TIME) for name in KEPT)
    )
    small = st.tuples(*(st.integers(1, 5) if name == "steps" else SMALL for name in KEPT))
    return draw(st.lists(st.one_of(small, row) if large else small, max_size=12))


def added(given: list[tuple[int, ...]]) -> Rows:
    windows = Windows()
    for row in given:
        windows.add(row)
    assert len(windows) == len(given)
    return windows.rows()


def expected(given: list[tuple[int, ...]], step: int = 0) -> np.ndarray[Any, Any]:
    found = []
    for row in given:
        found.append((step, *row))
        step += row[0]
    return np.array(found, np.int64).reshape(-1, len(Window._fields))


@given(kept(), st.integers(0, 13), st.integers(0, 13), st.sampled_from([1, 2, 3, 1 << 16]))
def test_what_is_read_is_what_was_added(
    given: list[tuple[int, ...]], first: int, last: int, part: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "_PART", part)
        rows, want = added(given), expected(given)
        assert len(rows) == len(given)
        assert rows.table().tolist() == want.tolist()
        first = min(first, len(given))
        assert rows.table(first, last).tolist() == want[first:last].tolist()
        for at, name in enumerate(Window._fields):
            column = rows.column(name, first, last)
            assert column.dtype == np.int64
            assert column.tolist() == want[first:last, at].tolist()


@given(kept(), st.integers(0, 7))
def test_a_table_is_the_same_as_rows(given: list[tuple[int, ...]], step: int) -> None:
    want = expected(given, step)
    assert Rows.of(want).table().tolist() == want.tolist()


def test_a_table_that_leaves_steps_out_is_refused() -> None:
    row = (1, *range(len(KEPT) - 1))
    table = expected([row, row, row])[[0, 2]]
    with pytest.raises(ValueError, match="does not begin with the step after"):
        Rows.of(table)


def test_a_window_takes_120_bytes_and_a_large_count_144() -> None:
    row = (1, *range(len(KEPT) - 1))
    assert added([row] * 10).nbytes == 1200
    large = list(row)
    large[KEPT.index("tokens")] = 1 << 31
    assert added([row, tuple(large)]).nbytes == 2 * 144
