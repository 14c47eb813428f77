"""The part of a run that a report shows as a map: where it first gets tight, or how it begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pagedsim.analysis.report import Report
from pagedsim.analysis.scene.make import make_scene
from pagedsim.analysis.scene.record import Limits
from pagedsim.analysis.scene.values import Scene
from pagedsim.analysis.scene.where import not_drawn
from pagedsim.analysis.simulate import Setup, allocator_of
from pagedsim.analysis.span import first_arrival
from pagedsim.engine.recording import BLOCKED
from pagedsim.errors import SpecError
from pagedsim.protocols import SupportsSlots
from pagedsim.trace import Trace

LIMITS = Limits(frames=300, numbers=60_000)  # some 400 kB of a page
FRAMES = 1_200  # of all allocators together
AHEAD = 10  # steps before the first refusal that are shown
FAR = 100_000  # steps: the run is done again up to there


def glimpse(
    reports: Sequence[Report], trace: Trace, allocators: Sequence[str], setup: Setup
) -> tuple[Scene | None, str]:
    """A scene, and what it shows in words; None, and why not, where no pool can be drawn.

    It begins a few steps before the first one in which any queue is blocked, if that is among the
    first `FAR` of all runs, else with the first step. Runs are done again as far as it reaches.
    """
    if not any(len(report.recording.rows) for report in reports):
        return None, "no step ran"
    blocked = [found for report in reports if (found := _first_blocked(report)) is not None]
    from_s, why = 0.0, "how the run begins"
    if blocked and all(_steps_until(report, min(blocked)) <= FAR for report in reports):
        from_s = min(blocked) / 1e9
        why = "where a request is refused room for the first time"
    limits = LIMITS._replace(frames=min(LIMITS.frames, FRAMES // len(allocators)))
    built = {spec: allocator_of(spec, setup) for spec in allocators}
    drawn = [spec for spec in allocators if isinstance(built[spec], SupportsSlots)]
    left = [spec for spec in allocators if spec not in drawn]
    if not drawn:
        return None, "; ".join(f"{spec}: {not_drawn(built[spec])}" for spec in left)
    if left:
        why += f" (without {', '.join(left)}, which does not show where its slots are)"
    quiet = replace(setup, progress=None, check=False)
    try:
        return make_scene(trace, drawn, quiet, from_s=from_s, limits=limits), why
    except SpecError as error:
        return None, str(error)


def _first_blocked(report: Report) -> int | None:
    """ns from the first arrival to `AHEAD` windows before the first that is blocked."""
    recording = report.recording
    found = np.flatnonzero(recording.column("limit") >= BLOCKED)
    if not len(found):
        return None
    at = max(0, int(found[0]) - AHEAD)
    return max(0, int(recording.column("start_ns")[at]) - first_arrival(recording))


def _steps_until(report: Report, ns: int) -> int:
    """Steps that begin before `ns` after the first arrival."""
    recording = report.recording
    starts = recording.column("start_ns") - first_arrival(recording)
    return int(recording.column("steps")[starts < ns].sum())


__all__ = ["AHEAD", "FAR", "FRAMES", "LIMITS", "glimpse"]
