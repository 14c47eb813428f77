"""A run's course in few points: series thinned so that no peak is lost.

Nothing here takes a window apart. Inside one, what grows by the step moves in one direction between
two `Start` rows, so its extremes lie at the ends of these *stretches*::

    live |        /|  /|          rows of a stretch: its first step, when it begins,
         |  /|  /  | / |          and its last step, when it is over
         | / | /   |/  |
         |___|_____|___|____ ns

So the extremes of any number of steps are found in O(windows + starts), and lines between the rows
are straight where steps take about the same time. Time is then cut into equal *bins*, and of each
the first and the last row stay, and for every column the one where it is least and greatest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pagedsim.analysis import inside, series
from pagedsim.analysis.results import GROUP_TERMS, TERMS
from pagedsim.analysis.span import first_arrival
from pagedsim.engine.recording import BLOCKED, Recording, Window
from pagedsim.protocols import Int64

COLUMNS = (*TERMS, "batch")
GROUP_COLUMNS = (*GROUP_TERMS, "batch")
CHUNK = 1 << 18  # windows whose stretches are in memory at once

_AT = {name: at for at, name in enumerate(inside.COLUMNS)}


class Outline(NamedTuple):
    """Points in order of time; `at_ns` counts from the first arrival.

    `rows` is int64[points, columns]. Times at which nothing ran for longer than a bin are bounded
    by two points of zeros, so that a drawing is empty there.
    """

    at_ns: Int64
    rows: Int64
    columns: tuple[str, ...]

    def column(self, name: str) -> Int64:
        """One column of `rows`."""
        return self.rows[:, self.columns.index(name)]


def outline(recording: Recording, bins: int = 200) -> Outline:
    """The terms of the account, in slots, and the batch; at most 20 points a bin.

    Every point but those of zeros is a step of the run, so the terms add up to the capacity, and
    the least and greatest value of each column in the run are among the points.
    O(windows + starts) time, O(`CHUNK`) memory.
    """
    starts, ends = recording.column("start_ns"), recording.column("end_ns")
    columns = GROUP_COLUMNS if len(recording.grouped) else COLUMNS
    if not len(starts):
        return Outline(np.zeros(0, np.int64), np.zeros((0, len(columns)), np.int64), columns)
    began, over = int(starts[0]), int(ends[-1])
    width = max(-(-(over - began) // bins), 1)
    at, rows = np.zeros(0, np.int64), np.zeros((0, len(columns)), np.int64)
    for more_at, more_rows in stretches(recording):
        at, rows = np.concatenate((at, more_at)), np.concatenate((rows, more_rows))
        stay = _picked((at - began) // width, rows)
        at, rows = at[stay], rows[stay]
    at, rows = _blanks(ends[:-1], starts[1:], width, at, rows)
    return Outline(at - first_arrival(recording), rows, columns)


def queue(recording: Recording, bins: int = 200) -> Outline:
    """Requests that have arrived and were never admitted, refused ones left out; O(n log n).

    What was preempted and waits again is not counted. A point holds from its time on.
    """
    arrived, admitted = recording.requests.arrival_ns, recording.requests.admitted_ns
    served = admitted >= 0
    refused = np.zeros(len(arrived), np.bool_)
    refused[[each.row for each in recording.refused]] = True
    comes = arrived[(arrived >= 0) & ~refused]
    at, order = np.unique(np.concatenate((comes, admitted[served])), return_inverse=True)
    change = np.zeros(len(at), np.int64)
    np.add.at(change, order[: len(comes)], 1)
    np.add.at(change, order[len(comes) :], -1)
    # One that is admitted when it arrives never waited: changes of one time are one change.
    waiting = np.cumsum(change)[:, None]
    if len(at):
        width = max(-(-int(at[-1] - at[0]) // bins), 1)
        stay = _picked((at - at[0]) // width, waiting)
        at, waiting = at[stay], waiting[stay]
    return Outline(at - first_arrival(recording), waiting, ("queue",))


def stretches(recording: Recording) -> Iterator[tuple[Int64, Int64]]:
    """Times (ns of the run's clock) and rows of `outline`'s columns, two a stretch, in order.

    A chunk of windows at once; every step lies on a straight line between the two of its stretch.
    """
    starts = recording.starts
    starts = starts[np.lexsort((starts[:, 1], starts[:, 0]))]
    for first in range(0, len(recording.rows), CHUNK):
        windows = series.rows_of(recording, first, first + CHUNK)
        low, high = np.searchsorted(starts[:, 0], (first, first + len(windows)))
        steady = inside.steady(recording, first, first + CHUNK)
        yield _of_windows(windows, steady, starts[low:high], first, recording.capacity)


def _of_windows(
    windows: Int64, steady: dict[str, Int64], starts: Int64, first: int, capacity: int
) -> tuple[Int64, Int64]:
    heads = np.zeros((len(windows), starts.shape[1]), np.int64)
    heads[:, 0] = np.arange(first, first + len(windows))
    heads[:, 2] = 0
    every = np.concatenate((heads, starts))
    every = every[np.lexsort((every[:, 1], every[:, 0]))]
    fresh = np.ones(len(every), np.bool_)  # rows of one step are one stretch
    fresh[1:] = (every[1:, :2] != every[:-1, :2]).any(axis=1)
    begins = np.flatnonzero(fresh)
    of, offset, at = every[begins, 0] - first, every[begins, 1], every[begins, 2]
    sums = np.cumsum(np.add.reduceat(every, begins, axis=0), axis=0)
    opens = np.flatnonzero(offset == 0)  # nothing is taken in a window's first step
    amounts = inside.amounts_of(sums - sums[opens[of]])
    window = windows[of]
    last = np.append(offset[1:], 0) - 1  # offset of a stretch's last step
    ends = np.append(at[1:], 0)
    closes = np.append(opens[1:], len(of)) - 1
    last[closes] = windows[:, _AT["steps"]] - 1
    ends[closes] = windows[:, _AT["end_ns"]] - windows[:, _AT["start_ns"]]
    blocked = window[:, _AT["limit"]] >= BLOCKED
    terms = (TERMS if windows.shape[1] == len(Window._fields) else GROUP_TERMS)[:-1]
    both = []
    for step in (offset, last):
        now = window.copy()
        for name, more in steady.items():
            now[:, _AT[name]] += step * more[of]
        for name, amount in amounts.items():
            now[:, _AT[name]] += amount
        now[:, _AT["external"]] -= np.where(blocked, inside.from_free(amounts), 0)
        used = [now[:, _AT[name]] for name in terms]
        both.append(np.stack([*used, capacity - sum(used), now[:, _AT["batch"]]], axis=1))
    rows = np.stack(both, axis=1).reshape(-1, both[0].shape[1])
    times = np.stack((at, ends), axis=1) + window[:, [_AT["start_ns"]]]
    return times.reshape(-1), rows


def _picked(bins: Int64, rows: Int64) -> Int64:
    """Of each bin (ascending) the first and last row, and those of the extremes of each column."""
    begins = np.flatnonzero(np.concatenate(([True], bins[1:] != bins[:-1])))
    which = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(bins))))
    found = [begins, np.append(begins[1:], len(bins)) - 1]
    for column in rows.T:
        for extreme in (np.minimum, np.maximum):
            there = np.flatnonzero(column == extreme.reduceat(column, begins)[which])
            found.append(there[np.unique(which[there], return_index=True)[1]])
    return np.unique(np.concatenate(found))


def _blanks(
    from_ns: Int64, to_ns: Int64, width: int, at: Int64, rows: Int64
) -> tuple[Int64, Int64]:
    """With two points of zeros around each time longer than `width` in which nothing ran."""
    gaps = np.flatnonzero(to_ns - from_ns > width)
    bounds: list[tuple[int, int]] = []
    for gap in gaps.tolist():  # at most as many as there are bins
        bounds.append((int(np.searchsorted(at, from_ns[gap], side="right")), int(from_ns[gap])))
        bounds.append((int(np.searchsorted(at, to_ns[gap], side="left")), int(to_ns[gap])))
    places = [place for place, _ in bounds]
    return (
        np.insert(at, places, [time for _, time in bounds]),
        np.insert(rows, places, 0, axis=0),
    )


def quantiles(values: npt.ArrayLike, points: int = 400) -> tuple[list[float], list[float]]:
    """A distribution in few points: shares of the values, and the nearest ranks that reach them.

    The least and the greatest value are there, and ranks lie closer towards the end, where tails
    are. Empty lists where there are no values.
    """
    ordered = np.sort(np.asarray(values))
    count = len(ordered)
    if not count:
        return [], []
    share = 1 - (1 - np.linspace(0, 1, points)) ** 2
    places = np.unique(np.concatenate(([0], np.ceil(share * count).astype(np.int64) - 1)).clip(0))
    return ((places + 1) / count).tolist(), ordered[places].tolist()


__all__ = ["COLUMNS", "Outline", "outline", "quantiles", "queue", "stretches"]
