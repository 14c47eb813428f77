"""Recordings made by hand, and strategies for random ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from pagedsim.engine.recording import BLOCKED, Recording, Refusal, Requests, Rows, Status, Window
from pagedsim.protocols import Int64, Limit
from pagedsim.trace.trace import Trace

SECOND = 10**9


def ints(*values: int) -> Int64:
    return np.array(values, np.int64)


def window(**fields: int) -> tuple[int, ...]:
    """A row of `Recording.windows`; what is not given is 0, `held` what its terms hold."""
    row = dict.fromkeys(Window._fields, 0) | {"steps": 1} | fields
    row["held"] = fields.get("held", row["live"] + row["reserved"] + row["internal"])
    return tuple(row[name] for name in Window._fields)


def requests(**columns: Any) -> Requests:
    """Columns that are not given are -1 (times) or 0, and everyone finished."""
    rows = max((len(column) for column in columns.values()), default=0)
    times = ("arrival_ns", "admitted_ns", "first_token_ns", "finish_ns")
    counts = ("generated", "hit", "resumed_hit", "preemptions", "recomputed", "status")
    made = {name: np.full(rows, -1, np.int64) for name in times}
    made |= {name: np.zeros(rows, np.int64) for name in counts}
    made |= {name: np.array(column, np.int64) for name, column in columns.items()}
    made.setdefault("longest", made["generated"])
    return Requests(**made)


def recording(
    windows: list[tuple[int, ...]], requests: Requests, capacity: int = 100, **more: Any
) -> Recording:
    table = np.array(windows, np.int64).reshape(-1, len(Window._fields))
    if not table[:, 0].any():  # no row says its step
        table[:, 0] = np.cumsum(table[:, 1]) - table[:, 1]
    more = {"refused": (), "max_len": 50} | more
    return Recording(capacity=capacity, rows=Rows.of(table), requests=requests, **more)


def three_steps() -> tuple[Recording, Trace]:
    """The worked example of docs/model.md: 100 slots, three requests, three steps.

    0        1                 3                 5        6 s
    | step 0 |      step 1     |  nothing runs   | step 2 |
    |  1 run |  2 run, blocked |                 | 1 run  |
    """
    windows = [
        window(step=0, start_ns=0, end_ns=SECOND, batch=1, live=10, reserved=20),
        window(
            **{"step": 1, "start_ns": SECOND, "end_ns": 3 * SECOND, "batch": 2},
            **{"live": 20, "reserved": 30, "internal": 10, "external": 40},
            limit=Limit.MEMORY + BLOCKED,
        ),
        window(
            **{"step": 2, "start_ns": 5 * SECOND, "end_ns": 6 * SECOND, "batch": 1},
            **{"live": 8, "internal": 2, "cached": 50, "limit": Limit.BUDGET},
        ),
    ]
    arrivals = [0, SECOND // 2, 2 * SECOND]
    ran = requests(
        arrival_ns=arrivals,
        admitted_ns=[0, SECOND, -1],
        first_token_ns=[SECOND, 3 * SECOND, -1],
        finish_ns=[3 * SECOND, 6 * SECOND, -1],
        generated=[2, 3, 0],
        hit=[0, 1, 0],
        preemptions=[0, 2, 0],
        recomputed=[0, 4, 0],
        status=[Status.FINISHED, Status.TRUNCATED, Status.REFUSED],
    )
    trace = Trace.build("three", arrivals, [5, 6, 60], [2, 9, 1], dropped=4)
    refused = (Refusal(row=2, reason="capacity", value=60, bound=49),)
    return recording(windows, ran, refused=refused), trace


@st.composite
def random_runs(draw: st.DrawFn, most: int = 1 << 40) -> tuple[Recording, Trace]:
    """Steps with random accounts, durations and gaps between them; requests that all finish."""
    capacity = draw(st.integers(1, most))
    windows = []
    now = draw(st.integers(0, most))
    for step in range(draw(st.integers(1, 12))):
        start = now + draw(st.sampled_from([0, 0, 1, 7]))
        now = start + draw(st.integers(1, most))
        cuts = sorted(draw(st.lists(st.integers(0, capacity), min_size=5, max_size=5)))
        terms = np.diff([0, *cuts]).tolist()
        names = ("live", "reserved", "internal", "external", "cached")
        blocked = draw(st.sampled_from([0, BLOCKED]))
        limit = draw(st.sampled_from(list(Limit))) + blocked
        batch = draw(st.integers(0, most))
        account = dict(zip(names, terms, strict=True))
        windows.append(
            window(step=step, start_ns=start, end_ns=now, batch=batch, limit=limit, **account)
        )
    arrivals = sorted(draw(st.lists(st.integers(0, now), min_size=1, max_size=6)))
    rows = len(arrivals)
    finish = [draw(st.integers(arrival + 1, arrival + most)) for arrival in arrivals]
    generated = draw(st.lists(st.integers(1, 50), min_size=rows, max_size=rows))
    ran = requests(
        arrival_ns=arrivals,
        admitted_ns=arrivals,
        first_token_ns=[(a + f + 1) // 2 for a, f in zip(arrivals, finish, strict=True)],
        finish_ns=finish,
        generated=generated,
    )
    trace = Trace.build("random", arrivals, [3] * rows, generated)
    return recording(windows, ran, capacity), trace
