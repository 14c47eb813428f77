"""`Trace.build`: columns by name, whole numbers, and what it says of anything else."""

from __future__ import annotations

import pytest

from pagedsim.errors import InputError
from pagedsim.trace import Trace


def test_columns_by_name_or_in_a_mapping() -> None:
    named = Trace.build("x", [0, 1], [5, 6], [7, 8], samples=[1, 2], priority=[3, 4])
    mapped = Trace.build(
        "x", [0, 1], [5, 6], [7, 8], columns={"samples": [1, 2], "priority": [3, 4]}
    )
    for trace in (named, mapped):
        assert trace.samples.tolist() == [1, 2]
        assert trace.priority.tolist() == [3, 4]
        assert not trace.samples.flags.writeable


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"samples": [1]}, "x: samples has 1 rows, arrival_ns has 2"),
        ({"samples": [1, 0]}, "x: row 1: samples is 0, must be >= 1"),
        ({"samples": [1.5, 2]}, "samples: a list of whole numbers is needed, not float64"),
        ({"salt": [[1], [2]]}, "salt: a list of whole numbers is needed, not 2 dimensions"),
        ({"salt": 3}, "salt: a list of whole numbers is needed, not 0 dimensions"),
        ({"salt": [1, 2], "columns": {"salt": [1, 2]}}, "x: salt is given twice"),
        ({"columns": {"salts": [1, 2]}}, "x: unknown columns ['salts']; there are salt, priority"),
    ],
)
def test_what_cannot_be_a_column(more: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as refusal:
        Trace.build("x", [0, 1], [5, 6], [7, 8], **more)  # type: ignore[arg-type]
    assert str(refusal.value).startswith(words)
