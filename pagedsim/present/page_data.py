"""The series of a page, thinned and packed: what its script draws.

Numbers are 32-bit floats in base64, four letters for three bytes: half of what they take as text.
How many points a run has depends on how many runs there are, so that a page stays below 6 MB.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pagedsim.analysis.outline import Outline, outline, quantiles, queue
from pagedsim.analysis.requests import times
from pagedsim.present.numbers import plain
from pagedsim.present.palette import line

if TYPE_CHECKING:
    from pagedsim.analysis.report import Report

BINS = 1200  # of all runs together
RANKS = 2400


def series(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """Of each run its name, line, the account in % of the pool, batch, queue and latencies."""
    bins = min(max(BINS // max(len(reports), 1), 4), 200)
    ranks = min(max(RANKS // max(len(reports), 1), 20), 400)
    return [_run(index, report, bins, ranks) for index, report in enumerate(reports)]


def _run(index: int, report: Report, bins: int, ranks: int) -> dict[str, Any]:
    account, waiting = outline(report.recording, bins), queue(report.recording, bins)
    color, dash = line(index)
    whole, terms = report.recording.capacity, account.columns[:-1]  # and the batch
    found = times(report.recording.requests, report.finished)
    return {
        "name": plain(report.name, 200),
        "color": color,
        "dash": dash,
        "at": _seconds(account),
        "terms": {term: _packed(100 * account.column(term) / whole) for term in terms},
        "batch": _packed(account.column("batch")),
        "queue": {"at": _seconds(waiting), "requests": _packed(waiting.column("queue"))},
        "latency": {key: _ranks(found[key], ranks) for key in ("ttft", "tpot", "e2e")},
        "span": None if report.span is None else [report.span.from_s, report.span.to_s],
        "whole": report.span is None or report.span.whole,
    }


def _ranks(values: npt.NDArray[np.float64], ranks: int) -> dict[str, str]:
    shares, seconds = quantiles(values, ranks)
    return {"share": _packed(100 * np.array(shares)), "s": _packed(seconds)}


def _seconds(thinned: Outline) -> str:
    return _packed(thinned.at_ns / 10**9)


def _packed(values: npt.ArrayLike) -> str:
    return base64.b64encode(np.asarray(values, "<f4").tobytes()).decode()


__all__ = ["BINS", "RANKS", "series"]
