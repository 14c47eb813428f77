"""The search: both ends were tried, they are close, and no more is tried than need be."""

from __future__ import annotations

import math

from hypothesis import example, given
from hypothesis import strategies as st

from pagedsim.analysis.plan_search import bracket, digits

POSITIVE = st.floats(1e-3, 1e6)


@given(
    edge=POSITIVE, start=POSITIVE, tolerance=st.sampled_from([0.01, 0.05, 0.5]), up=st.booleans()
)
def test_the_edge_lies_between_the_ends(
    edge: float, start: float, tolerance: float, up: bool
) -> None:
    tried: dict[float, bool] = {}

    def holds(value: float) -> bool:
        assert value not in tried
        tried[value] = value < edge if up else value > edge
        return tried[value]

    passes, fails = bracket(holds, start, tolerance=tolerance, harder_up=up, least=1e-9)
    assert passes is not None
    assert fails is not None
    assert tried[passes]
    assert not tried[fails]
    low, high = sorted((passes, fails))
    assert low <= edge <= high
    assert high <= low * (1 + tolerance)
    # The distance is covered in squares, what it overshoots is halved.
    distance = abs(math.log(edge / start, 1.5))
    assert len(tried) <= 4 + 2 * math.log2(2 + distance) + math.log2(1 / math.log(1 + tolerance))


@given(edge=st.integers(1, 400), start=st.integers(1, 400), up=st.booleans())
@example(edge=1, start=1, up=True)
def test_whole_numbers_end_side_by_side(edge: int, start: int, up: bool) -> None:
    passes, fails = bracket(
        lambda value: value < edge if up else value >= edge,
        start,
        tolerance=1e-9,
        harder_up=up,
        least=0 if up else 1,
        most=1000,
        snap=round,
    )
    if up:
        assert (passes, fails) in (((edge - 1), edge), (None, 0))
    elif edge == 1:
        assert (passes, fails) == (1, None)
    else:
        assert (passes, fails) == (edge, edge - 1)


@given(start=st.floats(1, 100))
def test_at_a_limit_there_is_no_other_end(start: float) -> None:
    limits = {"least": 0.5, "most": 200.0}
    assert bracket(lambda _: True, start, tolerance=0.05, **limits) == (200.0, None)
    assert bracket(lambda _: False, start, tolerance=0.05, **limits) == (None, 0.5)
    down = {"harder_up": False, **limits}
    assert bracket(lambda _: True, start, tolerance=0.05, **down) == (0.5, None)
    assert bracket(lambda _: False, start, tolerance=0.05, **down) == (None, 200.0)


@given(st.lists(st.booleans(), min_size=60, max_size=60), st.integers(0, 2))
def test_what_is_not_monotone_still_ends_with_one_of_each(answers: list[bool], start: int) -> None:
    tried: dict[float, bool] = {}

    def holds(value: float) -> bool:
        tried[value] = answers[len(tried)]
        return tried[value]

    passes, fails = bracket(holds, 10.0**start, tolerance=0.05, least=1e-3, most=1e4, snap=digits)
    assert passes is None or tried[passes]
    assert fails is None or not tried[fails]
    if passes is not None and fails is not None:
        assert passes < fails <= passes * 1.05


@given(POSITIVE)
def test_values_can_be_typed(value: float) -> None:
    assert len(f"{digits(value):.5g}") <= 11
    assert float(repr(digits(value))) == digits(value)
    assert math.isclose(digits(value), value, rel_tol=1e-4)
