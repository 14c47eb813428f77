"""The files that `replay` and `compare` write besides the result: tables, pictures, a page.

What would keep one from being written is found before the run. Tables are a file a run: with
several, the run's number goes before the suffix. All others hold all runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pagedsim.analysis import series
from pagedsim.analysis.report import Report
from pagedsim.analysis.results import Result
from pagedsim.analysis.scene.values import Scene
from pagedsim.errors import InputError, SpecError
from pagedsim.present import formats
from pagedsim.present.progress import busy

Files = dict[str, str | None]  # by option: series, series_steps, requests, figure, …

_TABLES: dict[str, Callable[[str, Report], None]] = {
    "series": lambda to, report: series.write_windows(to, report.recording),
    "series_steps": lambda to, report: series.write_steps(to, report.recording, report.steptime),
    "requests": lambda to, report: series.write_requests(to, report.recording, report.trace),
}
_ENDINGS = {"figure": formats.FIGURES, "report": formats.PAGES, "perfetto": formats.TIMELINES}


def writable(files: Files, taken: dict[str, str], runs: int) -> None:
    """Find what would keep `files` from being written, or write over each other or `taken`.

    `taken` is what other files are, by their real paths; "json" may be standard output.
    """
    for key, path in files.items():
        if path is None or (path == "-" and key == "json"):
            continue
        name = f"--{key.replace('_', '-')}"
        if path in ("", "-"):
            raise SpecError(f"{name}: {path or 'nothing'} is given, a file name is needed")
        if key in _ENDINGS:
            formats.suffix(path, _ENDINGS[key])
        many = range(1, runs + 1) if key in _TABLES and runs > 1 else [0]
        for place in (target(path, number) for number in many):
            folder = os.path.dirname(place)
            if os.path.isdir(place):
                raise InputError(f"{path}: is a folder, a file name is needed")
            if os.path.lexists(place) and not os.path.isfile(place):
                raise InputError(f"{path}: is no plain file, so it cannot be written whole")
            if not os.path.isdir(folder):
                raise InputError(f"{path}: cannot be written: there is no folder {folder}")
            if not os.access(folder, os.W_OK):
                raise InputError(f"{path}: cannot be written: {folder} is read-only")
            if place in taken:
                raise SpecError(f"{name}: {path} is {taken[place]} as well: give another name")
            taken[place] = name


def apart(out: str, json: str | None, *, name: str = "--out") -> None:
    """Find what would keep a trace and its JSON from being written, or both from being whole."""
    if out != "-":
        writable({"out": out}, {}, 1)
    if json is not None and target(json) == target(out):
        raise SpecError(f"--json: {json} is {name} as well: give another name")
    writable({"json": json}, {}, 1)


def target(path: str, number: int = 0) -> str:
    """The file behind `path`, links followed; the number of a run goes before the suffix."""
    if path == "-":
        return path
    if number:
        path = str(Path(path).with_suffix(f".{number}{Path(path).suffix}"))
    return os.path.realpath(path)


def write(
    result: Result,
    reports: Sequence[Report],
    files: Files,
    no_color: bool,
    scene: Callable[[], tuple[Scene | None, str]],
) -> list[str]:
    """Write `files`; what there is to say about them. `scene` makes the map of a report."""
    said = []
    for key, write_table in _TABLES.items():
        path = files.get(key)
        if path is None:
            continue
        for number, report in enumerate(reports, 1):
            place = target(path, number if len(reports) > 1 else 0)
            write_table(place, report)
            if len(reports) > 1:
                said.append(f"{Path(path).parent / Path(place).name}: {report.name}")
    if (path := files.get("figure")) is not None:
        with busy("drawing the figure", no_color=no_color):
            from pagedsim.present import figures

            figures.save(figures.overview(reports), target(path))
    if (path := files.get("report")) is not None:
        with busy("writing the report", no_color=no_color):
            from pagedsim.present import memory_map, page

            page.save(result, reports, target(path), memory_map.section(*scene()))
    if (path := files.get("perfetto")) is not None:
        with busy("writing the timeline", no_color=no_color):
            from pagedsim.present import perfetto

            perfetto.save(reports, target(path))
    return said


__all__ = ["Files", "target", "writable", "write"]
